"""When the folder of a run is deleted during its training: what can be kept is kept beside it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from torch import Tensor

from regard import files
from regard.errors import RegardError
from regard.runs.checksums import FILE as CHECKSUMS
from regard.runs.lock import Lock
from regard.runs.run import Run
from regard.training.checkpoint import Checkpoints
from regard.training.facts import Facts
from regard.training.progress import how_to_go_on

SMALL = ("environment.json", "tokenizer.json", "chat_template.json")
# Windows deletes no file that is open, and replaces none: nothing to hold there, and nothing to lose
HOLDS = os.name == "posix"


class LostFolder(RegardError):
    """The folder of a run was deleted during its training."""


class Rescue:
    """Holds on to the files of a run: an open file can be read after it was deleted."""

    def __init__(self, run: Run, lock: Lock) -> None:
        self.run, self.lock = run, lock
        self.handles: dict[Path, int] = {}
        self.small: dict[str, bytes] = {}

    def __enter__(self) -> Rescue:
        for name in SMALL:
            if (self.run.path / name).exists():
                self.small[name] = self.run.checksums.read_bytes(name)
        self.hold()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        for handle in self.handles.values():
            os.close(handle)
        self.handles = {}

    def hold(self) -> None:
        """Hold on to the weights and metrics that are there now."""
        for path in (self.run.model_file, self.run.metrics_file):
            with suppress(OSError):
                handle = os.open(path, os.O_RDONLY) if HOLDS else None
                if path in self.handles:
                    os.close(self.handles.pop(path))
                if handle is not None:
                    self.handles[path] = handle

    def lost(self) -> Path | None:
        """What was deleted: the folder, a file without which it is no run; None: nothing."""
        if not self.run.path.is_dir():
            return self.run.path
        gone = [self.run.path / name for name in ("config.json", CHECKSUMS)]
        gone = [path for path in gone if not path.exists()]
        if gone:
            return gone[0]
        if not self.lock.is_ours():
            return self.run.path
        return None

    def keep(
        self,
        facts: Facts,
        tensors: Callable[[], Mapping[str, Mapping[str, Tensor]]],
        waiting: Iterable[Mapping[str, Any]],
    ) -> None:
        """Write the run beside its folder, with a checkpoint of this step, and raise an error that says so.

        waiting: events that are not in metrics.jsonl yet
        """
        lost = self.lost()
        if facts.step == 0:
            raise LostFolder(f"{lost} was deleted before the first step was done, so the training ends")
        weights = self._held(self.run.model_file)
        if weights is None:  # then the next ones are the best again
            facts = replace(facts, best={}, best_step=None, worse=0)
        try:
            kept = Run.create(_free_path(self.run.path), _sections(self.run))
            kept.checksums.write(self.small)
            lines = (self._held(self.run.metrics_file) or b"").decode("utf-8", errors="replace")
            lines = lines[: lines.rfind("\n") + 1] + "".join(files.json_text(each) + "\n" for each in waiting)
            files.write_text(kept.metrics_file, lines)
            made = Checkpoints(kept.state).save(facts.step, tensors(), asdict(facts))
            kept.publish(made.weights() if weights is None else weights)
        except OSError as error:
            raise LostFolder(
                f"{lost} was deleted during the training, and nothing could be kept: {error}"
            ) from error
        raise LostFolder(
            f"{lost} was deleted during the training; the state of step {facts.step} is kept in "
            f"{kept.path}; go on "
            f"with: {how_to_go_on(kept)}"
        )

    def _held(self, path: Path) -> bytes | None:
        """The content of a file that may be deleted by now."""
        if path in self.handles:
            with suppress(OSError), open(os.dup(self.handles[path]), "rb") as file:
                file.seek(0)
                return file.read()
        with suppress(OSError):
            return path.read_bytes()
        return None


def _sections(run: Run) -> dict[str, Any]:
    """What config.json says, but for what a new one says by itself."""
    found = run.config.to_json()
    return {name: value for name, value in found.items() if name not in ("regard", "format")}


def _free_path(path: Path) -> Path:
    """runs/text-kept, or the first of runs/text-kept-2, ... that is not there yet."""
    path = path.absolute()
    number, free = 1, path.with_name(f"{path.name}-kept")
    while free.exists():
        number += 1
        free = path.with_name(f"{path.name}-kept-{number}")
    return free
