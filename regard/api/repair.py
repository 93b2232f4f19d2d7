"""What can be saved of a damaged run, and how a run whose files were changed by hand is taken as it is. For
who holds the lock of the run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from regard import files
from regard.errors import RegardError
from regard.runs.checksums import COPIED, Checksums
from regard.runs.checksums import FILE as CHECKSUMS
from regard.runs.run import VERIFIED, Run
from regard.runs.run_config import FORMAT, WITHOUT_CHECKSUMS, read_run_config
from regard.training.checkpoint import Checkpoint, Checkpoints

MODEL = "model.safetensors"


# ── repair


def repair_files(path: Path) -> list[str]:
    """Restore what can be restored; returns what was done, in words."""
    checksums, done = Checksums(path), []
    whole, rewritten = _repair_checkpoints(Checkpoints(path / "state"))
    done += rewritten
    try:
        sums = checksums.read()
    except ValueError:
        sums = _prove(checksums, whole)
        _cleared(checksums.path)
        checksums.keep(sums)
        done.append(f"made {CHECKSUMS} again, of {', '.join(sums) or 'no file: nothing is proved by a copy'}")
    for name in dict.fromkeys([*VERIFIED, *sums]):
        done += _repair_file(checksums, name, sums, whole)
    left = [
        *files.sweep(path, names=(*VERIFIED, CHECKSUMS, "metrics.jsonl")),
        *files.sweep(path / "state", older=-math.inf),
    ]
    return done + [f"removed {each.name}, which was half-written" for each in left]


def _repair_checkpoints(made: Checkpoints) -> tuple[list[Checkpoint], list[str]]:
    """The checkpoints that are whole; latest.json names them."""
    found, notes = made.find()
    whole = []
    for each in found:
        with suppress(OSError, ValueError):
            each.verify()
            whole.append(each)
    if not whole or (len(whole) == len(found) and not notes):
        return whole, []
    made.name_latest(whole[:2])
    return whole, [f"named the checkpoint of step {whole[0].step} in state/latest.json"]


def _prove(checksums: Checksums, whole: list[Checkpoint]) -> dict[str, list[str]]:
    """Checksums of files that are equal to a copy, or to the weights of a checkpoint: no damage makes two
    files equal."""
    copies: dict[str, set[str]] = {name: {*_checksum(checksums.copy_of(name))} for name in COPIED}
    copies[MODEL] = {each.sums[f"{each.best}.safetensors"] for each in whole}
    found = {name: [*_checksum(checksums.folder / name)] for name in copies}
    return {name: sums for name, sums in found.items() if sums and copies[name] >= set(sums)}


def _repair_file(
    checksums: Checksums, name: str, sums: dict[str, list[str]], whole: list[Checkpoint]
) -> Iterator[str]:
    file, known = checksums.folder / name, sums.get(name, [])
    copy = checksums.copy_of(name)
    fits = {*_checksum(file)} & {*known}
    if name in COPIED and known:
        if not fits and {*_checksum(copy)} & {*known}:
            files.write_bytes(_cleared(file), files.read_bytes(copy))
            yield f"restored {name} from state/{name}; what was there is {name}.damaged"
        elif fits and not {*_checksum(copy)} & {*known}:
            files.make_folder(copy.parent)
            files.write_bytes(_cleared(copy), files.read_bytes(file))
            yield f"copied {name} to state/{name}"
    elif name == MODEL and not fits and whole and (known or file.exists()):
        exact = [each for each in whole if each.sums[f"{each.best}.safetensors"] in known]
        chosen = [*exact, *whole][0]
        _cleared(file)
        checksums.write({name: chosen.weights()})
        yield f"published the weights of step {chosen.step} as {name}; what was there is {name}.damaged"
    elif name not in (*COPIED, MODEL) and not fits and (known or file.exists()):
        _cleared(file)
        checksums.keep({other: each for other, each in checksums.read().items() if other != name})
        yield f"set {name} aside as {name}.damaged"


def _cleared(path: Path) -> Path:
    """A path that may be written to: what is there is damaged, and is set aside under another name."""
    with suppress(OSError):
        path.replace(path.with_name(f"{path.name}.damaged"))
    return path


def _checksum(path: Path) -> Iterator[str]:
    """The checksum of a file, or nothing."""
    with suppress(OSError):
        yield files.checksum(path)


# ── accept


def accept_files(path: Path) -> list[str]:
    """Write the checksums of the files as they are. What cannot be opened is not accepted."""
    checksums = Checksums(path)
    plain, old = _upgrade(path)
    contents = {"config.json": plain}
    with suppress(FileNotFoundError):
        contents["tokenizer.json"] = files.read_bytes(path / "tokenizer.json")
        files.parse_json(contents["tokenizer.json"], path / "tokenizer.json")
    sums = {name: [files.checksum_of(data)] for name, data in contents.items()}
    for name in _names(checksums):
        if name not in contents and (path / name).exists():
            sums[name] = [_accept(path / name)]
    files.make_folder(path / "state")
    for name, data in contents.items():
        files.write_bytes(checksums.copy_of(name), data)
    checksums.keep({name: sums[name] for name in _names(checksums) if name in sums})
    if old:
        files.write_bytes(path / "config.json", plain)
        _upgrade_checkpoints(Checkpoints(path / "state"))
    return [f"accepted {', '.join(name for name in _names(checksums) if name in sums)} as they are"]


def _names(checksums: Checksums) -> list[str]:
    """The files that have checksums, or should have."""
    try:
        return list(dict.fromkeys([*VERIFIED, *checksums.read()]))
    except ValueError:
        return [*VERIFIED]


def _accept(path: Path) -> str:
    """The checksum of a file that can be read."""
    if path.name != MODEL:
        files.read_json(path)
    else:
        for name, tensor in files.read_tensors(path).items():
            if tensor.is_floating_point() and bool(tensor.isnan().any()):
                raise RegardError(f"cannot accept {path}: '{name}' holds NaN; restore it with --repair")
    return files.checksum(path)


def _upgrade(path: Path) -> tuple[bytes, bool]:
    """The content of config.json in the format of today, and whether it was in that before checksums."""
    file = path / "config.json"
    data = files.read_bytes(file)
    found: Any = files.parse_json(data, file)
    old = isinstance(found, dict) and found.get("format") == WITHOUT_CHECKSUMS
    if old:
        found |= {"format": FORMAT}
        data = (files.json_text(found, indent=2) + "\n").encode("utf-8")
    run = Run(path, read_run_config(found, str(path)))
    assert run.config.format == FORMAT
    return data, old


def _upgrade_checkpoints(made: Checkpoints) -> None:
    """latest.json of a run without checksums, with its own checksum, if what it names is whole."""
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        found = made.read_unsealed()
        for each in found:
            each.verify()
        made.name_latest(found)
