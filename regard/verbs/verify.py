"""regard verify: are the files of a run whole, and what can be saved of it?"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from regard import files
from regard.config import config
from regard.errors import RegardError, name_keywords
from regard.runs.lock import NAMES as LOCKS
from regard.runs.lock import exclusive_lock
from regard.runs.manifest import COPIED, Entry, Manifest
from regard.runs.manifest import FILE as MANIFEST
from regard.runs.run import VERIFIED, WRITTEN, Run, is_run_group, say_which_runs
from regard.runs.run_config import RunConfig
from regard.training.checkpoint import Checkpoint, Checkpoints
from regard.verbs.console import spinner
from regard.verbs.options import one_word, read_options

MODEL = "model.safetensors"
State = Literal["whole", "damaged", "missing", "not covered"]
Repair = Callable[[], str]  # restores a file, and says what was done


@config
class VerifyOptions:
    """RUN is a run of regard train. Each of its files is compared with the checksum that was written with it.

    exit code: 0 all are whole, 1 something is damaged or missing, 2 it could not be run
    """

    repair: bool = False
    """restore what can be restored: config.json and tokenizer.json from their copies in state/, the weights
    from a checkpoint. What is damaged is kept beside it as NAME.damaged"""
    json: bool = False  # {"path", "whole", "files": [{"file", "state", "reason", "remedy"}], "done"}


@dataclass(frozen=True, kw_only=True)
class FileState:
    """What is known about one file of a run, or about one checkpoint."""

    file: str
    state: State
    reason: str = ""
    remedy: str = ""  # what can be saved, and how
    repair: Repair | None = field(default=None, repr=False, compare=False)

    def to_json(self) -> dict[str, str]:
        found = {"file": self.file, "state": self.state, "reason": self.reason, "remedy": self.remedy}
        return {name: value for name, value in found.items() if value}


@dataclass(frozen=True, kw_only=True)
class Verification:
    """The files of a run, one by one."""

    path: str
    files: tuple[FileState, ...]
    done: tuple[str, ...] = ()  # what was repaired

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


@name_keywords
def verify(path: str | os.PathLike[str], *, repair: bool = False) -> Verification:
    """Compare every file of a run with the manifest that was written with it.

        verify("runs/mine").whole
        verify("runs/mine", repair=True)

    repair  restore what can be restored: config.json and tokenizer.json from their copies, weights from a
            checkpoint
    """
    path = Path(path)
    if not path.is_dir():
        what = "is a file" if path.exists() else "does not exist"
        raise FileNotFoundError(f"{path} {what}; give the folder of a run, as made by regard train")
    if is_run_group(path):
        raise RegardError(say_which_runs(path))
    of_a_run = (MANIFEST, "state/config.json", "state/latest.json")
    if not Run.exists(path) and not any((path / name).exists() for name in of_a_run):
        raise RegardError(f"{path} is not a run of regard: it has no {MANIFEST} and no config.json of one")
    done: list[str] = []
    if repair:
        with exclusive_lock(path / "state"):
            done += [each.repair() for each in _survey(path) if each.repair is not None]
            done += [f"removed {each.name}, which was half-written" for each in _plain_run(path).sweep()]
    found = tuple(_survey(path))
    if any(each.state in ("damaged", "missing") for each in found):
        found = tuple(_survey(path))  # a training may have replaced a file meanwhile
    return Verification(path=str(path), files=found, done=tuple(dict.fromkeys(done)))


def _survey(path: Path) -> Iterator[FileState]:
    """All files. A file that is repaired before the next one is asked for counts as it is then."""
    manifest, checkpoints = Manifest(path), Checkpoints(path / "state")
    named, notes = checkpoints.find()
    errors = {each.step: _error_of(each) for each in named}
    whole = [each for each in named if not errors[each.step]]
    yield _manifest(manifest, whole)
    yield from _published(manifest, whole)
    rename = partial(_rename_latest, checkpoints, whole) if whole else None
    if notes:
        state: State = "damaged" if checkpoints.latest.exists() else "missing"
        remedy = "state/latest.json: resuming needs no repair; --repair names the checkpoints that are whole"
        yield FileState(file="state/latest.json", state=state, remedy=remedy, repair=rename)
    elif named:
        yield FileState(file="state/latest.json", state="whole")
    remedy = "checkpoints: none is whole, so the training cannot go on; the published weights can be used"
    if whole:
        remedy = f"checkpoints: resuming goes on from step {whole[0].step}"
    for each in named:
        name, error = f"state/{each.step}", errors[each.step]
        if error:
            yield FileState(file=name, state="damaged", reason=error, remedy=remedy, repair=rename)
        else:
            yield FileState(file=name, state="whole")
    yield from _others(manifest)


def _plain_run(path: Path) -> Run:
    """The run, whatever its config.json says."""
    return Run(path, RunConfig(regard=""))


def _error_of(checkpoint: Checkpoint) -> str:
    """What is wrong with a checkpoint; nothing: it is whole."""
    try:
        checkpoint.verify()
    except (OSError, ValueError) as error:
        return str(error)
    return ""


def _rename_latest(checkpoints: Checkpoints, whole: list[Checkpoint]) -> str:
    checkpoints.name_latest(whole[:2])
    return f"named the checkpoint of step {whole[0].step} in state/latest.json"


# ── the manifest, and what it covers


def _manifest(manifest: Manifest, whole: list[Checkpoint]) -> FileState:
    try:
        manifest.read()
    except ValueError as error:
        state: State = "damaged" if manifest.path.exists() else "missing"
        remedy = f"{MANIFEST}: --repair makes it again from copies"
        repair = partial(_make_manifest_again, manifest, whole)
        reason = str(error).split(";")[0]
        return FileState(file=MANIFEST, state=state, reason=reason, remedy=remedy, repair=repair)
    return FileState(file=MANIFEST, state="whole")


def _make_manifest_again(manifest: Manifest, whole: list[Checkpoint]) -> str:
    """Of files that are equal to a copy, or to the weights of a checkpoint: no damage makes two files equal."""
    entries = {name: _entry_of(manifest.folder / name) for name in (*COPIED, MODEL)}
    copies = {name: {_entry_of(manifest.copy_of(name))} for name in COPIED}
    copies[MODEL] = {entries[MODEL]} if _with_weights([entries[MODEL]], whole) else set()
    proved = {name: [entry] for name, entry in entries.items() if entry is not None and entry in copies[name]}
    _set_aside(manifest.path)
    manifest.keep(proved)
    return f"made {MANIFEST} again, of {', '.join(proved) or 'no file: nothing is proved by a copy'}"


def _published(manifest: Manifest, whole: list[Checkpoint]) -> Iterator[FileState]:
    entries: dict[str, list[Entry]] = {}
    with suppress(ValueError):
        entries = manifest.read()
    for name in dict.fromkeys([*VERIFIED, *entries]):
        known, path = entries.get(name, []), manifest.folder / name
        if known or path.exists():
            yield _compare(path, name, known, *_find_remedy(manifest, name, known, whole))
        if name in COPIED and known and (manifest.folder / "state").is_dir():
            copy, done = manifest.copy_of(name), f"copied {name} to state/{name}"
            repair = partial(_restore, copy, path, done) if _entry_of(path) in known else None
            yield _compare(copy, f"state/{name}", known, f"state/{name}: --repair copies {name} there", repair)


def _compare(path: Path, name: str, known: list[Entry], remedy: str, repair: Repair | None) -> FileState:
    state: State = "damaged"
    try:
        found = Entry.of_file(path)
    except FileNotFoundError:
        state, reason = "missing", ""
    except OSError as error:
        reason = str(error)
    else:
        if found in known:
            return FileState(file=name, state="whole")
        reason = f"it is not in {MANIFEST}"
        if known:
            reason = f"it has {found}, expected {' or '.join(map(str, known))}"
    return FileState(file=name, state=state, reason=reason, remedy=remedy, repair=repair)


def _find_remedy(
    manifest: Manifest, name: str, known: list[Entry], whole: list[Checkpoint]
) -> tuple[str, Repair | None]:
    """What can be saved of a published file if it is damaged."""
    path, copy = manifest.folder / name, manifest.copy_of(name)
    if name in COPIED:
        if _entry_of(copy) not in known:
            return f"{name}: its copy in state/ is damaged, too; put back a copy of yours", None
        done = f"restored {name} from state/{name}; what was there is {name}.damaged"
        return f"{name}: --repair restores it from state/{name}", partial(_restore, path, copy, done)
    if name != MODEL:
        remedy = f"{name}: the model can be used without it; --repair sets it aside"
        return remedy, partial(_forget, manifest, name)
    if not whole:
        return f"{name}: no checkpoint is whole; put back a copy of yours", None
    exact = _with_weights(known, whole)
    if exact:
        remedy = f"{name}: --repair restores it from the checkpoint of step {exact[0].step}"
    else:
        remedy = f"{name}: --repair publishes the weights of step {whole[0].step} in its place, the last that are whole"
    return remedy, partial(_publish, manifest, [*exact, *whole][0])


def _with_weights(known: Sequence[Entry | None], whole: list[Checkpoint]) -> list[Checkpoint]:
    """The checkpoints whose weights have one of these checksums."""
    sums = [each.sha256 for each in known if each is not None]
    return [each for each in whole if each.sums.get(f"{each.best}.safetensors") in sums]


def _entry_of(path: Path) -> Entry | None:
    with suppress(OSError):
        return Entry.of_file(path)
    return None


def _restore(path: Path, copy: Path, done: str) -> str:
    data = files.read_bytes(copy)
    _set_aside(path)
    files.make_folder(path.parent)
    files.write_bytes(path, data)
    return done


def _publish(manifest: Manifest, checkpoint: Checkpoint) -> str:
    _set_aside(manifest.folder / MODEL)
    manifest.write({MODEL: checkpoint.weights()})
    return f"published the weights of step {checkpoint.step} as {MODEL}; what was there is {MODEL}.damaged"


def _forget(manifest: Manifest, name: str) -> str:
    _set_aside(manifest.folder / name)
    manifest.keep({other: each for other, each in manifest.read().items() if other != name})
    return f"set {name} aside as {name}.damaged"


def _set_aside(path: Path) -> None:
    """Give what is damaged another name, so that its own can be written to."""
    with suppress(OSError):
        path.replace(path.with_name(f"{path.name}.damaged"))


# ── what it does not cover


def _others(manifest: Manifest) -> Iterator[FileState]:
    """What nothing is computed from, and what killed processes left."""
    path = manifest.folder
    known = {*VERIFIED, MANIFEST, "state", *LOCKS}
    with suppress(ValueError):
        known |= manifest.read().keys()
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


def _metrics(path: Path) -> FileState:
    try:
        lost = _plain_run(path.parent).count_unreadable()
    except OSError as error:
        remedy = f"{path.name}: remove {path}"
        return FileState(file=path.name, state="damaged", reason=str(error), remedy=remedy)
    if not lost:
        return FileState(file=path.name, state="not covered", reason="every line can be read")
    return FileState(
        file=path.name,
        state="not covered",
        reason=f"{lost} lines cannot be read",
        remedy=f"{path.name}: resuming drops lines that cannot be read; no weights depend on them",
    )


# ── the command


def run(words: list[str]) -> int:
    """regard verify RUN"""
    options, words = read_options(VerifyOptions, words, "regard verify")
    path = one_word(words, "verify", "run")
    with spinner(f"reading {path}"):
        found = verify(path, repair=options.repair)
    print(files.json_text(found.to_json(), indent=2) if options.json else found.format())
    return 0 if found.whole else 1
