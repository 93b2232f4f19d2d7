"""A dreamed episode beside the real one, from the same start and with the same actions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import Field

from regard import files
from regard.config import Seed, config
from regard.data.array import Array
from regard.errors import RegardError
from regard.models.world_model import WorldModel
from regard.recipes.world.act import Actor, policy_actions, random_actions
from regard.recipes.world.codes import decode_codes, see_fn
from regard.recipes.world.draw_dream import write_gif
from regard.recipes.world.environments import open_environments
from regard.recipes.world.episodes import Episodes
from regard.recipes.world.imagine import imagine
from regard.recipes.world.settings import WorldDataConfig
from regard.recipes.world.spaces import Spaces
from regard.recipes.world.store import EpisodeStore
from regard.recipes.world.views.known_worlds import number_names

SUFFIXES = (".gif", ".npz")


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
    model: WorldModel, store: EpisodeStore, data: WorldDataConfig, options: DreamOptions, *, learned: bool
) -> Iterator[str]:
    """Write the file, and say what is in it."""
    episode = real_episode(model, store, data, options, learned=learned)
    found = dream_along(model, episode)
    if Path(options.out).suffix.lower() == ".npz":
        _write_numbers(found, store.spaces, options.out)
    else:
        scene = None if data.observed else data.environment
        write_gif(found, scene, number_names(data.environment, store.spaces), options.out)
    apart = model.normalise(torch.from_numpy(found.dreamed - found.real + model.mean.numpy()))
    error = float(apart[-1].square().mean().sqrt())
    steps = f"{len(found.actions)} steps" if len(found.actions) > 1 else "1 step"
    yield f"{options.out}: {steps}, return {found.rewards.sum():.1f}, dreamed {found.dreamed_rewards.sum():.1f}; "
    yield f"after the last step the dream is {error:.3g} deviations of the data away\n"


def real_episode(
    model: WorldModel, store: EpisodeStore, data: WorldDataConfig, options: DreamOptions, *, learned: bool
) -> Episodes:
    """An episode of the environment, or a recorded one."""
    if data.environment is None:
        if options.policy is not None:
            raise RegardError(
                f"--policy {options.policy} needs an environment to act in, and this run was trained on recorded "
                "episodes; leave it out to dream along one of them"
            )
        held = np.unique(store.all.of[store.held_rows]) if len(store.held_rows) else np.arange(len(store.all.starts))
        longest = held[np.argmax(store.all.lengths[held])]
        whole = store.all.episode(int(longest))
        return whole.take(np.arange(min(options.steps, len(whole))))
    if options.policy == "trained" and not learned:
        raise RegardError("this run has no trained policy (--train.policy none); use --policy random")
    with open_environments(data.environment, 1, seconds=data.timeout, sight=data.sight) as environments:
        if options.policy == "random" or not learned:
            act = random_actions(environments, options.seed, 0)
        else:
            act = policy_actions(model, None)
        actor = Actor(environments, act, see_fn(model), model.config.frames)
        return actor.act_episodes(1, options.seed, options.steps)


def dream_along(model: WorldModel, episode: Episodes) -> Dream:
    """What the model imagines from the first observation on, for the actions of an episode."""
    first = torch.from_numpy(episode.observations[:1]).to(model.mean)
    actions = torch.from_numpy(episode.actions).to(model.mean)
    none = torch.zeros(1, 0, model.config.observations + model.config.actions)
    found = imagine(
        model, none, torch.ones(1, 0, dtype=torch.bool), first, len(episode), lambda _, t: actions[t : t + 1]
    )
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
