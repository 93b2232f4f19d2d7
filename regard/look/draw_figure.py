"""A figure as a still: points, surfaces or networks, by layer, head and learned vector, by group and by number."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from regard.data.array import Array
from regard.look import plot
from regard.look.encode_arrays import unpack_array
from regard.look.plot import COLOURS, PALE, PLAIN, Draw, pictures

MOST_POINTS = 4000  # in one picture
YAW, PITCH = 0.6, 0.35  # as the page begins
MOST_ARROWS = 800
STANDS_OUT = 1.25  # times an even share: as on the page
FEW_EDGES = 1.5  # for each node, at most
GREY, ARROW = "#b9bec6", "#3b5aa8"  # edges of a network, and attention along them
NAMED = 40  # nodes that have their names beside them
NEARLY_ALL = 0.99  # of the numbers on a surface decide its colours: few vertices may stand out by far
Row = tuple[str, list[tuple[str, Draw]]]


def draw_figure(part: Mapping[str, Any], title: str) -> Any:
    """The JSON of a figure, drawn: a row for each layer, and for each other way to colour it; a panel for each head."""
    paint = _Painter(part)
    if paint.edges:
        groups = part["groups"][0] if part["groups"] else None
        return pictures(_draw_network(paint, part), title, groups["name"] if groups else "", _meaning_of(groups))
    few = [layer for layer in part["layers"] if layer["proved"] and layer["kind"] != "among"]
    what, meaning = " or ".join(dict.fromkeys(layer["what"] for layer in few)), _numbers_of_colours(few)
    rows = [_draw_layer(paint, layer) for layer in part["layers"] if layer["proved"]]
    for groups in part["groups"]:
        what, meaning = groups["name"], _meaning_of(groups)
        rows.append((what, [("", paint(_rgb_of_groups(groups), np.ones(paint.count)))]))
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


def _draw_network(paint: _Painter, part: Mapping[str, Any]) -> list[Row]:
    """Attention along edges: what stands out from an even share."""
    if not part["layers"]:
        return [("no attention", [("", paint.network(part, paint.edges[0][:, :0], np.zeros(0)))])]
    found = []
    for layer in part["layers"]:
        if not layer["proved"]:
            continue
        edges = paint.edges[layer["list"]]
        weights = unpack_array(layer["weights"], "f2", len(layer["heads"]), edges.shape[1]).astype(float)
        row = []
        for head, one in zip(layer["heads"], weights * layer["scale"], strict=True):
            ratios = one * np.array(layer["keys"])[edges[1]]
            most = min(MOST_ARROWS, math.ceil(FEW_EDGES * paint.count))
            order = np.argsort(-ratios, kind="stable")[:most]
            kept = order[ratios[order] >= STANDS_OUT]
            row.append((f"head {head + 1}", paint.network(part, edges[:, kept], one[kept])))
        found.append((f"layer {layer['layer'] + 1}", row))
    return found


# ── pictures


class _Painter:
    """What all pictures of a figure have in common: the same things, seen from the same side."""

    def __init__(self, part: Mapping[str, Any]) -> None:
        places = unpack_array(part["places"], "f4", -1, len(part["axes"]))
        self.of, self.count = part["count"], len(places)
        self.seen, self.depth = _project(places)
        self.faces = unpack_array(part["faces"], "i4", -1, 3) if part["faces"] else None
        self.edges = [unpack_array(each, "u2", 2, -1).astype(int) for each in part["edges"]]

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

    def network(self, part: Mapping[str, Any], edges: Array, weights: Array) -> Draw:
        """Nodes in the colours of their groups, edges of the network in grey, each pair once, and over them attention as
        strong as the root of its weights."""
        places = self.seen
        groups = part["groups"]
        colours = _rgb_of_groups(groups[0]) if groups else np.tile(_rgb(PLAIN), (self.count, 1))

        def draw(axis: Any) -> None:
            from matplotlib.patches import FancyArrowPatch
            from matplotlib.patheffects import withStroke

            side = max(6.0, 40 * min(1.0, 40 / len(places)))
            pairs = np.unique(np.sort(self.edges[0], axis=0), axis=1)
            axis.plot(*places[pairs].transpose(2, 0, 1), color=GREY, linewidth=0.6, zorder=0.5)
            for edge in weights.argsort(kind="stable"):
                strong, (source, target) = float(np.sqrt(min(1.0, weights[edge]))), edges[:, edge]
                alpha = 0.08 + 0.9 * strong
                if source == target:
                    axis.scatter(*places[source], s=3.2 * side, facecolors="none", edgecolors=ARROW, alpha=alpha)
                    continue
                how: dict[str, Any] = {"color": ARROW, "alpha": alpha, "linewidth": 0.3 + 1.6 * strong}
                how |= {"connectionstyle": "arc3,rad=0.13", "arrowstyle": "-|>", "mutation_scale": 4 + 4 * strong}
                ends = tuple(places[source]), tuple(places[target])
                axis.add_patch(FancyArrowPatch(*ends, shrinkA=1, shrinkB=2.5, **how))
            axis.scatter(*places.T, s=side, c=colours, zorder=3, linewidths=0.5, edgecolors="white")
            for label, place in zip(part["labels"], places, strict=True) if len(places) <= NAMED else ():
                how = {"xytext": (3, 3), "textcoords": "offset points", "fontsize": 5, "zorder": 4}
                said = axis.annotate(plot.visible(label)[:12], tuple(place), **how)
                said.set_path_effects([withStroke(linewidth=1.6, foreground="white")])  # edges pass behind
            axis.margins(0.08)

        return draw


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


def _rgb_of_groups(groups: Mapping[str, Any]) -> Array:
    """The colour of each thing; grey where its group is not known.   n 3"""
    of = unpack_array(groups["of"], "i4", -1)
    return np.where(of[:, None] < 0, _rgb(PLAIN), _rgb_of_numbers(of))


def _meaning_of(groups: Mapping[str, Any] | None) -> dict[str, str]:
    """The colour of each group that is there."""
    if groups is None:
        return {}
    present = np.unique(unpack_array(groups["of"], "i4", -1)).tolist()
    return {groups["names"][k]: COLOURS[k % len(COLOURS)] for k in present if k >= 0}


def _rgb_of_numbers(numbers: Array) -> Array:
    """The colour of each number; after the last comes the first again.   n -> n 3"""
    return np.array([_rgb(colour) for colour in COLOURS])[numbers % len(COLOURS)]
