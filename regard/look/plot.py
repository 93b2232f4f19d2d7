"""Stills for papers and talks, drawn with matplotlib: attention, positions, tokens in a plane, and the curves
of a run.

Each function gives a figure; `save` writes it as .png, .svg or .pdf.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from textwrap import wrap
from typing import Any

from torch import Tensor

from regard import files
from regard.errors import RegardError
from regard.look import measure
from regard.runs.evaluations import LAST, best_evaluation, say_best
from regard.runs.number_format import say_percent
from regard.runs.run import Run

TRAINING, SMOOTHED, VALIDATION = "#c6dbef", "#2171b5", "#d55e00"  # told apart without colour vision, too
THIN = 8  # times as wide as high: such a map is drawn higher than it is
SUFFIXES = (".png", ".svg", ".pdf")
MAP = "magma_r"  # light where nothing is attended to, so that it prints
MOST_LABELS = 60
WRITTEN = 25  # classes up to which counts can be read in a confusion matrix
LEAST, LETTERS = 3.5, 12  # inches of its sides, and letters of its title to an inch
REACH = 0.02  # share of all steps that a smoothed loss is the mean of, to either side
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
PALE = 0.12  # of the map of colours, where it begins: nothing is still to be seen


def curves(run: Run) -> None:
    """Write curves.png: loss against steps, in training and on the validation split."""
    files.write_bytes(run.path / "curves.png", drawn_curves(run.metrics(), run.path.name, run.config.keep))


def drawn_curves(events: Sequence[Mapping[str, Any]], title: str, keep: str | None = None) -> bytes:
    """The figure as PNG bytes. keep: the measure that chose the best weights; None: the loss"""
    pyplot = plotter()
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    steps = [event for event in events if event["event"] == "step"]
    evaluations = [event for event in events if event["event"] == "validation"]
    figure, axis = pyplot.subplots(figsize=(7, 4), layout="constrained")
    if steps:
        at, losses = columns(steps)
        axis.plot(
            at, losses, color=TRAINING, linewidth=0.8, marker="." if len(at) == 1 else None, label="training, each step"
        )
        axis.plot(at, smooth(losses), color=SMOOTHED, linewidth=1.6, label="training, smoothed")
    best = best_evaluation(evaluations, keep)
    if best is not None:
        which = "last" if keep == LAST else "best"
        said = f"validation, {which} {say_best(best, keep)} at step {best['step']:,}"
        axis.plot(*columns(evaluations), "o-", color=VALIDATION, markersize=4, linewidth=1.6, label=said)
        axis.plot([best["step"]], [best["loss"]], "o", color=VALIDATION, markersize=10, fillstyle="none", clip_on=False)
    axis.set_title(title, loc="left")
    axis.set(xlabel="step", ylabel="loss")
    axis.xaxis.set_major_locator(MaxNLocator(7, integer=True, steps=[1, 2, 5, 10]))
    axis.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(alpha=0.3)
    if steps or evaluations:
        axis.legend(frameon=False)
    return _rendered(figure, "png")


def confusion(counts: Tensor, labels: Sequence[str], *, title: str = "") -> Any:
    """The confusion matrix: a row for each true class, in shares of it, with the counts written in.
    classes classes"""
    pyplot = plotter()
    n, total = len(labels), counts.sum(1, keepdim=True)
    shares = (counts / total.clamp_min(1)).numpy()
    side = min(12.0, max(LEAST, 2.2 + 0.42 * n))
    figure, axis = pyplot.subplots(figsize=(side, side), layout="constrained")
    axis.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    names = [label if len(label) <= 16 else label[:15] + "…" for label in labels]
    if n <= MOST_LABELS:
        axis.set_xticks(range(n), names, rotation=90 if max(map(len, names)) > 2 else 0)
        axis.set_yticks(range(n), names)
    if n <= WRITTEN:
        for i, j in counts.nonzero().tolist():
            colour = "white" if shares[i, j] > 0.5 else "black"
            axis.text(j, i, f"{int(counts[i, j]):,}", ha="center", va="center", fontsize=7, color=colour)
    right = float(counts.diagonal().sum() / counts.sum().clamp_min(1))
    axis.set(xlabel="predicted class", ylabel="true class")
    words = "\n".join(wrap(title, int(LETTERS * side)))
    # over the whole width
    figure.suptitle(f"{words}\n{say_percent(right)} right".lstrip(), x=0.01, ha="left", fontsize=10)
    return figure


def columns(events: Sequence[Mapping[str, Any]]) -> tuple[list[int], list[float]]:
    return [event["step"] for event in events], [event["loss"] for event in events]


def smooth(losses: Sequence[float]) -> list[float]:
    """The mean of each loss and of as many before as after it, so that the line does not lag; at the end, of
    what there is."""
    reach, sums = round(REACH * len(losses)), [0.0, *accumulate(losses)]
    found = []
    for i in range(len(losses)):
        near = min(reach, i)  # at the start losses fall so fast that only a few are alike
        start, stop = i - near, min(len(losses), i + near + 1)
        found.append((sums[stop] - sums[start]) / (stop - start))
    return found


def heads(seen: Any, *, title: str = "") -> Any:
    """All heads of all layers as small maps, rows are layers. `seen` is a recording, or a list of its
    entries."""
    layers = [entry for entry in seen if entry.kind != "edges" and entry.proved]
    if not layers:
        raise RegardError(f"there is no proved attention to draw among {len(list(seen))} entries")
    across = max(len(entry.heads) for entry in layers)
    pyplot = plotter()
    size = (0.6 + 1.05 * across, 0.5 + 1.1 * len(layers))
    figure, axes = pyplot.subplots(len(layers), across, figsize=size, squeeze=False, layout="constrained")
    before: tuple[int, ...] = ()
    for row, entry in zip(axes, layers, strict=True):
        weights = entry.weights[0]
        for axis in row[len(entry.heads) :]:
            axis.axis("off")
        for axis, head, one in zip(row, entry.heads, weights, strict=False):
            _draw_map(axis, one)
            # such as the row of a class token, which nobody could read as a line
            if THIN * one.shape[0] < one.shape[1]:
                axis.set_aspect("auto")
            axis.set_title(f"head {head + 1}" if entry.heads != before else "", fontsize=7, pad=2)
        before = entry.heads
        row[0].set_ylabel(f"layer {entry.layer + 1}" + " (cross)" * (entry.kind == "cross"), fontsize=7)
    shade_bar(figure, axes, "weight, as a share of the largest of its map")
    if title:
        figure.suptitle(title, fontsize=9, x=0.01, ha="left")
    return figure


def shade_bar(figure: Any, axes: Any, words: str, *, root: bool = True, low: float = 0.0) -> None:
    """A bar below all maps: each is drawn from nothing to its own largest, or faint ones could not be seen.

    root: colours go with √w; low: how far from its light end the map of colours begins
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, PowerNorm

    colours = LinearSegmentedColormap.from_list(
        "part", plotter().get_cmap(MAP)([low + (1 - low) * k / 64 for k in range(65)])
    )
    scale = ScalarMappable(PowerNorm(0.5 if root else 1.0, 0, 1), colours)
    bar = figure.colorbar(
        scale, ax=axes, location="bottom", fraction=0.04, aspect=40, pad=0.02, ticks=[0, 0.1, 0.25, 0.5, 1]
    )
    bar.ax.set_xticklabels(["0", "0.1", "0.25", "0.5", "1"])
    bar.ax.tick_params(labelsize=6, length=2)
    bar.set_label(words, fontsize=7)


def matrix(
    weights: Tensor, queries: Sequence[str] | None = None, keys: Sequence[str] | None = None, *, title: str = ""
) -> Any:
    """One map, enlarged, with the names of its tokens.   n m"""
    if weights.dim() != 2:
        raise RegardError(f"matrix draws one head, n m, got {tuple(weights.shape)}; take entry.weights[0, head]")
    n, m = weights.shape
    for name, labels, size in (("queries", queries, n), ("keys", keys, m)):
        if labels is not None and len(labels) != size:
            raise RegardError(f"{name} must name {size} tokens, got {len(labels)}")
    pyplot = plotter()
    side = 0.22 if max(n, m) <= MOST_LABELS else 0.06
    figure, axis = pyplot.subplots(figsize=(1.6 + side * m, 1.2 + side * n), layout="constrained")
    image = _draw_map(axis, weights)
    if keys is not None and m <= MOST_LABELS:
        names = [visible(label) for label in keys]
        axis.set_xticks(range(m), names, rotation=90, fontsize=7)
        for name, shown in zip(keys, axis.get_xticklabels(), strict=True):
            if len(name) == 1:  # upright, as it is read
                shown.set_rotation(0)
    if queries is not None and n <= MOST_LABELS:
        axis.set_yticks(range(n), [visible(label) for label in queries], fontsize=7)
    axis.set(xlabel="keys", ylabel="queries")
    axis.set_title(title, loc="left", fontsize=9)
    figure.colorbar(image, ax=axis, shrink=0.6, label="weight")
    return figure


def overlay(image: Tensor, maps: Tensor, *, titles: Sequence[str] | None = None) -> Any:
    """An image and, beside it, the same under each map of attention.   3 h w in 0 … 1, k rows columns"""
    if image.dim() != 3 or image.shape[0] not in (1, 3):
        raise RegardError(f"an image to draw over is 3 h w, or 1 h w, got {tuple(image.shape)}")
    if titles is not None and len(titles) != len(maps):
        raise RegardError(f"there must be a title for each of {len(maps)} maps, got {len(titles)}")
    pyplot = plotter()
    figure, axes = pyplot.subplots(
        1, len(maps) + 1, figsize=(2.1 * (len(maps) + 1), 2.3), layout="constrained", squeeze=False
    )
    shown = image.detach().expand(3, -1, -1).permute(1, 2, 0).clamp(0, 1).cpu().numpy()
    height, width = shown.shape[:2]
    for number, axis in enumerate(axes[0]):
        axis.imshow(shown)
        axis.axis("off")
        if number:
            over = maps[number - 1].detach().float().cpu().numpy()
            axis.imshow(over, cmap="magma", alpha=0.6, extent=(0, width, height, 0), interpolation="bilinear")
            axis.set_title(titles[number - 1] if titles is not None else f"head {number}", fontsize=8)
    return figure


def positions(position: Any, length: int = 128, *, title: str = "") -> Any:
    """The vector of each place, how alike places are, and how that falls with distance."""
    codes, similar = measure.position_codes(position, length), measure.position_similarity(position, length)
    pyplot = plotter()
    figure, axes = pyplot.subplots(1, 3, figsize=(10, 3), layout="constrained")
    figure.colorbar(axes[0].imshow(codes.T.cpu().numpy(), aspect="auto", cmap="RdBu_r"), ax=axes[0], shrink=0.8)
    axes[0].set(xlabel="place", ylabel="channel", title="code")
    figure.colorbar(axes[1].imshow(similar.cpu().numpy(), cmap="viridis"), ax=axes[1], shrink=0.8)
    axes[1].set(xlabel="place", ylabel="place", title="similarity")
    axes[2].plot(measure.by_distance(similar).cpu().numpy(), color=SMOOTHED)
    axes[2].set(xlabel="distance", ylabel="mean similarity", title="by distance")
    axes[2].grid(alpha=0.3)
    figure.suptitle(title, x=0.01, ha="left")
    return figure


def _draw_map(axis: Any, weights: Tensor) -> Any:
    """√w, because attention that is spread over many keys would be too pale to see; the scale says w."""
    from matplotlib.colors import PowerNorm

    shown = weights.detach().float().cpu().numpy()
    image = axis.imshow(shown, cmap=MAP, norm=PowerNorm(0.5, 0, max(float(shown.max()), 1e-9)), interpolation="nearest")
    axis.set(xticks=[], yticks=[])
    return image


def visible(label: str) -> str:
    """A token that can be read in a margin: white space is shown, and no sign means mathematics."""
    return label.replace("\n", "↵").replace(" ", "·").replace("$", r"\$")


def save(figure: Any, path: str | os.PathLike[str]) -> Path:
    """Write a figure, whole or not at all; the end of the name says how."""
    file = Path(path)
    if file.suffix.lower() not in SUFFIXES:
        raise RegardError(f"a still ends in {', '.join(SUFFIXES)}, got {os.fspath(path)!r}")
    files.write_bytes(file, _rendered(figure, file.suffix.lower().removeprefix(".")))
    return file


def _rendered(figure: Any, file_format: str) -> bytes:
    image = io.BytesIO()
    figure.savefig(image, format=file_format, dpi=120)
    plotter().close(figure)
    return image.getvalue()


def plotter() -> Any:
    """matplotlib's pyplot, drawing to memory; it is an extra, so it may be missing."""
    try:
        import matplotlib
    except ImportError as error:
        raise RegardError("figures need matplotlib; install it with: pip install 'regard[look]'") from error
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


# ── stills drawn from the data of their pages: rows of small panels, one row for each layer

PLAIN, FRAME = "#c4c8ce", "#dfe2e6"

Draw = Callable[[Any], None]


def pictures(
    rows: Sequence[tuple[str, Sequence[tuple[str, Draw]]]], title: str, what: str, meaning: Mapping[str, str]
) -> Any:
    """Rows of small pictures: the name of each row, and in it names and what draws them. `meaning`: what
    colours are."""
    if not rows:
        raise RegardError("there is nothing proved to draw of this set or graph; the page says why")
    across = max(len(row) for _, row in rows)
    pyplot = plotter()
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
        dots = [Line2D([], [], color=colour, label=name.replace("$", r"\$"), **dot) for name, colour in meaning.items()]
        how: dict[str, Any] = {
            "frameon": False,
            "fontsize": 7,
            "title_fontsize": 7,
            "alignment": "left",
            "handletextpad": 0.1,
        }
        figure.legend(handles=dots, loc="outside lower left", title=what, ncols=min(len(dots), 2 + 2 * across), **how)
    return figure
