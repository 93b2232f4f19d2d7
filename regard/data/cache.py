"""Ids and pixels that were made before, by key. An entry is there whole or not at all: it is written in a
folder of its own beside the others, synced, and gets its name last. What a killed process left behind is
never used. Of each kind there are MOST_BYTES at most: entries that were used longest ago go first.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from regard import files

Mapped = np.memmap[Any, np.dtype[Any]]
Write = Callable[[IO[bytes]], dict[str, Any]]

MOST_BYTES = 20 * 10**9  # of each kind
_ABANDONED = 3600.0  # seconds; what is being written grows every second, so nobody writes this any more


def key(**parts: Any) -> str:
    """One name for all the parts, the same in every process."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode("ascii")).hexdigest()[:40]


def ids(
    cache: Path, name: str, dtype: np.dtype[Any], write: Write, what: str = "tokens"
) -> tuple[Mapped, dict[str, Any]]:
    """The ids of this name, mapped from their file, and what is known about them; written first if they are
    not there.

    `write` gets a file for the ids, and returns what is to be known: at least their number, as "tokens".
    `what` they are (or pixels) is the name of the folder they are kept in.
    """
    folder = cache / what / name
    while True:
        about = _about(folder, dtype)
        if about is None:
            about = _build(folder, dtype, write)
            _drop_unused(folder)
        try:
            mapped = np.memmap(folder / "ids", dtype=dtype, mode="r", shape=(about["tokens"],))
        except FileNotFoundError:
            continue  # another process dropped it just now
        with suppress(OSError):
            os.utime(folder / "about.json")  # used now
        return mapped, about


def cached_json(cache: Path, name: str, find: Callable[[], dict[str, Any]], what: str) -> dict[str, Any]:
    """What was found out before, by key; `find` it out and keep it if it was not."""
    path = cache / what / f"{name}.json"
    with suppress(OSError, ValueError):
        found: dict[str, Any] = files.read_json(path)
        return found
    found = find()
    with suppress(OSError):  # then it is found out again the next time
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write_json(path, found)
    return found


def _about(folder: Path, dtype: np.dtype[Any]) -> dict[str, Any] | None:
    """What is known about an entry, or None if it is not there or not whole."""
    try:
        about = files.read_json(folder / "about.json")
        whole = about["tokens"] * dtype.itemsize == (folder / "ids").stat().st_size
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if whole:
        return about
    return None


def _build(folder: Path, dtype: np.dtype[Any], write: Write) -> dict[str, Any]:
    part = folder.parent / f".{folder.name}.{secrets.token_hex(4)}.part"
    try:
        part.mkdir(parents=True)
        _sweep(folder.parent)
        with open(part / "ids", "wb") as out:
            about = write(out)
            out.flush()
            os.fsync(out.fileno())
        files.write_json(part / "about.json", about)
        if _about(folder, dtype) is None:  # else another process was sooner, with the same ids
            shutil.rmtree(folder, ignore_errors=True)
            os.rename(part, folder)
    except OSError as error:
        if error.errno is None:  # said in our words already
            raise
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        reason = "the disk is full; free some space and try again" if full else error.strerror
        told = type(error)(f"cannot write {folder.parent.name} to {folder.parent}: {reason}")
        told.errno = error.errno
        raise told from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return about


def _drop_unused(latest: Path) -> None:
    """Drop entries, those first that were used longest ago, until all are small enough; never the latest one.

    A process that reads one goes on reading: what is mapped stays on the disk until nobody maps it. Each goes
    at once, by its name, so that none is seen in part.
    """
    entries = []
    for folder in latest.parent.iterdir():
        with suppress(OSError):
            if not folder.name.startswith("."):
                entries.append(
                    ((folder / "about.json").stat().st_mtime_ns, (folder / "ids").stat().st_size, folder)
                )
    total = sum(size for _, size, _ in entries)
    for _, size, folder in sorted(entries):
        if total > MOST_BYTES and folder != latest:
            gone = folder.parent / f".{folder.name}.{secrets.token_hex(4)}.part"
            with suppress(OSError):
                os.rename(folder, gone)
                total -= size
            shutil.rmtree(gone, ignore_errors=True)


def _sweep(parent: Path) -> None:
    """Remove what killed processes left behind."""
    for part in parent.glob(".*.part"):
        with suppress(OSError):
            newest = max(each.stat().st_mtime for each in (part, *part.iterdir()))
            if time.time() - newest > _ABANDONED:
                shutil.rmtree(part, ignore_errors=True)
