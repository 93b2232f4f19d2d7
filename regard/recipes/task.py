"""The task of all supervised data. What depends on what is predicted is in the target, what depends on the kind of data
in the processor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.data.batch import IGNORE, Batch
from regard.recipes.processor import Processor
from regard.training.scores import Count, ScoreList, Scores, Sums, number_batches
from regard.training.tasks import call, explain_variance


class SupervisedTask:
    """The loss and the measures of a target.

    smoothing: the share of each label that is given to all classes alike; weights: of the classes
    """

    def __init__(
        self, processor: Processor[Any, Any], smoothing: float = 0.0, weights: Sequence[float] | None = None
    ) -> None:
        self.processor, self.target, self.smoothing = processor, processor.target, smoothing
        self.weights = None if weights is None else torch.tensor(weights)
        if self.target.classes:
            # a loss may rise while more predictions are right: few wrong ones grow too sure
            self.best_by, self.measures = "accuracy", ("loss", "accuracy")

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Count]:
        batch = self.processor.finish(batch, training=True)
        out = call(model, batch)
        weights = None if self.weights is None else self.weights.to(out.device)
        total, count = self.target.loss(out, batch.target, self.smoothing, weights)
        return total / (count.clamp(min=1) if isinstance(count, Tensor) else max(count, 1)), count

    def measure(self, model: nn.Module, batches: Iterable[Batch]) -> dict[str, float]:
        return self._measure(model, batches, None)

    def measure_with_confusion(
        self, model: nn.Module, batches: Iterable[Batch], classes: int
    ) -> tuple[dict[str, float], Tensor]:
        """The same with the confusion matrix: one row for each true class.   classes classes"""
        confusion = torch.zeros(classes, classes, dtype=torch.long)
        return self._measure(model, batches, confusion), confusion

    def _measure(self, model: nn.Module, batches: Iterable[Batch], confusion: Tensor | None) -> dict[str, float]:
        sums = Sums()
        for _, batch in number_batches(batches):
            out, target = self._judge(model, batch)
            count, named = self.target.sums(out, target, self.smoothing)
            sums.add(count, **named)
            if confusion is not None:
                asked = target != IGNORE
                pairs = (target[asked] * len(confusion) + out.argmax(-1)[asked]).cpu()
                confusion += torch.bincount(pairs, minlength=confusion.numel()).view_as(confusion)
        return explain_variance(sums.means())

    def score(self, model: nn.Module, batches: Iterable[Batch]) -> Scores:
        """The numbers of each example."""
        found = ScoreList(self._main())
        for _, batch in number_batches(batches):
            out, target = self._judge(model, batch)
            if self.target.several:
                right = ((out > 0) == (target > 0.5)) & ~target.isnan()
                found.add_numbers({"accuracy": right}, ~target.isnan(), target, out)
            elif self.target.classes:
                found.add_classes(out, target, "log loss")
            else:
                self._add_numbers(found, out, target)
        return found.scores()

    def _main(self) -> str:
        if self.target.classes:
            return "accuracy"
        numbers = self.target.numbers
        return f"MAE {numbers[0].name}" if len(numbers) > 1 else "MAE"

    def _add_numbers(self, found: ScoreList, out: Tensor, target: Tensor) -> None:
        """Errors in the units of the data."""
        off, out = self.target.errors(out, target), out.float().reshape(target.shape)
        numbers = self.target.numbers
        if len(numbers) == 1:
            sums = {"MAE": off}
        else:
            own = torch.eye(len(numbers), device=off.device)
            sums = {f"MAE {each.name}": off * own[i] for i, each in enumerate(numbers)}
        found.add_numbers(sums, ~target.isnan(), target, out)

    def _judge(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
        batch = self.processor.finish(batch, training=False)
        return self.processor.forward(model, batch), batch.target
