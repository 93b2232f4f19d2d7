"""What is predicted: one class, any number of classes, or numbers; of an example or of each of its parts. The only
place that knows what a cell means, which loss follows from it, and what an output says."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from regard.config import config
from regard.data.array import Array
from regard.data.batch import IGNORE
from regard.data.tables import is_missing
from regard.data.targets import Numbers, explain_asks, infer_asks, sort_labels
from regard.errors import RegardError
from regard.recipes.prediction import Prediction
from regard.training.cross_entropy import cross_entropy
from regard.training.scores import Count

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

Asks = Literal["auto", "classes", "several", "numbers"]
Cells: TypeAlias = "pa.Array[Any] | Array"  # text or numbers; with two axes: several numbers each
MARK = ";"  # between the classes of one cell, where there may be several
NAMED = 5  # classes that an error names


@config
class Target:
    """Classes, several classes at once, or numbers in their own units. Exactly one of `classes` and `numbers` is
    there."""

    classes: tuple[str, ...] = ()  # in their order: the outputs of the model
    several: bool = False  # may an example have several classes, or none?
    numbers: tuple[Numbers, ...] = ()
    each: str | None = None  # what has the target, if it is a part of an example: point, node, token

    def __post_init__(self) -> None:
        if bool(self.classes) == bool(self.numbers):
            raise RegardError(
                f"a target is classes or numbers, got {len(self.classes)} classes and {len(self.numbers)} numbers"
            )

    # ── from cells

    @classmethod
    def infer(
        cls,
        cells: Cells,
        *,
        what: str,
        names: Sequence[str] = ("target",),
        asks: Asks = "auto",
        each: str | None = None,
        place: Callable[[int], str] | None = None,
    ) -> Target:
        """What these cells are. The scale of numbers is found later, on the train split: see `fitted`.

        what: where they are from; names: of their columns; place: where one is, for an error
        """
        if isinstance(cells, np.ndarray) and cells.ndim == 2:
            return cls(numbers=tuple(_unscaled(name) for name in names), each=each)
        known = [cell for cell in plain_cells(cells) if not is_missing(cell)]
        if not known:
            raise RegardError(f"{what} has no known '{names[0]}' to train on; give some")
        if asks == "several":
            words = (word.strip() for cell in known for word in str(cell).split(MARK))
            return cls(classes=sort_labels(word for word in words if word), several=True, each=each)
        if infer_asks(known, asks) == "numbers":
            found = cls(numbers=(_unscaled(names[0]),), each=each)
            found.check_numbers(cells, what, "use --data.asks classes for targets that are text", place)
            return found
        classes = sort_labels({word_of(cell) for cell in known})
        if len(classes) < 2:
            raise RegardError(f"{what} has only the class '{classes[0]}'; a classifier needs at least two")
        return cls(classes=classes, each=each)

    def check_numbers(self, cells: Cells, what: str, advice: str, place: Callable[[int], str] | None = None) -> None:
        """Raise for the first cell that is known and no finite number."""
        for row, cell in enumerate(plain_cells(cells)):
            if not is_missing(cell) and number_of(cell) is None:
                where = what if place is None else place(row)
                raise RegardError(
                    f"{where} has {cell!r} in column '{self.numbers[0].name}', expected a number; {advice}"
                )

    def fitted(self, codes: Array, train: Array) -> Target:
        """With the centre and the scale of the numbers of the train split.   codes: by a target without a scale"""
        if not self.numbers:
            return self
        columns = codes[train].reshape(-1, len(self.numbers)).T
        pairs = zip(self.numbers, columns, strict=True)
        return replace(self, numbers=tuple(Numbers.measure(n.name, c[~np.isnan(c)]) for n, c in pairs))

    def explain(self, cells: Cells, asks: Asks, name: str) -> tuple[str, ...]:
        """A note on whole numbers, which may be classes or numbers. name: of their column"""
        if asks != "auto" or len(self.numbers) > 1:
            return ()
        return explain_asks([cell for cell in plain_cells(cells) if not is_missing(cell)], asks, name)

    # ── cells as tensors

    def encode(self, cells: Cells, what: str = "the data", place: Callable[[int], str] | None = None) -> Array:
        """int64 n, IGNORE where unknown; or of several classes float32 n c, 0 and 1; or standardised numbers, float64
        n or n k. Unknown is NaN in both. place: where a cell is, for an error"""
        if self.numbers:
            return self.standardise(_as_numbers(cells))
        numbers = {name: i for i, name in enumerate(self.classes)}

        def find(word: str, row: Callable[[], int]) -> int:
            if word not in numbers:
                where = what if place is None else place(row())
                some = ", ".join(self.classes[:NAMED]) + ", ..." * (len(self.classes) > NAMED)
                raise RegardError(
                    f"{where} has the class '{word}', but the model knows {some}; remove it, or correct its name"
                )
            return numbers[word]

        if not self.several:
            different, places = _find_different(cells)

            def first_row(i: int) -> int:
                return i if isinstance(places, slice) else int((places == i).argmax())

            pairs = enumerate(different)
            codes = [IGNORE if is_missing(cell) else find(word_of(cell), partial(first_row, i)) for i, cell in pairs]
            return np.array(codes, dtype=np.int64)[places]
        out = np.zeros((len(cells), len(numbers)), dtype=np.float32)
        for row, cell in enumerate(plain_cells(cells)):
            if is_missing(cell):
                out[row] = np.nan
                continue
            for word in str(cell).split(MARK):
                if word.strip():
                    out[row, find(word.strip(), partial(int, row))] = 1
        return out

    def standardise(self, numbers: Array) -> Array:
        """(number − centre) / scale, of each column.   n or n k"""
        centre, scale = ([getattr(n, name) for n in self.numbers] for name in ("centre", "scale"))
        if numbers.ndim == 1:
            return (numbers - centre[0]) / scale[0]
        found: Array = (numbers - np.array(centre)) / np.array(scale)
        return found

    def known(self, codes: Array) -> Array:
        """Which are known.   bool n"""
        found: Array = codes != IGNORE if codes.dtype.kind == "i" else ~np.isnan(codes)
        return found if found.ndim == 1 else np.asarray(found.all(tuple(range(1, found.ndim))))

    def strata(self, codes: Array) -> Array | None:
        """The class of each, of which every split has the same share; None: there are none."""
        return codes if self.classes and not self.several else None

    def pad(self, codes: Sequence[Array], width: int) -> Array:
        """The targets of parts, one row for each example; padding is unknown.   b width ..."""
        unknown = IGNORE if codes[0].dtype.kind == "i" else np.nan
        out = np.full((len(codes), width, *codes[0].shape[1:]), unknown, dtype=codes[0].dtype)
        for row, each in enumerate(codes):
            out[row, : len(each)] = each
        return out

    @property
    def outputs(self) -> int:
        """How many numbers the model puts out for it."""
        return len(self.classes) or len(self.numbers)

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The classes, if exactly one of them is right."""
        return self.classes if self.classes and not self.several else None

    @property
    def number(self) -> Numbers | None:
        """What is predicted, if it is one number of an example."""
        return self.numbers[0] if len(self.numbers) == 1 and self.each is None else None

    # ── learning

    def weigh(self, wanted: Literal["auto"] | Sequence[float], codes: Array) -> list[float] | None:
        """The weights of the classes in the loss. auto: each class counts as much as another, 1 on average; None: of no
        examples to learn from. codes: of the train split"""
        if self.labels is None:
            what = "several classes of each example" if self.several else "numbers"
            raise RegardError(
                f"are for one class of each example, but here {what} are predicted; leave them out",
                option="data.class_weights",
            )
        if wanted != "auto":
            if len(wanted) != len(self.classes):
                raise RegardError(
                    f"must be one number for each of the {len(self.classes)} classes ({', '.join(self.classes)}), got "
                    f"{len(wanted)}",
                    option="data.class_weights",
                )
            return list(wanted)
        if not len(codes):
            return None
        counts = np.bincount(codes[codes >= 0], minlength=len(self.classes))
        found: list[float] = (counts.sum() / (len(counts) * np.maximum(counts, 1))).tolist()
        return found

    def loss(
        self, out: Tensor, target: Tensor, smoothing: float = 0.0, weights: Tensor | None = None
    ) -> tuple[Tensor, Count]:
        """The sum over all that is known, and how many that is.   out ... outputs, target ...

        smoothing: the share of each target that is given to all classes alike; weights: of the classes
        """
        if self.numbers:
            apart = self._apart(out, target)
            return apart.square().sum(), apart.numel()
        if self.several:
            known = ~target.isnan()
            each = F.binary_cross_entropy_with_logits(out[known].float(), target[known], reduction="sum")
            return each, known.sum()
        if target.is_floating_point():  # shares of the classes, of examples that were mixed
            total = F.cross_entropy(out.float(), target, weights, label_smoothing=smoothing, reduction="sum")
            return total, len(target)
        self._check_logits(out, target)
        flat, logits = target.reshape(-1), out.reshape(-1, out.shape[-1])
        count = (flat != IGNORE).sum()
        if weights is None:
            return cross_entropy(logits, flat, smoothing), count
        total = F.cross_entropy(
            logits.float(), flat, weights, label_smoothing=smoothing, ignore_index=IGNORE, reduction="sum"
        )
        return total, count

    def sums(self, out: Tensor, target: Tensor, smoothing: float = 0.0) -> tuple[Count, dict[str, Tensor]]:
        """Sums over all that is known of what an evaluation tells, and how many that is.

        Labels are smoothed as in training: else weights from halfway, surer than they were taught to be, would win.
        """
        total, count = self.loss(out, target, smoothing)
        if self.several:
            right = ((out > 0) == (target > 0.5)) & ~target.isnan()
            return count, {"loss": total, "accuracy": right.sum()}
        if self.classes:
            right = (out.argmax(-1) == target) & (target != IGNORE)
            return count, {"loss": total, "accuracy": right.sum()}
        off = self.errors(out, target)
        if len(self.numbers) > 1:  # each is the mean of its own share of all numbers
            named = {f"MAE {n.name}": off[..., i].sum() for i, n in enumerate(self.numbers)}
            return count, {"loss": total, **named}
        exact = target[~target.isnan()].double()
        return count, {"loss": total, "MAE": off.sum(), "target": exact.sum(), "square": exact.square().sum()}

    def errors(self, out: Tensor, target: Tensor) -> Tensor:
        """How far each number is off, in its own unit; 0 where it is unknown. Of several, times how many there are,
        so that the mean over all numbers is the mean of each.   of the shape of the target"""
        out = out.float().reshape(target.shape)
        scale = out.new_tensor([n.scale for n in self.numbers]) * len(self.numbers)
        return ((out - target).abs() * (scale if len(self.numbers) > 1 else scale[0])).nan_to_num(0)

    def _apart(self, out: Tensor, target: Tensor) -> Tensor:
        """Output − target, of what is known."""
        out = out.float()
        if out.shape == (*target.shape, 1):
            out = out.squeeze(-1)
        if out.shape != target.shape:  # torch would broadcast b 1 against b to b b, and learn nonsense
            raise RegardError(
                f"output and target must have one shape, got {tuple(out.shape)} and {tuple(target.shape)}"
            )
        if self.each is None:  # all is known: what is not is in no split
            return out - target
        known = ~target.isnan()
        return out[known] - target[known]

    def _check_logits(self, out: Tensor, target: Tensor) -> None:
        if out.shape[:-1] != target.shape:
            raise RegardError(
                f"the model must return scores for every target: logits {tuple(target.shape)} + (classes,), "
                f"got {tuple(out.shape)} for targets {tuple(target.shape)}"
            )

    # ── reading an output

    def decode(self, name: str, out: Tensor, cell: Any = None) -> Prediction:
        """One output as a prediction, with the truth if a cell tells it.   outputs"""
        truth = None if is_missing(cell) else cell
        if self.numbers:
            numbers = zip(self.numbers, out.double().reshape(-1).tolist(), strict=True)
            values = {each.name: each.restore(number) for each, number in numbers}
            return Prediction(input=name, values=values, truth=number_of(truth) if len(self.numbers) == 1 else None)
        if self.several:
            shares = out.double().sigmoid()
            order = shares.argsort(descending=True).tolist()
            return Prediction(input=name, labels={self.classes[i]: float(shares[i]) for i in order})
        found = Prediction.of_classes(name, out.softmax(-1), self.classes)
        return found if truth is None else replace(found, truth=word_of(truth))

    def say(self, out: Tensor) -> str:
        """Numbers in words, in their own units: mean 4.21, variance 3.2.   outputs"""
        values = out.double().reshape(-1).tolist()
        return ", ".join(each.format(value) for each, value in zip(self.numbers, values, strict=True))

    def say_truth(self, cell: Any) -> str | None:
        """What is true, in words; None: nobody knows. cell: of one example"""
        if self.numbers:
            values = np.ravel(cell if cell is not None else []).tolist()
            numbers = [number_of(value) for value in values if not is_missing(value)]
            if len(numbers) != len(self.numbers) or None in numbers:
                return None
            return ", ".join(f"{n.name} {v:.6g}" for n, v in zip(self.numbers, numbers, strict=True))
        return None if is_missing(cell) else word_of(cell)


# ── cells


def plain_cells(cells: Cells) -> Sequence[Any]:
    """Cells of arrow or NumPy as values of Python."""
    if isinstance(cells, np.ndarray):
        found: list[Any] = cells.tolist()
        return found
    return cells.to_pylist()


def cells_in_memory(labels: Any) -> Array:
    """Targets of Python, NumPy, pandas or PyTorch as cells."""
    if isinstance(labels, list | tuple) and any(isinstance(each, str) for each in labels):
        return np.array(labels, dtype=object)  # beside texts, NumPy would write None and NaN as texts
    return np.asarray(labels)


def _find_different(cells: Cells) -> tuple[Sequence[Any], Any]:
    """Different cells, and which of them each cell is. Those of Arrow may be millions, and are found by Arrow."""
    if isinstance(cells, np.ndarray):
        return plain_cells(cells), slice(None)
    found = cells.dictionary_encode()
    values = found.dictionary.to_pylist()
    return [*values, None], found.indices.fill_null(len(values)).to_numpy(zero_copy_only=False)


def word_of(cell: Any) -> str:
    """The class that a cell names; a whole number is one, whether it has a point or not."""
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell).strip()


def number_of(cell: Any) -> float | None:
    """The finite number in a cell; None: it holds none."""
    try:
        found = float(cell)
    except (TypeError, ValueError):
        return None
    return found if math.isfinite(found) else None


def _as_numbers(cells: Cells) -> Array:
    """n or n k, float64; NaN: unknown"""
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "fiu":
        return cells.astype(np.float64)
    found = [None if is_missing(cell) else number_of(cell) for cell in plain_cells(cells)]
    return np.array([math.nan if number is None else number for number in found])


def _unscaled(name: str) -> Numbers:
    return Numbers(name=name, centre=0.0, scale=1.0)
