"""A dreamed episode beside the real one, from the same start and with the same actions: `regard generate`, and imagined.png
of a run."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import Field

from regard import files
from regard.config import Seed, config
from regard.data.array import Array
from regard.data.image_files import pillow
from regard.errors import RegardError
from regard.look import plot
from regard.models.world_model import WorldModel
from regard.recipes.world.act import open_actor, policy_actions, random_actions
from regard.recipes.world.config import WorldDataConfig
from regard.recipes.world.draw_states import SCENES, draw_states
from regard.recipes.world.episodes import Episodes
from regard.recipes.world.images import decode_codes
from regard.recipes.world.imagination import follow, imagine
from regard.recipes.world.replay_buffer import ReplayBuffer
from regard.recipes.world.spaces import Spaces
from regard.recipes.world.views.draw_episode import IMAGINED, REAL, draw_curves, draw_film, with_colours
from regard.recipes.world.views.known_worlds import number_names
from regard.runs.run import Run

SUFFIXES = (".gif", ".npz")
FRAMES = 200  # of an animation, at most
MILLISECONDS = 40  # of a frame
SIDE, MARGIN = 176, 24  # pixels of an image in a frame, and of the words above it
SHARP = 0.3  # edges of what is drawn large
DPI = 60  # of curves in a frame
STEPS = 200  # of imagined.png, at most


@config
class DreamOptions:
    """A dreamed episode beside the real one."""

    steps: Annotated[int, Field(ge=1, le=10**9)] = 200  # longest length of the episode
    out: str = "dream.gif"  # an animation (.gif), or the numbers (.npz)
    # who acts; None: the trained policy if there is one. Recorded episodes have their own actions
    policy: Literal["random", "trained"] | None = None
    seed: Seed = 0  # of the start
    # the run's environment again, if it is in a module of yours (my_module:MyWorld-v0), which is imported then
    environment: str | None = None

    def __post_init__(self) -> None:
        if Path(self.out).suffix.lower() not in SUFFIXES:
            raise RegardError(f"--out must end in {' or '.join(SUFFIXES)}, got {self.out}")
        if not Path(self.out).absolute().parent.is_dir():
            raise RegardError(f"cannot write {self.out}: there is no folder {Path(self.out).parent}; make it first")


@dataclass(frozen=True, eq=False)
class Dream:
    """A real episode, and what the model imagined for the same actions, in the units of the environment."""

    real: Array  # t+1 o
    dreamed: Array  # t+1 o
    actions: Array  # t a, as the model takes them
    rewards: Array  # t, real
    dreamed_rewards: Array  # t
    goes_on: Array  # t: the probability that the dream goes on
    # of a world that is seen as images, t+1 h w c in bytes; real and dreamed are then codes
    images: Array | None = None
    dreamed_images: Array | None = None


def write_dream(
    model: WorldModel, buffer: ReplayBuffer, data: WorldDataConfig, options: DreamOptions, *, learned: bool
) -> Iterator[str]:
    """Write the file, and say what is in it."""
    found = dream_along(model, _real_episode(model, buffer, data, options, learned=learned))
    if Path(options.out).suffix.lower() == ".npz":
        _write_numbers(found, buffer.spaces, options.out)
    else:
        write_gif(found, buffer.spaces, options.out)
    apart = model.normalise(torch.from_numpy(found.dreamed - found.real + model.mean.numpy()))
    error = float(apart[-1].square().mean().sqrt())
    steps = f"{len(found.actions)} steps" if len(found.actions) > 1 else "1 step"
    yield f"{options.out}: {steps}, return {found.rewards.sum():.1f}, dreamed {found.dreamed_rewards.sum():.1f}; "
    yield f"after the last step the dream is {error:.3g} deviations of the data away\n"


def _real_episode(
    model: WorldModel, buffer: ReplayBuffer, data: WorldDataConfig, options: DreamOptions, *, learned: bool
) -> Episodes:
    """An episode of the environment, or a recorded one."""
    if data.environment is None:
        if options.policy is not None:
            raise RegardError(
                f"--policy {options.policy} needs an environment to act in, and this run was trained on recorded "
                "episodes; leave it out to dream along one of them"
            )
        judged = np.unique(buffer.all.of[buffer.judged_rows])
        whole = buffer.all.episode(int(judged[np.argmax(buffer.all.lengths[judged])]))  # the longest
        return whole.take(np.arange(min(options.steps, len(whole))))
    if options.policy == "trained" and not learned:
        raise RegardError("this run has no trained policy (--train.policy none); use --policy random")
    by_chance = options.policy == "random" or not learned
    act = random_actions(buffer.spaces, options.seed) if by_chance else policy_actions(model)
    with open_actor(model, data, 1, act) as actor:
        return actor.act_episodes(1, options.seed, options.steps)


def dream_along(model: WorldModel, episode: Episodes) -> Dream:
    """What the model imagines from the first observation on, for the actions of an episode."""
    first = torch.from_numpy(episode.observations[:1]).to(model.mean)
    actions = torch.from_numpy(episode.actions).to(model.mean)[None]
    none = torch.zeros(1, 0, model.config.observations + model.config.actions)
    found = imagine(model, none, torch.ones(1, 0, dtype=torch.bool), first, len(episode), follow(actions))
    dreamed = model.restore(found.observations)[0].numpy()
    images = dreamed_images = None
    if episode.images is not None and episode.next_images is not None:
        images = np.concatenate((episode.images[:1], episode.next_images))
        dreamed_images = decode_codes(model, dreamed)
    return Dream(
        real=np.concatenate((episode.observations[:1], episode.following)),
        dreamed=dreamed,
        actions=episode.actions,
        rewards=episode.rewards,
        dreamed_rewards=found.rewards[0].numpy(),
        goes_on=found.goes_on[0].numpy(),
        images=images,
        dreamed_images=dreamed_images,
    )


def _write_numbers(dream: Dream, spaces: Spaces, out: str) -> None:
    arrays = {
        "real": dream.real,
        "dreamed": dream.dreamed,
        "actions": spaces.decode(dream.actions),
        "rewards": dream.rewards,
        "dreamed_rewards": dream.dreamed_rewards,
        "dreamed_continue": dream.goes_on,
    }
    if dream.images is not None and dream.dreamed_images is not None:
        arrays |= {"images": dream.images, "dreamed_images": dream.dreamed_images}
    files.write_arrays(out, arrays)


# ── pictures


def draw_imagined(run: Run, model: WorldModel, buffer: ReplayBuffer) -> None:
    """Write imagined.png: the last episode that was held out, real and imagined."""
    if not buffer.rounds:
        return
    episode = buffer.all.episode(int(buffer.all.of[buffer.judged_rows[-1]]))
    dream = dream_along(model, episode.take(np.arange(min(STEPS, len(episode)))))
    title = f"{run.path.name}: imagined from the first observation, with the same actions"
    if dream.images is not None and dream.dreamed_images is not None:
        figure = draw_film(dream.images, dream.dreamed_images, title)
    else:
        figure = draw_curves(dream.real, dream.dreamed, number_names(buffer.spaces), title)
    plot.save(figure, run.path / "imagined.png")


def write_gif(dream: Dream, spaces: Spaces, out: str) -> None:
    """Write an animation: images of the real episode on the left and of the dream on the right, drawn where the states are
    known; else the curves of both, as they grow."""
    image = pillow()  # or say what to install
    count = len(dream.real)
    shown = np.unique(np.linspace(0, count - 1, min(FRAMES, count)).round().astype(int))
    if dream.images is None and (spaces.environment not in SCENES or spaces.observed is not None):
        pictures = _grow_curves(dream, spaces, shown)
    else:
        pictures = [_draw_pair(dream, spaces, int(step)) for step in shown]
    first, *others = [image.fromarray(picture).quantize(32) for picture in pictures]
    buffer = io.BytesIO()
    first.save(buffer, format="GIF", save_all=True, append_images=others, duration=MILLISECONDS, loop=0)
    files.write_bytes(out, buffer.getvalue())


def _draw_pair(dream: Dream, spaces: Spaces, step: int) -> Array:
    """The real image beside the dreamed one, with words above them."""
    from PIL import Image, ImageColor, ImageDraw

    paper = Image.new("RGB", (2 * (SIDE + MARGIN), SIDE + 2 * MARGIN), "white")
    words = ImageDraw.Draw(paper)
    sides = (
        (f"real, step {step}", REAL, dream.real, dream.images),
        ("dreamed", IMAGINED, dream.dreamed, dream.dreamed_images),
    )
    for number, (name, colour, states, images) in enumerate(sides):
        if images is None:
            light = draw_states(str(spaces.environment), states[step : step + 1], SIDE, SHARP)[0] / 255
            pixels = 255 - light * (255 - np.array(ImageColor.getrgb(colour)))  # in colour on white
        else:
            pixels = with_colours(images[step])
        left = number * (SIDE + MARGIN) + MARGIN // 2
        picture = Image.fromarray(np.ascontiguousarray(pixels.astype(np.uint8)))
        paper.paste(picture.resize((SIDE, SIDE), Image.Resampling.NEAREST), (left, MARGIN))
        words.text((left, 6), name, fill=colour)
    return np.asarray(paper)


def _grow_curves(dream: Dream, spaces: Spaces, shown: Array) -> list[Array]:
    """The figure of curves, of which each frame shows those up to its step."""
    figure = draw_curves(dream.real, dream.dreamed, number_names(spaces), "a real episode, and the same one dreamed")
    figure.set_dpi(DPI)
    whole = _rasterise(figure)
    axis: Any = figure.axes[0]
    ends = axis.transData.transform([(step + 1.4, 0) for step in shown])[:, 0]
    for panel in figure.axes:
        for line in panel.lines:
            line.set_visible(False)
    empty = _rasterise(figure)
    plot.plotter().close(figure)
    across = np.arange(whole.shape[1])[:, None]
    return [np.where(across < end, whole, empty) for end in ends]


def _rasterise(figure: Any) -> Array:
    figure.canvas.draw()
    found: Array = np.asarray(figure.canvas.buffer_rgba())[..., :3].copy()
    return found
