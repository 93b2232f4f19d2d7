"""Where runs are, how a run directory begins, and how it is gone again if the start fails."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from regard import files
from regard.runs.lock import NAMES as LOCKS
from regard.runs.lock import Lock, exclusive_lock
from regard.runs.manifest import FILE as MANIFEST
from regard.runs.run import SUMMARY, WRITTEN, Run, is_run_group
from regard.runs.run_group import Repeats

Create = Callable[[Mapping[str, Any]], Run]


def new_run_path(name: str) -> Path:
    """runs/text, or the first of runs/text-2, runs/text-3, ... that is not there yet."""
    path, number = Path("runs") / name, 1
    while path.exists():
        number += 1
        path = Path("runs") / f"{name}-{number}"
    return path


def latest_run_path(recipe: str | None) -> Path:
    """The most recent run in runs/ of this recipe (None: of the user's own modules)."""
    found = Path("runs").glob("*")
    runs = [path for path in found if Run.exists(path) or (path / MANIFEST).exists() or Repeats.exists(path)]
    for path in sorted(runs, key=lambda path: (_touched(path), path.name), reverse=True):
        # a damaged one is told: going on with an older one is no answer
        own = Repeats.open(path).recipe if Repeats.exists(path) else Run.open(path).config.recipe
        if own == recipe:
            return path
    what = "a module of your own" if recipe is None else f"the recipe {recipe}"
    raise FileNotFoundError(f"there is no run of {what} under {Path('runs').resolve()}; name one with --out")


def _touched(path: Path) -> int:
    """When a training last wrote to a run, or to one of several in a folder, in nanoseconds."""
    names = ("config.json", "metrics.jsonl", MANIFEST, SUMMARY, "*/metrics.jsonl")
    return max(file.stat().st_mtime_ns for name in names for file in path.glob(name))


def create_run(path: files.PathLike, sections: Mapping[str, Any]) -> Run:
    """A new run in a folder that is new or empty. Sections are plain values, dicts or config dataclasses."""
    with claim_folder(path):
        return Run.begin(path, sections)


@contextmanager
def new_run(path: files.PathLike) -> Iterator[Create]:
    """The folder of a new run, with its lock, before any work on data; what comes makes the run of its sections. If
    what follows fails before a step is done, the folder is gone again, and its name free.

    Only the process that holds the lock makes a run, and only that process takes it away. Of two that start
    in one folder at once, the other one gets an error and touches nothing.
    """
    path = Path(path)
    with claim_folder(path) as (lock, made):
        try:
            yield partial(Run.begin, path)
        except BaseException:
            if lock.is_ours() and not _was_trained(path):
                discard_start(path, made)
            raise


@contextmanager
def claim_folder(path: files.PathLike) -> Iterator[tuple[Lock, list[Path]]]:
    """The lock of a folder that is free, and the folders that were made for it. Whether it is free is asked before
    anything is touched, and again under the lock: another process may have been sooner."""
    path = Path(path)
    check_free(path)
    try:
        made = files.make_folder(path, parents=True)
    except OSError as error:
        words = f"cannot make the folder {path}: {error.strerror}; choose another with --out"
        raise files.say_again(error, words) from error
    with exclusive_lock(path / "state") as lock:
        check_free(path)
        yield lock, made


def check_free(path: files.PathLike) -> None:
    """Raise unless a new run can be made here. This makes nothing, so call it before long work on data."""
    path = Path(path)
    if path.exists() and not path.is_dir():
        raise FileExistsError(f"{path} is a file; choose a folder that is not there yet with --out")
    if Run.exists(path) or is_run_group(path):
        raise FileExistsError(
            f"{path} holds a run already; go on with it with --resume, or choose another folder with --out"
        )
    there: list[str] = []
    if path.is_dir():
        there = sorted(each.name for each in path.iterdir() if not _is_of_a_start(each))
    if there:
        some = ", ".join(there[:3]) + (", ..." if len(there) > 3 else "")
        raise FileExistsError(
            f"{path} is not a run and is not empty (it holds {some}); choose another folder with --out"
        )
    above = next(each for each in (path, *path.parents) if each.exists())
    if not above.is_dir():
        raise NotADirectoryError(f"cannot make the folder {path}: {above} is a file; choose another with --out")
    if not os.access(above, os.W_OK | os.X_OK):
        raise PermissionError(
            f"cannot make the folder {path}: {above} may not be written to; choose another with --out"
        )


def _is_of_a_start(path: Path) -> bool:
    """Is this what a start that was killed before config.json leaves, or one that another process begins?"""
    names, mine = [path.name], [MANIFEST, "environment.json"]
    if path.name == "state" and path.is_dir():
        names, mine = [each.name for each in path.iterdir()], [*LOCKS, "config.json"]
    return all(name in mine or name.endswith(".part") for name in names)


def _was_trained(path: Path) -> bool:
    """Is a step done, or anything saved? If that is unclear, yes. (config.json may be gone by now.)"""
    if (path / "model.safetensors").exists() or (path / "state" / "latest.json").exists():
        return True
    try:
        return b'"event": "step"' in (path / "metrics.jsonl").read_bytes()
    except FileNotFoundError:
        return False
    except OSError:
        return True


def discard_start(path: Path, made: list[Path]) -> None:
    """Remove the files of a failed start, and the folders made for it, unless they hold something else.

    The lock goes last: who finds no lock makes a run of their own here.
    """
    state = path / "state"
    with suppress(OSError):
        for name in WRITTEN:
            (path / name).unlink(missing_ok=True)
        files.sweep(path, WRITTEN)
        shutil.rmtree(path / "tensorboard", ignore_errors=True)
        for each in state.iterdir():
            if each.is_dir():
                shutil.rmtree(each, ignore_errors=True)
            elif each.name not in LOCKS:
                each.unlink()
        for name in LOCKS:
            (state / name).unlink(missing_ok=True)
        for folder in (state, *made):
            folder.rmdir()
