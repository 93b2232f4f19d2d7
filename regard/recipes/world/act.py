"""Acting in real environments: rounds that are learned from, and episodes that are judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch

from regard.data.array import Array
from regard.data.batch import generator
from regard.errors import RegardError
from regard.models.world_model import WorldModel
from regard.recipes.world.config import WorldDataConfig
from regard.recipes.world.environments import Environments, open_environments
from regard.recipes.world.episodes import Episodes
from regard.recipes.world.images import SeeFn, see_fn
from regard.recipes.world.spaces import Spaces


class Moment(NamedTuple):
    """What is known in some environments before they are acted in."""

    episodes: Array  # b: the number of each episode
    steps: Array  # b: steps that were done in it
    past: Array  # b k (o + a): the last steps
    real: Array  # bool b k: False before the first step of an episode
    present: Array  # b o


ActFn = Callable[[Moment], Array]  # -> actions b a


def random_actions(spaces: Spaces, seed: int, round: int = 0) -> ActFn:
    random = generator(seed, 21, round)
    return lambda moment: spaces.draw(random, len(moment.present))


def policy_actions(model: WorldModel, generator: torch.Generator | None = None) -> ActFn:
    """What the policy does: drawn with a generator; None: its likeliest action."""

    @torch.no_grad()
    def act(moment: Moment) -> Array:
        given = (moment.past, moment.real, moment.present)
        past, real, present = (torch.from_numpy(each).to(model.mean.device) for each in given)
        caches = model.caches()
        model.look_back(model.scale_steps(past, real), real=real, caches=caches)
        choices = model.policy.choose(model.policy_inputs(model.normalise(present), caches))
        chosen = choices.best() if generator is None else choices.sample(generator)
        found: Array = chosen.float().cpu().numpy()
        return found

    return act


def random_at_first(act: ActFn, spaces: Spaces, most: int, seed: int, round: int) -> ActFn:
    """The same, but each episode begins with some random steps, from none to `most`."""
    if not most:
        return act

    def act_so(moment: Moment) -> Array:
        chosen = act(moment)
        for row, (episode, step) in enumerate(zip(moment.episodes, moment.steps, strict=True)):
            if step < generator(seed, 25, round, int(episode)).integers(most + 1):
                chosen[row] = spaces.draw(generator(seed, 26, round, int(episode), int(step)), 1)[0]
        return chosen

    return act_so


def episode_seed(seed: int, round: int, number: int) -> int:
    """The seed of an episode: another in each round, the same in every process."""
    return int(generator(seed, 22, round, number).integers(2**31))


@contextmanager
def open_actor(model: WorldModel, data: WorldDataConfig, count: int, act: ActFn) -> Iterator[Actor]:
    """Acts in so many environments of a run, which are closed in the end."""
    with open_environments(data, count) as environments:
        yield Actor(environments, act, see_fn(model), model.config.frames)


@dataclass
class _Open:
    """An episode that goes on in one environment."""

    number: int
    given: Array  # the present observation, as the environment gave it
    present: Array  # and as the model sees it, o
    steps: list[tuple[Any, ...]] = field(default_factory=list)
    past: list[Array] = field(default_factory=list)  # observation and action of each step, o + a


class Actor:
    """Acts in environments. see: what the model sees of observations, b ... -> b o
    frames: steps that it is told, the present one included"""

    def __init__(self, environments: Environments, act: ActFn, see: SeeFn, frames: int) -> None:
        self.environments, self.act, self.see, self.frames = environments, act, see, frames

    def act_steps(self, steps: int, seed: int, round: int) -> Episodes:
        """So many steps in all. Episodes that have not ended by then are cut off."""
        done: list[_Open] = []
        live: dict[int, _Open] = {}
        left, waiting, started = steps, list(range(self.environments.count)), 0
        while left:
            seeds = {number: episode_seed(seed, round, started + i) for i, number in enumerate(waiting)}
            live |= self._begin(seeds, started)
            started += len(waiting)
            turn = list(live)[:left]
            left -= len(turn)
            waiting = self._step_all({number: live[number] for number in turn})
            done += [live.pop(number) for number in waiting]
        return self._collect(done + [each for each in live.values() if each.steps])

    def act_episodes(self, count: int, seed: int, longest: int) -> Episodes:
        """So many whole episodes, each as long as the environment lets it be, at most `longest` steps."""
        done: list[_Open] = []
        for start in range(0, count, self.environments.count):
            numbers = range(min(self.environments.count, count - start))
            live = self._begin({number: episode_seed(seed, -1, start + number) for number in numbers}, start)
            while live:
                ended = set(self._step_all(live))
                ended |= {number for number, each in live.items() if len(each.steps) >= longest}
                done += [live.pop(number) for number in sorted(ended)]
        return self._collect(done)

    def _begin(self, seeds: dict[int, int], first: int) -> dict[int, _Open]:
        """An episode in each of these environments, numbered from `first` on."""
        if not seeds:
            return {}
        found = self.environments.reset(seeds)
        seen = self.see(np.stack(list(found.values())))
        return {number: _Open(first + i, given, seen[i]) for i, (number, given) in enumerate(found.items())}

    def _step_all(self, live: dict[int, _Open]) -> list[int]:
        """One step of each; returns the numbers of those whose episode ended."""
        actions = np.clip(self.act(self._moment(list(live.values()))), -1, 1)
        given = self.environments.step(dict(zip(live, actions, strict=True)))
        seen = self.see(np.stack([given[number].observation for number in live]))
        ended: list[int] = []
        for action, after, (number, each) in zip(actions, seen, live.items(), strict=True):
            step = given[number]
            row = (each.given, action, step.reward, step.observation, step.terminated)
            each.steps.append((*row, each.present, after))
            each.past.append(np.concatenate((each.present, action)).astype(np.float32))
            each.given, each.present = step.observation, after
            if step.terminated or step.truncated:
                ended.append(number)
        return ended

    def _moment(self, live: list[_Open]) -> Moment:
        present = np.stack([each.present for each in live])
        width = present.shape[1] + self.environments.spaces.actions
        past = np.zeros((len(live), self.frames - 1, width), dtype=np.float32)
        real = np.zeros((len(live), self.frames - 1), dtype=bool)
        for row, each in enumerate(live):
            for back in range(1, min(self.frames - 1, len(each.past)) + 1):
                past[row, -back] = each.past[-back]
                real[row, -back] = True
        numbers, steps = (np.array([each.number for each in live]), np.array([len(each.steps) for each in live]))
        return Moment(numbers, steps, past, real, present)

    def _collect(self, episodes: list[_Open]) -> Episodes:
        """All steps, episode after episode; the last step of each is marked."""
        episodes = sorted(episodes, key=lambda each: each.number)
        rows = [row for each in episodes for row in each.steps]
        if not rows:
            raise RegardError("no step was done in the environment; give more with --data.real-steps")
        given, actions, rewards, given_after, terminated, present, after = (
            list(each) for each in zip(*rows, strict=True)
        )
        last = np.zeros(len(rows), dtype=bool)
        last[np.cumsum([len(each.steps) for each in episodes]) - 1] = True
        seen_as_images = self.environments.spaces.image is not None
        return Episodes(
            observations=np.stack(present).astype(np.float32),
            actions=np.stack(actions).astype(np.float32),
            rewards=np.array(rewards, dtype=np.float32),
            following=np.stack(after).astype(np.float32),
            terminated=np.array(terminated, dtype=bool),
            last=last,
            images=np.stack(given) if seen_as_images else None,
            next_images=np.stack(given_after) if seen_as_images else None,
        )
