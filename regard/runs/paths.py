"""Default folders of runs."""

from pathlib import Path

from regard.runs.manifest import FILE as MANIFEST
from regard.runs.run import SUMMARY, Run
from regard.runs.run_group import Repeats


def new_run_path(name: str) -> Path:
    """runs/text, or the first of runs/text-2, runs/text-3, ... that is not there yet."""
    number = 1
    while (path := _numbered(name, number)).exists():
        number += 1
    return path


def latest_run_path(recipe: str | None) -> Path:
    """The most recent run in runs/ of this recipe (None: of the user's own modules)."""
    runs = [path for path in Path("runs").glob("*") if _holds_a_run(path)]
    for path in sorted(runs, key=lambda path: (_touched(path), path.name), reverse=True):
        # a damaged one is told: going on with an older one is no answer
        if _recipe_of(path) == recipe:
            return path
    if recipe is None:
        what = "a module of your own"
    else:
        what = f"the recipe {recipe}"
    raise FileNotFoundError(f"there is no run of {what} under {Path('runs').resolve()}; name one with --out")


def _holds_a_run(path: Path) -> bool:
    return Run.exists(path) or (path / MANIFEST).exists() or Repeats.exists(path)


def _recipe_of(path: Path) -> str | None:
    if Repeats.exists(path):
        return Repeats.open(path).recipe
    return Run.open(path).config.recipe


def _touched(path: Path) -> int:
    """When a training last wrote to a run, or to one of several in a folder, in nanoseconds."""
    names = ("config.json", "metrics.jsonl", MANIFEST, SUMMARY, "*/metrics.jsonl")
    return max(file.stat().st_mtime_ns for name in names for file in path.glob(name))


def _numbered(name: str, number: int) -> Path:
    return Path("runs") / (name if number == 1 else f"{name}-{number}")
