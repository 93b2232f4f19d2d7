"""Sets to look at, for models that no recipe made: a file, or what came with the model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.data.array import Array
from regard.data.batch import generator
from regard.data.point_clouds import read_cloud
from regard.data.tables import names_of
from regard.errors import RegardError
from regard.look.model_input import Tokens
from regard.look.reader import NAMED, Control, Reader, at_path
from regard.recipes.processors import ForeignModel
from regard.recipes.sets.model_input import SetInput
from regard.recipes.sets.views.points import PointsView
from regard.symmetry.roles import Roles, guess

FILE = Control(
    name="file",
    type="file",
    label="Another set, from a file (.npy, .npz, .csv, .ply, .off)",
    accept=".npy,.npz,.csv,.ply,.off",
)


class SetReader(Reader):
    """A set of elements, one row of numbers each, for a model that no recipe made.

    inputs: of the model; the page shows their first row if no file is given
    """

    views = (PointsView(),)
    controls = (FILE,)

    def __init__(self, roles: Roles, inputs: Mapping[str, Any]) -> None:
        assert roles.stream is not None
        self.stream = roles.stream
        self.inputs = {name: x[:1] if isinstance(x, Tensor) and x.dim() else x for name, x in inputs.items()}

    def read(self, given: str | bytes | None = None, target: str | bytes | None = None) -> SetInput:
        columns: tuple[str, ...] = ()
        if given is None:
            x = self.first_row()
            rows = x[0].numpy(force=True)
        else:
            with at_path(given) as path:
                rows, columns = _rows_in(path), _header_of(path)
                x = self.of_rows(rows, path.name)
        if not x.shape[1]:
            raise RegardError("the set is empty, so there is nothing to show; give a set with at least one element")
        n, d = x.shape[1:]
        mask = self.stream.mask if self.stream.mask in self.inputs else None
        beside = {}
        if mask is not None:
            beside = {mask: torch.full((1, n), not self.stream.hides).to(self.inputs[mask].dtype)}
        if len(columns) != d:
            columns = tuple("xyz"[:d]) if d <= 3 else tuple(f"number {i}" for i in range(d))
        return SetInput(
            inputs=self.inputs | beside | {self.stream.tokens: x},
            streams=(Tokens("points", tuple(str(i + 1) for i in range(n)), "items"),) if n <= NAMED else (),
            points=self.stream.tokens,
            rows=torch.from_numpy(rows).float(),
            columns=columns,
            mask=mask,
            text=Path(given).name if isinstance(given, str) else None,
        )

    def of_rows(self, rows: Array, name: str) -> Tensor:
        """Rows as the model's input.   n d -> 1 n d"""
        like: Tensor = self.inputs[self.stream.tokens]
        if rows.shape[1] != like.shape[-1]:
            raise RegardError(f"{name}: each element must have {like.shape[-1]} numbers, got {rows.shape[1]}")
        return torch.from_numpy(np.ascontiguousarray(rows)).to(like.dtype)[None]

    def first_row(self) -> Tensor:
        """The elements that came with the model, without padding.   1 n d"""
        x: Tensor = self.inputs[self.stream.tokens]
        mask = None if self.stream.mask is None else self.inputs.get(self.stream.mask)
        if mask is None:
            return x
        return x[:, mask[0].bool() != self.stream.hides]


def _rows_in(path: Path) -> Array:
    """All points of a file; for a mesh, points sampled on its surface."""
    return read_cloud(str(path), None, generator(0)).points


# ---- files


def _header_of(path: Path) -> tuple[str, ...]:
    """The column names in the first line of a .csv; () if that line holds a number."""
    if path.suffix.lower() != ".csv":
        return ()
    words = names_of(path)
    if any(word.lstrip("+-").replace(".", "", 1).isdecimal() for word in words):
        return ()
    return tuple(words)


# ── which models read sets


def foreign_reader(foreign: ForeignModel) -> Reader | None:
    """What reads sets for a model that no recipe made; None for a model of other inputs.

    It is one of sets if it says that its tokens are vectors without places, or if nothing is said and they
    have two or three numbers each.
    """
    declared = foreign.roles or getattr(foreign.model, "roles", None)
    known = declared if isinstance(declared, Roles) else guess(foreign.model, dict(foreign.inputs))
    stream = known.stream
    x = None if stream is None else foreign.inputs.get(stream.tokens)
    if (
        stream is None
        or known.nodes is not None
        or not isinstance(x, Tensor)
        or x.dim() != 3
        or not x.is_floating_point()
    ):
        return None
    if stream.axis != 1 or (known.points is None if known is not declared else stream.places is not None):
        return None
    return SetReader(known, foreign.inputs)
