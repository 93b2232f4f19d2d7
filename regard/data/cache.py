"""The cache on disk: token ids, decoded pixels and small facts, each entry found by its key.

An entry is complete or does not exist: it is written to a temporary folder, synced, and renamed last. So an
entry that a killed process left unfinished is never used. Tokens and pixels may each take MOST_BYTES; then
the entries that were used longest ago are removed.
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

MOST_BYTES = 20 * 10**9  # of tokens, and again of pixels
_ABANDONED = 3600.0  # seconds without a write; a process that still writes would have written since


def key(**parts: Any) -> str:
    """One name for all the parts together. It is the same in every process."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode("ascii")).hexdigest()[:40]


def ids(
    cache: Path, name: str, dtype: np.dtype[Any], write: Write, what: str = "tokens"
) -> tuple[Mapped, dict[str, Any]]:
    """The entry of this name: its ids, memory-mapped, and a dict of facts about them. A missing entry is
    written first.

    `write` receives an open file for the ids and returns the facts, among them the number of ids as "tokens".
    `what` is the folder of the cache: tokens or pixels.
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
    """The facts of this name. If they are missing, `find` computes them, and they are kept."""
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
    """The facts about an entry; None: it does not exist or is incomplete."""
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
        if full:
            reason: str | None = "the disk is full; free some space and try again"
        else:
            reason = error.strerror
        told = type(error)(f"cannot write {folder.parent.name} to {folder.parent}: {reason}")
        told.errno = error.errno
        raise told from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return about


def _drop_unused(latest: Path) -> None:
    """Remove the entries that were used longest ago until the rest fits; the newest entry always stays.

    A process that reads a removed entry can read on, because a mapped file stays on disk until no process
    maps it. An entry is first renamed, so no process finds half of it.
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
