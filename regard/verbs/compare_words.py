"""A comparison in words, the same in a terminal and on a page."""

from __future__ import annotations

from typing import Any

from regard.recipes.paired import Difference
from regard.runs.number_format import say_difference, say_measure
from regard.verbs.compare import Comparison
from regard.verbs.compared_run import ComparedRun

LONGEST = 60  # characters of a setting


def say_outcome(run: ComparedRun) -> str:
    """accuracy 87.6%, loss 0.4023 (validation, of 120)"""
    if run.outcome is None:
        return "no evaluation yet"
    keep = None if run.run is None else run.run.config.keep
    measures = sorted(run.outcome.measures.items(), key=lambda each: each[0] != (keep or "loss"))
    told = ", ".join(say_measure(name, value) for name, value in measures)
    count = "" if run.outcome.count is None else f", of {run.outcome.count:,}"
    return f"{told} ({run.outcome.split}{count})"


def say_setting(name: str, value: Any) -> str:
    """A value as it is written on a command line; – for what is not set."""
    if value is None:
        return "–"
    if name == "seconds":
        return f"{value:,.1f}"
    if isinstance(value, bool):
        text = str(value)
    elif isinstance(value, int):
        text = f"{value:,}"
    elif isinstance(value, float):
        text = f"{value:.6g}"
    elif isinstance(value, list | tuple):
        text = ", ".join(say_setting("", each) for each in value)
    else:
        text = str(value)
    if len(text) <= LONGEST:
        return text
    return text[: LONGEST - 1] + "…"


def say_interval(difference: Difference) -> str:
    """-0.52 … +1.85 points"""
    if difference.low is None or difference.high is None:
        return "too few examples"
    low, high = (say_difference(difference.measure, end) for end in (difference.low, difference.high))
    return f"{low.removesuffix(' points')} … {high}"


def say_examples(difference: Difference, split: str | None) -> str:
    """398 (validation); of long texts also the tokens: 1,743 with 111,540 targets (validation)"""
    targets = ""
    if difference.targets != difference.count:
        targets = f" with {difference.targets:,} targets"
    return f"{difference.count:,}{targets} ({split})"


def say_partly(found: Comparison) -> str | None:
    """That some settings are not in the table."""
    count = len(found.partly)
    if not count:
        return None
    if count == 1:
        return f"Only some of the runs have the setting {found.partly[0]}."
    some = ", ".join(found.partly[:3])
    return f"{count} settings are only in some of the runs, because of another recipe or model: {some} ..."


def say_verdict(difference: Difference) -> str:
    """Is the run better than the first one?"""
    if difference.better is None:
        words = "no clear difference"
    elif difference.better:
        words = "better"
    else:
        words = "worse"
    if difference.only is None:
        return words
    mine, theirs = difference.only
    return f"{words}; only it is right: {mine:,}, only the other: {theirs:,}"


def say_methods(found: Comparison) -> list[str]:
    """What the intervals are, in a sentence or two."""
    methods: dict[str, list[str]] = {}
    for pair in found.pairs:
        for each in pair.differences:
            names = methods.setdefault(each.method, [])
            if each.measure not in names:
                names.append(each.measure)
    if not methods:
        return []
    lines = [f"{', '.join(names)}: {method}" for method, names in methods.items()]
    first = found.pairs[0].against
    told = f"Differences are against {first}, on the same examples. Intervals: {'; '.join(lines)}."
    if sum(bool(pair.differences) for pair in found.pairs) > 1:
        told += " Each interval is for its pair alone: of 20 equal runs, one would seem different."
    return [told]
