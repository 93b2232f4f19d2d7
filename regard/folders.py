"""Where runs and caches go when nobody says."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """Where what was made of large data is kept: REGARD_CACHE, or the user's cache folder."""
    given = os.environ.get("REGARD_CACHE")
    base = Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "regard"
    base.mkdir(parents=True, exist_ok=True)
    return base


def fresh(name: str) -> Path:
    """runs/text, or the first of runs/text-2, runs/text-3, ... that is not there yet."""
    number = 1
    while (path := numbered(name, number)).exists():
        number += 1
    return path


def latest(name: str) -> Path:
    """The last of those that `fresh` gave."""
    number = 1
    while numbered(name, number + 1).exists():
        number += 1
    return numbered(name, number)


def numbered(name: str, number: int) -> Path:
    return Path("runs") / (name if number == 1 else f"{name}-{number}")
