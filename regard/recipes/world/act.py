"""Acting in real environments: rounds that are learned from, and episodes that are judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from regard.data.array import Array
from regard.data.batch import generator
from regard.errors import RegardError
from regard.models.world_model import WorldModel
from regard.recipes.world.environments import Environments
from regard.recipes.world.episodes import Episodes

ActFn = Callable[[Array], Array]  # the last frames of some environments (b f o) -> actions b a


@dataclass
class _Open:
    """An episode that goes on in one environment."""

    number: int
    observation: Array
    frames: list[Array]
    steps: list[tuple[Any, ...]] = field(default_factory=list)


def random_actions(environments: Environments, seed: int, round: int) -> ActFn:
    random = generator(seed, 21, round)
    return lambda frames: environments.spaces.draw(random, len(frames))


def policy_actions(model: WorldModel, generator: torch.Generator | None) -> ActFn:
    """What the policy does: drawn with a generator; None: its likeliest action."""

    @torch.no_grad()
    def act(frames: Array) -> Array:
        x = model.normalise(torch.from_numpy(frames).to(model.mean))
        choices = model.policy.choose(x.flatten(1))
        chosen = choices.best() if generator is None else choices.sample(generator)
        found: Array = chosen.float().cpu().numpy()
        return found

    return act


def act_steps(
    environments: Environments, act: ActFn, steps: int, frames: int, seed: int, round: int
) -> Episodes:
    """So many steps in all. Episodes that have not ended by then are cut off."""
    done: list[_Open] = []
    started = 0

    def begin(numbers: list[int]) -> dict[int, _Open]:
        nonlocal started
        seeds = {number: episode_seed(seed, round, started + i) for i, number in enumerate(numbers)}
        begun = {
            number: _Open(started + i, seen, [seen] * frames)
            for i, (number, seen) in enumerate(environments.reset(seeds).items())
        }
        started += len(numbers)
        return begun

    live = begin(list(range(environments.count)))
    left = steps
    while left:
        turn = list(live)[:left]
        left -= len(turn)
        ended = _step_all(environments, act, {number: live[number] for number in turn})
        done += [live.pop(number) for number in ended]
        if left:
            live |= begin(ended)
    done += [each for each in live.values() if each.steps]
    return _collect(sorted(done, key=lambda each: each.number))


def act_episodes(
    environments: Environments, act: ActFn, count: int, frames: int, seed: int, longest: int
) -> Episodes:
    """So many whole episodes, each as long as the environment lets it be, at most `longest` steps."""
    done: list[_Open] = []
    for start in range(0, count, environments.count):
        numbers = range(min(environments.count, count - start))
        seeds = {number: episode_seed(seed, -1, start + number) for number in numbers}
        live = {
            number: _Open(start + number, seen, [seen] * frames)
            for number, seen in environments.reset(seeds).items()
        }
        while live:
            ended = set(_step_all(environments, act, live))
            ended |= {number for number, each in live.items() if len(each.steps) >= longest}
            done += [live.pop(number) for number in sorted(ended)]
    return _collect(sorted(done, key=lambda each: each.number))


def episode_seed(seed: int, round: int, number: int) -> int:
    """The seed of an episode: another in each round, the same in every process."""
    return int(generator(seed, 22, round, number).integers(2**31))


def _step_all(environments: Environments, act: ActFn, live: dict[int, _Open]) -> list[int]:
    """One step of each; returns the numbers of those whose episode ended."""
    seen = np.stack([np.stack(each.frames) for each in live.values()])
    actions = np.clip(act(seen), -1, 1)
    given = environments.step(dict(zip(live, actions, strict=True)))
    ended: list[int] = []
    for action, (number, each) in zip(actions, live.items(), strict=True):
        step = given[number]
        last = step.terminated or step.truncated
        each.steps.append((each.observation, action, step.reward, step.observation, step.terminated, last))
        each.observation = step.observation
        each.frames = [*each.frames[1:], step.observation]
        if last:
            ended.append(number)
    return ended


def _collect(episodes: list[_Open]) -> Episodes:
    """All steps, episode after episode; the last step of each is marked."""
    rows = [row for each in episodes for row in each.steps]
    if not rows:
        raise RegardError("no step was done in the environment; give more with --data.real-steps")
    last = np.zeros(len(rows), dtype=bool)
    last[np.cumsum([len(each.steps) for each in episodes]) - 1] = True
    return Episodes(
        observations=np.stack([row[0] for row in rows]).astype(np.float32),
        actions=np.stack([row[1] for row in rows]).astype(np.float32),
        rewards=np.array([row[2] for row in rows], dtype=np.float32),
        following=np.stack([row[3] for row in rows]).astype(np.float32),
        terminated=np.array([row[4] for row in rows], dtype=bool),
        last=last,
    )
