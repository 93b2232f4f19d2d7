"""Ids and pixels that were made before, by key. An entry is there whole or not at all: it is written in a
folder of its own beside the others, synced, and gets its name last. One whose size or time of change is
another is made again. What a killed process left behind is never used. Folders are private to the user. Of each
kind there are MOST_BYTES at most: entries that were used longest ago go first.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from regard import files
from regard.errors import RegardError

Mapped = np.memmap[Any, np.dtype[Any]]
Write = Callable[[IO[bytes]], dict[str, Any]]

MOST_BYTES = 20 * 10**9  # of each kind


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
    folder = make_private(cache / what) / name
    while True:
        about = _about(folder, dtype)
        if about is None:
            about = _build(folder, dtype, write)
            drop_unused(folder, stamp="about.json", content="ids")
        try:
            mapped = np.memmap(folder / "ids", dtype=dtype, mode="r", shape=(about["tokens"],))
        except FileNotFoundError:
            continue  # another process dropped it just now
        with suppress(OSError):
            os.utime(folder / "about.json")  # used now
        return mapped, about


def cached_json(cache: Path, name: str, find: Callable[[], dict[str, Any]], what: str) -> dict[str, Any]:
    """What was found out before, by key; `find` it out and keep it if it was not."""
    path = make_private(cache / what) / f"{name}.json"
    with suppress(OSError, ValueError):
        return files.read_sealed(path)
    found = find()
    files.sweep(path.parent)
    with suppress(OSError):  # then it is found out again the next time
        files.write_sealed(path, found)
    return found


def make_private(folder: Path) -> Path:
    """A folder that only this user may enter: made if it is not there, closed to others if it is."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if hasattr(os, "geteuid"):  # Windows keeps the folders of users apart by itself
        found = folder.stat()
        if found.st_uid == os.geteuid() and found.st_mode & 0o077:
            os.chmod(folder, 0o700)
        elif found.st_uid != os.geteuid() != 0:
            raise RegardError(
                f"{folder} belongs to another user, who could change what is read from it; choose a folder "
                "of your own "
                "with REGARD_CACHE"
            )
    return folder


def _about(folder: Path, dtype: np.dtype[Any]) -> dict[str, Any] | None:
    """The facts about an entry; None: it does not exist or is incomplete."""
    try:
        found = files.read_sealed(folder / "about.json")
        about: dict[str, Any] = found["about"]
        status = (folder / "ids").stat()
        if found["changed"] == status.st_mtime_ns and about["tokens"] * dtype.itemsize == status.st_size:
            return about
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def _build(folder: Path, dtype: np.dtype[Any], write: Write) -> dict[str, Any]:
    part = folder.parent / f".{folder.name}.{secrets.token_hex(4)}.part"
    try:
        part.mkdir()
        files.sweep(folder.parent)
        with open(part / "ids", "wb") as out:
            about = write(out)
            out.flush()
            os.fsync(out.fileno())
        changed = (part / "ids").stat().st_mtime_ns
        files.write_sealed(part / "about.json", {"about": about, "changed": changed})
        if _about(folder, dtype) is None:  # else another process was sooner, with the same ids
            shutil.rmtree(folder, ignore_errors=True)
            with suppress(FileNotFoundError, IsADirectoryError, PermissionError):
                folder.unlink()  # a file in its place
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


def drop_unused(latest: Path, *, stamp: str, content: str) -> None:
    """Remove the entries that were used longest ago until the rest fits; the newest entry always stays. stamp: the
    file whose time says when an entry was used; content: the one whose size counts

    A process that reads a removed entry can read on, because a mapped file stays on disk until no process
    maps it. An entry is first renamed, so no process finds half of it.
    """
    entries = []
    for folder in latest.parent.iterdir():
        with suppress(OSError):
            if not folder.name.startswith("."):
                used, size = (folder / stamp).stat().st_mtime_ns, (folder / content).stat().st_size
                entries.append((used, size, folder))
    total = sum(size for _, size, _ in entries)
    for _, size, folder in sorted(entries):
        if total > MOST_BYTES and folder != latest:
            gone = folder.parent / f".{folder.name}.{secrets.token_hex(4)}.part"
            with suppress(OSError):
                os.rename(folder, gone)
                total -= size
            shutil.rmtree(gone, ignore_errors=True)


# ── where caches go


def cache_folder() -> Path:
    """The cache of prepared data: REGARD_CACHE, or the user's cache folder."""
    given = os.environ.get("REGARD_CACHE")
    if given:
        Path(given).mkdir(
            mode=0o700, parents=True, exist_ok=True
        )  # a folder of the user's own keeps its permissions; those in it are private
        return Path(given)
    return make_private(Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "regard")
