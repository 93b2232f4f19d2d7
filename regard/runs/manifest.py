"""manifest.json of a run: size and SHA-256 of each file that later commands read.

A file and its entry are two writes. So that a kill between them leaves a run that opens, the entry of the new
file is added beside the old one first, then the file is replaced, then the old entry goes. What is needed to
use the weights and cannot be made again, config.json and tokenizer.json, is written twice: the copy in state/
has the same entry, and `regard verify --repair` puts it back.
"""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from regard import files
from regard.errors import RegardError
from regard.runs.environment import shell_command

FILE = "manifest.json"
COPIED = ("tokenizer.json", "config.json")

_writing = threading.RLock()  # a checkpoint may be published by a thread of its own


@dataclass(frozen=True)
class Entry:
    """What a file was as it was written."""

    size: int  # bytes
    sha256: str

    @classmethod
    def of(cls, data: bytes) -> Entry:
        return cls(len(data), files.checksum_of(data))

    @classmethod
    def of_file(cls, path: Path) -> Entry:
        return cls(sha256=files.checksum(path), size=path.stat().st_size)

    def __str__(self) -> str:
        return f"{self.size:,} bytes with SHA-256 {self.sha256[:12]}…"


class Manifest:
    """What is known about the files in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / FILE

    def copy_of(self, name: str) -> Path:
        """Where the second copy of a file is."""
        return self.folder / "state" / name

    # ── writing

    def write(self, contents: Mapping[str, bytes], *, new: bool = False) -> None:
        """Write files with their entries, in this order. new: there is nothing in the folder that counts"""
        with _writing:
            known = {} if new else self.read()
            fresh = {name: [Entry.of(data)] for name, data in contents.items()}
            both = {name: list(dict.fromkeys([*known.get(name, []), *each])) for name, each in fresh.items()}
            if new or known | both != known:
                self.keep(known | both)
            for name, data in contents.items():
                if name in COPIED:
                    files.make_folder(self.copy_of(name).parent)
                    files.write_bytes(self.copy_of(name), data)
                files.write_bytes(self.folder / name, data)
            if fresh != both:
                self.keep(known | fresh)

    def keep(self, entries: Mapping[str, list[Entry]]) -> None:
        """Write manifest.json itself."""
        plain = {name: [asdict(each) for each in entries[name]] for name in entries}
        files.write_sealed(self.path, {"files": plain})

    # ── reading

    def read(self) -> dict[str, list[Entry]]:
        """The entries of each file: one, or two while it is replaced."""
        try:
            found = files.read_sealed(self.path)["files"]
            return {name: [Entry(**each) for each in entries] for name, entries in found.items()}
        except FileNotFoundError as error:
            raise RegardError(
                f"{self.path} is missing, so nothing in {self.folder} can be trusted; {self._advice()}"
            ) from error
        except (IsADirectoryError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise RegardError(f"{self.path} was damaged or changed; {self._advice()}") from error

    def verify(self, name: str) -> Path:
        """The path of a file, once it is sure that it is as it was written."""
        self._compare(name, lambda: Entry.of_file(self.folder / name))
        return self.folder / name

    def read_bytes(self, name: str) -> bytes:
        """The content of a small file, once it is sure that it is as it was written."""
        data = b""

        def read() -> Entry:
            nonlocal data
            data = files.read_bytes(self.folder / name)
            return Entry.of(data)

        self._compare(name, read)
        return data

    def _compare(self, name: str, find: Callable[[], Entry]) -> None:
        """Raise unless what `find` finds has an entry. A training may replace the file meanwhile: then look
        again."""
        known = self.read()
        while (found := find()) not in known.get(name, ()):
            before, known = known, self.read()
            if known == before:
                raise self._refused(name, found, known.get(name, []))

    def _refused(self, name: str, found: Entry, known: list[Entry]) -> RegardError:
        path = self.folder / name
        if not known:
            return RegardError(f"{path} is not in {FILE}, so it was not written by regard; {self._advice()}")
        expected = " or ".join(map(str, known))
        return RegardError(f"{path} was damaged or changed: it has {found}, expected {expected}; {self._advice()}")

    def _advice(self) -> str:
        see = shell_command(f"regard verify {shlex.quote(str(self.folder))}")
        return f"see: {see} (--repair restores what can be saved)"
