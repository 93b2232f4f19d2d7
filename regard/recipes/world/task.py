"""What a world model learns: the next observation and the reward of each head, and which steps are ends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.batch import Batch
from regard.models.world_model import WorldModel
from regard.training.sums import Count

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
