"""A gate between two classifiers of the same texts: one learns safely, the other is let in as far as it helps."""

from __future__ import annotations

import torch
from torch import Tensor, nn

ALONE = 0.5  # share of the rows of a training batch that teach the safe classifier
JUDGED = 5  # one of so many texts teaches the gate, and never the other classifier
RATE = 0.3  # how fast the gate moves: the gate itself is this many times its parameter


class Gate(nn.Module):
    """safe + g·other, with one learned number g that starts at 0.   b classes, b classes -> b classes

    In training each row of a batch teaches one of three. `safe` learns by itself, so that it does not leave to
    `other` what that memorises. `other` learns what `safe` does not know. g learns from texts that `other` does not
    learn from: it opens only if that is right about texts that it has not seen. Which texts these are follows
    from their ids, so equal texts are on one side.
    """

    sparse_features = True  # for optimisers: gradient descent with a penalty
    penalty: float = 0.0  # for optimisers: the fewer texts there are, the less the gate is trusted

    def __init__(self) -> None:
        super().__init__()
        # g·t, and t − 1, both divided by RATE
        self.opened, self.surer = nn.Parameter(torch.zeros(())), nn.Parameter(torch.zeros(()))

    @property
    def weights(self) -> tuple[Tensor, Tensor]:
        """g·t and t."""
        return RATE * self.opened, (1 + RATE * self.surer).clamp(min=0.1)

    def forward(self, safe: Tensor, other: Tensor) -> Tensor:
        opened, surer = self.weights
        return safe + (opened / surer).to(other.dtype) * other

    def teach(
        self, safe: Tensor, known: Tensor, other: Tensor, tokens: Tensor, real: Tensor | None = None
    ) -> Tensor:
        """The logits of a training batch.

        known: `safe` without dropout, so that `other` learns only what `safe` cannot; tokens: b n, real: bool b n or
        None, from which all were made
        """
        opened, surer = self.weights
        judged = surer * known.detach() + opened * other.detach()
        beside = torch.where(judges(tokens, real)[:, None], judged, known.detach() + other)
        alone = torch.rand(len(safe), 1, device=safe.device) < ALONE
        return torch.where(alone, safe, beside)


def judges(tokens: Tensor, real: Tensor | None = None) -> Tensor:
    """Does the text of each row teach a gate?   b n -> bool b"""
    ids = tokens.long() + 1
    if real is not None:
        ids = ids.masked_fill(~real, 0)
    places = torch.arange(1, ids.shape[1] + 1, device=ids.device)
    key = (ids * places).sum(1) % 1_000_003
    return key * 48_271 % 65_537 % JUDGED == 0  # (primes: neighbouring keys are spread)
