"""An actor and a critic: what to do after an observation, and how much reward is still to come."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

EXPLORES = -0.5  # the logarithm of the standard deviation with which a continuous action begins


@dataclass(frozen=True, eq=False)
class Choices:
    """Distributions of actions, one a row: logits of kinds, or mean and standard deviation of numbers."""

    mean: Tensor  # b kinds: logits; b numbers: means
    deviation: Tensor | None = None  # numbers; None: the actions are kinds

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """An action of each row: one-hot b kinds, or b numbers."""
        if self.deviation is None:
            drawn = torch.multinomial(self.mean.softmax(-1), 1, generator=generator)
            return torch.zeros_like(self.mean).scatter_(-1, drawn, 1.0)
        noise = torch.randn(self.mean.shape, generator=generator, dtype=self.mean.dtype).to(self.mean.device)
        return self.mean + self.deviation * noise

    def best(self) -> Tensor:
        """The likeliest action of each row."""
        if self.deviation is None:
            return torch.zeros_like(self.mean).scatter_(-1, self.mean.argmax(-1, keepdim=True), 1.0)
        return self.mean

    def log_prob(self, actions: Tensor) -> Tensor:
        """log p of these actions.   b numbers -> b"""
        if self.deviation is None:
            return (self.mean.log_softmax(-1) * actions).sum(-1)
        apart = (actions - self.mean) / self.deviation
        return (-0.5 * apart.square() - self.deviation.log() - 0.5 * math.log(2 * math.pi)).sum(-1)

    def entropy(self) -> Tensor:
        """−Σ p log p of each row.   b"""
        if self.deviation is None:
            log = self.mean.log_softmax(-1)
            return -(log.exp() * log).sum(-1)
        each = self.deviation.log() + 0.5 * math.log(2 * math.pi * math.e)
        return each.sum(-1).expand(len(self.mean))


class ActorCritic(nn.Module):
    """Two small networks of the same input: the actor gives `Choices`, the critic a value.   b inputs

    The value is in units of `scale`, so that both learn at one rate whatever the rewards are.
    """

    scale: Tensor

    def __init__(self, inputs: int, actions: int, hidden: int, *, discrete: bool) -> None:
        super().__init__()
        self.actor = _two_layers(inputs, hidden, actions, gain=0.01)
        self.critic = _two_layers(inputs, hidden, 1, gain=1.0)
        self.spread: nn.Parameter | None = None
        if not discrete:
            self.spread = nn.Parameter(torch.full((actions,), EXPLORES))
        self.register_buffer("scale", torch.ones(()))

    def choose(self, x: Tensor) -> Choices:
        """b inputs -> distributions of actions"""
        out = self.actor(x)
        if self.spread is None:
            return Choices(out)
        return Choices(torch.tanh(out), self.spread.exp())

    def value(self, x: Tensor) -> Tensor:
        """The discounted sum of the rewards to come.   b inputs -> b"""
        found: Tensor = self.critic(x)[..., 0] * self.scale
        return found


def _two_layers(inputs: int, hidden: int, outputs: int, gain: float) -> nn.Sequential:
    made = nn.Sequential(
        nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, outputs)
    )
    for i, each in ((0, math.sqrt(2)), (2, math.sqrt(2)), (4, gain)):
        layer = made[i]
        assert isinstance(layer, nn.Linear)
        nn.init.orthogonal_(layer.weight, gain=each)
        nn.init.zeros_(layer.bias)
    return made
