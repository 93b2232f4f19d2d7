"""Stills drawn from the data of their pages: rows of small panels, one row for each layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from regard.errors import RegardError
from regard.look import plot

COLOURS = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#d55e00",
    "#b8a800",
    "#444444",
)  # after Okabe and Ito
PLAIN, FRAME = "#c4c8ce", "#dfe2e6"
PALE = 0.12  # of the map of colours, where it begins: nothing is still to be seen

Draw = Callable[[Any], None]


def pictures(
    rows: Sequence[tuple[str, Sequence[tuple[str, Draw]]]], title: str, what: str, meaning: Mapping[str, str]
) -> Any:
    """Rows of small pictures: the name of each row, and in it names and what draws them. `meaning`: what
    colours are."""
    if not rows:
        raise RegardError("there is nothing proved to draw of this set or graph; the page says why")
    across = max(len(row) for _, row in rows)
    pyplot = plot.plotter()
    size = (max(4.0, 2.3 * across), 0.4 + 2.5 * len(rows))
    figure, axes = pyplot.subplots(len(rows), across, figsize=size, squeeze=False, layout="constrained")
    for line, (name, row) in zip(axes, rows, strict=True):
        for axis in line[len(row) :]:
            axis.axis("off")
        for axis, (said, draw) in zip(line, row, strict=False):
            draw(axis)
            axis.set_aspect("equal", adjustable="datalim")
            axis.set(xticks=[], yticks=[])
            axis.spines[:].set_color(FRAME)
            axis.set_title(f"{name}\n{said}" if axis is line[0] else said, fontsize=7, loc="left", pad=2)
    if title:
        figure.suptitle(title, fontsize=9, x=0.01, ha="left")
    if meaning:
        from matplotlib.lines import Line2D

        dot: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 4}
        dots = [
            Line2D([], [], color=colour, label=name.replace("$", r"\$"), **dot)
            for name, colour in meaning.items()
        ]
        how: dict[str, Any] = {
            "frameon": False,
            "fontsize": 7,
            "title_fontsize": 7,
            "alignment": "left",
            "handletextpad": 0.1,
        }
        figure.legend(
            handles=dots, loc="outside lower left", title=what, ncols=min(len(dots), 2 + 2 * across), **how
        )
    return figure


# ---- points


# ---- graphs
