"""The command that compares runs, and its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from regard.errors import RegardError
from regard.verbs.commands import command, command_options

if TYPE_CHECKING:
    from rich.table import Table

    from regard.verbs.compare import Comparison, Pair

LEVELS = "▁▂▃▄▅▆▇█"  # of a curve in one line
WIDTH = 24  # characters of a curve
WIDE = 160  # columns of a table that goes to a file or a pipe


@command(
    "compare RUN RUN... [--out PAGE]",
    "settings that differ, curves, differences on the same examples",
    "regard compare runs/a runs/b",
    "regard compare 'runs/*' --out compare.html",
    "regard compare runs/a runs/b --data other.csv --json",
)
def compare(words: list[str]) -> int:
    options = command_options("compare", "CompareOptions", words)
    if options is None:
        return 0
    chosen, words = options
    if chosen.out is not None and not chosen.out.lower().endswith(".html"):
        raise RegardError(f"--out is a page and must end in .html, got {chosen.out!r}")
    from regard.files import json_text
    from regard.training.memory import retain_freed_memory
    from regard.verbs.compare import compare as beside_each_other
    from regard.verbs.compare_page import write_page
    from regard.verbs.console import spinner

    with spinner(f"comparing {len(words)} runs"), retain_freed_memory():
        found = beside_each_other(words, data=chosen.data)
    if chosen.json:
        print(json_text(found.to_json(), indent=2))
    else:
        print_comparison(found, seconds=chosen.by == "seconds")
    if chosen.out is not None:
        path = write_page(found, chosen.out, seconds=chosen.by == "seconds")
        if not chosen.json:
            print(f"\n{path}: open it in a browser")
    return 0


def print_comparison(found: Comparison, *, seconds: bool = False) -> None:
    """Outcomes, settings that differ, differences; then what a reader should know."""
    from rich.console import Console

    from regard.verbs.compare_words import say_partly

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
    from rich.table import Column, Table

    return Table(*(Column(name, overflow="fold") for name in names), box=None, pad_edge=False)


def _outcomes(found: Comparison, seconds: bool) -> Table:
    """A row for each run."""
    from regard.verbs.compare_words import say_outcome

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
    from regard.verbs.compare_words import say_setting

    table = _table("setting", *(str(number) for number in range(1, len(found.names) + 1)))
    for name, values in found.settings.items():
        table.add_row(name, *(say_setting(name, value) for value in values))
    return table


def _differences(pairs: tuple[Pair, ...]) -> Table:
    """A row for each measure of each pair."""
    from regard.runs.number_format import say_difference
    from regard.verbs.compare_words import say_examples, say_interval, say_verdict

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
    from regard.verbs.compare_words import say_methods

    lines = [f"{pair.run}: {pair.reason}." for pair in found.pairs if pair.reason is not None]
    return [*lines, *say_methods(found)]
