"""Series of files, of tables in memory and of arrays: with a row for each step, with a row for each series, or as numbers.

time,load,temperature        series,time,load        label,1,2,3,…          values n c or s n c
2024-01-01T00:00,31,4.5      north,2024-01-01,31      walk,0.1,0.3,0.2       times n or s n
2024-01-01T01:00,29,4.1      south,2024-01-01,12      run,0.9,-0.4,0.7       labels s
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from regard.data.array import Array
from regard.data.dialect import DEFAULTS, TableConfig
from regard.data.table_formats import SUFFIXES as TABLES
from regard.data.table_formats import is_table
from regard.data.tables import Table, names_of, read_table
from regard.errors import RegardError
from regard.files import read_array, read_arrays
from regard.recipes.series.clock import HOUR, Clock, are_moments, make_clock, read_moments
from regard.recipes.series.config import DEFAULT, SeriesDataConfig
from regard.recipes.series.series import Series, SeriesFile

ARRAYS = (".npz", ".npy")
TIMES = ("time", "times", "date", "datetime", "timestamp", "ds", "year", "month")
IDS = ("series", "series_id", "unique_id", "item_id", "id")
LABELS = ("label", "class", "target")
VALUES, ARRAY_TIMES, ARRAY_LABELS = ("values", "x", "series", "data"), ("times", "time", "t"), ("labels", "y")
OPTIONS = "choose columns with --data.time, --data.id, --data.label and --data.columns"
MEMORY = "the arrays"  # what arrays in memory are called
LARGEST = 1e30  # numbers beyond it leave float32
WEEKS = 12  # of the made series
UNNAMED = ("value",)  # the one channel of rows or arrays, which has no name of its own


class Roles(NamedTuple):
    """What the columns of a table are."""

    time: str | None
    id: str | None
    label: str | None
    values: tuple[str, ...]


def read_series(
    data: Any, config: SeriesDataConfig, *, labelled: bool = False, channels: Sequence[str] = ()
) -> SeriesFile:
    """The series of some data. channels: columns that a model was trained on

    data: a path; a table in memory; an array of values, or several by their names; an array of values and one of labels;
    None: the made series
    """
    if data is None or (isinstance(data, str) and data == DEFAULT):
        return make_hours()
    found = _open(data, config)
    if isinstance(found, Table):
        return _read_table(found, config, labelled, channels)
    return _read_arrays(found, os.path.expanduser(data) if isinstance(data, str | os.PathLike) else MEMORY, labelled)


def has_labels(data: Any) -> bool:
    """Has data a column (or an array) of labels, by its name alone?"""
    in_file = isinstance(data, str | os.PathLike)
    if data is None or (in_file and not os.path.isfile(os.path.expanduser(data))):
        return False
    if in_file and not _is_array_file(data):
        names = names_of(os.path.expanduser(data))
    else:
        found = _open(data, DEFAULTS)
        if not isinstance(found, Table):
            return _first(found, ARRAY_LABELS) is not None
        names = found.names
    return any(name.strip().lower() in LABELS[:2] for name in names)


def _is_array_file(path: str | os.PathLike[str]) -> bool:
    return os.fspath(path).lower().endswith(ARRAYS)


def _open(data: Any, config: TableConfig) -> Table | Mapping[str, Array]:
    """A table, or arrays by their names, from a file or from memory."""
    if isinstance(data, str | os.PathLike):
        path = os.path.expanduser(os.fspath(data))
        kinds = f"a table ({', '.join(TABLES)}) or arrays ({', '.join(ARRAYS)})"
        if not os.path.exists(path):
            raise RegardError(f"there is no {path}; give {kinds}")
        if _is_array_file(path):
            return {VALUES[0]: read_array(path)} if path.lower().endswith(".npy") else read_arrays(path)
        if not is_table(path):
            raise RegardError(f"{path} is no file of series, by its name; give {kinds}")
        return read_table(path, config)
    if isinstance(data, np.ndarray):
        return {VALUES[0]: data}
    if isinstance(data, tuple | list) and len(data) == 2 and isinstance(data[0], np.ndarray):
        return {VALUES[0]: data[0], ARRAY_LABELS[0]: np.asarray(data[1])}
    if isinstance(data, Mapping) and any(np.ndim(each) > 1 for each in data.values()):
        return {str(name): np.asarray(each) for name, each in data.items()}
    return read_table(data, config)


# ── tables


def _read_table(table: Table, config: SeriesDataConfig, labelled: bool, channels: Sequence[str]) -> SeriesFile:
    """The series of a table."""
    path = table.path
    if not len(table):
        raise RegardError(f"{path} has no rows; give one row for each step")
    roles = _choose_roles(table, config, labelled, channels)
    if labelled and roles.id is None:
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
        times = [clock.to_steps(each) for each in times]
    found = tuple(replace(each, times=time) for each, time in zip(parts, times, strict=True))
    return SeriesFile(path=path, channels=roles.values, series=found, clock=clock, notes=tuple(notes))


def _choose_roles(table: Table, config: SeriesDataConfig, labelled: bool, channels: Sequence[str]) -> Roles:
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
    if label is None and labelled:
        label = _find(names, LABELS, taken)
    taken |= {each for each in (identity, label) if each is not None}
    for name in () if config.columns else channels:
        table.place(name, f"the model was trained on {', '.join(channels)}")
    values = config.columns or tuple(channels) or tuple(name for name in names if name not in taken)
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
    """All cells as numbers, NaN where missing. Ids and times may not be missing.   rows c"""
    filled = [name for name in (roles.id, roles.time) if name is not None]
    found = table.numbers(roles.values, "leave a cell empty if it is missing; " + OPTIONS, filled=filled)
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
    names, groups = table.groups(roles.id)
    ends = np.cumsum(np.bincount(groups))[:-1]
    return dict(zip(names, np.split(np.argsort(groups, kind="stable"), ends), strict=True))


def _read_times(table: Table, roles: Roles) -> tuple[Array, bool, bool]:
    """The time of each row as a number, whether times are dates, and whether they had an offset from UTC."""
    if roles.time is None:
        return np.arange(len(table), dtype=np.float64), False, False
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
    return SeriesFile(path=table.path, channels=UNNAMED, series=tuple(parts), clock=Clock(), notes=table.notes)


# ── arrays


def _read_arrays(arrays: Mapping[str, Array], path: str, labelled: bool) -> SeriesFile:
    """NaN is missing; what is missing at the end of a series of several is not there. path: what they are called"""
    values = _first(arrays, VALUES)
    if values is None and len(arrays) == 1:
        values = next(iter(arrays.values()))
    if values is None:
        raise RegardError(f"{path} has no array 'values'; it has: {', '.join(arrays) or 'nothing'}")
    if values.dtype.kind not in "buif" or values.ndim not in (1, 2, 3) or not values.size:
        raise RegardError(
            f"{path} has values of {values.dtype} with shape {values.shape}; they should be numbers: n, n c (channels), or "
            "s n c (several series)"
        )
    values = values.astype(np.float64)
    if np.isinf(values).any():
        at = tuple(int(k) for k in np.argwhere(np.isinf(values))[0])
        raise RegardError(f"{path} has an infinite value at {at}; give NaN where a value is missing")
    labels = _first(arrays, ARRAY_LABELS)
    if values.ndim == 2 and labelled:
        values = values[..., None]  # s n
    if values.ndim < 3:
        values = values.reshape(1, len(values), -1)
    s, n, c = values.shape
    if labels is not None and labels.size != s:
        raise RegardError(f"{path} has {s:,} series and {labels.size:,} labels; there must be as many")
    times = _array_times(path, _first(arrays, ARRAY_TIMES), s, n)
    clock, _ = make_clock(list(times), dates=False)
    parts = []
    for number in range(s):
        label = None if labels is None else str(labels.reshape(-1)[number])
        parts.append(_series_of(path, f"series {number + 1}", clock.to_steps(times[number]), values[number], label, s))
    names = UNNAMED if c == 1 else tuple(f"channel {k + 1}" for k in range(c))
    return SeriesFile(path=path, channels=names, series=tuple(parts), clock=clock)


def _series_of(path: str, name: str, times: Array, values: Array, label: str | None, several: int) -> Series:
    if several > 1:
        known = np.flatnonzero(~np.isnan(values).all(1))
        stop = known[-1] + 1 if len(known) else 1
        times, values = times[:stop], values[:stop]
    order = np.argsort(times, kind="stable")
    times, values = times[order], values[order]
    if (np.diff(times) == 0).any():
        raise RegardError(f"{path} has the same time twice in {name}; keep one of the steps")
    return Series(name=name, times=times, values=values, label=label)


def _array_times(path: str, times: Array | None, s: int, n: int) -> Array:
    if times is None:
        return np.broadcast_to(np.arange(n, dtype=np.float64), (s, n))
    if times.dtype.kind not in "uif" or times.shape not in ((n,), (s, n)) or not np.isfinite(times).all():
        raise RegardError(
            f"{path} has times of {times.dtype} with shape {times.shape}; they should be finite numbers, {n} or {s} × {n}"
        )
    return np.broadcast_to(times.astype(np.float64), (s, n))


def _first(arrays: Mapping[str, Array], names: tuple[str, ...]) -> Array | None:
    return next((arrays[name] for name in names if name in arrays), None)


# ── a made series, for a first look without any file


def make_hours() -> SeriesFile:
    """Twelve weeks of hours: people use less at night and on weekends, more when it is cold, and no two days are
    alike. Channels: load, which follows the weather of the hours before, and temperature."""
    random = np.random.default_rng(34)
    n = WEEKS * 7 * 24
    hour = np.arange(n)
    of_day, of_week = hour % 24, hour // 24 % 7
    weather = np.zeros(n)
    for k in range(1, n):
        weather[k] = 0.97 * weather[k - 1] + random.normal(0, 0.5)
    temperature = 8 + 4 * np.sin(2 * np.pi * (of_day - 9) / 24) + 6 * hour / n + 2 * weather
    day = np.exp(-((of_day - 8) ** 2) / 8) + 1.3 * np.exp(-((of_day - 19) ** 2) / 10)
    day = day * np.where(of_week < 5, 1.0, 0.6)
    felt = np.convolve(temperature, np.ones(6) / 6)[:n]
    load = 40 + 18 * day - 0.8 * felt + random.normal(0, 1.0, n)
    start = (np.datetime64("2024-01-01") - np.datetime64("1970-01-01")).astype("timedelta64[s]").astype(float)
    clock = Clock(unit="seconds", step=HOUR)
    series = Series(name="made", times=hour + start / HOUR, values=np.stack([load, temperature], 1))
    return SeriesFile(path=None, channels=("load", "temperature"), series=(series,), clock=clock)
