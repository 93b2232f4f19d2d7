"""Checkpoints that survive a kill at any moment.

`state/<step>/` is written whole and synced: tensors as safetensors, and state.json with a few facts and the
checksums. Then one atomic replace of `state/latest.json`, which says the same, makes it count. Both have a
checksum of their own inside, so nothing is read that no checksum covers. Two are kept, so that damage to one
loses little.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard import files
from regard.errors import RegardError
from regard.runs.run import Run
from regard.training.rules import local

Write = Callable[[Path], None]  # writes files of tensors into a new folder


@dataclass
class TrainState:
    """What a checkpoint holds besides tensors: how far a training is, and what its evaluations said."""

    step: int = 0
    seconds: float = 0.0  # spent on the run, by all processes
    evaluated: int = 0  # the step of the last evaluation
    measures: dict[str, float] = field(default_factory=dict)
    best: dict[str, float] = field(default_factory=dict)
    best_step: int | None = None
    worse: int = 0  # evaluations since the best
    last_eval: float = 0.0  # seconds at the end of the last evaluation
    # of a budget in minutes: the plan and the threads, which change only at a checkpoint
    plan: dict[str, Any] | None = None
    threads: int | None = None


@dataclass(frozen=True)
class Checkpoint:
    """One complete checkpoint: the checksum of each file, and the facts that are not tensors."""

    folder: Path
    step: int
    sums: dict[str, str]
    facts: dict[str, Any]  # a TrainState

    def tensors(self, name: str) -> dict[str, Tensor]:
        """The tensors of a file, copied: tensors that were just read may still refer to the file. Several processes
        have written a folder of files instead."""
        if not self.has(name):
            return read_shards(self.folder / name)
        found = files.read_tensors(self.folder / f"{name}.safetensors")
        return {key: tensor.clone() for key, tensor in found.items()}

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
        self.folder, self.latest = folder, folder / "latest.json"
        self.kept: list[Checkpoint] = []

    def save(self, step: int, write: Write, facts: Mapping[str, Any]) -> Checkpoint:
        """Write a checkpoint, then make it the valid one. After an error the one before is still valid.

        A step has the same tensors whenever it is saved. If this step was saved before, only its facts are
        written again.
        """
        folder = self.folder / str(step)
        try:
            if self.kept and self.kept[0].step == step:
                made = replace(self.kept[0], facts=dict(facts))
            else:
                made = Checkpoint(folder, step, self._write(folder, step, write, facts), dict(facts))
            kept = [made, *(each for each in self.kept if each.step != step)][:2]
            self.name_latest(kept)
        except OSError as error:
            left = "there is no checkpoint yet"
            if self.kept:
                left = f"the checkpoint of step {self.kept[0].step} is still there"
            if folder not in [each.folder for each in self.kept]:
                _remove(folder)  # half of a checkpoint is of no use, and needs space
            raise files.say_again(error, f"{error}; {left}; then go on with --resume") from error
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

    def _write(self, folder: Path, step: int, write: Write, facts: Mapping[str, Any]) -> dict[str, str]:
        _remove(folder)  # left over from a kill in the middle, or from damage
        files.make_folder(folder.parent)
        files.make_folder(folder)
        write(folder)
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


def _remove(path: Path) -> None:
    """Remove a folder, or what is in its place."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


class CheckpointWriter:
    """Writes the checkpoints of a training, and publishes the best weights. beside: in a thread, from a copy in
    memory, while the next steps are computed

    One is written at a time. What counts is as before: latest.json names a checkpoint once it is whole. So a kill
    while one is written loses the steps since the one before.
    """

    def __init__(self, run: Run, beside: bool) -> None:
        self.run, self.checkpoints = run, Checkpoints(run.state)
        self.pool = ThreadPoolExecutor(1, "checkpoint") if beside else None
        self.writing: tuple[Future[None], dict[str, Any]] | None = None  # with its facts
        self.written = 0  # the last step

    def has(self, state: TrainState) -> bool:
        """Is the last checkpoint, or the one that is being written, up to date?"""
        facts = [each.facts for each in self.checkpoints.kept[:1]]
        if self.writing is not None:
            facts = [self.writing[1]]
        return any(TrainState(**each | {"seconds": state.seconds}) == state for each in facts)

    def save(self, state: TrainState, write: Write, copy: Callable[[], Write]) -> None:
        """Write a checkpoint of this step; publish the model if it is the best, or if none was evaluated yet.

        write: writes the tensors now; copy: copies them, and returns what writes the copy later
        """
        self.wait()
        facts = asdict(state)
        if self.pool is None:
            self._write(write, facts)
            return
        self.writing = self.pool.submit(self._write, copy(), facts), facts

    def wait(self) -> None:
        """Until nothing is being written; raises what went wrong there."""
        writing, self.writing = self.writing, None
        if writing is not None:
            writing[0].result()

    def publish(self, checkpoint: Checkpoint) -> None:
        self.run.publish(checkpoint.weights())

    def _write(self, write: Write, facts: dict[str, Any]) -> None:
        made = self.checkpoints.save(facts["step"], write, facts)
        if facts["best_step"] in (made.step, None):
            self.publish(made)


class PartWriter(CheckpointWriter):
    """Writes what a process other than rank 0 has of each checkpoint, if it has a part. Rank 0 does all else."""

    def publish(self, checkpoint: Checkpoint) -> None: ...

    def _write(self, write: Write, facts: dict[str, Any]) -> None:
        if facts["step"] != self.written:  # else rank 0 writes facts alone
            write(self.checkpoints.folder / str(facts["step"]))
        self.written = facts["step"]


class Snapshot:
    """A copy of everything that a step changes, in memory that is kept for the next copy: memory that is new to a
    process costs more time than the copy itself. What is on a GPU is copied into the memory of the machine."""

    def __init__(self) -> None:
        self.held: dict[tuple[str, str], Any] = {}

    @torch.no_grad()
    def take(self, state: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        """The same tensors, by file and name, in this memory."""
        found = {file: {name: self._copy((file, name), x) for name, x in part.items()} for file, part in state.items()}
        if torch.accelerator.is_available():
            torch.accelerator.synchronize()
        return found

    def _copy(self, key: tuple[str, str], x: Any) -> Any:
        held = self.held.get(key)
        if held is None or held.shape != x.shape or held.dtype != x.dtype:
            if local(x) is not x or x.device.type == "cpu":  # of rows of each process, these stay where they are
                held = torch.empty_like(x.detach(), memory_format=torch.contiguous_format)
            else:
                held = torch.empty(x.shape, dtype=x.dtype, pin_memory=x.device.type == "cuda")
            self.held[key] = held
        local(held).copy_(local(x), non_blocking=True)
        return held


def write_files(folder: Path, state: Mapping[str, Mapping[str, Tensor]]) -> None:
    """Write tensors, by file and name."""
    for name, tensors in state.items():
        files.write_tensors(folder / f"{name}.safetensors", tensors)


# ── a state of which each process writes its rows: torch.distributed.checkpoint, in files of safetensors


def write_shards(folder: Path, tensors: Mapping[str, Tensor], group: Any = None) -> None:
    """All processes write, each its own file. group: of processes, that talk about it; None: that of all"""
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
    from torch.distributed.checkpoint.state_dict_saver import save

    seen: set[int] = set()
    state: dict[str, Any] = {}
    for name, x in tensors.items():
        if not isinstance(x, Tensor):
            raise RegardError(f"a checkpoint holds tensors, got {type(x).__name__} for '{name}'")
        own = getattr(x, "_local_tensor", x)
        place = own.data_ptr() if own.numel() else id(own)
        state[name] = x.clone() if place in seen else x  # two names of one tensor
        seen.add(place)
    writer = HuggingFaceStorageWriter(str(folder), save_distributed=True)
    try:
        save(state, storage_writer=writer, process_group=group)
    except CheckpointException as error:
        raise _first_cause(error) from error


def _first_cause(error: Any) -> BaseException:
    """What a process met, out of the errors of all: that of a disk first, then that of the network. (torch's
    own is no Exception, and a full disk would not be known as one.)"""
    causes = [cause for cause, _ in error.failures.values()]
    for kind in (OSError, RuntimeError):
        for cause in causes:
            if isinstance(cause, kind):
                return cause
    return RuntimeError(str(causes[0]) if causes else str(error))


def read_shards(folder: Path) -> dict[str, Tensor]:
    """The whole tensors, read by one process."""
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
    from torch.distributed.checkpoint.state_dict_loader import load

    known = HuggingFaceStorageReader(str(folder)).read_metadata().state_dict_metadata
    found: dict[str, Any] = {
        name: torch.empty(about.size, dtype=about.properties.dtype)  # type: ignore[union-attr]
        for name, about in known.items()
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # (that one process reads is meant)
        load(found, storage_reader=HuggingFaceStorageReader(str(folder)), no_dist=True)
    return found


def join_shards(folder: Path) -> bytes:
    """The same as one file of safetensors."""
    from safetensors.torch import save

    return save(read_shards(folder))
