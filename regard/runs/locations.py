"""Default folders of runs and caches."""

import os
from pathlib import Path

from regard.runs.run import Run


def cache_folder() -> Path:
    """The cache of prepared data: REGARD_CACHE, or the user's cache folder."""
    given = os.environ.get("REGARD_CACHE")
    if given:
        base = Path(given)
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "regard"
    base.mkdir(parents=True, exist_ok=True)
    return base


def new_run_path(name: str) -> Path:
    """runs/text, or the first of runs/text-2, runs/text-3, ... that is not there yet."""
    number = 1
    while (path := _numbered(name, number)).exists():
        number += 1
    return path


def latest_run_path(recipe: str | None) -> Path:
    """The most recent run in runs/ of this recipe (None: of the user's own modules)."""
    found = [path for path in Path("runs").glob("*") if _made_by(path, recipe)]
    if not found:
        if recipe is None:
            what = "a module of your own"
        else:
            what = f"the recipe {recipe}"
        raise FileNotFoundError(
            f"there is no run of {what} under {Path('runs').resolve()}; name one with --out"
        )
    return max(found, key=lambda path: (_touched(path), path.name))


def _made_by(path: Path, recipe: str | None) -> bool:
    try:
        return Run.open(path).config.recipe == recipe
    except (OSError, ValueError):
        return False


def _touched(path: Path) -> int:
    """When a training last wrote to a run, in nanoseconds."""
    return max(
        each.stat().st_mtime_ns for each in (path / "config.json", path / "metrics.jsonl") if each.exists()
    )


def _numbered(name: str, number: int) -> Path:
    return Path("runs") / (name if number == 1 else f"{name}-{number}")
