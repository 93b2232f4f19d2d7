"""What is added up of an evaluation: sums over its batches and over the processes that share it, and the numbers of each
example, so that two models can be compared example by example."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.batch import IGNORE, Batch


@dataclass(frozen=True, eq=False, kw_only=True)
class Scores:
    """Numbers of n examples. An example is a row of the targets: a text, an image, a set, a node, a window of a long text.
    Sums over its targets are kept with their number, so that Σ sums / Σ counts is the measure of the whole split.

    main       the measure that says how good a model is
    sums       of each measure, over the targets of each example   n
    counts     targets of each example   n
    target     all targets, one after the other: the same for two models that were asked the same
    predicted  the likeliest class of each example, or its number as the model gives it; None: an example has
               many targets
    shares     the probability of the predicted class
    """

    main: str
    sums: dict[str, Tensor]
    counts: Tensor
    target: Tensor
    predicted: Tensor | None = None
    shares: Tensor | None = None

    def __len__(self) -> int:
        return len(self.counts)

    def means(self) -> dict[str, float]:
        """The measures of the whole split."""
        total = float(self.counts.sum())
        return {name: float(sums.sum()) / total for name, sums in self.sums.items()}

    def right(self) -> Tensor | None:
        """Which examples are predicted correctly, if each has one class; otherwise None.   bool n"""
        if self.predicted is None or "accuracy" not in self.sums:
            return None
        return self.sums["accuracy"] > 0.5


@dataclass(eq=False)
class ScoreList:
    """Scores that are gathered batch by batch."""

    main: str
    parts: list[dict[str, Tensor]] = field(default_factory=list)

    def add_classes(self, logits: Tensor, target: Tensor, loss: str) -> None:
        """Logits of the targets that are not IGNORE.   ... c, ...   loss: what the cross-entropy is called"""
        logits, flat = logits.float(), target.reshape(-1).long()
        each = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), flat, ignore_index=IGNORE, reduction="none")
        asked = target != IGNORE
        best = logits.max(-1)
        right = (best.indices == target) & asked
        more: dict[str, Tensor] = {}
        if target.dim() == 1:
            more = {"predicted": best.indices, "shares": (best.values - logits.logsumexp(-1)).exp()}
        sums = {loss: each.view(target.shape), "accuracy": right}
        self._add(sums, asked, target[asked], more)

    def add_sums(self, sums: dict[str, Tensor], target: Tensor) -> None:
        """Numbers of the targets that are not IGNORE, computed already.   all of the shape of the target"""
        asked = target != IGNORE
        self._add(sums, asked, target[asked], {})

    def add_numbers(self, sums: dict[str, Tensor], known: Tensor, target: Tensor, predicted: Tensor) -> None:
        """Numbers for each target that is known.   all of the shape of the target"""
        more: dict[str, Tensor] = {}
        if target.numel() == len(target):
            more = {"predicted": predicted.reshape(-1)}
        cleared = {name: each.masked_fill(~known, 0) for name, each in sums.items()}
        self._add(cleared, known, target[known], more)

    def scores(self) -> Scores:
        """All of them. Raises an IndexError without any batch."""
        names = self.parts[0]
        joined = {name: torch.cat([part[name] for part in self.parts]) for name in names}
        sums = {name.removeprefix("sum "): each for name, each in joined.items() if name.startswith("sum ")}
        return Scores(
            main=self.main,
            sums=sums,
            counts=joined["counts"],
            target=joined["target"],
            predicted=joined.get("predicted"),
            shares=joined.get("shares"),
        )

    def _add(self, sums: dict[str, Tensor], asked: Tensor, target: Tensor, more: dict[str, Tensor]) -> None:
        """Sums over all axes but the first; rows without a target are no examples."""
        counts = _of_rows(asked)
        kept = counts > 0
        part = {f"sum {name}": _of_rows(each)[kept] for name, each in sums.items()}
        part |= {name: each[kept] for name, each in more.items()}
        part |= {"counts": counts[kept], "target": target.reshape(-1)}
        self.parts.append({name: each.detach().cpu() for name, each in part.items()})


def _of_rows(x: Tensor) -> Tensor:
    """b ... -> b, in float64"""
    if x.device.type == "mps":
        x = x.cpu()
    return x.double().reshape(len(x), -1).sum(1)


# ── sums over batches, and over processes


Count = Tensor | int
Numbers = Mapping[str, list[float]]
_over_ranks: ContextVar[Callable[[Numbers], dict[str, list[float]]] | None] = ContextVar("over_ranks", default=None)


class Numbered:
    """Some batches of a split, each with its number in the split."""

    def __init__(self, pairs: Iterable[tuple[int, Batch]]) -> None:
        self.pairs = pairs

    def __iter__(self) -> Iterator[Batch]:
        return (batch for _, batch in self.pairs)


def number_batches(batches: Iterable[Batch]) -> Iterable[tuple[int, Batch]]:
    """Batches with their numbers in the split: what an evaluation draws depends on these."""
    return batches.pairs if isinstance(batches, Numbered) else enumerate(batches)


@contextmanager
def summing_over_ranks(add: Callable[[Numbers], dict[str, list[float]]]) -> Iterator[None]:
    """Within, `add_up` adds what all processes have."""
    token = _over_ranks.set(add)
    try:
        yield
    finally:
        _over_ranks.reset(token)


def add_up(numbers: Numbers) -> dict[str, list[float]]:
    """The sum over all processes that share an evaluation, name by name; of one process, what it gave."""
    add = _over_ranks.get()
    if add is None:
        return dict(numbers)
    return add(numbers)


class Sums:
    """Sums over batches in float64, read from the device only once, at the end."""

    def __init__(self) -> None:
        self.count: Count = 0
        self.totals: dict[str, Tensor] = {}

    def add(self, count: Count, **totals: Tensor) -> None:
        self.count = self.count + count
        for name, total in totals.items():
            exact = total.detach().to("cpu" if total.device.type == "mps" else total.device, torch.float64)
            if name in self.totals:
                self.totals[name] = self.totals[name] + exact
            else:
                self.totals[name] = exact

    def means(self) -> dict[str, float]:
        """The sums divided by the count, over all processes."""
        found = {name: [float(total)] for name, total in self.totals.items()}
        whole = add_up({**found, "": [float(int(self.count))]})
        count = int(whole.pop("")[0])
        if count:
            return {name: total[0] / count for name, total in whole.items()}
        return {}
