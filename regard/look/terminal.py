"""Tables in the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from regard.symmetry.report import HEADERS, Report

COLOURS = {"holds": "green", "broken": "red", "vacuous": "yellow", "unknown": "bright_black"}


def laws_table(report: Report, console: Console | None = None) -> None:
    """Each law, declared and measured; then a sentence for all that is not as declared, could not be told, or
    breaks."""
    console = console or Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=200)  # a file or a pipe has no edge to wrap at
    # no name is cut off
    table = Table(*(Column(name, overflow="fold") for name in HEADERS), box=None, pad_edge=False)
    for finding, row in zip(report, report.rows(), strict=True):
        if not finding.ok or finding.measured != "broken":
            colour = COLOURS[finding.measured]
        else:
            colour = "bright_black"
        cells = [Text(cell) for cell in row]
        cells[2] = Text(finding.measured, style=colour + (" bold" if not finding.ok else ""))
        table.add_row(*cells)
    console.print(table)
    for finding in report:
        if not finding.ok or (finding.measured in ("unknown", "vacuous") and finding.reason):
            console.print(Text(finding.sentence(), style="red" if not finding.ok else "bright_black"))
    for line in (*report.reasons(), *report.words()):
        console.print(Text(line, style="bright_black"))
    for note in report.notes:
        console.print(Text(f"note: {note}", style="yellow"))
    colour = {"as declared": "green", "nothing was measured": "yellow"}.get(report.verdict, "red")
    console.print(Text(f"{report.name}: {report.verdict}", style=f"bold {colour}"))
