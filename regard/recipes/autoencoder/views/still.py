"""Stills of an autoencoder: the codes on a map, and reconstructions below what was given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.look import plot
from regard.look.plot import COLOURS, FRAME, PLAIN
from regard.recipes.autoencoder.views.held_out import Codes
from regard.recipes.autoencoder.views.plane import Plane

PAIRS = 8  # reconstructions that are drawn, the worst first
COLUMNS = 12  # of a table
MARKERS = "os^"  # of labels that share a colour
WORST = "inputs, the worst reconstructed first"


def draw_latent(codes: Codes, title: str) -> Any:
    """The map, and below it the worst reconstructions; without data, what is decoded from the middle."""
    held = codes.held_out
    pyplot = plot.plotter()
    figure = pyplot.figure(figsize=(7.5, 9), layout="constrained")
    upper, lower = figure.subfigures(2, 1, height_ratios=(3, 1.15))
    axes = upper.subplots()
    if held is None:
        draw_map(axes, codes.plane, torch.zeros(0, codes.latent))
        shown = codes.decode(torch.zeros(1, codes.latent))
        _draw_pairs(codes, lower, {"decoded from 0": shown})
    else:
        draw_map(axes, codes.plane, held.codes, codes.labels, held.classes)
        worst = held.worst_first[:PAIRS]
        rows = {WORST: held.x[worst], "reconstructed": held.back[worst]}
        if held.given is not None:
            rows = {WORST: held.x[worst], "corrupted": held.given[worst], "reconstructed": held.back[worst]}
        _draw_pairs(codes, lower, rows)
    if title:
        figure.suptitle(title.replace("$", r"\$"), fontsize=9, x=0.01, ha="left")
    return figure


def draw_map(axes: Any, plane: Plane, codes: Tensor, labels: Sequence[str] = (), classes: Any = None) -> None:
    """Codes on their map, coloured by label, unless there are more labels than can be told apart.   n d, n"""
    names = plane.names
    explained = [f" ({share:.0%} of the variance)" for share in plane.explained] or [""] * len(names)
    axes.set_xlabel(f"{names[0]}{explained[0]}", fontsize=8)
    if len(names) > 1:
        axes.set_ylabel(f"{names[1]}{explained[1]}", fontsize=8)
    axes.tick_params(labelsize=7)
    axes.spines[:].set_color(FRAME)
    if not len(codes):
        axes.set(xlim=(-3, 3), ylim=(-3, 3))
        return
    places = plane.place(codes).nan_to_num()
    across = places[:, 0].numpy()
    up = (places[:, 1] if len(names) > 1 else torch.zeros(len(places))).numpy()
    if not labels or len(labels) > len(MARKERS) * len(COLOURS):
        axes.scatter(across, up, s=7, color=COLOURS[0], alpha=0.7, linewidths=0)
    else:
        for number, label in enumerate(labels):
            chosen = classes == number
            colour = COLOURS[number % len(COLOURS)]
            marker = MARKERS[number // len(COLOURS)]
            how: dict[str, Any] = {"s": 9, "color": colour, "marker": marker, "linewidths": 0, "alpha": 0.8}
            axes.scatter(across[chosen], up[chosen], label=label.replace("$", r"\$"), **how)
        axes.legend(fontsize=7, frameon=False, ncols=2, markerscale=1.6)
    axes.set_aspect("equal", "datalim")


def _draw_pairs(codes: Codes, figure: Any, rows: dict[str, Tensor]) -> None:
    count = max(len(shown) for shown in rows.values())
    grid = figure.subplots(len(rows), count, squeeze=False)
    for line, (name, shown) in zip(grid, rows.items(), strict=True):
        for axis, x in zip(line, shown, strict=False):
            _draw_one(codes, axis, x.detach().float().cpu().nan_to_num())
            axis.set(xticks=[], yticks=[])
            axis.spines[:].set_color(FRAME)
        line[0].set_title(name, fontsize=7, loc="left", pad=2)


def _draw_one(codes: Codes, axis: Any, x: Tensor) -> None:
    if codes.processor.form == "images":
        axis.imshow(x.expand(3, -1, -1).permute(1, 2, 0).clamp(0, 1).numpy(), interpolation="nearest")
        return
    if codes.processor.form == "points":
        up = x[:, 1] if x.shape[1] > 1 else torch.zeros(len(x))
        axis.scatter(x[:, 0].numpy(), up.numpy(), s=1.5, color=COLOURS[0], linewidths=0)
        axis.set_aspect("equal", "datalim")
        return
    axis.axhline(0, color=PLAIN, linewidth=0.6)
    axis.bar(range(len(x[:COLUMNS])), x[:COLUMNS].numpy(), color=COLOURS[0])
    axis.set_ylim(-3.5, 3.5)
