"""How a run directory begins, and how it is gone again if the start fails."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from regard import files
from regard.runs.lock import NAMES as LOCKS
from regard.runs.lock import exclusive_lock
from regard.runs.run import WRITTEN, Run, check_free


@contextmanager
def new_run(path: files.PathLike, sections: Mapping[str, Any]) -> Iterator[Run]:
    """A new run, with its lock. If what follows fails before a step is done, the folder is gone again, and
    its name free.

    Only the process that holds the lock makes a run, and only that process takes it away. Of two that start
    in one folder at once, the other one gets an error and touches nothing.
    """
    path = Path(path)
    check_free(path)
    made = make_run_folder(path)
    with exclusive_lock(path / "state") as lock:
        check_free(path)  # another process may have been sooner
        try:
            run = Run.create(path, sections)
            yield run
        except BaseException:
            if lock.is_ours() and not _was_trained(path):
                discard_start(path, made)
            raise


def make_run_folder(path: Path) -> list[Path]:
    try:
        return files.make_folder(path, parents=True)
    except OSError as error:
        words = f"cannot make the folder {path}: {error.strerror}; choose another with --out"
        raise files.say_again(error, words) from error


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
