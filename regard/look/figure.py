"""A figure: things at places in a plane or in space, coloured by what attention or a number says of each.

A view makes one. The page draws it with one script, `web/figure/`, and matplotlib with one function, `draw_figure`: both read
its JSON, whose format is in web/README.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from regard.look import encode_arrays

FIGURE_FILES = tuple(sorted((Path(__file__).parent / "web" / "figure").iterdir()))
FEW_ROWS = 200  # things that are listed as the rows of a table, too


class Measure(NamedTuple):
    """A number of each thing."""

    name: str
    sentence: str
    values: Tensor  # n
    signed: bool = True  # is 0 in the middle of the colours?


class Groups(NamedTuple):
    """The group of each thing, and what the groups are called."""

    name: str
    names: Sequence[str]
    of: Tensor  # n: a place among the names, −1: not known


@dataclass(frozen=True, eq=False, kw_only=True)
class Figure:
    """What is at n places. Faces make a surface of them, edges a network."""

    tab: str  # what the tab of the page is called
    title: str  # The set
    kind: str  # for who cannot see it: point cloud
    thing: str  # what one is called: point
    facts: str  # 12 points
    count: int  # of which n are drawn
    shown: Tensor | None = None  # n: their numbers; None: all
    axes: Sequence[str]  # two or three
    places: Tensor  # n axes
    columns: Sequence[str] = ()  # what is told of a thing
    numbers: Tensor | None = None  # n columns; None: its place
    wide: int = 0  # how many columns there are
    labels: Sequence[str] = ()  # n: names that are written beside them
    centre: int | None = None  # which of the n is the one that was asked for
    layers: Sequence[dict[str, Any]] = ()  # of attention
    measures: Sequence[Measure] = ()
    groups: Sequence[Groups] = ()
    faces: Tensor | None = None  # f 3
    edges: Sequence[
        Tensor
    ] = ()  # lists of edges 2 e: those of the network itself, and others that layers have weights of
    note: str | None = None

    def to_json(self) -> dict[str, Any]:
        """As the page reads it."""
        components = any(name.startswith("PC") for name in self.axes)
        return {
            "tab": self.tab,
            "title": self.title,
            "kind": self.kind,
            "thing": self.thing,
            "facts": self.facts,
            "count": self.count,
            "shown": _pack(self.shown, np.uint32),
            "axes": list(self.axes),
            "places": _pack(self.places, np.float32),
            "columns": list(self.columns),
            "wide": self.wide,
            "numbers": _pack(self.numbers, np.float32),
            "rows": self.faces is None and not self.edges and (self.count <= FEW_ROWS or components),
            "layers": list(self.layers),
            "measures": [each._asdict() | {"values": _pack(each.values, np.float32)} for each in self.measures],
            "groups": [
                {"name": each.name, "names": list(each.names), "of": _pack(each.of, np.int32)} for each in self.groups
            ],
            "faces": _pack(self.faces, np.int32),
            "edges": [_pack(each, np.uint16) for each in self.edges],
            "labels": list(self.labels),
            "centre": self.centre,
            "note": self.note,
        }


def _pack(x: Tensor | None, dtype: Any) -> str | None:
    return None if x is None else encode_arrays.pack_array(x.detach().cpu().numpy().astype(dtype))
