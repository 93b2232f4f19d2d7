"""A figure as a still: points or surfaces, by layer, head and learned vector, by group and by number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from regard.data.array import Array
from regard.look import plot
from regard.look.encode_arrays import unpack_array
from regard.look.plot import COLOURS, PALE, PLAIN, Draw, pictures

MOST_POINTS = 4000  # in one picture
YAW, PITCH = 0.6, 0.35  # as the page begins
NEARLY_ALL = 0.99  # of the numbers on a surface decide its colours: few vertices may stand out by far
Row = tuple[str, list[tuple[str, Draw]]]


def draw_figure(part: Mapping[str, Any], title: str) -> Any:
    """The JSON of a figure, drawn: a row for each layer, and for each other way to colour it; a panel for each head."""
    paint = _Painter(part)
    few = [layer for layer in part["layers"] if layer["proved"] and layer["kind"] != "among"]
    what, meaning = " or ".join(dict.fromkeys(layer["what"] for layer in few)), _numbers_of_colours(few)
    rows = [_draw_layer(paint, layer) for layer in part["layers"] if layer["proved"]]
    groups = part["groups"]
    if groups:
        of = unpack_array(groups["of"], "i4", -1)
        what = groups["name"]
        meaning = {groups["names"][k]: COLOURS[k % len(COLOURS)] for k in np.unique(of).tolist()}
        rows.append((what, [("", paint(_rgb_of_numbers(of), np.ones(paint.count)))]))
    rows += [_draw_measure(paint, measure) for measure in part["measures"]]
    if not rows and part["faces"]:
        rows.append((part["title"], [("", paint(np.tile(_rgb(PLAIN), (paint.count, 1)), np.ones(paint.count)))]))
    figure = pictures(rows, title, what, meaning)
    among = any(layer["proved"] and layer["kind"] == "among" for layer in part["layers"])
    if among or not all(measure["signed"] for measure in part["measures"]):
        plot.shade_bar(figure, figure.axes, "from nothing to the largest of each picture", root=False, low=PALE)
    return figure


def _numbers_of_colours(few: list[dict[str, Any]]) -> dict[str, str]:
    """The numbers of those that have each colour: more than eight share them."""
    most = max((layer["count"] for layer in few), default=0)
    shared = {k: range(k + 1, most + 1, len(COLOURS)) for k in range(min(most, len(COLOURS)))}
    return {", ".join(map(str, numbers)): COLOURS[k] for k, numbers in shared.items()}


def _draw_layer(paint: _Painter, layer: Mapping[str, Any]) -> Row:
    shape = len(layer["heads"]), layer["count"], paint.count
    weights = unpack_array(layer["weights"], "f2", *shape).astype(float) * layer["scale"]
    even = 1 / (layer["count"] if layer["kind"] == "asks" else paint.of)
    colour = _by_amount if layer["kind"] == "among" else _by_few
    heads = zip(layer["heads"], weights, strict=True)
    row = [(f"head {head + 1}", paint(*colour(one, even))) for head, one in heads]
    return f"layer {layer['layer'] + 1}: {layer['title']}", row


def _draw_measure(paint: _Painter, measure: Mapping[str, Any]) -> Row:
    values = unpack_array(measure["values"], "f4", 1, -1).astype(float)
    if not measure["signed"]:
        return measure["name"], [("", paint(*_by_amount(values, 0.0)))]
    most = np.abs(values).max() if paint.faces is None else np.quantile(np.abs(values), NEARLY_ALL)
    return f"{measure['name']}: red above zero, blue below", [("", paint(*_by_sign(values[0], float(most))))]


# ── pictures


class _Painter:
    """What all pictures of a figure have in common: the same things, seen from the same side."""

    def __init__(self, part: Mapping[str, Any]) -> None:
        places = unpack_array(part["places"], "f4", -1, len(part["axes"]))
        self.of, self.count = part["count"], len(places)
        self.seen, self.depth = _project(places)
        self.faces = unpack_array(part["faces"], "i4", -1, 3) if part["faces"] else None

    def __call__(self, colours: Array, sizes: Array) -> Draw:
        """colours: of each thing, n 3 or n 4; sizes: from 0 to 1"""
        if self.faces is not None:
            return lambda axis: self._draw_surface(axis, colours)
        return lambda axis: self._draw_points(axis, colours, sizes)

    def _draw_points(self, axis: Any, colours: Array, sizes: Array) -> None:
        kept = np.linspace(0, self.count - 1, min(self.count, MOST_POINTS)).round().astype(int)
        kept = kept[np.argsort(-self.depth[kept], kind="stable")]  # those behind first
        area = (5 + 22 * sizes[kept]) * min(1.0, 600 / len(kept))
        axis.scatter(*self.seen[kept].T, c=colours[kept], s=area, linewidths=0, rasterized=len(kept) > 1000)

    def _draw_surface(self, axis: Any, colours: Array) -> None:
        """Triangles, those behind first, the darker the more they stand askew."""
        from matplotlib.collections import PolyCollection

        corners = np.concatenate((self.seen, self.depth[:, None]), 1)[self.faces]
        normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        facing = np.abs(normal[:, 2]) / np.maximum(np.linalg.norm(normal, axis=1), 1e-30)
        order = np.argsort(-corners[:, :, 2].mean(1), kind="stable")
        shade = (0.55 + 0.45 * facing)[order, None]
        assert self.faces is not None
        painted = np.clip(colours[self.faces[order], :3].mean(1) * shade, 0, 1)
        how: dict[str, Any] = {"facecolors": painted, "edgecolors": painted, "linewidths": 0.2, "rasterized": True}
        axis.add_collection(PolyCollection(list(corners[order, :, :2]), **how))
        axis.autoscale_view()


def _project(places: Array) -> tuple[Array, Array]:
    """Where things are seen from the side and a little above, and how far away.   n 2 or n 3 -> n 2, n"""
    if places.shape[1] == 2:
        return places, np.zeros(len(places))
    x, y, z = (places - (places.max(0) + places.min(0)) / 2).T
    right, deep = x * np.cos(YAW) - y * np.sin(YAW), x * np.sin(YAW) + y * np.cos(YAW)
    return np.stack((right, z * np.cos(PITCH) + deep * np.sin(PITCH)), 1), deep * np.cos(PITCH) - z * np.sin(PITCH)


# ── colours


def _by_few(weights: Array, even: float) -> tuple[Array, Array]:
    """Each thing in the colour of the one with most weight on it, the more than an even share the stronger.
    k n -> n 3, n"""
    full = max(3 * even, float(weights.max())) - even
    strength = np.clip((weights - even) / full, 0, 1)
    most, part = strength.max(0), np.sqrt(strength.max(0))[:, None]
    return _rgb(PLAIN) * (1 - part) + _rgb_of_numbers(strength.argmax(0)) * part, most


def _by_amount(weights: Array, even: float) -> tuple[Array, Array]:
    """From light to dark.   1 n -> n 4, n"""
    part = np.clip(weights[0] / max(3 * even, float(weights.max()), 1e-30), 0, 1)
    return plot.plotter().get_cmap(plot.MAP)(PALE + (1 - PALE) * part), part


def _by_sign(values: Array, most: float) -> tuple[Array, Array]:
    """Blue below zero, red above.   n -> n 4, n"""
    part = np.clip(values / max(most, 1e-30), -1, 1)
    return plot.plotter().get_cmap("RdBu_r")(0.5 + 0.5 * part), np.abs(part)


def _rgb(colour: str) -> Array:
    return np.array([int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)])


def _rgb_of_numbers(numbers: Array) -> Array:
    """The colour of each number; after the last comes the first again.   n -> n 3"""
    return np.array([_rgb(colour) for colour in COLOURS])[numbers % len(COLOURS)]
