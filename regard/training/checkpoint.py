"""Checkpoints that survive a kill at any moment.

First `state/<step>/` is written and synced: the tensors as safetensors, and state.json with a few facts and
the checksums. Then `state/latest.json` is replaced atomically; only now the checkpoint is valid. Two
checkpoints are kept, so that little is lost if one is damaged.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from regard import files
from regard.errors import RegardError


@dataclass(frozen=True)
class Checkpoint:
    """One complete checkpoint: the checksum of each file, and the facts that are not tensors."""

    folder: Path
    step: int
    sums: dict[str, str]
    facts: dict[str, Any]

    def tensors(self, name: str) -> dict[str, Tensor]:
        """The tensors of a file, copied: tensors that were just read may still refer to the file."""
        return {
            key: tensor.clone()
            for key, tensor in files.read_tensors(self.folder / f"{name}.safetensors").items()
        }

    def has(self, name: str) -> bool:
        return f"{name}.safetensors" in self.sums

    def publish(self, name: str, path: Path) -> None:
        """Copy one of its files to another path, atomically."""
        files.write_bytes(path, (self.folder / f"{name}.safetensors").read_bytes())

    def verify(self) -> None:
        """Raise an error if a file is missing or has changed since it was written."""
        for name, expected in self.sums.items():
            files.verify(self.folder / name, expected)


class Checkpoints:
    """The checkpoints of one run, newest first in `kept`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kept: list[Checkpoint] = []

    @property
    def latest(self) -> Path:
        return self.folder / "latest.json"

    def save(
        self, step: int, tensors: Mapping[str, Mapping[str, Tensor]], facts: Mapping[str, Any]
    ) -> Checkpoint:
        """Write a checkpoint, then make it the valid one. After an error the one before is still valid.

        A step has the same tensors whenever it is saved. If this step was saved before, only its facts are
        written again.
        """
        folder = self.folder / str(step)
        with self._told_what_is_left(folder):
            if self.kept and self.kept[0].step == step:
                made = replace(self.kept[0], facts=dict(facts))
            else:
                made = Checkpoint(folder, step, self._write(folder, step, tensors, facts), dict(facts))
            kept = [made, *(each for each in self.kept if each.step != step)][:2]
            files.write_json(
                self.latest, _entry(kept[0]) | {"previous": _entry(kept[1]) if kept[1:] else None}
            )
        self.kept = kept
        for other in self._folders():
            if other not in [each.folder for each in kept]:
                shutil.rmtree(other, ignore_errors=True)
        return made

    def _write(
        self, folder: Path, step: int, tensors: Mapping[str, Mapping[str, Tensor]], facts: Mapping[str, Any]
    ) -> dict[str, str]:
        folder.parent.mkdir(exist_ok=True)
        shutil.rmtree(folder, ignore_errors=True)  # left over from a killed process, or damaged
        folder.mkdir()
        for name, values in tensors.items():
            files.write_tensors(folder / f"{name}.safetensors", values)
        sums = {f"{name}.safetensors": files.checksum(folder / f"{name}.safetensors") for name in tensors}
        files.write_json(folder / "state.json", {"step": step, "files": sums, "facts": dict(facts)})
        return sums | {"state.json": files.checksum(folder / "state.json")}

    def load(self) -> tuple[Checkpoint | None, list[str]]:
        """The newest undamaged checkpoint, or None if there is no checkpoint yet; and notes about damaged
        ones."""
        if not self.latest.exists():
            return None, []
        candidates, notes = self._candidates()
        for i, each in enumerate(candidates):
            try:
                each.verify()
            except (OSError, ValueError) as error:
                notes.append(f"the checkpoint of step {each.step} is damaged ({error})")
                continue
            self.kept = candidates[i : i + 2]
            return each, [f"{note}; going on from step {each.step}, the last good one" for note in notes]
        raise RegardError(
            f"no checkpoint in {self.folder} is whole: {'; '.join(notes) or 'there is none'}. "
            f"To start this run again from zero, delete {self.folder}"
        )

    def _candidates(self) -> tuple[list[Checkpoint], list[str]]:
        """The checkpoints that latest.json names. If it cannot be read: every folder with a complete
        state.json."""
        try:
            entry = files.read_json(self.latest)
            return [self._from(each) for each in (entry, entry["previous"]) if each is not None], []
        except (ValueError, KeyError, TypeError, AttributeError):
            found = []
            for folder in self._folders():
                try:
                    found.append(self._from(files.read_json(folder / "state.json")))
                except (OSError, ValueError, KeyError, TypeError, AttributeError):
                    continue
            return found, [f"{self.latest} is damaged"]

    def _from(self, entry: dict[str, Any]) -> Checkpoint:
        step, sums = int(entry["step"]), {str(name): str(each) for name, each in entry["files"].items()}
        return Checkpoint(self.folder / str(step), step, sums, dict(entry["facts"]))

    def _folders(self) -> list[Path]:
        numbered = [each for each in self.folder.iterdir() if each.is_dir() and each.name.isdecimal()]
        return sorted(numbered, key=lambda each: int(each.name), reverse=True)

    @contextmanager
    def _told_what_is_left(self, folder: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if folder not in [each.folder for each in self.kept]:
                # an incomplete checkpoint is useless and takes space
                shutil.rmtree(folder, ignore_errors=True)
            if self.kept:
                left = f"the checkpoint of step {self.kept[0].step} is still there"
            else:
                left = "there is no checkpoint yet"
            told = type(error)(f"{error}; {left}; then go on with --resume")
            told.errno = error.errno
            raise told from error


def _entry(checkpoint: Checkpoint) -> dict[str, Any]:
    return {"step": checkpoint.step, "files": checkpoint.sums, "facts": checkpoint.facts}


@contextmanager
def exclusive_lock(folder: Path) -> Iterator[None]:
    """Only one process may train in a folder. The system releases the lock when the process ends, also after
    a kill."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    folder.mkdir(exist_ok=True)
    handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError) as error:
            raise RegardError(
                f"another process is training in {folder.parent}; wait for it, or stop it first"
            ) from error
        except OSError:  # a file system without locks
            pass
        yield
    finally:
        os.close(handle)
