"""The rows of a TSV file: tabs separate the cells, and a stray quote is a character like any other.

Spreadsheets put double quotes around cells with tabs, quotes or line ends in them; most other programs write texts
as they are. So quotes count where a line, or some lines, are CSV with a cell for each column. But lines that each
have a cell for each column are rows, whatever quotes they have.
"""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain

from regard.data.any_length import any_length

MARK = "\t"
LOOK_AHEAD = 1000  # lines that one row may have


def split_header(line: str) -> list[str]:
    """The names of the columns."""
    return _read_quoted(iter([line])) or _split(line)


def read_tsv_rows(lines: Iterator[str], width: int, line: int) -> Iterator[tuple[int, list[str]]]:
    """Rows with the numbers of their first lines, of which the first is `line`. Rows may have more or fewer cells
    than `width`, if there is no way to read them with as many; an empty line is no row."""
    ahead: deque[str] = deque()
    while (content := ahead.popleft() if ahead else next(lines, None)) is not None:
        first, line = line, line + 1
        if not content.rstrip("\r\n"):
            continue
        cells = _split(content)
        if '"' in content:
            quoted, count = _read_record(content, ahead, lines)
            more = [ahead[place] for place in range(count)]
            if quoted is not None and len(quoted) == width and not _are_rows([content, *more], width):
                cells, line = quoted, line + count
                for _ in more:
                    ahead.popleft()
        yield first, cells


def _split(line: str) -> list[str]:
    return line.rstrip("\r\n").split(MARK)


def _are_rows(lines: Sequence[str], width: int) -> bool:
    """Are these several rows? A row over several lines has fewer cells in the first or in the last of them, unless
    it has only one."""
    return len(lines) > 1 and width > 1 and len(_split(lines[0])) == len(_split(lines[-1])) == width


def _read_record(content: str, ahead: deque[str], lines: Iterator[str]) -> tuple[list[str] | None, int]:
    """The row that begins with a line, as CSV, and how many more lines it has; None if they are not CSV. What is
    read of `lines` is put into `ahead`."""
    count = 0

    def follow() -> Iterator[str]:
        nonlocal count
        while count < LOOK_AHEAD:
            if count == len(ahead):
                more = next(lines, None)
                if more is None:
                    return
                ahead.append(more)
            count += 1
            yield ahead[count - 1]

    return _read_quoted(chain([content], follow())), count


def _read_quoted(lines: Iterator[str]) -> list[str] | None:
    """The first row as CSV; None if the lines are not CSV."""
    try:
        with any_length():
            return next(csv.reader(lines, delimiter=MARK, strict=True), None)
    except csv.Error:
        return None
