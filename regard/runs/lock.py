"""Only one process may train in a folder, or make a run in it, or take one away."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from regard import files
from regard.errors import RegardError

FILE, OWNER = ".lock", ".owner"
NAMES = (FILE, OWNER)
_TRIES = 100


@dataclass(eq=False)
class Lock:
    """A lock that this process holds on a folder."""

    folder: Path
    handle: int
    release: Callable[[], None]

    def __post_init__(self) -> None:
        self.holder = (os.getpid(), threading.get_ident())

    def is_ours(self) -> bool:
        """Is the folder still the one that was locked? It may have been deleted, and made again by others."""
        try:
            there, here = os.stat(self.folder / FILE), os.fstat(self.handle)
        except OSError:
            return False
        return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)


_held: dict[str, Lock] = {}


@contextmanager
def exclusive_lock(folder: Path) -> Iterator[Lock]:
    """Hold the lock of a folder, `state` of a run. The system lets go of it when the process ends, however
    it ends. Whoever holds it may ask for it again."""
    name = os.path.realpath(folder)
    held = _held.get(name)
    if held is not None and held.holder[0] == os.getpid() and held.is_ours():  # a fork inherits no lock
        if held.holder[1] != threading.get_ident():
            raise _busy(folder)
        yield held
        return
    lock = _acquire(folder)
    _held[name] = lock
    try:
        yield lock
    finally:
        _held.pop(name, None)
        lock.release()
        os.close(lock.handle)


def _acquire(folder: Path) -> Lock:
    for _ in range(_TRIES):
        try:
            files.make_folder(folder, parents=True)
            handle = os.open(folder / FILE, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:  # another process takes the folder away just now
            continue
        try:
            lock = Lock(folder, handle, _lock(handle, folder))
        except BaseException:
            os.close(handle)
            raise
        if lock.is_ours():
            return lock
        lock.release()  # of a file that was taken away before it was locked: it counts for nobody
        os.close(handle)
    raise _busy(folder)


def _lock(handle: int, folder: Path) -> Callable[[], None]:
    """Lock an open file, in the best way that there is here; returns what ends it besides closing it."""
    try:
        import fcntl
    except ImportError:
        return _lock_windows(handle, folder)
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError) as error:
        raise _busy(folder) from error
    except OSError:  # a file system without locks
        return _own(folder)
    return lambda: None


def _lock_windows(handle: int, folder: Path) -> Callable[[], None]:
    try:
        import msvcrt
    except ImportError:
        return _own(folder)
    try:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined, unused-ignore]
    except OSError as error:
        raise _busy(folder) from error
    return lambda: None


def _own(folder: Path) -> Callable[[], None]:
    """Where nothing can be locked: a file that only one process can make. It stays if the process is killed,
    so the next one says who left it."""
    path = folder / OWNER
    name = f"{socket.gethostname()} {os.getpid()}"
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
    except FileExistsError as error:
        with suppress(OSError):
            host, _, number = path.read_text("utf-8", errors="replace").partition(" ")
            raise RegardError(
                f"process {number or '?'} on {host or '?'} trains in {folder.parent}, and this file system "
                f"has no locks to see whether it still does; if it does not, delete {path} and try again"
            ) from error
        raise _busy(folder) from error
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(name)

    def release() -> None:
        with suppress(OSError):
            if (
                path.read_text("utf-8", errors="replace") == name
            ):  # it may be gone, and another one's be there
                path.unlink()

    return release


def _busy(folder: Path) -> RegardError:
    return RegardError(f"another process is training in {folder.parent}; wait for it, or stop it first")
