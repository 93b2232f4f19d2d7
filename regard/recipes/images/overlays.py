"""Stills of an image: where a model looked, by name of the map, and what mattered to its prediction, laid
over what it saw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.look import contribution, plot
from regard.look.colours import FAINT, GROUND, SPEAKS_AGAINST, SPEAKS_FOR, Colour, of_head, reach, scale_of
from regard.look.record import record
from regard.recipes.images.attention_maps import AttentionMaps, attention_maps
from regard.recipes.images.model_input import ImageInput, OfPatches
from regard.runs.number_format import say_percent

SATURATION, BRIGHTNESS = 0.45, 0.85  # of an image under a map
STRENGTH = 0.85  # of a map over it
LIKELY = 3  # classes that are said above an image
WIDE, HIGH = 2.5, 3.0  # inches of one image with what is said above and below it


@dataclass(frozen=True, eq=False)
class Overlay:
    """A map over an image, and which it is.   rows columns"""

    title: str
    map: Tensor
    signed: bool = False  # around zero, in logits: for the prediction, or against it
    colour: Colour = SPEAKS_FOR  # of what is not signed
    faint: float = FAINT  # what is signed and stays below it looks so; 0: it has a scale of its own


@dataclass(frozen=True, eq=False)
class Line:
    """One image and all maps of it, with a sentence above."""

    words: str
    image: Tensor  # 3 h w in 0 … 1
    overlays: Sequence[Overlay]


def of_prediction(model: nn.Module, given: ImageInput, predicted: int) -> list[Overlay]:
    """Where the model looked, if it attends, and an occlusion map: how much the logit of the predicted class
    drops when a piece is greyed out."""
    with torch.no_grad(), record(model) as seen:
        model(**given.inputs)
    closed = OfPatches(model, given)

    def read(out: Any) -> Tensor:
        return contribution.tensor_of(out)[:, predicted]

    lost = contribution.leave_one_out(closed, closed.all_there(), read=read, fill=0.0)
    title = f"occlusion map: how much the logit drops\nwhen a {given.piece} is greyed out (orange: it drops)"
    matters = Overlay(title, lost[0].unflatten(0, given.grid), signed=True)
    return [*_of_attention(attention_maps(model, seen, given)), matters]


def _of_attention(found: AttentionMaps | None) -> list[Overlay]:
    """Attention of the last layer, if the class token's, and rollout. Where nothing attends, nothing."""
    if found is None:
        return []
    shown = []
    last = found.layers[-1]
    if found.query == "the class token" or found.rollout is None:
        heads = len(last.entry.heads)
        mean = f"mean of {heads} heads" if heads > 1 else "its only head"
        shown.append(Overlay(f"attention of {found.query},\nlayer {last.entry.layer + 1}, {mean}", last.maps.mean(0)))
    if found.rollout is not None:
        layers = f"{len(found.layers)} layers" if len(found.layers) > 1 else "one layer"
        through = f"rollout of attention, {layers} {found.within}".rstrip()
        shown.append(Overlay(f"{through},\nto {found.query}", found.rollout))
    return shown


def draw_lines(lines: Sequence[Line]) -> Any:
    """The figure: a row for each image, first as the model sees it, then under each map."""
    across = 1 + max(len(line.overlays) for line in lines)
    pyplot = plot.plotter()
    size = (max(5.0, WIDE * across), HIGH * len(lines))
    figure = pyplot.figure(figsize=size, layout="constrained")
    parts = figure.subfigures(len(lines), 1, squeeze=False)[:, 0]
    for part, line in zip(parts, lines, strict=True):
        part.suptitle(_plain(line.words), fontsize=9, x=0.01, ha="left")
        axes = part.subplots(1, across, squeeze=False)[0]
        for axis in axes:
            axis.axis("off")
        shown = line.image.detach().expand(3, -1, -1).permute(1, 2, 0).clamp(0, 1).cpu().numpy()
        axes[0].imshow(shown, interpolation="nearest")
        axes[0].set_title("what the model saw", fontsize=7)
        for axis, overlay in zip(axes[1:], line.overlays, strict=False):
            _lay(part, axis, shown, overlay)
    return figure


def by_heads(image: Tensor, found: AttentionMaps, *, words: str) -> Any:
    """All layers and heads over one image: first as the model sees it, and rollout; then a row for each
    layer."""
    across = max(2, *(len(layer.entry.heads) for layer in found.layers))
    pyplot = plot.plotter()
    rows = 1 + len(found.layers)
    size = (max(4.5, 1.5 * across), 0.6 + 1.7 * rows)
    figure, axes = pyplot.subplots(rows, across, figsize=size, squeeze=False, layout="constrained")
    for axis in axes.flat:
        axis.axis("off")
    shown = image.detach().expand(3, -1, -1).permute(1, 2, 0).clamp(0, 1).cpu().numpy()
    axes[0, 0].imshow(shown, interpolation="nearest")
    axes[0, 0].set_title("what the model saw", fontsize=7)
    if found.rollout is not None:
        _lay(figure, axes[0, 1], shown, Overlay("rollout of all layers", found.rollout))
    for row, layer in zip(axes[1:], found.layers, strict=True):
        for axis, head, one in zip(row, layer.entry.heads, layer.maps, strict=False):
            _lay(
                figure,
                axis,
                shown,
                Overlay(f"layer {layer.entry.layer + 1}, head {head + 1}", one, colour=of_head(head)),
            )
    figure.suptitle(_plain(words), fontsize=9, x=0.01, ha="left")
    return figure


def _lay(figure: Any, axis: Any, shown: Any, overlay: Overlay) -> None:
    """A map over an image whose own colours are subdued, with a bar that says what its colours mean: as on
    the page."""
    from matplotlib.colors import LinearSegmentedColormap

    values = overlay.map.detach().float().cpu()
    height, width = shown.shape[:2]
    subdued = BRIGHTNESS * (SATURATION * shown + (1 - SATURATION) * shown.mean(-1, keepdims=True))
    axis.imshow(subdued, interpolation="nearest", extent=(0, width, height, 0))
    if overlay.signed:
        most = reach(values, overlay.faint)
        low, high = -most, most
        stops = [(0, (*SPEAKS_AGAINST, 1)), (0.5, (*SPEAKS_AGAINST, 0)), (0.5, (*SPEAKS_FOR, 0)), (1, (*SPEAKS_FOR, 1))]
    else:
        low, high = scale_of(values)
        stops = [(0, (*overlay.colour, 0)), (1, (*overlay.colour, 1))]
    colours = LinearSegmentedColormap.from_list(
        "over", [(place, (*rgb, STRENGTH * alpha)) for place, (*rgb, alpha) in stops]
    )
    limits: dict[str, Any] = {"cmap": colours, "vmin": low, "vmax": high}
    over = axis.imshow(values.numpy(), interpolation="nearest", extent=(0, width, height, 0), **limits)
    axis.set_title(overlay.title, fontsize=7)
    bar = figure.colorbar(over, ax=axis, location="bottom", shrink=0.9, aspect=30, pad=0.02)
    bar.ax.set_facecolor(GROUND)
    bar.ax.tick_params(labelsize=5, length=2, pad=1)
    bar.ax.locator_params(nbins=4)
    if not overlay.signed:
        bar.set_label("no colour: the mean, or less", fontsize=5, labelpad=1)


def prediction_title(likely: Sequence[tuple[str, float]], called: str) -> str:
    """The likeliest classes of an image, the first one first, and which image it is."""
    first, *others = [f"{label} {say_percent(share)}" for label, share in likely[:LIKELY]]
    return f"{first}" + (f" (then {', '.join(others)})" if others else "") + f"   {called}"


def _plain(words: str) -> str:
    """No sign in a name means mathematics."""
    return words.replace("$", r"\$")
