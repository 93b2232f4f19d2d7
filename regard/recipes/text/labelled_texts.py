"""The texts of a table as they were written: the data of a training holds only their tokens."""

from __future__ import annotations

from functools import cached_property

from regard.errors import RegardError
from regard.recipes.job import ShownExample
from regard.recipes.text.labelled import LabelledConfig
from regard.recipes.text.labelled_rows import Row, read_rows


class LabelledTexts:
    """The rows of a table, read again when the first of them is asked for."""

    def __init__(self, config: LabelledConfig, count: int | None = None) -> None:
        """count: how many rows there were; None: unknown"""
        self.config, self.count = config, count

    @cached_property
    def rows(self) -> list[Row]:
        found, _ = read_rows(self.config.path, self.config.text, self.config.label, self.config.missing, self.config)
        if self.count is not None and len(found) != self.count:
            raise RegardError(f"{self.config.path} had {self.count:,} rows and now has {len(found):,}")
        return found

    def show(self, number: int) -> ShownExample:
        """A row by its number, counted from 0."""
        row = self.rows[number]
        return ShownExample(name=f"line {row.line:,}", text=row.text)
