"""Evaluation of a trained model: its measures on a split, with the number of examples."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.array import Array
from regard.data.batch import Batch
from regard.errors import RegardError
from regard.recipes.describe import format_count
from regard.recipes.intervals import Interval, bootstrap_interval, wilson_interval
from regard.recipes.job import Job, Split
from regard.recipes.prediction import Prediction
from regard.recipes.task import SupervisedTask
from regard.runs.number_format import say_measure
from regard.training.scores import Scores
from regard.training.tasks import Task, keep_finite

FEW = 1_000  # examples: below, figures have intervals
LOPSIDED = 0.75  # share of the largest of two classes from which on an accuracy misleads


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
    # of measures on fewer than FEW examples: from where to where they may be, 95 %
    intervals: Mapping[str, Interval] = field(default_factory=dict)

    @property
    def of_classes(self) -> list[dict[str, Any]]:
        """Precision and recall of each class; None where a class was never predicted, or never there."""
        if self.labels is None or self.confusion is None:
            return []
        right, there, said = self.confusion.diagonal(), self.confusion.sum(1), self.confusion.sum(0)
        rows = zip(self.labels, right.tolist(), there.tolist(), said.tolist(), strict=True)
        return [
            {"label": label, "count": n, "precision": hit / m if m else None, "recall": hit / n if n else None}
            for label, hit, n, m in rows
        ]

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        found: dict[str, Any] = {"split": self.split, "count": self.count, "unit": self.unit, "measures": self.measures}
        if self.labels is not None and self.confusion is not None:
            found |= {"labels": list(self.labels), "confusion": self.confusion.tolist(), "classes": self.of_classes}
        if self.intervals:
            found["intervals"] = {name: list(ends) for name, ends in self.intervals.items()}
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
        said = "  ".join(say_measure(name, value, self.intervals.get(name)) for name, value in self.measures.items())
        return f"{self.split}: {said}{of}"


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
    if confusion is not None:
        measures |= judge_shares(confusion)
    intervals: Mapping[str, Interval] = {}
    if isinstance(task, SupervisedTask) and count < FEW:
        intervals = find_intervals(task.score(model, split.batches()), measures)
    return Evaluation(
        split=split.name,
        count=count,
        unit=split.unit,
        measures=measures,
        labels=known,
        confusion=confusion,
        notes=split.notes,
        intervals=intervals,
        predict=None if split.predict is None else partial(split.predict, model),
    )


def judge_shares(confusion: Tensor) -> dict[str, float]:
    """What an accuracy is to be read beside, where classes are of unlike size: the share of the largest class, which who
    always says that class gets right, and the mean recall of all classes."""
    there = confusion.sum(1)
    total, classes = int(there.sum()), int((there > 0).sum())
    share = float(there.max()) / max(total, 1)
    if classes < 2 or share <= min(2 / classes, LOPSIDED):
        return {}
    recall = confusion.diagonal()[there > 0] / there[there > 0]
    return {"balanced accuracy": float(recall.mean()), "majority share": share}


def find_intervals(scores: Scores, measures: Mapping[str, float]) -> dict[str, Interval]:
    """Of those of the measures that follow from the numbers of single examples."""
    found: dict[str, Interval | None] = {}
    n, right, counts = len(scores), scores.right(), scores.counts.numpy()
    for name in [name for name in measures if name in scores.sums]:
        sums = scores.sums[name].numpy()
        if name == "accuracy" and right is not None:
            found[name] = wilson_interval(int(right.sum()), n)
        else:
            found[name] = _of_means(sums, counts)
    log_loss = scores.sums.get("log loss")
    if log_loss is not None and math.isclose(scores.means()["log loss"], measures["loss"], rel_tol=1e-4):
        found["loss"] = _of_means(log_loss.numpy(), counts)
    if "balanced accuracy" in measures and right is not None:
        target, hit = scores.target.numpy(), right.numpy()
        found["balanced accuracy"] = bootstrap_interval(lambda drawn: _mean_recall(target[drawn], hit[drawn]), n)
    if "R²" in measures and scores.predicted is not None:
        target = scores.target.double().numpy()
        off = (scores.predicted.double().numpy() - target) ** 2
        found["R²"] = bootstrap_interval(lambda drawn: _explained(off[drawn], target[drawn]), n)
    return {name: found[name] for name in measures if found.get(name) is not None}  # type: ignore[misc]


def _of_means(sums: Array, counts: Array) -> Interval | None:
    return bootstrap_interval(lambda drawn: sums[drawn].sum(1) / counts[drawn].sum(1), len(sums))


def _explained(off: Array, target: Array) -> Array:
    """R²; not finite where all targets are the same.   r n, r n -> r"""
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Array = 1 - off.mean(1) / target.var(1)
    return found


def _mean_recall(target: Array, hit: Array) -> Array:
    """Over the classes that are there.   r n, r n -> r"""
    recalls = []
    for each in np.unique(target):
        there = target == each
        with np.errstate(invalid="ignore"):
            recalls.append((hit & there).sum(1) / there.sum(1))
    found: Array = np.nanmean(recalls, 0)
    return found


class _Counted:
    """Batches, and how many rows they had."""

    def __init__(self, batches: Iterable[Batch]) -> None:
        self.batches, self.rows = batches, 0

    def __iter__(self) -> Any:
        for batch in self.batches:
            self.rows += batch.rows
            yield batch
