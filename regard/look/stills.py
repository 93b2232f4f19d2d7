"""Stills drawn from the data of their pages: pictures by head, points by head and seed, edges by their weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from regard.look import overlays, plot
from regard.look.pack import unpacked
from regard.look.scene import Scene

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
MOST_POINTS = 4000  # in one picture
MOST_ARROWS = 800
NAMED = 40  # nodes that have their names beside them
PALE = 0.12  # of the map of colours, where it begins: nothing is still to be seen
YAW, PITCH = 0.6, 0.35  # as the page begins

Array = np.ndarray[Any, Any]
Draw = Callable[[Any], None]


def still(scene: Scene, *, title: str = "") -> Any:
    """The figure of what was looked at: a picture, a set or a graph by layers and heads, or the maps of all heads."""
    views = {view["view"]: view for view in scene.data["views"]}
    if "points" in views:
        figure = pictures(drawn_points(views["points"]), title, *colours_of_few(views["points"]))
        if shaded(views["points"]):
            plot.shade_bar(
                figure, figure.axes, "from nothing to the largest of each picture", root=False, low=PALE
            )
        return figure
    if "graph" in views:
        colours = views["graph"]["colours"]
        return pictures(
            drawn_graph(views["graph"]), title, colours[0]["name"] if colours else "", classes(views["graph"])
        )
    picture = scene.given.picture
    if picture is not None and scene.looked is not None:
        return overlays.by_heads(
            picture, scene.looked, words=f"{title}: where {scene.looked.query} looks{outcome(scene)}"
        )
    if picture is not None and (matters := views["image"]["matters"]):
        values = [
            torch.tensor(each["values"]).unflatten(0, tuple(views["image"]["grid"].values()))
            for each in matters
        ]
        maps = [
            overlays.Overlay(each["name"], one, signed=True)
            for each, one in zip(matters, values, strict=True)
        ]
        said = f"{title}: what speaks for {views['contribution']['answer']}{outcome(scene)}"
        return overlays.drawn([overlays.Line(said, picture, maps)])
    return plot.heads(scene.seen, title=title)


def outcome(scene: Scene) -> str:
    """What a picture was taken for, and which picture it is, on a line of its own."""
    name = scene.given.name or ""
    taken = [
        overlays.taken_for(view["likely"], name) for view in scene.data["views"] if view["view"] == "classes"
    ]
    return f"\n{taken[0]}".rstrip() if taken else f"   {name}".rstrip()


def pictures(
    rows: Sequence[tuple[str, Sequence[tuple[str, Draw]]]], title: str, what: str, meaning: Mapping[str, str]
) -> Any:
    """Rows of small pictures: the name of each row, and in it names and what draws them. `meaning`: what colours are."""
    if not rows:
        raise ValueError("there is nothing proved to draw of this set or graph; the page says why")
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


def colours_of_few(view: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """What has a colour, and the numbers of those that have each: more than eight share them."""
    few = [layer for layer in view["layers"] if layer["proved"] and layer["kind"] != "among"]
    whats = list(dict.fromkeys(layer["what"] for layer in few))
    most = max((layer["count"] for layer in few), default=0)
    numbers = {
        colour: ", ".join(map(str, range(k + 1, most + 1, len(COLOURS))))
        for k, colour in enumerate(COLOURS[:most])
    }
    return " or ".join(whats), {said: colour for colour, said in numbers.items()}


def shaded(view: dict[str, Any]) -> bool:
    """Is there a picture whose points are lighter and darker?"""
    among = any(layer["proved"] and layer["kind"] == "among" for layer in view["layers"])
    return among or not all(measure["signed"] for measure in view["measures"])


def drawn_points(view: dict[str, Any]) -> list[tuple[str, list[tuple[str, Draw]]]]:
    places = unpacked(view["places"], "f4", -1, len(view["axes"]))
    count = len(places)
    kept = np.linspace(0, count - 1, min(count, MOST_POINTS)).round().astype(int)
    seen, depth = projected(places)
    kept = kept[np.argsort(-depth[kept], kind="stable")]  # those behind first

    def scattered(colours: Any, sizes: Array) -> Draw:
        def draw(axis: Any) -> None:
            area = (5 + 22 * sizes[kept]) * min(1.0, 600 / len(kept))
            axis.scatter(*seen[kept].T, c=colours[kept], s=area, linewidths=0, rasterized=len(kept) > 1000)

        return draw

    found = []
    for layer in view["layers"]:
        if layer["proved"]:
            shape = len(layer["heads"]), layer["count"], count
            weights = unpacked(layer["weights"], "f2", *shape).astype(float) * layer["scale"]
            even = 1 / layer["count"] if layer["kind"] == "asks" else 1 / view["count"]
            paint = by_amount if layer["kind"] == "among" else by_few
            heads = zip(layer["heads"], weights, strict=True)
            row = [(f"head {head + 1}", scattered(*paint(one, even))) for head, one in heads]
            found.append((f"layer {layer['layer'] + 1}: {layer['title']}", row))
    for measure in view["measures"]:
        values = unpacked(measure["values"], "f4", 1, count).astype(float)
        name = f"{measure['name']}: red above zero, blue below" if measure["signed"] else measure["name"]
        found.append((name, [("", scattered(*(by_sign if measure["signed"] else by_amount)(values, 0.0)))]))
    return found


def projected(places: Array) -> tuple[Array, Array]:
    """Where points are seen from the side and a little above, and how far away.   n 2 or n 3 -> n 2, n"""
    if places.shape[1] == 2:
        return places, np.zeros(len(places))
    x, y, z = (places - (places.max(0) + places.min(0)) / 2).T
    right, deep = x * np.cos(YAW) - y * np.sin(YAW), x * np.sin(YAW) + y * np.cos(YAW)
    return np.stack((right, z * np.cos(PITCH) + deep * np.sin(PITCH)), 1), deep * np.cos(PITCH) - z * np.sin(
        PITCH
    )


def by_few(weights: Array, even: float) -> tuple[Array, Array]:
    """Each point in the colour of the one with most weight on it, the more than an even share the stronger.   k n -> n 3, n"""
    full = max(3 * even, float(weights.max())) - even
    strength = np.clip((weights - even) / full, 0, 1)
    most, which = strength.max(0), strength.argmax(0)
    colours = np.array([rgb(colour) for colour in COLOURS])[which % len(COLOURS)]
    part = np.sqrt(most)[:, None]
    return rgb(PLAIN) * (1 - part) + colours * part, most


def by_amount(weights: Array, even: float) -> tuple[Array, Array]:
    """From light to dark.   1 n -> n 4, n"""
    part = np.clip(weights[0] / max(3 * even, float(weights.max()), 1e-30), 0, 1)
    return plot.plotter().get_cmap(plot.MAP)(PALE + (1 - PALE) * part), part


def by_sign(weights: Array, even: float) -> tuple[Array, Array]:
    """Blue below zero, red above.   1 n -> n 4, n"""
    part = weights[0] / max(float(np.abs(weights).max()), 1e-30)
    return plot.plotter().get_cmap("RdBu_r")(0.5 + 0.5 * part), np.abs(part)


def rgb(colour: str) -> Array:
    return np.array([int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)])


# ---- graphs


def drawn_graph(view: dict[str, Any]) -> list[tuple[str, list[tuple[str, Draw]]]]:
    lists = [unpacked(each, "u2", 2, -1).astype(int) for each in view["lists"]]
    if not view["layers"]:
        edges = lists[0]
        return [("no attention", [("", network(view, edges, np.full(edges.shape[1], 0.1)))])]
    found = []
    for layer in view["layers"]:
        if layer["proved"]:
            edges = lists[layer["list"]]
            weights = (
                unpacked(layer["weights"], "f2", len(layer["heads"]), edges.shape[1]).astype(float)
                * layer["scale"]
            )
            row = [
                (f"head {head + 1}", network(view, edges, one))
                for head, one in zip(layer["heads"], weights, strict=True)
            ]
            found.append((f"layer {layer['layer'] + 1}", row))
    return found


def classes(view: dict[str, Any]) -> dict[str, str]:
    """The colour of each class of nodes."""
    names = sorted(set(view["colours"][0]["groups"])) if view["colours"] else []
    return {name: COLOURS[k % len(COLOURS)] for k, name in enumerate(names)}


def network(view: dict[str, Any], edges: Array, weights: Array) -> Draw:
    """Nodes in the colours of their classes, and edges as strong as the root of their weights."""
    places = np.array(view["places"], dtype=float).reshape(-1, 2)
    known = classes(view)
    colours = [known[group] for group in view["colours"][0]["groups"]] if known else [PLAIN] * len(places)

    def draw(axis: Any) -> None:
        from matplotlib.patches import FancyArrowPatch
        from matplotlib.patheffects import withStroke

        side = max(6.0, 40 * min(1.0, 40 / len(places)))
        for edge in weights.argsort(kind="stable")[-MOST_ARROWS:]:
            strong, (source, target) = float(np.sqrt(min(1.0, weights[edge]))), edges[:, edge]
            how: dict[str, Any] = {
                "color": "#3b5aa8",
                "alpha": 0.08 + 0.9 * strong,
                "linewidth": 0.3 + 1.6 * strong,
            }
            if source == target:
                axis.scatter(
                    *places[source],
                    s=3.2 * side,
                    facecolors="none",
                    edgecolors="#3b5aa8",
                    alpha=0.08 + 0.9 * strong,
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
