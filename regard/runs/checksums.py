"""checksums.json of a run: the SHA-256 of each file that later commands read.

A file and its checksum are two writes. So that a kill between them leaves a run that opens, the checksum of
the new file is added beside the old one first, then the file is replaced, then the old checksum goes. What is
needed to use the weights and cannot be made again, config.json and tokenizer.json, is written twice: the copy
in state/ has the same checksum, and `regard verify --repair` puts it back.
"""

from __future__ import annotations

import shlex
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard import files
from regard.errors import RegardError
from regard.runs.command import shell_command

FILE = "checksums.json"
COPIED = ("tokenizer.json", "config.json")

_writing = threading.RLock()


class Checksums:
    """The checksums of the files in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def path(self) -> Path:
        return self.folder / FILE

    def copy_of(self, name: str) -> Path:
        """Where the second copy of a file is."""
        return self.folder / "state" / name

    # ── writing

    def write(self, contents: Mapping[str, bytes], *, new: bool = False) -> None:
        """Write files with their checksums, in this order. new: there is nothing in the folder that counts"""
        with _writing:  # a checkpoint may be published by a thread of its own
            self._write(contents, new)

    def _write(self, contents: Mapping[str, bytes], new: bool) -> None:
        known = {} if new else self.read()
        fresh = {name: [files.checksum_of(data)] for name, data in contents.items()}
        either = {name: list(dict.fromkeys([*known.get(name, []), *each])) for name, each in fresh.items()}
        if known | either != known or new:
            self.keep(known | either)
        for name, data in contents.items():
            if name in COPIED:
                files.make_folder(self.copy_of(name).parent)
                files.write_bytes(self.copy_of(name), data)
            files.write_bytes(self.folder / name, data)
        if fresh != either:
            self.keep(known | fresh)

    def keep(self, sums: Mapping[str, list[str]]) -> None:
        """Write checksums.json itself."""
        files.write_sealed(self.path, {"files": dict(sums)})

    # ── reading

    def read(self) -> dict[str, list[str]]:
        """The checksums of each file: one, or two while it is replaced."""
        try:
            found: Any = files.read_sealed(self.path)
            return {str(name): [str(each) for each in sums] for name, sums in found["files"].items()}
        except FileNotFoundError as error:
            raise RegardError(
                f"{self.path} is missing, so nothing in {self.folder} can be trusted; {self._advice()}"
            ) from error
        except (IsADirectoryError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise RegardError(f"{self.path} was damaged or changed; {self._advice()}") from error

    def verify(self, name: str) -> Path:
        """The path of a file, once it is sure that it is as it was written."""
        self._settle(name, lambda: files.checksum(self.folder / name))
        return self.folder / name

    def read_bytes(self, name: str) -> bytes:
        """The content of a small file, once it is sure that it is as it was written."""
        found: list[bytes] = []

        def read() -> str:
            found.append(files.read_bytes(self.folder / name))
            return files.checksum_of(found[-1])

        self._settle(name, read)
        return found[-1]

    def _settle(self, name: str, find: Any) -> None:
        """Compare the checksum that `find` finds. A training may replace the file meanwhile: then look
        again."""
        known = self.read()
        while (found := find()) not in known.get(name, ()):
            before, known = known, self.read()
            if known == before:
                raise self._refused(name, found, known)

    def _refused(self, name: str, found: str, known: Mapping[str, list[str]]) -> RegardError:
        path = self.folder / name
        if name not in known:
            return RegardError(
                f"{path} has no checksum in {FILE}, so it was not written by regard; {self._advice()}"
            )
        expected = " or ".join(each[:12] for each in known[name])
        return RegardError(
            f"{path} was damaged or changed: its SHA-256 begins with {found[:12]}, expected {expected}; "
            f"{self._advice()}"
        )

    def _advice(self) -> str:
        where = shlex.quote(str(self.folder))
        see = shell_command(f"regard verify {where}")
        return f"see: {see} (--repair restores what can be saved; --accept takes the files as they are)"
