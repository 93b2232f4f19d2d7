"""Rounds of act in the world, learn the world, learn to act in imagination, as steps of the training loop.

Everything in a step follows from (seed, step), the weights, and the episodes of the rounds up to now, which are
kept in the run. So a run that is killed goes on to the same weights.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.models.world_model import WorldModel
from regard.recipes.world.act import Actor, episode_seed, policy_actions, random_actions, random_at_first
from regard.recipes.world.codes import learn_codes, see_fn
from regard.recipes.world.environments import open_environments
from regard.recipes.world.episodes import Episodes
from regard.recipes.world.learn_policy import dream_batch, learn_policy
from regard.recipes.world.settings import WorldDataConfig, WorldTrainConfig
from regard.recipes.world.source import EpisodeSource
from regard.training import optimisers
from regard.training.checkpoint import Checkpoint
from regard.training.rules import AdamW
from regard.training.schedule import schedule
from regard.training.step import Stepper, seed_all
from regard.training.tasks import Task


class Unit(NamedTuple):
    """What a step does."""

    round: int  # the last round whose episodes are learned from
    world: int  # gradient steps of the world model
    dreams: bool  # does the policy learn, too?


def unit_of(step: int, config: WorldTrainConfig, rounds: int, done: float = 0.0) -> Unit:
    """What this step does. After the last round, learning goes on without acting. done: the share of the training
    that is done, by which a budget in minutes is shared over the rounds"""
    if config.steps is None:
        step = int(done * config.total_steps(rounds))
    if step < config.first_steps:
        return Unit(0, 2 * config.world_steps, False)
    round = min((step - config.first_steps) // config.round_steps, rounds - 1)
    return Unit(round, config.world_steps, config.policy != "none")


class Rounds(Stepper):
    """The stepper of a world: a world model, its policy, and an environment to act in (or recorded episodes)."""

    model: WorldModel
    source: EpisodeSource
    config: WorldTrainConfig

    def __init__(
        self, model: nn.Module, task: Task, source: EpisodeSource, config: WorldTrainConfig, data: WorldDataConfig
    ) -> None:
        super().__init__(model, task, source, config)
        self.data, self.store = data, source.store
        self.rounds = data.rounds if data.environment is not None and config.policy != "none" else 1
        self.begun = 0  # rounds
        self.unit = unit_of(0, config, self.rounds)  # of this step
        others = ("policy", "autoencoder")  # the autoencoder learns by itself, when a round begins
        parts = {name: part for name, part in model.named_children() if name not in others}
        policy = {f"policy.{name}": p for name, p in self.model.policy.named_parameters()}
        world = optimisers.make(nn.ModuleDict(parts), config)
        self.optimiser = optimisers.Optimiser([*world.rules, AdamW(policy, config.policy_lr, 0.0)])

    def gradients(self, step: int, done: float = 0.0) -> tuple[Tensor, int]:
        """Act if a round begins, then the gradients of the first batch. The rest of the step is done by `move`."""
        seed_all(self.config.seed, step, self.device)
        self.unit = unit_of(step, self.config, self.rounds, done)
        if self.unit.round >= self.begun:
            self.begin_round(self.begun)
            self.begun += 1
        config = self.config
        size = self.unit.world * config.batch * self.data.context
        if self.unit.dreams:
            size += config.imagined * config.horizon
        return self._world_loss(step, 0), size

    def begin_round(self, round: int) -> None:
        """Act, unless that was done before a kill, and fit what follows from the episodes up to now."""
        self.store.open_round(round, lambda: self.act(round))
        self._learn_codes(round)
        episodes = self.store.all.take(self.store.train_rows)
        given = (episodes.steps, episodes.following, episodes.rewards)
        steps, following, rewards = (torch.from_numpy(each).to(self.device) for each in given)
        past, real = episodes.history(np.arange(len(episodes)), self.model.config.frames - 1)
        before = past.to(self.device), real.to(self.device)
        if round == 0:
            self.model.fit_linear(steps, following, rewards, self.config.discount, before=before)
        else:
            self.model.fit_size(steps, following, rewards, before=before)

    def _learn_codes(self, round: int) -> None:
        """Learn the codes of images from all rounds, and have all episodes in the codes of now."""
        if self.model.autoencoder is None:
            return
        steps = self.data.code_steps if round == 0 else self.data.code_steps // 2
        rows = self.store.train_rows
        known = rows < sum(map(len, self.store.rounds[:-1]))
        learn_codes(self.model, self.store.all.take(rows), known, steps, self.config.seed, round)
        self.store.encode(self.model)

    def act(self, round: int) -> Episodes:
        """The real steps of a round: at random in the first one, by the policy in the others."""
        data, seed = self.data, self.config.seed
        assert data.environment is not None
        done = data.real_steps * round // self.rounds
        steps = data.real_steps * (round + 1) // self.rounds - done
        with open_environments(
            data.environment,
            min(data.environments, steps),
            processes=data.processes,
            seconds=data.timeout,
            sight=data.sight,
        ) as environments:
            if round == 0:
                chosen = random_actions(environments, seed, round)
            else:
                # of its own: whether a round is acted or read again must not change what is drawn after it
                draw = torch.Generator().manual_seed(episode_seed(seed, round, -1))
                chosen = policy_actions(self.model, draw)
                chosen = random_at_first(chosen, environments.spaces, data.random_steps, seed, round)
            actor = Actor(environments, chosen, see_fn(self.model), self.model.config.frames)
            return actor.act_steps(steps, seed, round)

    def move(self, step: int, done: float) -> None:
        rate = schedule(step, done, warmup=self.config.warmup, decay=self.config.decay)
        self._descend(rate)
        for number in range(1, self.unit.world):
            self._world_loss(step, number)
            self._descend(rate)
        if self.unit.dreams:
            self.model.eval()
            imagined = dream_batch(self.model, self.store, self.config)
            self.model.train()

            def learn(loss: Tensor) -> None:
                loss.backward()
                self._descend(rate)

            learn_policy(self.model, imagined, self.config, learn)
        if self.average is not None:
            self.average.add(step)

    def _world_loss(self, step: int, number: int) -> Tensor:
        """Gradients of one batch of the world model; returns its loss."""
        batch = self.source.batch(step * 2 * self.config.world_steps + number).to(self.device)
        with self.precision():
            loss, _ = self.task.loss(self.model, batch)
        if number and not bool(torch.isfinite(loss)):
            raise RegardError(
                f"the loss of the world model is not a number ({float(loss)}) in step {step + 1}; start again with a "
                f"smaller --train.lr (it was {self.config.peak_lr:g})"
            )
        loss.backward()
        return loss.detach()

    def _descend(self, rate: float) -> None:
        if self.config.clip is not None:
            nn.utils.clip_grad_norm_(self.optimiser.parameters, self.config.clip)
        self.optimiser.step(rate)

    def tensors(self) -> dict[str, dict[str, Tensor]]:
        return super().tensors() | {"rounds": {"begun": torch.tensor(self.begun)}}

    def load(self, checkpoint: Checkpoint | None) -> None:
        super().load(checkpoint)
        assert checkpoint is not None  # one process collects episodes
        # the next round is acted when its first step comes
        self.begun = int(checkpoint.tensors("rounds")["begun"])
        self.store.open_round(self.begun - 1, None)
        self.store.encode(self.model)
