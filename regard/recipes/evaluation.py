"""Evaluation of a trained model: its measures on a split, with the number of examples."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from regard.data.batch import Batch
from regard.errors import RegardError
from regard.recipes.describe import format_count
from regard.recipes.job import Job, Split
from regard.recipes.prediction import Prediction
from regard.runs.number_format import say_measures
from regard.training.tasks import Task, keep_finite


@dataclass(frozen=True, eq=False, kw_only=True)
class Evaluation:
    """Measures on one split."""

    split: str  # test, validation, or the path of other data
    count: int | None
    unit: str  # what is counted: rows, images, nodes
    measures: dict[str, float]
    labels: tuple[str, ...] | None = None  # classes of a classifier
    confusion: Tensor | None = None  # the confusion matrix: one row for each true class
    notes: tuple[str, ...] = ()
    predict: Callable[[], Iterator[Prediction]] | None = None  # the prediction for each example

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        found: dict[str, Any] = {"split": self.split, "count": self.count, "unit": self.unit, "measures": self.measures}
        if self.labels is not None and self.confusion is not None:
            found |= {"labels": list(self.labels), "confusion": self.confusion.tolist()}
        return found | ({"notes": list(self.notes)} if self.notes else {})

    def details(self) -> str:
        """What is printed below the line; nothing of most kinds."""
        return ""

    def format(self) -> str:
        """One line."""
        if self.count is None:
            of = ""
        else:
            of = f"  (of {format_count(self.count, self.unit) or f'no {self.unit}'})"
        return f"{self.split}: {say_measures(self.measures)}{of}"


def evaluate_finished(model: nn.Module, job: Job, split: Split) -> Evaluation:
    """Evaluate the weights of a finished training as its job wants it."""
    if job.evaluate is None:
        return evaluate_split(model, job.task, split, job.labels)
    found: Evaluation = job.evaluate(model, split)
    return found


@torch.no_grad()
def evaluate_split(model: nn.Module, task: Task, split: Split, labels: Sequence[str] | None = None) -> Evaluation:
    """Evaluate a model on a split, in one pass; for a classifier with the confusion matrix."""
    counted = _Counted(split.batches())
    confusion: Tensor | None = None
    with_confusion = getattr(task, "measure_with_confusion", None)
    if with_confusion is not None and labels is not None:
        measures, confusion = with_confusion(model, counted, len(labels))
    else:
        measures = task.measure(model, counted)
    if not measures:
        raise RegardError(f"cannot evaluate: the {split.name} split is empty; give data with --data")
    measures = keep_finite(measures)
    if not math.isfinite(measures.get("loss", 0.0)):
        raise RegardError(
            f"cannot evaluate: the loss on the {split.name} split is not a number ({measures['loss']}); "
            "the data holds "
            "values that are too large for the model, or its training diverged"
        )
    count = counted.rows if split.count is None else split.count
    known = None if labels is None else tuple(labels)
    return Evaluation(
        split=split.name,
        count=count,
        unit=split.unit,
        measures=measures,
        labels=known,
        confusion=confusion,
        notes=split.notes,
        predict=None if split.predict is None else partial(split.predict, model),
    )


class _Counted:
    """Batches, and how many rows they had."""

    def __init__(self, batches: Iterable[Batch]) -> None:
        self.batches, self.rows = batches, 0

    def __iter__(self) -> Any:
        for batch in self.batches:
            self.rows += batch.rows
            yield batch
