"""report.html: the page of a finished run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from torch import nn

from regard.files import write_bytes
from regard.look import page
from regard.look.colours import Colour, of_head
from regard.look.model_input import ModelInput
from regard.look.redact_paths import without_folders
from regard.look.scene import FORMAT, in_short
from regard.look.views import history
from regard.look.views.outcome import confusion, outcome
from regard.runs.number_format import say_time, say_value
from regard.runs.run import Run
from regard.runs.run_group import Figures, Repeats, say_spread

FILE = "report.html"
COMPARE = Path(__file__).parent / "web" / "compare"
FILES = (COMPARE / "70-compare.js", COMPARE / "compare.css")  # of the page of several runs
STYLE = "repeats.css"
MOST = 400  # points of a curve


def of_module(run: Run, model: nn.Module) -> None:
    """How any module learned, and what it is."""
    size = sum(parameter.numel() for parameter in model.parameters())
    plain(
        run,
        f"{type(model).__name__} · {in_short(size)} parameters",
        [],
        [history.about(model, run.path.name, run)],
        model,
    )


def instead(run: Run, why: str) -> None:
    """What can still be shown when the model cannot be looked at, and why that is."""
    plain(run, "", [f"The model could not be looked at: {without_folders(why)}"], [])


def plain(
    run: Run, subtitle: str, notes: list[str], more: list[dict[str, Any]], model: nn.Module | None = None
) -> None:
    of_run = (outcome(run, model), confusion(run), history.curves(run), history.samples(run))
    views = [view for view in (*of_run, *more) if view is not None]
    data: dict[str, Any] = {
        "format": FORMAT,
        "title": run.path.resolve().name,
        "subtitle": subtitle,
        "record": 0,
        "input": ModelInput(inputs={}).describe(),
        "streams": [],
        "notes": notes,
        "live": None,
        "region": None,
        "silenced": [],
        "views": views,
    }
    page.write(data, run.path / FILE)


# ── several runs beside each other: one view, with scripts of its own


def page_of(title: str, view: dict[str, Any], notes: Sequence[str]) -> dict[str, Any]:
    """The data of a page with this one view, as web/README.md says."""
    return {
        "format": FORMAT,
        "title": title,
        "subtitle": "settings that differ, outcomes, curves, and differences on the same examples",
        "record": 0,
        "input": ModelInput(inputs={}).describe(),
        "streams": [],
        "notes": list(notes),
        "live": None,
        "silenced": [],
        "views": [view],
    }


# ── several runs of one command: a table of their outcomes, and their curves over each other, without any script

WIDTH, HEIGHT = 820, 280  # of a figure


def write_repeats_page(repeats: Repeats) -> Path:
    """Write report.html into the folder of the runs."""
    path = repeats.path / FILE
    write_bytes(path, page.encode(_html(repeats)))
    return path


def _html(repeats: Repeats) -> str:
    style = "\n".join((page.WEB / name).read_text("utf-8") for name in ("page.css", STYLE))
    title = escape(repeats.path.resolve().name)
    done, count = len(repeats.figures), len(repeats.names)
    waiting = "" if done == count else f" · {done} of {count} are finished"
    parts = [
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{page.policy_without_scripts(style)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="referrer" content="no-referrer">',
        f'<title>{title}</title>\n<link rel="icon" href="data:,">\n<style>{style}</style>\n</head>\n<body>',
        f'<main id="page">\n<p class="maker">REGARD</p>\n<h1>{title}</h1>',
        f'<p class="subtitle">{escape(repeats.recipe)} · {count} {repeats.over}s{waiting}</p>',
        f'<p class="answer">{escape(repeats.say())}</p>' if done else "",
        _table(repeats),
        *_curves(repeats),
        "</main>\n</body>\n</html>\n",
    ]
    return "\n".join(part for part in parts if part)


# ── the table


def _table(repeats: Repeats) -> str:
    columns = _columns(repeats)
    heads = [repeats.over, *(f"{split} {measure}" for split, measure in columns), "tested on", "steps", "time"]
    rows = [_row(repeats, name, columns) for name in repeats.names]
    means = [say_spread(measure, repeats.facts[split][measure]) for split, measure in columns]
    named = "".join(f'<th scope="col">{escape(each)}</th>' for each in heads)
    foot = _cells(["mean ± deviation", *means, "", "", ""], "th")
    return "\n".join(
        [
            '<div class="outcomes" tabindex="0" role="region" aria-label="outcomes"><table>',
            f"<thead><tr>{named}</tr></thead>",
            f"<tbody>{''.join(rows)}</tbody>",
            f"<tfoot><tr>{foot}</tr></tfoot>" if columns else "",
            "</table></div>",
        ]
    )


def _columns(repeats: Repeats) -> list[tuple[Literal["test", "validation"], str]]:
    """The splits and measures that the finished runs share, the measure that chose the weights first."""
    found: list[tuple[Literal["test", "validation"], str]] = []
    splits: tuple[Literal["test", "validation"], ...] = ("test", "validation")
    for split in splits:
        measures = sorted(repeats.facts[split], key=lambda name: name != repeats.main)
        found += [(split, measure) for measure in measures]
    return found


def _row(repeats: Repeats, name: str, columns: Sequence[tuple[str, str]]) -> str:
    figures = repeats.figures.get(name)
    label = escape(name)
    if (repeats.path / name / FILE).exists():
        label = f'<a href="{quote(name)}/{FILE}">{label}</a>'
    if figures is None:
        cells = ["not finished", *[""] * (len(columns) + 2)]
    else:
        cells = [*(say_value(each, figures[split][each]) for split, each in columns), *_facts(figures)]
    return f'<tr><th scope="row">{label}</th>{_cells(cells)}</tr>'


def _facts(figures: Figures) -> list[str]:
    """On how many examples a run was tested, its steps and its time."""
    count = figures["count"]
    return ["" if count is None else f"{count:,}", f"{figures['steps']:,}", say_time(figures["seconds"])]


def _cells(texts: Sequence[str], first: str = "td") -> str:
    made = [f"<td>{escape(text)}</td>" for text in texts]
    if first == "th":
        made[0] = f'<th scope="row">{escape(texts[0])}</th>'
    return "".join(made)


# ── curves


def _curves(repeats: Repeats) -> list[str]:
    """A figure for each measure on the validation split, with a curve for each run."""
    evaluations = {run.path.name: _evaluations(run) for run in repeats.runs}
    evaluations = {name: found for name, found in evaluations.items() if found}
    if not evaluations:
        return []
    first = next(iter(evaluations.values()))[0]
    measures = [name for name in first if name not in ("step", "event", "seconds") and _plain(first[name])]
    measures.sort(key=lambda name: name != repeats.main)
    colours = {name: _hex(of_head(place)) for place, name in enumerate(repeats.names)}
    figures = [
        _figure(
            f"validation {measure}",
            {
                name: [(each["step"], each[measure]) for each in found if measure in each]
                for name, found in evaluations.items()
            },
            colours,
            measure,
        )
        for measure in measures
    ]
    return [*figures, _legend({name: colours[name] for name in evaluations})]


def _evaluations(run: Run) -> list[dict[str, Any]]:
    found = [event for event in run.metrics() if event["event"] == "validation"]
    every = max(1, len(found) // MOST)
    return [*found[:-1][::every], *found[-1:]]


def _plain(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _figure(
    title: str, curves: Mapping[str, Sequence[tuple[int, float]]], colours: Mapping[str, str], measure: str
) -> str:
    points = [point for curve in curves.values() for point in curve]
    last = max(step for step, _ in points)
    low, high = min(value for _, value in points), max(value for _, value in points)

    def place(step: int, value: float) -> str:
        right = WIDTH * step / max(last, 1)
        down = HEIGHT * (high - value) / ((high - low) or 1.0)
        return f"{right:.1f},{down:.1f}"

    lines = [
        f'<polyline class="curve" stroke="{colours[name]}" points="{" ".join(place(*each) for each in curve)}">'
        f"<title>{escape(name)}</title></polyline>"
        for name, curve in curves.items()
    ]
    top, bottom = escape(say_value(measure, high)), escape(say_value(measure, low))
    return "\n".join(
        [
            f'<section class="figure-of-runs"><h2>{escape(title)}</h2>',
            f'<p class="axis"><span>{top}</span></p>',
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)} of each run">',
            *lines,
            f'</svg><p class="axis"><span>{bottom}</span><span>step {last:,}</span></p></section>',
        ]
    )


def _legend(colours: Mapping[str, str]) -> str:
    entries = [
        f'<span><svg viewBox="0 0 18 8" aria-hidden="true"><rect width="18" height="8" fill="{colour}"/></svg>'
        f"{escape(name)}</span>"
        for name, colour in colours.items()
    ]
    return f'<p class="legend">{"".join(entries)}</p>'


def _hex(colour: Colour) -> str:
    return "#" + "".join(f"{round(255 * min(1.0, max(0.0, each))):02x}" for each in colour)
