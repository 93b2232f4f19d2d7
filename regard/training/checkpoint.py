"""Checkpoints that survive a kill at any moment.

`state/<step>/` is written whole and synced: tensors as safetensors, and state.json with a few facts and the
checksums. Then one atomic replace of `state/latest.json`, which says the same, makes it count. Both have a
checksum of their own inside, so nothing is read that no checksum covers. Two are kept, so that damage to one
loses little.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from regard import files
from regard.errors import RegardError
from regard.training.sharded_state import join_shards, read_shards


@dataclass(frozen=True)
class Checkpoint:
    """One complete checkpoint: the checksum of each file, and the facts that are not tensors."""

    folder: Path
    step: int
    sums: dict[str, str]
    facts: dict[str, Any]

    def tensors(self, name: str) -> dict[str, Tensor]:
        """The tensors of a file, copied: tensors that were just read may still refer to the file. Several processes
        have written a folder of files instead."""
        if not self.has(name):
            return read_shards(self.folder / name)
        return {
            key: tensor.clone()
            for key, tensor in files.read_tensors(self.folder / f"{name}.safetensors").items()
        }

    def has(self, name: str) -> bool:
        return f"{name}.safetensors" in self.sums

    @property
    def best(self) -> str:
        """The name of the weights that are published: the average where there is one."""
        return "average" if self.has("average") else "model"

    def weights(self) -> bytes:
        """The file of the weights that are published, once it is sure that it is as it was written."""
        path = self.folder / f"{self.best}.safetensors"
        if path.name not in self.sums:  # written by several processes: put together
            self.verify()
            return join_shards(self.folder / self.best)
        data = files.read_bytes(path)
        if files.checksum_of(data) != self.sums[path.name]:
            raise RegardError(f"{path} was damaged or changed since it was written a moment ago")
        return data

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
        self,
        step: int,
        tensors: Mapping[str, Mapping[str, Tensor]] | Callable[[Path], None],
        facts: Mapping[str, Any],
    ) -> Checkpoint:
        """Write a checkpoint, then make it the valid one. After an error the one before is still valid.

        tensors: by file, or a function that writes files of tensors into a new folder

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
            self.name_latest(kept)
        self.kept = kept
        for other in self._folders():
            if other not in [each.folder for each in kept]:
                _remove(other)
        return made

    def name_latest(self, kept: Sequence[Checkpoint]) -> None:
        """Write latest.json: these count, the newest first."""
        entries = [{"step": each.step, "files": each.sums, "facts": each.facts} for each in kept]
        previous = entries[1] if entries[1:] else None
        if self.latest.is_dir():  # whoever put it there, training goes on
            with suppress(OSError):
                self.latest.rename(self.latest.with_name("latest.json.moved"))
        files.write_sealed(self.latest, entries[0] | {"previous": previous})

    def _write(
        self,
        folder: Path,
        step: int,
        tensors: Mapping[str, Mapping[str, Tensor]] | Callable[[Path], None],
        facts: Mapping[str, Any],
    ) -> dict[str, str]:
        _remove(folder)  # left over from a kill in the middle, or from damage
        files.make_folder(folder.parent)
        files.make_folder(folder)
        if callable(tensors):
            tensors(folder)
        else:
            for name, values in tensors.items():
                files.write_tensors(folder / f"{name}.safetensors", values)
        written = sorted(folder.rglob("*.safetensors"))
        with ThreadPoolExecutor() as pool:
            found = list(pool.map(files.checksum, written))
        names = [path.relative_to(folder).as_posix() for path in written]
        sums = dict(zip(names, found, strict=True))
        for path in written:
            if path.parent != folder:  # not written by files.write_tensors, which syncs
                files.sync(path)
        files.write_sealed(folder / "state.json", {"step": step, "files": sums, "facts": dict(facts)})
        return sums | {"state.json": files.checksum(folder / "state.json")}

    def load(self) -> tuple[Checkpoint | None, list[str]]:
        """The newest checkpoint that is whole, or None before the first; and what there is to tell about
        damaged ones."""
        candidates, notes = self.find()
        for i, each in enumerate(candidates):
            try:
                each.verify()
            except (OSError, ValueError) as error:
                notes.append(f"the checkpoint of step {each.step} is damaged ({error})")
                continue
            self.kept = candidates[i : i + 2]
            return each, [f"{note}; going on from step {each.step}, the last good one" for note in notes]
        if not notes:
            return None, []
        raise RegardError(
            f"no checkpoint in {self.folder} is whole: {'; '.join(notes)}. "
            f"To start this run again from zero, delete {self.folder}"
        )

    def find(self) -> tuple[list[Checkpoint], list[str]]:
        """The checkpoints, newest first, not verified yet: those that latest.json names; if it cannot be
        trusted, all that were finished, by their own state.json. And what is wrong with latest.json."""
        try:
            entry = files.read_sealed(self.latest)
            return [self._from(each) for each in (entry, entry["previous"]) if each is not None], []
        except FileNotFoundError:
            problem = f"{self.latest} is missing"
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            problem = f"{self.latest} is damaged"
        found, finished = [], False
        for folder in self._folders():
            finished = finished or (folder / "state.json").exists()
            with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
                each = self._from(files.read_sealed(folder / "state.json"))
                if each.folder == folder:
                    found.append(each)
        if not finished and not self.latest.exists():
            return [], []  # killed before the first was finished
        return found, [problem]

    def _from(self, entry: dict[str, Any]) -> Checkpoint:
        step, sums = int(entry["step"]), {str(name): str(each) for name, each in entry["files"].items()}
        return Checkpoint(self.folder / str(step), step, sums, dict(entry["facts"]))

    def _folders(self) -> list[Path]:
        if not self.folder.is_dir():
            return []
        numbered = [each for each in self.folder.iterdir() if each.is_dir() and each.name.isdecimal()]
        return sorted(numbered, key=lambda each: int(each.name), reverse=True)

    @contextmanager
    def _told_what_is_left(self, folder: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if folder not in [each.folder for each in self.kept]:
                # half of a checkpoint is of no use, and needs space
                _remove(folder)
            if self.kept:
                left = f"the checkpoint of step {self.kept[0].step} is still there"
            else:
                left = "there is no checkpoint yet"
            raise files.say_again(error, f"{error}; {left}; then go on with --resume") from error


def _remove(path: Path) -> None:
    """Remove a folder, or what is in its place."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
