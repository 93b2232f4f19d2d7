"""Files of series: tables with a row for each step, with a row for each series, or arrays.

time,load,temperature        series,time,load        label,1,2,3,…          values n c or s n c
2024-01-01T00:00,31,4.5      north,2024-01-01,31      walk,0.1,0.3,0.2       times n or s n
2024-01-01T01:00,29,4.1      south,2024-01-01,12      run,0.9,-0.4,0.7       labels s
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from regard.data.array import Array
from regard.data.table_formats import SUFFIXES as TABLES
from regard.data.table_formats import is_table
from regard.data.tables import Table, names_of, read_table
from regard.errors import RegardError
from regard.recipes.series.clock import Clock, are_moments, make_clock, read_moments, with_step
from regard.recipes.series.made_series import make_hours
from regard.recipes.series.read_arrays import ARRAYS, holds_labels, read_array_file
from regard.recipes.series.series import Series, SeriesFile
from regard.recipes.series.settings import DEFAULT, SeriesFileConfig

TIMES = ("time", "times", "date", "datetime", "timestamp", "ds", "year", "month")
IDS = ("series", "series_id", "unique_id", "item_id", "id")
LABELS = ("label", "class", "target")
OPTIONS = "choose columns with --data.time, --data.id, --data.label and --data.columns"
OTHER = 0.1  # of a step: rows that are this much closer or farther than in training
LARGEST = 1e30  # numbers beyond it leave float32


class Roles(NamedTuple):
    """What the columns of a table are."""

    time: str | None
    id: str | None
    label: str | None
    values: tuple[str, ...]


def read_like(config: SeriesFileConfig, task: str, *, clock: Clock, channels: tuple[str, ...]) -> SeriesFile:
    """Other series, read as those that a model was trained on: with these channels, in these steps."""
    path = config.path
    in_rows = task == "classify" and channels == ("value",)  # their columns have no names of their own
    own = config.columns or (() if channels == ("value",) else channels)
    arrays = path is not None and path.lower().endswith(ARRAYS)
    file = read_series(config, task, known=clock, channels=() if arrays or in_rows else own)
    if len(file.channels) != len(channels):
        raise RegardError(
            f"{path} has {len(file.channels)} channels ({', '.join(file.channels[:5])}), and the model was trained on "
            f"{len(channels)}: {', '.join(channels[:5])}"
        )
    return replace(file, notes=(*file.notes, *_other_pace(file)))


def _other_pace(file: SeriesFile) -> tuple[str, ...]:
    """A note if most steps are not as long as those of the training, which are 1."""
    apart = np.concatenate([np.diff(each.times) for each in file.series])
    if not len(apart):
        return ()
    pace = float(np.median(apart))
    if abs(pace - 1) < OTHER:
        return ()
    return (
        f"rows of {file.path} are {pace:.3g} times a {file.clock.word} apart, and the model learned from steps of one "
        f"{file.clock.word}: forecasts are for those, and may be far off",
    )


def read_series(
    config: SeriesFileConfig, task: str, *, known: Clock | None = None, channels: Sequence[str] = ()
) -> SeriesFile:
    """The series of a file. known: the clock of a run, whose steps are used; channels: the columns that a model
    was trained on"""
    path = config.path
    if path in (None, DEFAULT):
        return make_hours()
    assert path is not None
    path = os.path.expanduser(path)
    if not os.path.exists(path):
        raise RegardError(f"there is no {path}; give a table ({', '.join(TABLES)}) or arrays ({', '.join(ARRAYS)})")
    if path.lower().endswith(ARRAYS):
        return read_array_file(path, task)
    if not is_table(path):
        raise RegardError(
            f"{path} is no file of series, by its name; give a table ({', '.join(TABLES)}) or arrays "
            f"({', '.join(ARRAYS)})"
        )
    return table_of_series(read_table(path, config), config, task, known, channels)


def holds_classes(path: str) -> bool:
    """Has a file a column (or an array) of labels, by its names alone?"""
    if not os.path.isfile(path):
        return False
    if path.lower().endswith(ARRAYS):
        return holds_labels(path)
    return any(name.strip().lower() in LABELS[:2] for name in names_of(path))


def table_of_series(
    table: Table, config: SeriesFileConfig, task: str, known: Clock | None, channels: Sequence[str]
) -> SeriesFile:
    """The series of a table."""
    path = table.path
    if not len(table):
        raise RegardError(f"{path} has no rows; give one row for each step")
    roles = _choose_roles(table, config, task, channels)
    if task == "classify" and roles.id is None:
        return _series_in_rows(table, roles)
    values = _read_values(table, roles)
    groups = _group(table, roles)
    labels = [None] * len(table) if roles.label is None else table.labels(roles.label)
    raw, dates, zone = _read_times(table, roles)
    parts: list[Series] = []
    notes = list(table.notes)
    mixed = False
    for name, rows in groups.items():
        order = np.argsort(raw[rows], kind="stable")
        mixed |= bool((order != np.arange(len(order))).any())
        rows = rows[order]
        _check_times(table, roles, raw[rows], rows, name)
        label = _label(table, labels, rows, name)
        parts.append(Series(name=name, times=raw[rows], values=values[rows], label=label))
    if mixed:
        notes.append(f"rows of {os.path.basename(path)} were not in the order of '{roles.time}', and were sorted")
    if roles.time is None:
        clock, times = Clock(), [np.arange(len(each), dtype=np.float64) for each in parts]
    else:
        clock, times = make_clock([each.times for each in parts], dates=dates, zone=zone)
        if known is not None:
            clock = with_step(clock, known)
        times = [clock.to_steps(each) for each in times]
    found = tuple(replace(each, times=time) for each, time in zip(parts, times, strict=True))
    return SeriesFile(path=path, channels=roles.values, series=found, clock=clock, notes=tuple(notes))


# ── columns


def _choose_roles(table: Table, config: SeriesFileConfig, task: str, channels: Sequence[str]) -> Roles:
    names = table.names
    given = [name for name in (config.time, config.id, config.label, *config.columns) if name is not None]
    for name in given:
        table.place(name, OPTIONS)
    taken = set(given)
    time = config.time or _find(names, TIMES, taken)
    if time in ("year", "Year", "YEAR", "month", "Month") and config.time is None and _repeats(table, time):
        time = None  # one of several columns that say the time together
    if time is None:
        time = next((name for name in names if name not in taken and are_moments(table, name)), None)
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


def _repeats(table: Table, name: str) -> bool:
    return len(set(map(str, table.cells(name)))) < len(table)


def _read_values(table: Table, roles: Roles) -> Array:
    """All cells as numbers, NaN where missing.   rows c"""
    found = table.numbers(roles.values, "leave a cell empty if it is missing; " + OPTIONS)
    wrong = np.argwhere(np.abs(np.nan_to_num(found, nan=0.0)) >= LARGEST)
    if len(wrong):
        row, column = wrong[0]
        raise RegardError(
            f"{table.where(row)} has {found[row, column]:g} in column '{roles.values[column]}', expected a finite number; "
            "leave the cell empty if it is missing"
        )
    return found


def _group(table: Table, roles: Roles) -> dict[str, Array]:
    """The rows of each series, in the order of their first rows."""
    if roles.id is None:
        return {"series": np.arange(len(table))}
    table.check_filled([roles.id])
    names, groups = table.groups(roles.id)
    return {name: np.flatnonzero(groups == number) for number, name in enumerate(names)}


def _read_times(table: Table, roles: Roles) -> tuple[Array, bool, bool]:
    """The time of each row as a number, whether times are dates, and whether they had an offset from UTC."""
    if roles.time is None:
        return np.arange(len(table), dtype=np.float64), False, False
    table.check_filled([roles.time])
    return read_moments(table, roles.time)


def _check_times(table: Table, roles: Roles, times: Array, rows: Array, name: str) -> None:
    again = np.flatnonzero(np.diff(times) == 0)
    if not len(again):
        return
    first, second = table.lines([int(rows[k]) for k in (again[0], again[0] + 1)])
    cell = table.cells(str(roles.time))[rows[again[0]]]
    of = f" of the series '{name}'" if roles.id is not None else ""
    raise RegardError(
        f"lines {first} and {second} of {table.path} have the same time {cell}{of}; keep one of them, or name the column "
        "that tells series apart with --data.id"
    )


def _label(table: Table, labels: Sequence[str | None], rows: Array, name: str) -> str | None:
    """The one label of a series, which may stand in any of its rows."""
    words = {labels[row] for row in rows} - {None}
    if len(words) > 1:
        some = " and ".join(f"'{word}'" for word in sorted(words)[:2])
        raise RegardError(f"the series '{name}' of {table.path} has several labels, {some}; a series has one class")
    return next(iter(words), None)


def _series_in_rows(table: Table, roles: Roles) -> SeriesFile:
    """A table with a row for each series: its numbers are the steps of one channel."""
    values = _read_values(table, roles)
    labels = [None] * len(table) if roles.label is None else table.labels(roles.label)
    lines = table.lines(range(len(table)))
    parts = []
    for line, label, numbers in zip(lines, labels, values, strict=True):
        known = np.flatnonzero(~np.isnan(numbers))
        length = known[-1] + 1 if len(known) else 1
        times = np.arange(length, dtype=np.float64)
        parts.append(Series(name=f"line {line}", times=times, values=numbers[:length, None], label=label))
    return SeriesFile(path=table.path, channels=("value",), series=tuple(parts), clock=Clock(), notes=table.notes)
