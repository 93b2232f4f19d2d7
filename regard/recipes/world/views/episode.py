"""A real episode, and beside it what the model imagines from each of its steps on."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from regard.data.array import Array
from regard.look.encode_arrays import floats, pack_array, round_digits
from regard.look.model_input import ModelInput
from regard.look.view import View, web_files
from regard.models.world_model import WorldModel
from regard.recipes.world.episodes import Episodes
from regard.recipes.world.images import decode_codes, to_squares
from regard.recipes.world.reader import FINEST, EpisodeInput, write_changes
from regard.recipes.world.views.draw_episode import draw_still
from regard.recipes.world.views.futures import Futures, Start, as_policy, as_taken, imagine_from
from regard.recipes.world.views.known_worlds import action_names, drawing_of, number_names

if TYPE_CHECKING:
    from regard.look.scene import Scene

HORIZON = 50  # steps of a future
NUMBERS = 8  # of an observation that are shown
SIDE = 32  # pixels of the side of an image; larger ones are made smaller
BYTES = 400_000  # that the futures of one kind may take, before they are packed
IMAGE_BYTES = 1_500_000  # the same of imagined images, which pack to a fraction of it
MEMORY = 2**26  # bytes that they may take while they are imagined
LISTED = 500  # episodes that can be chosen


class EpisodeView(View):
    """Imagined beside real: drawn, as curves with their uncertainty, with rewards and values."""

    name, order, stands_alone = "episode", 10, True
    files = web_files(Path(__file__).parents[1], "36-drawings.js", "37-world.js", "38-episode.js", "world.css")

    def applies(self, given: ModelInput) -> bool:
        return isinstance(given, EpisodeInput)

    def build(self, scene: Scene) -> dict[str, Any]:
        assert isinstance(scene.given, EpisodeInput) and isinstance(scene.model, WorldModel)
        model, given = scene.model, scene.given
        episode, spaces = given.episode, given.spaces
        names, drawing = number_names(spaces), drawing_of(spaces)
        shown = _most_lively(model, given)
        pixels = 0
        if spaces.image is not None:
            side = min(SIDE, spaces.image[0])
            drawing = {"name": "image", "at": [], "side": side, "colours": spaces.image[2]}
            pixels = side**2 * spaces.image[2]
        elif drawing is not None:
            drawing = {"name": drawing["name"], "at": [shown.index(each) for each in drawing["at"]]}
        n = len(episode)
        starts = _starts(n, len(shown), len(names), model.config.ensemble, pixels)
        kinds: dict[str, Start] = {"taken": as_taken(model, episode, HORIZON)}
        if given.learned:
            kinds["policy"] = as_policy(model)
        futures = {
            kind: given.once(scene, kind, partial(imagine_from, model, episode, starts, HORIZON, begin))
            for kind, begin in kinds.items()
        }
        if given.changes:
            futures["changed"] = _change(model, given, starts, futures["taken"])
        observations = np.concatenate((episode.observations, episode.following[-1:]))[:, shown]
        return {
            "view": "episode",
            "count": n,
            "numbers": [names[k] for k in shown],
            "of": len(names),
            "drawing": drawing,
            "real": floats(torch.from_numpy(observations)),
            "images": pack_episode(episode),
            "rewards": round_digits(torch.from_numpy(episode.rewards)),
            "end": _end(given),
            "actions": {
                "discrete": spaces.discrete,
                "names": action_names(spaces),
                "low": list(spaces.low),
                "high": list(spaces.high),
                "finest": FINEST,
                "taken": _shown_actions(torch.from_numpy(episode.actions), given),
            },
            "ensemble": model.config.ensemble,
            "covered": _covered(model, episode, starts, futures["taken"]),
            "mean": round_digits(model.mean[shown], 8),
            "scale": round_digits(model.scale[shown], 8),
            "starts": starts.tolist(),
            "horizon": HORIZON,
            "futures": [
                _pack(kind, found, given, shown) | {"images": pack_futures(model, found)}
                for kind, found in futures.items()
            ],
            "changes": write_changes(given.changes, spaces),
            "episodes": list(given.names[:LISTED]),
            "number": given.chosen,
        }

    def still(self, scene: Scene, title: str) -> Any:
        """Imagined from a fifth of the way to the end."""
        given, model = scene.given, scene.model
        assert isinstance(given, EpisodeInput) and isinstance(model, WorldModel)
        others = {name: scene.view(name) for name in ("horizons", "moments")}
        n = len(given.episode)
        start = min(n // 5, n - 1)
        begin = as_taken(model, given.episode, n - start, given.changes)
        futures = imagine_from(model, given.episode, np.array([start]), n - start, begin)
        return draw_still(model, given, _most_lively(model, given), start, futures, others, title)


def _starts(n: int, shown: int, observations: int, heads: int, pixels: int = 0) -> Array:
    """The steps from which it is imagined: every one, or every second, third, ... pixels: bytes of an image"""
    images = n * (HORIZON + 1) * pixels
    packed = n * (HORIZON + 1) * 3 * 2 * shown  # mean, lowest and highest in half precision
    whole = n * (HORIZON + 1) * 4 * (3 + heads) * observations
    return np.arange(0, n, max(1, -(-packed // BYTES), -(-whole // MEMORY), -(-images // IMAGE_BYTES)))


def _change(model: WorldModel, given: EpisodeInput, starts: Array, taken: Futures) -> Futures:
    """Futures with changed actions; those that no change is in are as they were."""
    steps = np.array(sorted(given.changes))
    ahead = steps - starts[:, None]
    touched = np.flatnonzero(((ahead >= 0) & (ahead < HORIZON)).any(1))
    begin = as_taken(model, given.episode, HORIZON, given.changes)
    return taken.replace(touched, imagine_from(model, given.episode, starts[touched], HORIZON, begin))


def pack_episode(episode: Episodes) -> str | None:
    """What was seen at each step, and after the last one.   n+1 h w c, in bytes"""
    if episode.images is None or episode.next_images is None:
        return None
    return _pack_images(np.concatenate((episode.images, episode.next_images[-1:])))


def pack_futures(model: WorldModel, found: Futures) -> str | None:
    """What is imagined with the mean of all heads, given back by the autoencoder.   s t+1 h w c, in bytes"""
    if model.autoencoder is None:
        return None
    return _pack_images(decode_codes(model, model.restore(found.mean.flatten(0, 1)).cpu().numpy()))


def _pack_images(images: Array) -> str:
    return pack_array(to_squares(images, min(SIDE, images.shape[1])))


def _covered(model: WorldModel, episode: Episodes, starts: Array, taken: Futures) -> float:
    """The share of all imagined numbers whose real ones lie between the lowest and the highest head."""
    rows = starts[:, None] + np.arange(HORIZON)
    there = torch.from_numpy(rows < len(episode))  # s t
    following = torch.from_numpy(episode.following[np.minimum(rows, len(episode) - 1)])
    real = model.normalise(following.to(model.mean))
    inside = (taken.low[:, 1:] <= real) & (real <= taken.high[:, 1:])
    return float(inside.cpu()[there].float().mean())


def _most_lively(model: WorldModel, given: EpisodeInput) -> list[int]:
    """The numbers of an observation that are shown: those that vary most, and those that are drawn."""
    spread = (given.episode.observations / model.scale.cpu().numpy()).std(0)
    drawing = drawing_of(given.spaces)
    needed = [] if drawing is None else drawing["at"]
    spread[needed] = np.inf
    found: list[int] = sorted(np.argsort(-spread, kind="stable")[:NUMBERS].tolist())
    return found


def _end(given: EpisodeInput) -> str:
    """How the episode ends, in a word."""
    if not given.episode.last[-1]:
        return "goes on"
    if given.episode.terminated[-1]:
        return "ended"
    return "cut off"


def _shown_actions(actions: Tensor, given: EpisodeInput) -> Any:
    """Kinds, or numbers in the units of the environment.   ... a -> ... or ... a, as lists"""
    if given.spaces.discrete:
        return actions.argmax(-1).tolist()
    decoded: Array = given.spaces.decode(actions.cpu().numpy())
    return round_digits(torch.from_numpy(decoded))


def _pack(kind: str, found: Futures, given: EpisodeInput, shown: list[int]) -> dict[str, Any]:
    """Scaled observations in half precision: mean, lowest and highest of each.   s t+1 d 3"""
    curves = torch.stack([each[..., shown] for each in (found.mean, found.low, found.high)], -1)
    return {
        "kind": kind,
        "curves": pack_array(curves.cpu().numpy().astype(np.float16)),
        "rewards": floats(found.rewards),
        "goes_on": floats(found.goes_on),
        "values": floats(found.values) if given.learned else None,
        "actions": _shown_actions(found.actions, given) if kind == "policy" else None,
    }
