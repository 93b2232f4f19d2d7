"""A folder that holds several runs, seen by whoever expects one: is it such a folder, and what to give instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard import files

FILE = "summary.json"


def is_folder_of_runs(path: files.PathLike) -> bool:
    """Is this the folder of several runs, of any format?"""
    return _summary(path) is not None


def folder_of_runs_above(path: files.PathLike) -> Path | None:
    """The folder of several runs that this run is one of; None: it stands alone."""
    above = Path(path).parent
    found = _summary(above)
    if found is None or Path(path).name not in found["names"]:
        return None
    return above


def say_which_runs(path: files.PathLike) -> str:
    """The line for whoever gives the folder of several runs where one is expected."""
    names = (_summary(path) or {"names": ["?"]})["names"]
    return (
        f"{path} holds {len(names)} runs, {names[0]} … {names[-1]}; give one of them, such as "
        f"{Path(path) / names[0]} (the figures of all are in {FILE} and report.html)"
    )


def _summary(path: files.PathLike) -> dict[str, Any] | None:
    try:
        found = files.read_json(Path(path) / FILE)
    except (OSError, ValueError, TypeError):
        return None
    if isinstance(found, dict) and "regard" in found and isinstance(found.get("names"), list):
        return found if found["names"] else None
    return None
