"""A set as a still: points by layer, head and learned vector."""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.data.array import Array
from regard.look import plot
from regard.look.encode_arrays import unpack_array
from regard.look.plot import COLOURS, PALE, PLAIN, Draw, pictures

MOST_POINTS = 4000  # in one picture
YAW, PITCH = 0.6, 0.35  # as the page begins


def draw_points(view: dict[str, Any], title: str) -> Any:
    """The figure: a row for each layer, a panel for each head."""
    figure = pictures(_drawn_points(view), title, *_colours_of_few(view))
    if _shaded(view):
        plot.shade_bar(figure, figure.axes, "from nothing to the largest of each picture", root=False, low=PALE)
    return figure


def _colours_of_few(view: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """What has a colour, and the numbers of those that have each: more than eight share them."""
    few = [layer for layer in view["layers"] if layer["proved"] and layer["kind"] != "among"]
    whats = list(dict.fromkeys(layer["what"] for layer in few))
    most = max((layer["count"] for layer in few), default=0)
    numbers = {
        colour: ", ".join(map(str, range(k + 1, most + 1, len(COLOURS)))) for k, colour in enumerate(COLOURS[:most])
    }
    return " or ".join(whats), {said: colour for colour, said in numbers.items()}


def _shaded(view: dict[str, Any]) -> bool:
    """Is there a picture whose points are lighter and darker?"""
    among = any(layer["proved"] and layer["kind"] == "among" for layer in view["layers"])
    return among or not all(measure["signed"] for measure in view["measures"])


def _drawn_points(view: dict[str, Any]) -> list[tuple[str, list[tuple[str, Draw]]]]:
    places = unpack_array(view["places"], "f4", -1, len(view["axes"]))
    count = len(places)
    kept = np.linspace(0, count - 1, min(count, MOST_POINTS)).round().astype(int)
    seen, depth = _projected(places)
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
            weights = unpack_array(layer["weights"], "f2", *shape).astype(float) * layer["scale"]
            if layer["kind"] == "asks":
                even = 1 / layer["count"]
            else:
                even = 1 / view["count"]
            paint = _by_amount if layer["kind"] == "among" else _by_few
            heads = zip(layer["heads"], weights, strict=True)
            row = [(f"head {head + 1}", scattered(*paint(one, even))) for head, one in heads]
            found.append((f"layer {layer['layer'] + 1}: {layer['title']}", row))
    for measure in view["measures"]:
        values = unpack_array(measure["values"], "f4", 1, count).astype(float)
        if measure["signed"]:
            name = f"{measure['name']}: red above zero, blue below"
        else:
            name = measure["name"]
        found.append((name, [("", scattered(*(_by_sign if measure["signed"] else _by_amount)(values, 0.0)))]))
    return found


def _projected(places: Array) -> tuple[Array, Array]:
    """Where points are seen from the side and a little above, and how far away.   n 2 or n 3 -> n 2, n"""
    if places.shape[1] == 2:
        return places, np.zeros(len(places))
    x, y, z = (places - (places.max(0) + places.min(0)) / 2).T
    right, deep = x * np.cos(YAW) - y * np.sin(YAW), x * np.sin(YAW) + y * np.cos(YAW)
    return np.stack((right, z * np.cos(PITCH) + deep * np.sin(PITCH)), 1), deep * np.cos(PITCH) - z * np.sin(PITCH)


def _by_few(weights: Array, even: float) -> tuple[Array, Array]:
    """Each point in the colour of the one with most weight on it, the more than an even share the stronger.
    k n -> n 3, n"""
    full = max(3 * even, float(weights.max())) - even
    strength = np.clip((weights - even) / full, 0, 1)
    most, which = strength.max(0), strength.argmax(0)
    colours = np.array([_rgb(colour) for colour in COLOURS])[which % len(COLOURS)]
    part = np.sqrt(most)[:, None]
    return _rgb(PLAIN) * (1 - part) + colours * part, most


def _by_amount(weights: Array, even: float) -> tuple[Array, Array]:
    """From light to dark.   1 n -> n 4, n"""
    part = np.clip(weights[0] / max(3 * even, float(weights.max()), 1e-30), 0, 1)
    return plot.plotter().get_cmap(plot.MAP)(PALE + (1 - PALE) * part), part


def _by_sign(weights: Array, even: float) -> tuple[Array, Array]:
    """Blue below zero, red above.   1 n -> n 4, n"""
    part = weights[0] / max(float(np.abs(weights).max()), 1e-30)
    return plot.plotter().get_cmap("RdBu_r")(0.5 + 0.5 * part), np.abs(part)


def _rgb(colour: str) -> Array:
    return np.array([int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)])
