"""Are the files of a run whole, and what can be saved of it?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from regard import files
from regard.api.repair import accept_files, repair_files
from regard.errors import RegardError
from regard.runs.checksums import COPIED, Checksums
from regard.runs.checksums import FILE as CHECKSUMS
from regard.runs.folder_of_runs import is_folder_of_runs, say_which_runs
from regard.runs.lock import NAMES as LOCKS
from regard.runs.lock import exclusive_lock
from regard.runs.run import VERIFIED, WRITTEN, Run, may_have_checksums
from regard.runs.run_config import RunConfig
from regard.training.checkpoint import Checkpoint, Checkpoints

State = Literal["whole", "damaged", "missing", "not covered"]


@dataclass(frozen=True, kw_only=True)
class FileState:
    """What is known about one file of a run, or about one checkpoint."""

    file: str
    state: State
    reason: str = ""
    remedy: str = ""  # what can be saved, and how

    def to_json(self) -> dict[str, str]:
        found = {"file": self.file, "state": self.state, "reason": self.reason, "remedy": self.remedy}
        return {name: value for name, value in found.items() if value}


@dataclass(frozen=True, kw_only=True)
class Verification:
    """The files of a run, one by one."""

    path: str
    files: tuple[FileState, ...]
    done: tuple[str, ...] = ()  # what was repaired, or accepted

    @property
    def whole(self) -> bool:
        """Is nothing damaged or missing?"""
        return all(each.state in ("whole", "not covered") for each in self.files)

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        found = {"path": self.path, "whole": self.whole, "files": [each.to_json() for each in self.files]}
        return found | ({"done": list(self.done)} if self.done else {})

    def format(self) -> str:
        """A table, then what can be saved."""
        width = max(len(each.file) for each in self.files)
        rows = [f"  {each.file:<{width}}  {each.state:<11}  {each.reason}".rstrip() for each in self.files]
        remedies = dict.fromkeys(each.remedy for each in self.files if each.remedy)
        bad = sum(each.state in ("damaged", "missing") for each in self.files)
        verdict = "whole" if self.whole else f"{bad} damaged or missing"
        return "\n".join([f"{self.path}: {verdict}", *rows, *self.done, *remedies])


def verify(path: str | os.PathLike[str], *, repair: bool = False, accept: bool = False) -> Verification:
    """Compare every file of a run with its checksum.

        verify("runs/mine").whole
        verify("runs/mine", repair=True)

    repair  restore what can be restored: config.json and tokenizer.json from their copies, weights from a
            checkpoint
    accept  take the files as they are, and write their checksums anew: after a change by hand, or for a run
            of a version that wrote none
    """
    path = Path(path)
    if repair and accept:
        raise RegardError("--repair undoes changes and --accept keeps them; give one of them")
    if not path.is_dir():
        what = "is a file" if path.exists() else "does not exist"
        raise FileNotFoundError(f"{path} {what}; give the folder of a run, as made by regard train")
    if is_folder_of_runs(path):
        raise RegardError(say_which_runs(path))
    if not _looks_like_a_run(path):
        raise RegardError(f"{path} is not a run of regard: it has no {CHECKSUMS} and no config.json of one")
    done: list[str] = []
    if repair or accept:
        with exclusive_lock(path / "state"):
            done = accept_files(path) if accept else repair_files(path)
    found = _survey(path)
    if any(each.state in ("damaged", "missing") for each in found):
        found = _survey(path)  # a training may have replaced a file meanwhile
    return Verification(path=str(path), files=tuple(found), done=tuple(done))


def _looks_like_a_run(path: Path) -> bool:
    if (path / CHECKSUMS).exists() or (path / "state" / "latest.json").exists() or Run.exists(path):
        return True
    try:
        return may_have_checksums(files.read_bytes(path / "config.json"))
    except OSError:
        return False


def _survey(path: Path) -> list[FileState]:
    return [*_published(path), *_checkpoints(path), *_others(path)]


# ── files with checksums


def _published(path: Path) -> Iterator[FileState]:
    checksums = Checksums(path)
    try:
        sums = checksums.read()
        yield FileState(file=CHECKSUMS, state="whole")
    except ValueError as error:
        sums = {}
        there: State = "damaged" if (path / CHECKSUMS).exists() else "missing"
        remedy = f"{CHECKSUMS}: --repair makes it again from copies; --accept takes all files as they are"
        yield FileState(file=CHECKSUMS, state=there, reason=str(error).split(";")[0], remedy=remedy)
    for name in dict.fromkeys([*VERIFIED, *sums]):
        if name in sums or (path / name).exists():
            yield _compare(
                path / name, name, sums.get(name, []), _remedy(checksums, name, sums.get(name, []))
            )
        if name in COPIED and name in sums and (path / "state").is_dir():
            where = checksums.copy_of(name)
            remedy = f"state/{name}: --repair copies {name} there"
            yield _compare(where, f"state/{name}", sums[name], remedy)


def _compare(path: Path, name: str, sums: list[str], remedy: str) -> FileState:
    try:
        found = files.checksum(path)
    except FileNotFoundError:
        return FileState(file=name, state="missing", remedy=remedy)
    except OSError as error:
        return FileState(file=name, state="damaged", reason=str(error), remedy=remedy)
    if found in sums:
        return FileState(file=name, state="whole")
    if not sums:
        return FileState(file=name, state="damaged", reason="it has no checksum", remedy=remedy)
    return FileState(file=name, state="damaged", reason="it does not fit its checksum", remedy=remedy)


def _remedy(checksums: Checksums, name: str, sums: list[str]) -> str:
    """What can be saved if this file is damaged."""
    other = "put back a copy of yours, or take the file as it is with --accept"
    if name in COPIED:
        if _compare(checksums.copy_of(name), name, sums, "").state == "whole":
            return f"{name}: --repair restores it from state/{name}"
        return f"{name}: its copy in state/ is damaged, too; {other}"
    if name != "model.safetensors":
        return f"{name}: the model can be used without it; --repair sets it aside"
    whole = [each for each in Checkpoints(checksums.folder / "state").find()[0] if _is_whole(each)]
    exact = [each for each in whole if each.sums[f"{each.best}.safetensors"] in sums]
    if exact:
        return f"{name}: --repair restores it from the checkpoint of step {exact[0].step}"
    if whole:
        return f"{name}: --repair publishes the weights of step {whole[0].step} in its place, the last that are whole"
    return f"{name}: no checkpoint is whole; {other}"


# ── checkpoints


def _checkpoints(path: Path) -> Iterator[FileState]:
    made = Checkpoints(path / "state")
    found, notes = made.find()
    if notes:
        there: State = "damaged" if made.latest.exists() else "missing"
        remedy = "state/latest.json: resuming needs no repair; --repair names the checkpoints that are whole"
        yield FileState(file="state/latest.json", state=there, remedy=remedy)
    elif found:
        yield FileState(file="state/latest.json", state="whole")
    whole = [each.step for each in found if _is_whole(each)]
    if whole:
        remedy = f"checkpoints: resuming goes on from step {whole[0]}"
    else:
        remedy = "checkpoints: none is whole, so the training cannot go on; the published weights can be used"
    for each in found:
        name = f"state/{each.step}"
        try:
            each.verify()
            yield FileState(file=name, state="whole")
        except (OSError, ValueError) as error:
            yield FileState(file=name, state="damaged", reason=str(error), remedy=remedy)


def _is_whole(checkpoint: Checkpoint) -> bool:
    try:
        checkpoint.verify()
    except (OSError, ValueError):
        return False
    return True


# ── what has no checksum


def _others(path: Path) -> Iterator[FileState]:
    """What nothing is computed from, and what killed processes left."""
    known = {*VERIFIED, CHECKSUMS, "state", *LOCKS, *_listed(path)}
    left = files.find_abandoned(path, names=WRITTEN)
    for each in sorted(path.iterdir()):
        if each in left:
            remedy = f"{each.name}: left by a process that was killed; --repair removes it"
            yield FileState(file=each.name, state="not covered", reason="half-written", remedy=remedy)
        elif each.name == "metrics.jsonl":
            yield _metrics(each)
        elif each.name not in known:
            name = each.name + "/" * each.is_dir()
            yield FileState(file=name, state="not covered", reason="nothing is computed from it")


def _listed(path: Path) -> list[str]:
    try:
        return [*Checksums(path).read()]
    except ValueError:
        return []


def _metrics(path: Path) -> FileState:
    try:
        lost = Run(path.parent, RunConfig(regard="")).count_unreadable()
    except OSError as error:
        return FileState(
            file=path.name, state="damaged", reason=str(error), remedy=f"metrics.jsonl: remove {path}"
        )
    if lost:
        reason = f"{lost} lines cannot be read"
        remedy = "metrics.jsonl: resuming drops lines that cannot be read; no weights depend on them"
        return FileState(file=path.name, state="not covered", reason=reason, remedy=remedy)
    return FileState(file=path.name, state="not covered", reason="every line can be read")
