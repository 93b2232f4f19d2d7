"""Next tokens of streams that are read segment by segment, with a memory of what came before (Transformer-XL)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.batch import IGNORE, Batch
from regard.errors import RegardError
from regard.training.scores import ScoreList, Scores
from regard.training.tasks import NextToken


class StreamedToken(NextToken):
    """−log p(target) at every place, from the segment and from the last `memory` tokens before it.

    Training: a batch is one segment of each stream, and goes on from the batch before if it `follows`; what the
    model remembers is kept from step to step and saved with a checkpoint. Evaluation: a batch holds long
    stretches, which are cut into segments of `segment` tokens and read with a memory of their own, so that every
    batch stands alone.
    """

    def __init__(self, memory: int, segment: int) -> None:
        super().__init__()
        self.memory, self.segment = memory, segment
        self.memories: Any = None  # of the streams that are being read

    def measure(self, model: nn.Module, batches: Iterable[Batch]) -> dict[str, float]:
        with self._set_aside():
            return super().measure(model, self._segments(batches))

    def score(self, model: nn.Module, batches: Iterable[Batch]) -> Scores:
        """The numbers of each segment, in the order of the text."""
        found = ScoreList(self.best_by)
        with self._set_aside():
            for batch in batches:
                each = [self._judge(model, segment) for segment in self._segments([batch])]
                names = {self.cross_entropy: 0, "accuracy": 1}
                laid = [torch.stack([part[i] for part in each], 1).flatten(0, 1) for i in range(3)]
                found.add_sums({name: laid[i] for name, i in names.items()}, laid[2])
        return found.scores()

    # ── what is carried from step to step

    def tensors(self) -> dict[str, Tensor]:
        """What is remembered of the streams; nothing before the first step."""
        if self.memories is None:
            return {}
        found: dict[str, Tensor] = self.memories.tensors()
        return found

    def load(self, model: Any, tensors: Mapping[str, Tensor]) -> None:
        """Remember what `tensors` gave."""
        self.memories = model.memories(self.memory)
        self.memories.load(tensors)

    # ── reading

    def _ask(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
        if self.memories is None or not batch.get("follows"):
            self.memories = _memories(model, self.memory)
        real = batch.get("real")
        logits = model(batch["tokens"], real=real, caches=self.memories)
        if real is None:
            return logits.float(), batch.target
        return logits.float(), batch.target.masked_fill(~real, IGNORE)

    def _judge(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Loss, whether the likeliest token is right, and target, at every place.   b segment each

        A last segment may be shorter: it is filled up, with nothing to predict."""
        logits, target = self._ask(model, batch)
        flat = F.cross_entropy(logits.flatten(0, 1), target.flatten().long(), ignore_index=IGNORE, reduction="none")
        right = (logits.argmax(-1) == target).float()
        short = self.segment - target.shape[1]
        filled = F.pad(target, (0, short), value=IGNORE)
        return F.pad(flat.view(target.shape), (0, short)), F.pad(right, (0, short)), filled

    def _segments(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Segments in the order in which they are read."""
        for batch in batches:
            tokens, whole = batch["tokens"], batch.get("real")
            for start in range(0, tokens.shape[1], self.segment):
                part = slice(start, start + self.segment)
                real = None if whole is None else whole[:, part]
                yield batch.replace(
                    target=batch.target[:, part],
                    tokens=tokens[:, part],
                    real=None if real is None or bool(real.all()) else real,
                    follows=start > 0,
                )

    @contextmanager
    def _set_aside(self) -> Iterator[None]:
        """Evaluations have memories of their own."""
        held, self.memories = self.memories, None
        try:
            yield
        finally:
            self.memories = held


def _memories(model: nn.Module, length: int) -> Any:
    make = getattr(model, "memories", None)
    if make is None:
        raise RegardError(
            f"{type(model).__name__} has no memory of earlier segments; take a decoder (regard.models.decoder)"
        )
    return make(length)
