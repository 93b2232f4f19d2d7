"""The end of a run: the test split, the confusion matrix, the outcome, the curves, the laws, the report, and how good it is
in one line. The model is loaded once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any

from torch import nn

from regard.look import plot
from regard.look.redact_paths import without_folders
from regard.look.views.outcome import CONFUSION_FILE
from regard.recipes.base import problem_of_run
from regard.recipes.evaluation import Evaluation, evaluate_finished
from regard.recipes.job import Job, Split
from regard.recipes.kept_examples import choose_examples
from regard.recipes.problem import Problem
from regard.runs.evaluations import LAST, main_measure
from regard.runs.number_format import say_measure, say_value
from regard.runs.report_examples import FILE as OUTCOME
from regard.runs.run import Run
from regard.runs.run_group import Repeats
from regard.symmetry.report import law_title
from regard.targets.open import target_of_run
from regard.training.progress import Observer, Result, tell
from regard.verbs.check import write_laws
from regard.verbs.look import write_report


def finish_run(run: Run, job: Job, ended: Result, observers: Sequence[Observer], *, report: bool = True) -> None:
    """Evaluate the published weights and write the reports. A stopped run may go on, so nobody looks at its
    test split yet: its reports are made from the validation split."""
    over = ended.reason != "stopped"
    tests = job.test is not None and over
    split = job.best_split if over else job.validation_split
    shows = report and job.labels is not None and split.count != 0
    more = over and job.evaluate is not None and split.count != 0
    if over and not tests:
        _tell_outcome(run, job, ended, None, observers)
    if report:
        plot.curves(run)
    if not run.model_file.exists():
        return
    if not (tests or report or more):
        return
    problem = problem_of_run(run)
    model = problem.load(run)
    if tests or shows or more:
        found = evaluate_finished(model, job, split)
        if tests:
            _write_test(run, found, ended.step, observers)
            _tell_outcome(run, job, ended, found, observers)
        if found.details():
            tell(observers, "concluded", found.details())
        if shows:
            _write_confusion(run, found)
    if report:
        tell(observers, "working", "measuring the laws and writing the report ...")
        if job.draw is not None:
            job.draw(run, model)
        _write_outcome(run, problem, job, model, split, ended)
        with suppress(ValueError, OSError, ImportError, RuntimeError):
            problem.finish(run, job, model)
        target = target_of_run(run.path, model=model)
        write_laws(run, target)
        write_report(run, target)


def _write_test(run: Run, found: Evaluation, step: int, observers: Sequence[Observer]) -> None:
    """Store the measures on the test split."""
    run.update(test=found.measures)
    event: dict[str, Any] = {"step": step, "event": "test", **found.measures, "count": found.count}
    if found.intervals:
        event["intervals"] = {name: list(ends) for name, ends in found.intervals.items()}
    run.append([event])
    tell(observers, "tested", found.measures, found.count)


def _tell_outcome(run: Run, job: Job, ended: Result, found: Evaluation | None, observers: Sequence[Observer]) -> None:
    if (line := outcome_line(run, job, ended, found)) is not None:
        tell(observers, "concluded", line)


def _write_outcome(run: Run, problem: Problem, job: Job, model: nn.Module, split: Split, ended: Result) -> None:
    """outcome.json: what the run was trained on, what to type next, and a few examples. A run is not lost over
    it. split: where the examples are from"""
    facts: dict[str, Any] = {
        "data": problem.describe(job),
        "unit": split.unit,
        "validation": job.validation if ended.stride == 1 else None,
        "next": without_folders(problem.next_command(run).replace(run.quoted, "{run}")),
        "examples": None,
    }
    if (run.config.train or {}).get("examples", True):
        with suppress(ValueError, OSError, ImportError, RuntimeError):
            facts["examples"] = choose_examples(model, job, split)
    run.write(OUTCOME, facts)


def _write_confusion(run: Run, found: Evaluation) -> None:
    """confusion.json and confusion.png of a classifier: its confusion matrix."""
    if found.confusion is None or found.labels is None or not found.confusion.sum():
        return
    facts = {"split": found.split, "labels": list(found.labels), "classes": found.of_classes}
    facts |= {"counts": found.confusion.tolist()}
    run.write(CONFUSION_FILE, facts)
    title = f"{run.path.name}, {found.split} split"
    plot.save(plot.confusion(found.confusion, list(found.labels), title=title), run.path / "confusion.png")


# Files of a run that a user may want, in this order.
FILES = (
    "model.safetensors",
    "report.html",
    "curves.png",
    "confusion.png",
    "samples.png",
    "reconstructions.png",
    "latent.png",
    "laws.json",
    "samples",
    "config.json",
    "metrics.jsonl",
)


def files_in_a_line(run: Run | Repeats) -> str:
    """runs/text: model.safetensors, report.html, ...: those that are there."""
    if isinstance(run, Repeats):
        page = "report.html, " if (run.path / "report.html").exists() else ""
        return f"{run.path}: summary.json, {page}{run.names[0]}/ … {run.names[-1]}/"
    there = [path for path in (run.path / name for name in FILES) if path.exists()]
    # pictures that only one kind of data has
    there += [path for path in sorted(run.path.glob("*.png")) if path not in there]
    return f"{run.path}: {', '.join(path.name + '/' * path.is_dir() for path in there)}"


def laws_in_a_line(laws: list[dict[str, Any]]) -> str:
    """laws that hold: rotation by quarter turns, padding; broken: shift. What is not promised is left out: nothing
    follows from what is measured."""
    found: dict[str, list[str]] = {}
    for law in laws:
        as_declared = law["declared"] == "broken" and law["measured"] == "broken"
        if not as_declared and (law["declared"] != "not promised" or law["measured"] == "unknown"):
            found.setdefault(str(law["measured"]), []).append(law_title(law["law"], law.get("by")))
    hold = found.pop("holds", ["none"])
    unknown = found.pop("unknown", [])
    others = [f"{how}: {', '.join(each)}" for how, each in found.items()]
    if unknown:
        reasons = dict.fromkeys(str(law["reason"]) for law in laws if law["measured"] == "unknown")
        others.append(f"unknown: {', '.join(unknown)}, because {'; '.join(reasons)}")
    return "; ".join([f"laws that hold: {', '.join(hold)}", *others])


# ── how good it is: the figure to cite, beside the one that chose the weights


def outcome_line(run: Run, job: Job, ended: Result, found: Evaluation | None) -> str | None:
    """test accuracy 87.4%  loss 0.4106 of 250 rows (validation 88.1%  0.3987 of 250, by which …).

    found: the measures on the test split; None: there is none. The line is None if nothing was evaluated.
    """
    if found is None:
        return _without_test(run, job, ended)
    first = main_measure(found.measures, ended.keep, classes=job.labels is not None)
    said = f"test {_with_names(found.measures, first, found.intervals)}{_of(found.count, f' {found.unit}')}"
    if not ended.best:
        return f"{said} (there is no validation split, so these are the last weights)"
    chosen = _beside(ended.best, found.measures, first)
    if not _were_chosen(run, ended):
        return f"{said} (validation {chosen}{_of_validation(job, ended)}; these are the last weights)"
    return f"{said} (validation {chosen}{_of_validation(job, ended)}, by which the weights were chosen)"


def _without_test(run: Run, job: Job, ended: Result) -> str | None:
    if not ended.best:
        return None
    first = main_measure(ended.best, ended.keep, classes=job.labels is not None)
    said = f"validation {_with_names(ended.best, first)}{_of_validation(job, ended, f' {job.examples}')}"
    if not _were_chosen(run, ended):
        return said
    advice = ""
    if "test" in (run.config.data or {}) and not job.own_splits:
        advice = f"; --data.test 0.1 keeps some {job.examples} for a figure to cite"
    return (
        f"{said}, by which the weights were chosen, so new {job.examples} are likely predicted a little worse{advice}"
    )


def _were_chosen(run: Run, ended: Result) -> bool:
    """Were the weights chosen among several by the validation split? Then its figure flatters them."""
    evaluations = sum(event["event"] == "validation" for event in run.metrics())
    return ended.keep != LAST and evaluations > 1


def _of_validation(job: Job, ended: Result, unit: str = "") -> str:
    if ended.stride == 1 or job.validation is None:
        return _of(job.validation, unit)
    return f" of a part (one of {ended.stride}) of {job.validation:,}{unit}"


def _of(count: int | None, unit: str = "") -> str:
    return "" if count is None else f" of {count:,}{unit}"


def _with_names(measures: Mapping[str, float], first: str, intervals: Mapping[str, Any] = MappingProxyType({})) -> str:
    names = sort_measures(measures, first)
    return "  ".join(say_measure(name, measures[name], intervals.get(name)) for name in names)


def _beside(measures: Mapping[str, float], others: Mapping[str, float], first: str) -> str:
    """Figures to be read beside others: without names where they are the same, in the same order."""
    names = sort_measures(measures, first)
    if names != sort_measures(others, first)[: len(names)]:
        return _with_names(measures, first)
    return "  ".join(say_value(name, measures[name]) for name in names)


def sort_measures(measures: Mapping[str, Any], first: str | None) -> list[str]:
    """The names of measures: the one that chose the weights first, the others as they come."""
    return sorted(measures, key=lambda name: name != first)
