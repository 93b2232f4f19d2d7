"""Files of series: tables with a row for each step, with a row for each series, or arrays.

time,load,temperature        series,time,load        label,1,2,3,…          values n c or s n c
2024-01-01T00:00,31,4.5      north,2024-01-01,31      walk,0.1,0.3,0.2       times n or s n
2024-01-01T01:00,29,4.1      south,2024-01-01,12      run,0.9,-0.4,0.7       labels s
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from regard.data.array import Array
from regard.data.columns import is_number
from regard.data.missing import is_missing
from regard.data.row_table import Table, read_table
from regard.data.table_rows import SUFFIXES as TABLES
from regard.data.table_rows import open_cells
from regard.errors import RegardError
from regard.files import readable_as
from regard.recipes.series.clock import Clock, looks_like_moments, make_clock, read_moments, with_step
from regard.recipes.series.made_series import make_hours
from regard.recipes.series.read_arrays import ARRAYS, holds_labels, read_array_file
from regard.recipes.series.series import Series, SeriesFile
from regard.recipes.series.settings import DEFAULT, SeriesDataConfig

TIMES = ("time", "times", "date", "datetime", "timestamp", "ds", "year", "month")
IDS = ("series", "series_id", "unique_id", "item_id", "id")
LABELS = ("label", "class", "target")
OPTIONS = "choose columns with --data.time, --data.id, --data.label and --data.columns"
LARGEST = 1e30  # numbers beyond it leave float32


class Roles(NamedTuple):
    """What the columns of a table are."""

    time: str | None
    id: str | None
    label: str | None
    values: tuple[str, ...]


def read_series(
    config: SeriesDataConfig, task: str, *, known: Clock | None = None, channels: Sequence[str] = ()
) -> SeriesFile:
    """The series of a file. known: the clock of a run, whose steps are used; channels: the columns that a model
    was trained on"""
    path = config.path
    if path in (None, DEFAULT):
        return make_hours()
    assert path is not None
    path = os.path.expanduser(path)
    if not os.path.exists(path):
        raise RegardError(
            f"there is no {path}; give a table ({', '.join(TABLES)}) or arrays ({', '.join(ARRAYS)})"
        )
    if path.lower().endswith(ARRAYS):
        return read_array_file(path, task)
    if not path.lower().endswith((*TABLES, *(f"{each}.gz" for each in TABLES))):
        raise RegardError(
            f"{path} is no file of series, by its name; give a table ({', '.join(TABLES)}) or arrays "
            f"({', '.join(ARRAYS)})"
        )
    return _read_table(path, config, task, known, channels)


def holds_classes(path: str) -> bool:
    """Has a file a column (or an array) of labels, by its names alone?"""
    if not os.path.isfile(path):
        return False
    if path.lower().endswith(ARRAYS):
        return holds_labels(path)
    with readable_as(path, "a table"):
        names, _ = open_cells(path)
    return any(name.strip().lower() in LABELS[:2] for name in names)


def _read_table(
    path: str, config: SeriesDataConfig, task: str, known: Clock | None, channels: Sequence[str]
) -> SeriesFile:
    table = _with_header(read_table(path))
    if not table.rows:
        raise RegardError(f"{path} has no rows; give one row for each step")
    roles = _choose_roles(table, config, task, channels)
    if task == "classify" and roles.id is None:
        return _series_in_rows(table, roles)
    values = _read_values(table, roles)
    groups = _group(table, roles)
    raw, dates, zone = _read_times(table, roles)
    parts: list[Series] = []
    notes: list[str] = []
    mixed = False
    for name, rows in groups.items():
        order = np.argsort(raw[rows], kind="stable")
        mixed |= bool((order != np.arange(len(order))).any())
        rows = rows[order]
        _check_times(table, roles, raw[rows], rows, name)
        label = _label(table, roles, rows, name)
        parts.append(Series(name=name, times=raw[rows], values=values[rows], label=label))
    if mixed:
        notes.append(
            f"rows of {os.path.basename(path)} were not in the order of '{roles.time}', and were sorted"
        )
    if roles.time is None:
        clock, times = Clock(), [np.arange(len(each), dtype=np.float64) for each in parts]
    else:
        clock, times = make_clock([each.times for each in parts], dates=dates, zone=zone)
        if known is not None:
            clock = with_step(clock, known)
        times = [clock.to_steps(each) for each in times]
    found = tuple(replace(each, times=time) for each, time in zip(parts, times, strict=True))
    return SeriesFile(path=path, channels=roles.values, series=found, clock=clock, notes=tuple(notes))


def _with_header(table: Table) -> Table:
    """A table whose first line holds numbers has no names: its columns are numbered from 1."""
    if not table.names or not all(is_number(name) for name in table.names):
        return table
    names = [str(number + 1) for number in range(len(table.names))]
    return Table(table.path, names, [list(table.names), *table.rows], [1, *table.lines])


# ── columns


def _choose_roles(table: Table, config: SeriesDataConfig, task: str, channels: Sequence[str]) -> Roles:
    names = table.names
    given = [name for name in (config.time, config.id, config.label, *config.columns) if name is not None]
    for name in given:
        table.place(name, OPTIONS)
    taken = set(given)
    time = config.time or _find(names, TIMES, taken)
    if time in ("year", "Year", "YEAR", "month", "Month") and config.time is None and _repeats(table, time):
        time = None  # one of several columns that say the time together
    if time is None:
        dates = [
            k for k, name in enumerate(names) if name not in taken and looks_like_moments(_some(table, k))
        ]
        time = names[dates[0]] if dates else None
    taken |= {time} if time is not None else set()
    identity = config.id or _find(names, IDS, taken)
    if identity is not None and config.id is None and not _repeats(table, identity):
        identity = None  # the number of a row
        taken.add(next(name for name in names if name.lower() in IDS))
    label = config.label
    if label is None and task == "classify":
        label = _find(names, LABELS, taken)
    taken |= {each for each in (identity, label) if each is not None}
    if channels:
        for name in channels:
            table.place(name, f"the model was trained on {', '.join(channels)}")
        values = tuple(channels)
    else:
        values = config.columns or tuple(name for name in names if name not in taken)
    if not values:
        raise RegardError(
            f"{table.path} has no column of numbers besides {', '.join(sorted(map(str, taken)))}; {OPTIONS}"
        )
    return Roles(time, identity, label, values)


def _find(names: Sequence[str], known: Sequence[str], taken: set[str]) -> str | None:
    free = {name.strip().lower(): name for name in reversed(names) if name not in taken}
    return next((free[name] for name in known if name in free), None)


def _some(table: Table, place: int) -> list[Any]:
    return [row[place] for row in table.rows[:20]]


def _repeats(table: Table, name: str) -> bool:
    place = table.names.index(name)
    cells = [str(row[place]) for row in table.rows]
    return len(set(cells)) < len(cells)


def _read_values(table: Table, roles: Roles) -> Array:
    """All cells as numbers, NaN where missing.   rows c"""
    places = [table.place(name, OPTIONS) for name in roles.values]
    found = np.full((len(table.rows), len(places)), np.nan)
    for i, row in enumerate(table.rows):
        for j, place in enumerate(places):
            cell = row[place]
            if is_missing(cell):
                continue
            try:
                found[i, j] = float(cell)
            except (TypeError, ValueError):
                found[i, j] = math.inf
            if not abs(found[i, j]) < LARGEST:
                raise RegardError(
                    f"line {table.lines[i]} of {table.path} has '{cell}' in column '{table.names[place]}', expected a "
                    "finite number; leave the cell empty if it is missing, or choose columns: --data.columns for the "
                    "numbers, --data.id for the name of each row's series"
                )
    return found


def _group(table: Table, roles: Roles) -> dict[str, Array]:
    """The rows of each series, in the order of their first rows."""
    if roles.id is None:
        return {"series": np.arange(len(table.rows))}
    names = table.texts(roles.id, OPTIONS)
    found: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        found.setdefault(name, []).append(row)
    return {name: np.array(rows) for name, rows in found.items()}


def _read_times(table: Table, roles: Roles) -> tuple[Array, bool, bool]:
    """The time of each row as a number, whether times are dates, and whether they had an offset from UTC."""
    if roles.time is None:
        return np.arange(len(table.rows), dtype=np.float64), False, False
    place = table.place(roles.time, OPTIONS)
    cells = [row[place] for row in table.rows]
    for cell, line in zip(cells, table.lines, strict=True):
        if is_missing(cell):
            raise RegardError(
                f"line {line} of {table.path} has no time in column '{roles.time}'; fill it in, or remove the line"
            )
    raw, dates = read_moments(cells, table.path, table.lines, roles.time)
    first = str(cells[0]).strip()
    return raw, dates, dates and (first.endswith("Z") or "+" in first[10:])


def _check_times(table: Table, roles: Roles, times: Array, rows: Array, name: str) -> None:
    again = np.flatnonzero(np.diff(times) == 0)
    if not len(again):
        return
    first, second = (table.lines[rows[k]] for k in (again[0], again[0] + 1))
    cell = table.rows[rows[again[0]]][table.names.index(str(roles.time))]
    of = f" of the series '{name}'" if roles.id is not None else ""
    raise RegardError(
        f"lines {first} and {second} of {table.path} have the same time {cell}{of}; keep one of them, or name the column "
        "that tells series apart with --data.id"
    )


def _label(table: Table, roles: Roles, rows: Array, name: str) -> str | None:
    """The one label of a series, which may stand in any of its rows."""
    if roles.label is None:
        return None
    place = table.names.index(roles.label)
    words = {str(table.rows[row][place]).strip() for row in rows if not is_missing(table.rows[row][place])}
    if len(words) > 1:
        some = " and ".join(f"'{word}'" for word in sorted(words)[:2])
        raise RegardError(
            f"the series '{name}' of {table.path} has several labels, {some}; a series has one class"
        )
    return next(iter(words), None)


def _series_in_rows(table: Table, roles: Roles) -> SeriesFile:
    """A table with a row for each series: its numbers are the steps of one channel."""
    values = _read_values(table, roles)
    place = None if roles.label is None else table.names.index(roles.label)
    parts = []
    for row, numbers in enumerate(values):
        known = np.flatnonzero(~np.isnan(numbers))
        length = known[-1] + 1 if len(known) else 1
        cell = None if place is None else table.rows[row][place]
        label = None if is_missing(cell) else str(cell).strip()
        parts.append(
            Series(
                name=f"line {table.lines[row]}",
                times=np.arange(length, dtype=np.float64),
                values=numbers[:length, None],
                label=label,
            )
        )
    return SeriesFile(path=table.path, channels=("value",), series=tuple(parts), clock=Clock())
