"""Permutation language models (XLNet): tokens are predicted from those that come before them in a random order."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from regard.data.batch import IGNORE, Batch
from regard.errors import RegardError
from regard.training.scores import Count, Numbered, number_batches
from regard.training.tasks import Classify, NextToken

SHARE = 1 / 6  # of the tokens is predicted, as in XLNet


class PermutedToken(Classify):
    """−log p(token | those before it in an order), for the last `share` of each row's order.   tokens b n

    Every row has an order of its own, drawn at random; padding comes first in it, so that real tokens are
    predicted. Training draws from torch's generator, which the loop seeds by (seed, step). The orders of an
    evaluation are always the same. Its loss is not that from left to right, which `measure` gives as "loss in
    order": the one to compare with a decoder's.
    """

    best_by = "loss"
    cross_entropy = "loss"

    def __init__(self, share: float = SHARE, seed: int = 0) -> None:
        if not 0 < share <= 1:
            raise RegardError(f"share must be above 0 and at most 1, got {share}")
        super().__init__()
        self.share, self.seed = share, seed

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Count]:
        return super().loss(model, self.permute(batch))

    def permute(self, batch: Batch, generator: torch.Generator | None = None) -> Batch:
        """The batch with an order for each row, and the tokens at its end as targets."""
        tokens, real = batch["tokens"], batch.get("real")
        draw = torch.rand(tokens.shape, generator=generator).to(tokens.device)
        if real is not None:
            draw = draw.masked_fill(~real, -1)
        order = draw.argsort(dim=1, stable=True)  # slots, the first in the order first
        rank = torch.empty_like(order).scatter_(1, order, torch.arange(order.shape[1]).to(order).expand_as(order))
        asked = order[:, order.shape[1] - max(1, round(self.share * order.shape[1])) :]
        target = tokens.gather(1, asked)
        if real is not None:
            target = target.masked_fill(~real.gather(1, asked), IGNORE)
        return batch.replace(target=target, rank=rank, asked=asked)

    def measure(self, model: nn.Module, batches: Iterable[Batch]) -> dict[str, float]:
        seen = Numbered(list(number_batches(batches)))
        found = super().measure(model, seen)
        if not found:
            return found
        return found | {"loss in order": NextToken().measure(model, seen)["loss"]}

    def _fixed(self, batch: Batch, number: int) -> Batch:
        return self.permute(batch, torch.Generator().manual_seed(self.seed * 1_000_003 + number))
