"""A file, or a set of the data by its name, as a set to look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.data.array import Array
from regard.data.batch import generator
from regard.data.point_clouds import read_cloud
from regard.data.tables import names_of
from regard.data.targets import Numbers
from regard.errors import RegardError
from regard.look.model_input import Tokens
from regard.look.reader import NAMED, Control, Reader, at_path
from regard.recipes.sets.model_input import SetInput
from regard.recipes.sets.view import PointsView
from regard.symmetry.roles import Roles

ReadRows = Callable[[Path], Array]  # a file -> the elements of a set, n d

FILE = Control(
    name="file",
    type="file",
    label="Another set, from a file (.npy, .npz, .csv, .ply, .off)",
    accept=".npy,.npz,.csv,.ply,.off",
)


class SetExample(NamedTuple):
    """A set of the data, its name, its target (if the whole set has one), and a sentence about it."""

    rows: Array
    name: str
    truth: str | None = None
    said: str = ""


class SetReader(Reader):
    """A set of elements, one row of numbers each.

    inputs   of the model; the page shows their first row if no input is given
    example  returns a set to show instead
    named    returns a set of the data by its name
    read     returns the rows of a file
    taken    turns rows into the model's input, n d -> n d; the page draws the original rows
    columns  names of the numbers; default: the header of a .csv
    classes  names of the classes, for a classifier
    number   what a regression predicts (the first, if there are several)
    notes    notes on the inputs that are shown if no input is given
    numbers  names of predicted numbers, and the numbers in their own units
    """

    views = (PointsView(),)
    controls = (FILE,)

    def __init__(
        self,
        roles: Roles,
        inputs: Mapping[str, Any],
        *,
        example: Callable[[], SetExample] | None = None,
        named: Callable[[str], SetExample] | None = None,
        read: ReadRows | None = None,
        taken: Callable[[Array], Array] | None = None,
        columns: Sequence[str] = (),
        classes: Sequence[str] | None = None,
        number: Numbers | None = None,
        notes: tuple[str, ...] = (),
        numbers: Callable[[Tensor], Sequence[tuple[str, float]]] | None = None,
    ) -> None:
        assert roles.stream is not None
        self.stream = roles.stream
        self.inputs = {name: x[:1] if isinstance(x, Tensor) and x.dim() else x for name, x in inputs.items()}
        self.example, self.named, self.opened, self.taken = example, named, read or _rows_in, taken
        self.columns, self.classes, self.notes = tuple(columns), classes, notes
        self.number, self.numbers = number, numbers

    def read(self, given: str | bytes | None = None, target: str | bytes | None = None) -> SetInput:
        columns, shown = self.columns, None
        if isinstance(given, str) and self.named is not None and not Path(given).exists():
            shown = self.named(given)
        elif given is None and self.example is not None:
            shown = self.example()
        if shown is not None:
            rows = shown.rows
            x = self.of_rows(rows, shown.name)
        elif given is not None:
            with at_path(given) as path:
                rows = self.opened(path)
                columns = columns or _header_of(path)
                x = self.of_rows(rows, path.name)
        else:
            x = self.first_row()
            rows = x[0].numpy(force=True)
        if not x.shape[1]:
            raise RegardError(
                "the set is empty, so there is nothing to show; give a set with at least one element"
            )
        n, d = x.shape[1:]
        if self.stream.mask in self.inputs:
            mask = self.stream.mask
        else:
            mask = None
        if mask is None:
            beside = {}
        else:
            beside = {mask: torch.full((1, n), not self.stream.hides).to(self.inputs[mask].dtype)}
        if len(columns) != d:
            if d <= 3:
                columns = tuple("xyz"[:d])
            else:
                columns = tuple(f"number {i}" for i in range(d))
        notes = self.notes if given is None else ()
        if shown is not None:
            notes = (shown.said,)
        return SetInput(
            inputs=self.inputs | beside | {self.stream.tokens: x},
            streams=(Tokens("points", tuple(str(i + 1) for i in range(n)), "items"),) if n <= NAMED else (),
            points=self.stream.tokens,
            rows=torch.from_numpy(rows).float(),
            columns=columns,
            mask=mask,
            text=Path(given).name if isinstance(given, str) and shown is None else None,
            name=None if shown is None else shown.name,
            truth=None if shown is None or self.classes is None else shown.truth,
            answers=self.asked(),
            number=self.number,
            called=None if self.classes is None else self.classes.__getitem__,
            notes=notes,
            read_numbers=self.numbers,
        )

    def asked(self) -> Literal["classes", "numbers"] | None:
        """What the output is, as far as that is known."""
        if self.classes is not None:
            return "classes"
        if self.number is not None:
            return "numbers"
        return None

    def of_rows(self, rows: Array, name: str) -> Tensor:
        """Rows as the model's input.   n d -> 1 n d"""
        like: Tensor = self.inputs[self.stream.tokens]
        if rows.shape[1] != like.shape[-1]:
            raise RegardError(f"{name}: each element must have {like.shape[-1]} numbers, got {rows.shape[1]}")
        return torch.from_numpy(np.ascontiguousarray(rows if self.taken is None else self.taken(rows))).to(
            like.dtype
        )[None]

    def first_row(self) -> Tensor:
        """The elements that came with the model, without padding.   1 n d"""
        x: Tensor = self.inputs[self.stream.tokens]
        if self.stream.mask is None:
            mask = None
        else:
            mask = self.inputs.get(self.stream.mask)
        if mask is None:
            return x
        return x[:, mask[0].bool() != self.stream.hides]


def _rows_in(path: Path) -> Array:
    """All points of a file; for a mesh, points sampled on its surface."""
    return read_cloud(str(path), None, generator(0)).points


# ---- files


def _header_of(path: Path) -> tuple[str, ...]:
    """The column names in the first line of a .csv; () if that line holds a number."""
    if path.suffix.lower() != ".csv":
        return ()
    words = names_of(path)
    if any(word.lstrip("+-").replace(".", "", 1).isdecimal() for word in words):
        return ()
    return tuple(words)
