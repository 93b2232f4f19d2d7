"""Series in arrays: values n, n c or s n c, with times and labels beside them."""

from __future__ import annotations

import numpy as np

from regard.data.array import Array
from regard.errors import RegardError
from regard.files import read_array, read_arrays
from regard.recipes.series.clock import make_clock
from regard.recipes.series.series import Series, SeriesFile

ARRAYS = (".npz", ".npy")
VALUES, TIMES, LABELS = ("values", "x", "series", "data"), ("times", "time", "t"), ("labels", "y")


def holds_labels(path: str) -> bool:
    """Has a file an array of labels?"""
    return path.lower().endswith(".npz") and _first(read_arrays(path), LABELS) is not None


def read_array_file(path: str, task: str) -> SeriesFile:
    """The series of a file."""
    return series_of_arrays(
        {"values": read_array(path)} if path.lower().endswith(".npy") else read_arrays(path), path, task
    )


def series_of_arrays(arrays: dict[str, Array], path: str, task: str) -> SeriesFile:
    """Series in arrays. NaN is missing; what is missing at the end of a series of several is not there. path: what they
    are called"""
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
    labels = _first(arrays, LABELS)
    if values.ndim == 2 and task == "classify":
        values = values[..., None]  # s n
    if values.ndim < 3:
        values = values.reshape(1, len(values), -1)
    s, n, c = values.shape
    if labels is not None and labels.size != s:
        raise RegardError(f"{path} has {s:,} series and {labels.size:,} labels; there must be as many")
    times = _read_times(path, _first(arrays, TIMES), s, n)
    clock, _ = make_clock(list(times), dates=False)
    parts = []
    for number in range(s):
        label = None if labels is None else str(labels.reshape(-1)[number])
        parts.append(_make(path, f"series {number + 1}", clock.to_steps(times[number]), values[number], label, s))
    names = ("value",) if c == 1 else tuple(f"channel {k + 1}" for k in range(c))
    return SeriesFile(path=path, channels=names, series=tuple(parts), clock=clock)


def _make(path: str, name: str, times: Array, values: Array, label: str | None, several: int) -> Series:
    if several > 1:
        known = np.flatnonzero(~np.isnan(values).all(1))
        stop = known[-1] + 1 if len(known) else 1
        times, values = times[:stop], values[:stop]
    order = np.argsort(times, kind="stable")
    times, values = times[order], values[order]
    if (np.diff(times) == 0).any():
        raise RegardError(f"{path} has the same time twice in {name}; keep one of the steps")
    return Series(name=name, times=times, values=values, label=label)


def _read_times(path: str, times: Array | None, s: int, n: int) -> Array:
    if times is None:
        return np.broadcast_to(np.arange(n, dtype=np.float64), (s, n))
    if times.dtype.kind not in "uif" or times.shape not in ((n,), (s, n)) or not np.isfinite(times).all():
        raise RegardError(
            f"{path} has times of {times.dtype} with shape {times.shape}; they should be finite numbers, {n} or {s} × {n}"
        )
    return np.broadcast_to(times.astype(np.float64), (s, n))


def _first(arrays: dict[str, Array], names: tuple[str, ...]) -> Array | None:
    return next((arrays[name] for name in names if name in arrays), None)
