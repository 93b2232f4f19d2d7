"""A disk that loses its power: what is in a folder at each moment, if nothing but what was synced survives.

`Disk` listens to the operations of the system below one folder: a file is synced, renamed, removed; a folder is made,
synced, removed. Before and after each it notes what a disk may hold if the power goes now:

- "dropped": only synced content under synced names. A file whose name was synced and whose content was not is empty.
- "named": names are on the disk at once, content only if it was synced (as of file systems that write names first).
- "torn": the same, but half of what was not synced is there, and zeros for the rest.
- "kept": everything, as after a kill.
"""

import os
import shutil
import stat
from contextlib import contextmanager


class Disk:
    """`with disk.watching():` then `disk.moments`: (operation, {manner: {path: bytes, None for a folder}}, a note)."""

    def __init__(self, folder):
        self.folder = os.path.realpath(folder)
        self.synced = {}  # inode -> bytes of a file, or {name: inode} of a folder
        self.pins = {}  # inode -> an open handle: the number of a file that is removed must not be given to another
        self.moments = []
        self.during = lambda: None  # what is to be noted with each moment

    @contextmanager
    def watching(self):
        self.synced[os.stat(self.folder).st_ino] = self.names(self.folder)
        names = ("fsync", "replace", "rename", "mkdir", "unlink", "rmdir")
        real = {name: getattr(os, name) for name in names}

        def watched(name):
            def call(*args, dir_fd=None, **how):
                more = {} if dir_fd is None else {"dir_fd": dir_fd}
                paths = [self.absolute(each, dir_fd) for each in args if isinstance(each, str | os.PathLike)]
                self.note(f"before {name}", paths)
                done = real[name](*args, **more, **how)
                self.note(name, paths)
                return done

            return call

        def fsync(handle):  # of the disk itself nothing is asked: it is slow, and of no use to a test
            path, found = os.readlink(f"/proc/self/fd/{handle}"), os.fstat(handle)
            self.note("before fsync", [path])
            if self.inside(path):
                self.pin(path)
                content = self.names(path) if stat.S_ISDIR(found.st_mode) else read(path)
                self.synced[found.st_ino] = content
            self.note("fsync", [path])

        try:
            for name in names:
                setattr(os, name, watched(name))
            os.fsync = fsync
            yield self
        finally:
            for name, function in real.items():
                setattr(os, name, function)
            for handle in self.pins.values():
                os.close(handle)

    def absolute(self, path, handle):
        return os.path.join(os.readlink(f"/proc/self/fd/{handle}") if handle is not None else "", os.fspath(path))

    def inside(self, path):
        return os.path.realpath(path).startswith(self.folder)

    def names(self, folder):
        return {each.name: self.pin(each.path) for each in os.scandir(folder)}

    def pin(self, path):
        number = os.lstat(path).st_ino
        if number not in self.pins:
            self.pins[number] = os.open(path, os.O_RDONLY)
        return number

    def note(self, operation, paths):
        if any(self.inside(path) for path in paths):
            words = " ".join([operation, *(os.path.relpath(path, self.folder) for path in paths)])
            self.moments.append((words, self.state(), self.during()))

    def state(self):
        live = {}
        self.walk_live(self.folder, "", live)
        found = {"kept": {path: each[0] for path, each in live.items()}}
        for manner, make in (("named", lambda now, then: then or b""), ("torn", torn)):
            found[manner] = {
                path: None if now is None else make(now, self.synced.get(number))
                for path, (now, number) in live.items()
            }
        found["dropped"] = {}
        self.walk_synced(os.stat(self.folder).st_ino, "", found["dropped"])
        return found

    def walk_live(self, folder, above, found):
        for each in sorted(os.scandir(folder), key=lambda each: each.name):
            number = self.pin(each.path)
            if each.is_dir():
                found[above + each.name] = (None, number)
                self.walk_live(each.path, f"{above}{each.name}/", found)
            else:
                found[above + each.name] = (read(each.path), number)

    def walk_synced(self, number, above, found):
        for name, inner in sorted(self.synced.get(number, {}).items()):
            if stat.S_ISDIR(os.fstat(self.pins[inner]).st_mode):
                found[above + name] = None
                self.walk_synced(inner, f"{above}{name}/", found)
            else:
                found[above + name] = self.synced.get(inner, b"")


def read(path):
    with open(path, "rb") as file:
        return file.read()


def torn(now, then):
    """What is there of content that is not synced: all that was, half of what came, and zeros."""
    if then == now:
        return now
    then = then or b""
    half = (len(then) + len(now)) // 2 if now.startswith(then) else len(now) // 2
    return now[:half] + bytes(len(now) - half)


def lay_out(state, folder):
    """Make a folder of what a disk holds."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for path, data in state.items():
        if data is None:
            (folder / path).mkdir()
        else:
            (folder / path).write_bytes(data)
