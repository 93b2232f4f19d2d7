"""A few examples of a split with their predictions, for the report of a run: right and wrong ones, or those
with the smallest and the largest errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.data.batch import Batch
from regard.recipes.job import Job, ShownExample, Split
from regard.recipes.prediction import DIGITS
from regard.runs.number_format import say_number
from regard.training.scores import Scores

EACH = 4  # examples of either kind
ASKED = 2_000  # examples that they are chosen from
LONGEST = 2_000  # characters of a text
MOST = 6_000  # numbers of a set
CLASSES = (
    "Predicted correctly: taken evenly from the split. Misclassified: those the model was surest of.",
    "Of the first {:,} examples of the split.",
)
NUMBERS = ("Those with the smallest and the largest errors.", "Of the first {:,} examples of the split.")


@torch.no_grad()
def choose_examples(model: nn.Module, job: Job, split: Split) -> dict[str, Any] | None:
    """The examples as JSON; None for a task that has no predictions of single examples."""
    score = getattr(job.task, "score", None)
    if score is None or split.show is None or split.count == 0:
        return None
    found: Scores = score(model, _first(split.batches()))
    if found.predicted is None or len(found.target) != len(found):
        return None
    right = found.right()
    if right is not None and job.labels is not None:
        best, worst = _taken_evenly(right), _surest(found, ~right)
        words = CLASSES
    elif job.number is not None:
        order = found.sums[found.main].argsort()
        best, worst = order[:EACH].tolist(), order.flip(0)[: min(EACH, max(0, len(order) - EACH))].tolist()
        words = NUMBERS
    else:
        return None
    items = [_as_json(split.show(place), _answer(job, found, place, good)) for place, good in _marked(best, worst)]
    if split.count is not None and split.count > len(found):
        chosen = f"{words[0]} {words[1].format(len(found))}"
    else:
        chosen = words[0]
    return {"split": split.name, "chosen": chosen, "items": _bounded(items)}


def _first(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Batches until there are enough examples."""
    count = 0
    for batch in batches:
        yield batch
        count += len(batch.target)
        if count >= ASKED:
            return


def _marked(best: Sequence[int], worst: Sequence[int]) -> list[tuple[int, bool]]:
    return [*((place, True) for place in best), *((place, False) for place in worst)]


def _taken_evenly(right: Tensor) -> list[int]:
    places = right.nonzero().flatten()
    if len(places) <= EACH:
        return [int(place) for place in places]
    middles = (torch.arange(EACH) + 0.5) * len(places) / EACH
    return [int(place) for place in places[middles.long()]]


def _surest(found: Scores, wrong: Tensor) -> list[int]:
    assert found.shares is not None
    places = wrong.nonzero().flatten()
    return [int(place) for place in places[found.shares[places].argsort(descending=True)][:EACH]]


def _answer(job: Job, found: Scores, place: int, good: bool) -> dict[str, Any]:
    """What the model says of an example, and what is true."""
    assert found.predicted is not None
    predicted, target = found.predicted[place].item(), found.target[place].item()
    if job.labels is not None and found.shares is not None:
        said: dict[str, Any] = {"predicted": job.labels[int(predicted)], "truth": job.labels[int(target)]}
        return said | {"share": float(found.shares[place]), "right": good}
    assert job.number is not None
    name, restore = job.number.name, job.number.restore
    said = {"predicted": f"{name} {say_number(restore(predicted), DIGITS)}"}
    said |= {"truth": f"{name} {restore(target):.{DIGITS}g}"}
    return said | {"error": float(found.sums[found.main][place]), "right": good}


def _as_json(example: ShownExample, answer: dict[str, Any]) -> dict[str, Any]:
    """What is shown of an example; a long text is cut."""
    found: dict[str, Any] = {"name": example.name, **answer}
    if example.text is not None:
        found |= {"text": example.text[:LONGEST], "cut": len(example.text) > LONGEST}
    if example.picture is not None:
        found["picture"] = example.picture
    if example.elements is not None:
        found["elements"] = [list(row) for row in example.elements]
    return found


def _bounded(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The elements of one set are kept, to look at; those of the others would only take room."""
    there = False
    for item in items:
        elements = item.get("elements")
        if elements is not None and (there or sum(map(len, elements)) > MOST):
            del item["elements"]
        there = there or elements is not None
    return items
