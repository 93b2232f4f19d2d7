"""A comparison as tables in a terminal, and as one self-contained page, in the same words."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Column, Table

from regard.look import page
from regard.look.encode_arrays import round_digits
from regard.look.redact_paths import without_folders
from regard.look.report import FILES, page_of
from regard.recipes.paired import Difference
from regard.runs.number_format import say_difference, say_measure
from regard.verbs.compared_run import ComparedRun, Point

if TYPE_CHECKING:
    from regard.verbs.compare import Comparison, Pair

LEVELS = "▁▂▃▄▅▆▇█"  # of a curve in one line
WIDTH = 24  # characters of a curve
WIDE = 160  # columns of a table that goes to a file or a pipe
DIGITS = 6  # of a loss on the page
LONGEST = 60  # characters of a setting


def print_comparison(found: Comparison, *, seconds: bool = False) -> None:
    """Outcomes, settings that differ, differences; then what a reader should know."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=WIDE)
    console.print(_outcomes(found, seconds))
    console.print()
    if found.settings:
        console.print(_settings(found))
    else:
        console.print("All settings are the same.")
    if (partly := say_partly(found)) is not None:
        console.print(partly, style="bright_black", markup=False)
    console.print()
    if any(pair.differences for pair in found.pairs):
        console.print(_differences(found.pairs))
    for line in (*lines_below(found), *found.notes):
        console.print(line, style="bright_black", markup=False)


def _table(*names: str) -> Table:
    return Table(*(Column(name, overflow="fold") for name in names), box=None, pad_edge=False)


def _outcomes(found: Comparison, seconds: bool) -> Table:
    """A row for each run."""
    axis = "seconds" if seconds else "steps"
    table = _table("", "run", "outcome", "kept", f"validation loss by {axis}", "")
    curves = _curves(found, seconds)
    for number, (name, each) in enumerate(zip(found.names, found.runs, strict=True), 1):
        kept = ""
        if each.outcome is not None and each.outcome.step is not None:
            kept = f"step {each.outcome.step:,}"
        table.add_row(str(number), name, say_outcome(each), kept, curves[number - 1], each.state or "")
    return table


def _curves(found: Comparison, seconds: bool) -> list[str]:
    """The validation loss of each run in one line, all on one scale and over one axis."""
    axis = 1 if seconds else 0
    known = [point for each in found.runs for point in each.validation]
    if not known:
        return ["" for _ in found.runs]
    low, high = min(point[2] for point in known), max(point[2] for point in known)
    last = max(point[axis] for point in known) or 1
    lines = []
    for each in found.runs:
        cells = [" "] * WIDTH
        for point in each.validation:
            place = min(WIDTH - 1, int(WIDTH * point[axis] / last))
            share = (point[2] - low) / (high - low) if high > low else 0.0
            cells[place] = LEVELS[min(len(LEVELS) - 1, int(len(LEVELS) * share))]
        lines.append("".join(cells).rstrip())
    return lines


def _settings(found: Comparison) -> Table:
    """A row for each setting that differs; runs by their numbers."""
    table = _table("setting", *(str(number) for number in range(1, len(found.names) + 1)))
    for name, values in found.settings.items():
        table.add_row(name, *(say_setting(name, value) for value in values))
    return table


def _differences(pairs: tuple[Pair, ...]) -> Table:
    """A row for each measure of each pair."""
    table = _table("difference", "measure", "", "95 % interval", "examples", "")
    for pair in pairs:
        for number, each in enumerate(pair.differences):
            who = f"{pair.run} − {pair.against}" if number == 0 else ""
            row: list[Any] = [who, each.measure, say_difference(each.measure, each.value)]
            row += [say_interval(each), say_examples(each, pair.split), say_verdict(each)]
            table.add_row(*row)
    return table


def lines_below(found: Comparison) -> list[str]:
    """How intervals are computed, and why some runs have none."""
    lines = [f"{pair.run}: {pair.reason}." for pair in found.pairs if pair.reason is not None]
    return [*lines, *say_methods(found)]


# ── words


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


# ── the page


def write_page(found: Comparison, path: str | os.PathLike[str], *, seconds: bool = False) -> Path:
    """Write the page, whole or not at all. seconds: the curves begin with seconds in place of steps"""
    return page.write(page_data(found, seconds=seconds), path, FILES)


def page_data(found: Comparison, *, seconds: bool = False) -> dict[str, Any]:
    """What the page shows, as look/web/README.md says. Folders of paths are left out, as on every page."""
    runs = [
        {
            "name": name,
            "outcome": say_outcome(each),
            "kept": None if each.outcome is None else each.outcome.step,
            "state": each.state,
            "training": _points(each.training),
            "validation": _points(each.validation),
            "best": None if each.best is None else _points([each.best])[0],
        }
        for name, each in zip(map(without_folders, found.names), found.runs, strict=True)
    ]
    rows = [
        [name, [without_folders(say_setting(name, value)) for value in values]]
        for name, values in found.settings.items()
    ]
    view = {
        "view": "compare",
        "by": "seconds" if seconds else "steps",
        "runs": runs,
        "settings": rows,
        "partly": say_partly(found),
        "pairs": [_pair(pair) for pair in found.pairs],
        "sentences": [without_folders(line) for line in say_methods(found)],
    }
    return page_of(f"{len(found.runs)} runs", view, [without_folders(note) for note in found.notes])


def _pair(pair: Pair) -> dict[str, Any]:
    differences = [
        {
            "measure": each.measure,
            "said": say_difference(each.measure, each.value),
            "interval": say_interval(each),
            "verdict": say_verdict(each),
            "better": each.better,
            "examples": say_examples(each, pair.split),
            "value": each.value,
            "low": each.low,
            "high": each.high,
        }
        for each in pair.differences
    ]
    return {
        "run": without_folders(pair.run),
        "against": without_folders(pair.against),
        "differences": differences,
        "reason": None if pair.reason is None else without_folders(pair.reason),
    }


def _points(points: Sequence[Point]) -> list[list[Any]]:
    """[step, seconds, loss]"""
    return [[step, seconds, round_digits(loss, DIGITS)] for step, seconds, loss in points]
