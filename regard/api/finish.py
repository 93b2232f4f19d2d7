"""The end of a run: the test split, the confusion matrix, the outcome, the curves, the laws, the report. The
model is loaded once."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from torch import nn

from regard.api.check import write_laws
from regard.api.look import write_report
from regard.look import plot
from regard.look.private import without_folders
from regard.look.views import confusion
from regard.recipes.base import Recipe
from regard.recipes.evaluation import Evaluation, evaluate_split
from regard.recipes.job import Job
from regard.recipes.kept_examples import choose_examples
from regard.runs import outcome
from regard.runs.run import Run
from regard.symmetry.report import law_title
from regard.targets.open import target_of_run
from regard.training.progress import Observer, tell
from regard.training.result import Result


def finish_run(
    run: Run, recipe: Recipe, job: Job, ended: Result, observers: Sequence[Observer], *, report: bool = True
) -> None:
    """Evaluate the published weights and write the reports. A stopped run is not evaluated yet."""
    tests = job.test is not None and ended.reason != "stopped"
    shows = report and job.labels is not None and job.best_split.count != 0
    if report:
        plot.curves(run)
    if not run.model_file.exists():
        return
    if not (tests or report):
        return
    model = recipe.load(run)
    if tests or shows:
        found = evaluate_split(model, job.task, job.best_split, job.labels)
        if tests:
            _write_test(run, found, ended.step, observers)
        if shows:
            _write_confusion(run, found)
    if report:
        _write_outcome(run, recipe, job, model, stopped=ended.reason == "stopped")
        target = target_of_run(run.path, model=model)
        write_laws(run, target)
        write_report(run, target)


def _write_test(run: Run, found: Evaluation, step: int, observers: Sequence[Observer]) -> None:
    """Store the measures on the test split."""
    run.update(test=found.measures)
    run.append([{"step": step, "event": "test", **found.measures, "count": found.count}])
    tell(observers, "tested", found.measures, found.count)


def _write_outcome(run: Run, recipe: Recipe, job: Job, model: nn.Module, *, stopped: bool) -> None:
    """outcome.json: what the run was trained on, what to type next, and a few examples. A run is not lost
    over it. The test split of a stopped run is left alone."""
    split = job.validation_split if stopped else job.best_split
    facts: dict[str, Any] = {
        "data": recipe.describe(job),
        "unit": split.unit,
        "validation": job.validation,
        "next": without_folders(recipe.next_command(run).replace(run.quoted, "{run}")),
        "examples": None,
    }
    if (run.config.train or {}).get("examples", True):
        with suppress(ValueError, OSError, ImportError, RuntimeError):
            facts["examples"] = choose_examples(model, job, split)
    run.write(outcome.FILE, facts)


def _write_confusion(run: Run, found: Evaluation) -> None:
    """confusion.json and confusion.png of a classifier: its confusion matrix."""
    if found.confusion is None or found.labels is None or not found.confusion.sum():
        return
    facts = {"split": found.split, "labels": list(found.labels), "counts": found.confusion.tolist()}
    run.write(confusion.FILE, facts)
    title = f"{run.path.name}, {found.split} split"
    plot.save(plot.confusion(found.confusion, list(found.labels), title=title), run.path / "confusion.png")


# Files of a run that a user may want, in this order.
FILES = (
    "model.safetensors",
    "report.html",
    "curves.png",
    "confusion.png",
    "laws.json",
    "samples",
    "config.json",
    "metrics.jsonl",
)


def files_in_a_line(run: Run) -> str:
    """runs/text: model.safetensors, report.html, ...: those that are there."""
    there = [path for path in (run.path / name for name in FILES) if path.exists()]
    return f"{run.path}: {', '.join(path.name + '/' * path.is_dir() for path in there)}"


def laws_in_a_line(laws: list[dict[str, Any]]) -> str:
    """laws that hold: rotation by quarter turns, padding; broken: shift. What is not promised, and is not
    kept, is no news."""
    found: dict[str, list[str]] = {}
    for law in laws:
        if law["measured"] != "broken" or law["declared"] not in ("broken", "not promised"):
            found.setdefault(str(law["measured"]), []).append(law_title(law["law"], law.get("by")))
    hold = found.pop("holds", ["none"])
    others = [f"{how}: {', '.join(each)}" for how, each in found.items()]
    return "; ".join([f"laws that hold: {', '.join(hold)}", *others])
