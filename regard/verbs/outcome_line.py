"""How good a finished model is, in one line: the figure to cite, beside the one that chose the weights."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from regard.recipes.evaluation import Evaluation
from regard.recipes.job import Job
from regard.runs.evaluations import LAST, main_measure
from regard.runs.number_format import say_measure, say_value
from regard.runs.run import Run
from regard.training.progress import Result


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
    looks = sum(event["event"] == "validation" for event in run.metrics())
    return ended.keep != LAST and looks > 1


def _of_validation(job: Job, ended: Result, unit: str = "") -> str:
    if ended.stride == 1 or job.validation is None:
        return _of(job.validation, unit)
    return f" of a part (one of {ended.stride}) of {job.validation:,}{unit}"


def _of(count: int | None, unit: str = "") -> str:
    if count is None:
        return ""
    return f" of {count:,}{unit}"


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
