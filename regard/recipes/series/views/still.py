"""A series as a still: the forecast with its band, what each moment contributes, attention, and errors by steps
ahead."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from typing import Any

import numpy as np

from regard.look import plot
from regard.look.encode_arrays import unpack_array
from regard.look.plot import COLOURS

PAST, AHEAD, GREY = "#2171b5", "#d55e00", "#777777"  # told apart without colour vision, too
RIVALS = (AHEAD, "#009e73", GREY)
CHANNELS = 3


def draw_series(found: Mapping[str, Any], ahead: Mapping[str, Any] | None, title: str) -> Any:
    """The figure: a wide panel for each channel, and small ones below."""
    pyplot = plot.plotter()
    channels = min(CHANNELS, len(found["channels"]))
    small = _small_panels(found, ahead)
    height = 0.5 + 1.9 * channels + (2.1 if small else 0)
    figure = pyplot.figure(figsize=(9.3, height), layout="constrained")
    grid = figure.add_gridspec(channels + bool(small), max(1, len(small)))
    for channel in range(channels):
        _draw_channel(figure.add_subplot(grid[channel, :]), found, channel)
    for number, draw in enumerate(small):
        draw(figure.add_subplot(grid[channels, number]))
    for axis in figure.axes:
        axis.tick_params(labelsize=7)
        axis.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, fontsize=9, x=0.01, ha="left")
    return figure


def _small_panels(found: Mapping[str, Any], ahead: Mapping[str, Any] | None) -> list[Any]:
    panels: list[Any] = []
    if "effects" in found:
        panels.append(lambda axis: _draw_effects(axis, found))
    if found["attention"]:
        panels.append(lambda axis: _draw_attention(axis, found))
    if ahead is not None:
        panels.append(lambda axis: _draw_ahead(axis, ahead))
    return panels


def read_numbers(packed: Mapping[str, Any]) -> Any:
    """Numbers as the page has them; null is NaN."""
    return np.array([np.nan if each is None else each for each in packed["numbers"]]).reshape(packed["shape"])


def _draw_channel(axis: Any, found: Mapping[str, Any], channel: int) -> None:
    n, places = found["count"], np.array(found["places"])
    values = read_numbers(found["values"])[:, channel]
    axis.plot(places[:n], values, color=PAST, linewidth=1.1, label="past" if found["task"] == "forecast" else "known")
    if "answer" in found:
        quantiles = found["quantiles"]
        answer = read_numbers(found["answer"])[..., channel]  # h q or n q
        at = places[n:] if found["task"] == "forecast" else places[:n]
        if found["task"] == "fill":
            answer = np.where(np.isnan(values)[:, None], answer, np.nan)
        count = len(quantiles)
        for k in range(count // 2):
            wide = quantiles[count - 1 - k] - quantiles[k]
            axis.fill_between(
                at,
                answer[:, k],
                answer[:, count - 1 - k],
                color=AHEAD,
                alpha=0.16,
                linewidth=0,
                label=f"{wide:.0%} band",
            )
        mark = "." if found["task"] == "fill" else ""
        axis.plot(at, answer[:, quantiles.index(0.5)], marker=mark, color=AHEAD, linewidth=1.3, label="median")
    if found.get("truth"):
        truth = [(row[0], row[1 + channel]) for row in found["truth"] if row[1 + channel] is not None]
        axis.plot(*zip(*truth, strict=True), color="#222222", linewidth=0.9, linestyle="--", label="what came")
    shown = np.unique(np.linspace(0, len(places) - 1, 6).astype(int))
    axis.set_xticks(places[shown], [_short(found["times"][k]) for k in shown])
    axis.set_title(found["channels"][channel], fontsize=8, loc="left")
    if channel == 0:
        axis.legend(frameon=False, fontsize=6, ncols=6, loc="upper left")


def _short(time: str) -> str:
    """A time with its hours and minutes, if it has any."""
    return time.replace("T", " ").removesuffix(":00").removesuffix(" 00:00")


def _effects(found: Mapping[str, Any]) -> Any:
    packed = found["effects"]
    return unpack_array(packed["data"], "float32", *packed["shape"])


def _draw_effects(axis: Any, found: Mapping[str, Any]) -> None:
    effects = _effects(found)
    moved = np.abs(effects).reshape(len(effects), -1).mean(1) if effects.ndim > 1 else effects
    axis.bar(np.arange(len(moved)) - len(moved) + 1, moved, color=PAST, width=1.0)
    what = (
        "how far a moment moves the forecast"
        if effects.ndim > 1
        else f"what a moment adds to {found.get('adds', 'the log-odds')}"
    )
    axis.set_title(what, fontsize=8, loc="left")


def _draw_attention(axis: Any, found: Mapping[str, Any]) -> None:
    """A line for each layer: the mean of its heads."""
    for colour, layer in zip(cycle(COLOURS), found["attention"], strict=False):
        weights = np.array(layer["weights"]).mean(0)
        back = np.arange(len(weights)) - len(weights) + 1
        axis.plot(back, weights, color=colour, linewidth=0.9, label=f"layer {layer['layer'] + 1}")
    axis.set_title("attention over the steps", fontsize=8, loc="left")
    axis.legend(frameon=False, fontsize=6)


def _draw_ahead(axis: Any, ahead: Mapping[str, Any]) -> None:
    for colour, rival in zip(RIVALS, ahead["rivals"], strict=True):
        steps, errors = zip(*rival["points"], strict=True)
        axis.plot(steps, errors, color=colour, linewidth=1.1, label=rival["name"])
    axis.set_title("mean absolute error by steps ahead", fontsize=8, loc="left")
    axis.legend(frameon=False, fontsize=6)
