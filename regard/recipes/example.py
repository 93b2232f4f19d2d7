"""What a reader found: examples as columns, whose raw inputs are made only when somebody asks for one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from regard.data.array import Array
from regard.recipes.target import Cells, Target, plain_cells

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]


class Example(NamedTuple):
    """One input as it was read: what `encode` takes, and what pages and tables show."""

    inputs: Mapping[str, Any]
    target: Any = None  # a cell as it was read, or the cells of all its parts; None: unknown
    name: str = ""  # of a set of a table: s5; of an image: its path
    row: Mapping[str, Any] = {}  # the columns that came with it


@dataclass(frozen=True, eq=False, kw_only=True)
class Examples:
    """Examples in columns. What is *asked* is each example, or with `starts` each part of it, such as each point of
    a set: `cells`, `rows` and `splits` are about what is asked. The parts of example i are
    starts[i] … starts[i + 1]."""

    what: str  # where they are from, for messages
    count: int
    inputs: Callable[[int], Mapping[str, Any]]  # the raw inputs of an example; raises a ValueError if unreadable
    names: Callable[[int], str]
    source: str | None = None  # the table that they are from: answers need no column that names it
    kind: Literal["text", "file"] | None = None  # what a name is, where it could be either
    titles: Callable[[int], str] | None = None  # of an example beside others; None: its name, behind that of the source
    files: Callable[[int], str] | None = None  # the file of an example, on which what is kept of it depends

    cells: Cells | None = None  # what is asked, as it was read; None: nobody knows
    target_names: tuple[str, ...] = ("target",)  # of the columns of cells
    target: Target | None = None  # where the data itself says the classes and their order, or the scale of numbers
    starts: Array | None = None  # count + 1
    part: str = "part"  # what a part is called
    part_names: Callable[[int], str] | None = None  # of what is asked; None: point 1, point 2 …
    places: Callable[[int], str] | None = None  # where something asked is, for messages: line 7 of sets.csv
    rows: pa.Table | None = None  # the columns that came with what is asked
    splits: Array | None = None  # TRAIN, VALIDATION, TEST or NOWHERE, where the data says it

    errors: Mapping[int, str] = field(default_factory=dict)  # examples that cannot be read
    about: Mapping[str, Any] = field(default_factory=dict)  # what reading learned, and fitting needs
    notes: tuple[str, ...] = ()  # what the user should know

    # of synthetic data: all examples that do not change while training, with their splits, drawn by a seed; and so
    # many new ones for a step. None: all examples are here
    draw: Callable[[int], Examples] | None = None
    more: Callable[[int, np.random.Generator], Examples] | None = None

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, i: int) -> Example:
        row = {} if self.starts is not None else self.row_of(i)
        return Example(self.inputs(i), self.target_of(i), self.names(i), row)

    def title(self, i: int) -> str:
        """What an example is called beside others."""
        if self.titles is not None:
            return self.titles(i)
        return self.names(i) if self.source is None else f"{self.source}: {self.names(i)}"

    def target_of(self, i: int) -> Any:
        """The cell of an example; with parts, the cells of all of them."""
        if self.cells is None:
            return None
        if self.starts is None:
            return self.plain[i]
        return self.plain[self.starts[i] : self.starts[i + 1]]

    def row_of(self, asked: int) -> Mapping[str, Any]:
        """The columns that came with something asked."""
        return self._rows[asked] if self._rows else {}

    @cached_property
    def plain(self) -> Sequence[Any]:
        """The cells as values of Python."""
        return [] if self.cells is None else plain_cells(self.cells)

    @cached_property
    def _rows(self) -> list[dict[str, Any]]:
        return [] if self.rows is None else self.rows.to_pylist()

    @property
    def asked(self) -> int:
        """How much is asked: examples, or parts of them."""
        return self.count if self.starts is None else int(self.starts[-1])

    def owners(self) -> Array:
        """The example of each thing that is asked.   asked"""
        if self.starts is None:
            return np.arange(self.count)
        return np.repeat(np.arange(self.count), np.diff(self.starts))

    def parts(self, i: int) -> slice:
        """Where the cells of an example are."""
        return slice(i, i + 1) if self.starts is None else slice(int(self.starts[i]), int(self.starts[i + 1]))

    def readable(self) -> Iterator[int]:
        """The numbers of the examples of which reading found no error."""
        return (i for i in range(self.count) if i not in self.errors)
