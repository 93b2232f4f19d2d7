"""The loop of Dyna: act in the world, learn the world, learn to act in imagination, as steps of the training loop.

Everything in a step follows from (seed, step), the weights, and the episodes of the rounds up to now, which are
kept in the run. So a run that is killed goes on to the same weights.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.batch import Batch
from regard.errors import RegardError
from regard.models.world_model import WorldModel
from regard.recipes.world.act import episode_seed, open_actor, policy_actions, random_actions, random_at_first
from regard.recipes.world.config import WorldDataConfig, WorldTrainConfig
from regard.recipes.world.episodes import Episodes
from regard.recipes.world.images import learn_codes
from regard.recipes.world.imagination import imagine_batch, learn_policy
from regard.recipes.world.replay_buffer import EpisodeSource
from regard.training import optimisers
from regard.training.checkpoint import Checkpoint
from regard.training.optimisers import schedule
from regard.training.rules import AdamW
from regard.training.scores import Count
from regard.training.step import Stepper, seed_all
from regard.training.tasks import Task

SEEN = 0.75  # share of the rows that each head learns from, so that heads differ where little is known


class PredictNext:
    """½ mean of squares of (what is left of the next observation and reward after the linear map − head), in units
    of the linear map's error, and the cross-entropy of *continue*."""

    def __init__(self, best_by: str = "loss") -> None:
        self.best_by = best_by

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Count]:
        missed, ends, real = self._errors(model, batch)
        rows, _, heads, _ = missed.shape
        taken = (torch.rand(rows, 1, heads, device=missed.device) < SEEN) & real[..., None]
        mean = (missed.mean(-1) * taken).sum() / taken.sum().clamp(min=1)
        count = real.sum()
        return 0.5 * mean + (ends * real).sum() / count.clamp(min=1), count

    def measure(self, model: nn.Module, batches: Iterable[Batch]) -> dict[str, float]:
        total = torch.zeros(3, dtype=torch.float64)
        for batch in batches:
            missed, ends, real = self._errors(model, batch)
            squares = (missed.mean((-2, -1)) * real).sum()
            total += torch.stack((squares, (ends * real).sum(), real.sum())).double().cpu()
        if not total[2]:
            return {}
        squares, ends, _ = (total / total[2]).tolist()
        return {"loss": 0.5 * squares + ends, "continue": ends}

    def _errors(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """b n e o+1 squares, b n cross-entropies of continue, b n real; both are 0 at padding"""
        assert isinstance(model, WorldModel)
        steps = batch["steps"]
        real = batch.get("real", torch.ones(steps.shape[:2], dtype=torch.bool))
        o = model.config.observations
        scaled = model.scale_steps(steps, real)
        after = model.normalise(batch.target[..., :o])
        wanted = torch.cat((after, batch.target[..., o : o + 1]), -1)
        z = model.look_back(scaled, real=real)
        wanted = (wanted - model.linear(z)) / model.size
        found: Any = model.residuals(z, real=real)
        missed = (found - wanted[:, :, None]).square()
        ends = F.binary_cross_entropy_with_logits(model.goes_on(after), 1 - batch.target[..., o + 1], reduction="none")
        # what is only looked back on is no part of the loss
        counted = real.clone()
        counted[:, : model.config.frames - 1] = False
        real = counted
        # padding is far from a number that is always large, and the square of that may be infinite
        missed = missed.masked_fill(~real[..., None, None], 0.0)
        return missed, ends.masked_fill(~real, 0.0), real


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


class DynaLoop(Stepper):
    """The stepper of a world: a world model, its policy, and an environment to act in (or recorded episodes)."""

    model: WorldModel
    source: EpisodeSource
    config: WorldTrainConfig

    def __init__(
        self, model: nn.Module, task: Task, source: EpisodeSource, config: WorldTrainConfig, data: WorldDataConfig
    ) -> None:
        super().__init__(model, task, source, config)
        self.data, self.buffer = data, source.buffer
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
        self.buffer.open_round(round, lambda: self.act(round))
        if self.model.autoencoder is not None:
            # from the images of all rounds; then all episodes are in the codes of now
            count = self.data.code_steps if round == 0 else self.data.code_steps // 2
            rows = self.buffer.train_rows
            known = rows < sum(map(len, self.buffer.rounds[:-1]))
            learn_codes(self.model, self.buffer.all.take(rows), known, count, self.config.seed, round)
            self.buffer.encode(self.model)
        episodes = self.buffer.all.take(self.buffer.train_rows)
        given = (episodes.steps, episodes.following, episodes.rewards)
        steps, following, rewards = (torch.from_numpy(each).to(self.device) for each in given)
        past, real = episodes.history(np.arange(len(episodes)), self.model.config.frames - 1)
        before = past.to(self.device), real.to(self.device)
        if round == 0:
            self.model.fit_linear(steps, following, rewards, self.config.discount, before=before)
        else:
            self.model.fit_size(steps, following, rewards, before=before)

    def act(self, round: int) -> Episodes:
        """The real steps of a round: at random in the first one, by the policy in the others."""
        data, seed = self.data, self.config.seed
        done = data.real_steps * round // self.rounds
        steps = data.real_steps * (round + 1) // self.rounds - done
        if round == 0:
            act = random_actions(self.buffer.spaces, seed)
        else:
            # of its own: whether a round is acted or read again must not change what is drawn after it
            draw = torch.Generator().manual_seed(episode_seed(seed, round, -1))
            act = policy_actions(self.model, draw)
            act = random_at_first(act, self.buffer.spaces, data.random_steps, seed, round)
        with open_actor(self.model, data, min(data.environments, steps), act) as actor:
            return actor.act_steps(steps, seed, round)

    def move(self, step: int, done: float) -> None:
        rate = schedule(step, done, warmup=self.config.warmup, decay=self.config.decay)
        self._descend(rate)
        for number in range(1, self.unit.world):
            self._world_loss(step, number)
            self._descend(rate)
        if self.unit.dreams:
            self.model.eval()
            imagined = imagine_batch(self.model, self.buffer, self.config)
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
        self.buffer.open_round(self.begun - 1, None)
        self.buffer.encode(self.model)
