"""A model that reads token by token, over a cache where it has one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import RegardError


class IncrementalDecoder:
    """Rows of ids that grow one by one, and what the model makes of them: the logits of what comes next.

    A model with `limit` is never shown more than that many tokens: when they are full, it forgets the older
    half and reads the rest again. Without `caches` it reads everything again at every step, and gives the
    same. `ids` are those that a tokenizer knows: a table of others may have rows to spare, which never come.
    """

    def __init__(self, model: Any, prompt: Sequence[int], room: int, ids: int | None = None) -> None:
        self.model, self.room, self.ids = model, room, ids
        self.limit: int | None = getattr(model, "limit", None)
        self.prompt = list(prompt)
        self.rows = [list(prompt)]  # all ids of each row, however old
        # the first one that is still read
        if self.limit is None:
            self.begin = 0
        else:
            self.begin = max(0, len(prompt) - self.limit)
        self.cached = hasattr(model, "caches")
        self.caches: Any = None
        if isinstance(model, nn.Module):
            parameter = next(iter(model.parameters()), None)
        else:
            parameter = None
        if parameter is None:
            self.device = torch.device("cpu")
        else:
            self.device = parameter.device

    def start(self, samples: int = 1) -> Tensor:
        """Logits after the prompt, the same for each of the samples.   -> samples vocab"""
        logits = self.read([row[self.begin :] for row in self.rows], anew=True)
        self.take([0] * samples)
        return logits.expand(samples, -1)

    def step(self, tokens: Sequence[int]) -> Tensor:
        """Logits after one more token in each row.   -> rows vocab"""
        for row, token in zip(self.rows, tokens, strict=True):
            row.append(token)
        full = self.limit is not None and len(self.rows[0]) - self.begin > self.limit
        if full:
            assert self.limit is not None
            self.begin = len(self.rows[0]) - max(1, self.limit // 2)
        if full or not self.cached:
            return self.read([row[self.begin :] for row in self.rows], anew=True)
        return self.read([[token] for token in tokens])

    @torch.inference_mode()
    def take(self, rows: Sequence[int]) -> None:
        """Row i goes on from row rows[i]."""
        if list(rows) == list(range(len(self.rows))):
            return
        self.rows = [list(self.rows[i]) for i in rows]
        if self.caches is not None:
            self.caches.take(torch.tensor(rows, device=self.device))

    @torch.inference_mode()
    def read(self, rows: list[list[int]], anew: bool = False) -> Tensor:
        """Logits at the last place, in float64.   -> rows vocab"""
        how = {}
        if self.cached:
            if anew:
                size = len(rows[0]) + self.room
                self.caches = self.model.caches(size if self.limit is None else min(size, self.limit))
            how["caches"] = self.caches
        training = getattr(self.model, "training", False)
        if training:
            self.model.eval()
        try:
            logits = self.model(torch.tensor(rows, device=self.device), **how)[:, -1, : self.ids].double().cpu()
        finally:
            if training:
                self.model.train()
        if (logits.isnan() | (logits == torch.inf)).any():  # -inf is a token that cannot come
            raise RegardError(
                "the logits of the model are NaN or infinite: its training diverged; train it again with a "
                "smaller --train.lr"
            )
        return logits
