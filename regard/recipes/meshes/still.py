"""A mesh as a still: a panel for each number of its vertices."""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.data.array import Array
from regard.look import plot
from regard.look.encode_arrays import unpack_array
from regard.look.plot import COLOURS, PLAIN, Draw, pictures

YAW, PITCH = 0.6, 0.35  # as the page begins


def draw_mesh(view: dict[str, Any], title: str) -> Any:
    """The figure: the mesh, once for each measure."""
    places = unpack_array(view["places"], "f4", -1, 3)
    faces = unpack_array(view["faces"], "i4", -1, 3)
    rows: list[tuple[str, list[tuple[str, Draw]]]] = []
    meaning: dict[str, str] = {}
    if view["groups"]:
        which = unpack_array(view["groups"]["of"], "i4", -1)
        names = view["groups"]["names"]
        meaning = {names[k]: COLOURS[k % len(COLOURS)] for k in np.unique(which).tolist()}
        colours = np.array([_rgb(COLOURS[k % len(COLOURS)]) for k in range(len(names))])[which]
        rows.append(("predicted class", [("", _surface(places, faces, colours))]))
    for measure in view["measures"]:
        values = unpack_array(measure["values"], "f4", -1).astype(float)
        most = max(float(np.quantile(np.abs(values), 0.99)), 1e-30)
        colours = plot.plotter().get_cmap("RdBu_r")(0.5 + 0.5 * np.clip(values / most, -1, 1))[:, :3]
        rows.append((f"{measure['name']}: red above zero, blue below", [("", _surface(places, faces, colours))]))
    if not rows:
        rows.append(("the mesh", [("", _surface(places, faces, np.tile(_rgb(PLAIN), (len(places), 1))))]))
    return pictures(rows, title, "predicted class" if meaning else "", meaning)


def _surface(places: Array, faces: Array, colours: Array) -> Draw:
    """Triangles, those behind first, the darker the more they stand askew."""

    def draw(axis: Any) -> None:
        from matplotlib.collections import PolyCollection

        seen = _projected(places)
        corners = seen[faces]
        normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        facing = np.abs(normal[:, 2]) / np.maximum(np.linalg.norm(normal, axis=1), 1e-30)
        order = np.argsort(-corners[:, :, 2].mean(1), kind="stable")
        shade = (0.55 + 0.45 * facing)[order, None]
        painted = np.clip(colours[faces[order]].mean(1) * shade, 0, 1)
        axis.add_collection(
            PolyCollection(
                list(corners[order, :, :2]), facecolors=painted, edgecolors=painted, linewidths=0.2, rasterized=True
            )
        )
        axis.autoscale_view()

    return draw


def _projected(places: Array) -> Array:
    """Where vertices are seen from the side and a little above, and how far away.   n 3 -> n 3"""
    x, y, z = (places - (places.max(0) + places.min(0)) / 2).T
    right, deep = x * np.cos(YAW) - y * np.sin(YAW), x * np.sin(YAW) + y * np.cos(YAW)
    return np.stack((right, z * np.cos(PITCH) + deep * np.sin(PITCH), deep * np.cos(PITCH) - z * np.sin(PITCH)), 1)


def _rgb(colour: str) -> Array:
    return np.array([int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)])
