"""A graph as a still: edges by layer and head."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from regard.data.array import Array
from regard.look import plot
from regard.look.encode_arrays import unpack_array
from regard.look.plot import COLOURS, PLAIN, Draw, pictures

MOST_ARROWS = 800
STANDS_OUT = 1.25  # times an even share: as on the page
FEW_EDGES = 1.5  # for each node, at most
GREY = "#b9bec6"  # edges of the graph
NAMED = 40  # nodes that have their names beside them


def draw_graph(view: dict[str, Any], title: str) -> Any:
    """The figure: a row for each layer, a panel for each head."""
    what = view["colours"][0]["name"] if view["colours"] else ""
    return pictures(_drawn_graph(view), title, what, _classes(view))


def _drawn_graph(view: dict[str, Any]) -> list[tuple[str, list[tuple[str, Draw]]]]:
    lists = [unpack_array(each, "u2", 2, -1).astype(int) for each in view["lists"]]
    if not view["layers"]:
        return [("no attention", [("", _network(view, lists[0], lists[0][:, :0], np.zeros(0)))])]
    found = []
    for layer in view["layers"]:
        if layer["proved"]:
            edges = lists[layer["list"]]
            weights = (
                unpack_array(layer["weights"], "f2", len(layer["heads"]), edges.shape[1]).astype(float) * layer["scale"]
            )
            row = []
            for head, one in zip(layer["heads"], weights, strict=True):
                kept = _standing_out(one * np.array(layer["keys"])[edges[1]], len(view["places"]))
                row.append((f"head {head + 1}", _network(view, lists[0], edges[:, kept], one[kept])))
            found.append((f"layer {layer['layer'] + 1}", row))
    return found


def _standing_out(ratios: Array, nodes: int) -> Array:
    """The edges whose weight stands out from an even share, the largest first."""
    most = min(MOST_ARROWS, math.ceil(FEW_EDGES * nodes))
    order = np.argsort(-ratios, kind="stable")[:most]
    return order[ratios[order] >= STANDS_OUT]


def _classes(view: dict[str, Any]) -> dict[str, str]:
    """The colour of each class of nodes that is there, by its place among all classes."""
    if not view["colours"]:
        return {}
    colour = view["colours"][0]
    present = set(colour["groups"])
    known = {name: COLOURS[k % len(COLOURS)] for k, name in enumerate(colour["classes"])}
    return {name: rgb for name, rgb in known.items() if name in present}


def _network(view: dict[str, Any], ground: Array, edges: Array, weights: Array) -> Draw:
    """Nodes in the colours of their classes, edges of the graph in grey, each pair once, and over them
    attention as strong as the root of its weights."""
    places = np.array(view["places"], dtype=float).reshape(-1, 2)
    known = _classes(view)
    if known:
        colours = [known.get(group, PLAIN) for group in view["colours"][0]["groups"]]
    else:
        colours = [PLAIN] * len(places)

    def draw(axis: Any) -> None:
        from matplotlib.patches import FancyArrowPatch
        from matplotlib.patheffects import withStroke

        side = max(6.0, 40 * min(1.0, 40 / len(places)))
        pairs = np.unique(np.sort(ground, axis=0), axis=1)
        axis.plot(*places[pairs].transpose(2, 0, 1), color=GREY, linewidth=0.6, zorder=0.5)
        for edge in weights.argsort(kind="stable"):
            strong, (source, target) = float(np.sqrt(min(1.0, weights[edge]))), edges[:, edge]
            how: dict[str, Any] = {"color": "#3b5aa8", "alpha": 0.08 + 0.9 * strong, "linewidth": 0.3 + 1.6 * strong}
            if source == target:
                axis.scatter(
                    *places[source], s=3.2 * side, facecolors="none", edgecolors="#3b5aa8", alpha=0.08 + 0.9 * strong
                )
                continue
            bent = FancyArrowPatch(
                tuple(places[source]), tuple(places[target]), connectionstyle="arc3,rad=0.13", arrowstyle="-|>",
                mutation_scale=4 + 4 * strong, shrinkA=1, shrinkB=2.5, **how,
            )  # fmt: skip
            axis.add_patch(bent)
        axis.scatter(*places.T, s=side, c=colours, zorder=3, linewidths=0.5, edgecolors="white")
        if len(places) <= NAMED:
            for label, (x, y) in zip(view["labels"], places, strict=True):
                how = {"xytext": (3, 3), "textcoords": "offset points", "fontsize": 5, "zorder": 4}
                said = axis.annotate(plot.visible(label)[:12], (x, y), **how)
                said.set_path_effects([withStroke(linewidth=1.6, foreground="white")])  # edges pass behind
        axis.margins(0.08)

    return draw
