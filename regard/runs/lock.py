"""Only one process may train in a folder, or make a run in it, or take one away."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import BaseFileLock, FileLock, SoftFileLock, Timeout

from regard import files
from regard.errors import RegardError

FILE = ".lock"
OWNER = ".owner"  # where a file system has no locks: a file that only one process can make
NAMES = (FILE, OWNER)


class Lock:
    """A lock that this process holds on a folder."""

    def __init__(self, lock: BaseFileLock) -> None:
        self.lock = lock
        self.file = os.stat(lock.lock_file)

    def is_ours(self) -> bool:
        """Is the folder still the one that was locked? It may have been deleted, and made again by others."""
        with suppress(OSError):
            return os.path.samestat(self.file, os.stat(self.lock.lock_file))
        return False


_held: dict[tuple[str, int, int], Lock] = {}


@contextmanager
def exclusive_lock(folder: Path) -> Iterator[Lock]:
    """Hold the lock of a folder, `state` of a run. The system lets go of it when the process ends, however
    it ends. The thread that holds it may ask for it again."""
    key = (os.path.realpath(folder), os.getpid(), threading.get_ident())  # a fork inherits no lock
    held = _held.get(key)
    if held is not None and held.is_ours():
        yield held
        return
    lock = _held[key] = _acquire(folder)
    try:
        yield lock
    finally:
        _held.pop(key, None)
        lock.lock.release()


def _acquire(folder: Path) -> Lock:
    files.make_folder(folder, parents=True)
    lock: BaseFileLock = FileLock(folder / FILE)
    try:
        try:
            lock.acquire(blocking=False)
        except (Timeout, FileNotFoundError):
            raise
        except OSError:  # a file system without locks
            lock = SoftFileLock(folder / OWNER)
            lock.acquire(blocking=False)
        found = Lock(lock)
    except (Timeout, FileNotFoundError) as error:  # not found: another process takes the folder away just now
        raise _busy(folder) from error
    if not isinstance(lock, SoftFileLock):  # which writes the same by itself
        Path(lock.lock_file).write_text(f"{os.getpid()}\n{socket.gethostname()}\n", "utf-8")
    return found


def _busy(folder: Path) -> RegardError:
    """The error for who comes second. It names the owner where a file tells it."""
    owner, advice = "another process", "wait for it, or stop it first"
    for name in NAMES:
        with suppress(OSError, ValueError):
            number, host, *_ = (folder / name).read_text("utf-8", errors="replace").split("\n")
            owner = f"process {number} on {host}"
            if host != socket.gethostname():
                advice += f"; if it does not run any more, delete {folder / name}"
    return RegardError(f"{owner} is training in {folder.parent}; {advice}")
