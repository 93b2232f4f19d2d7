"""Missing features of nodes: with what they are filled, and a note that says so."""

from __future__ import annotations

import numpy as np

from regard.data.array import Array
from regard.errors import RegardError
from regard.recipes.graphs.edge_list import Missing
from regard.recipes.graphs.info import Scaling
from regard.recipes.graphs.parts import Parts


def find_fill(x: Array, parts: Parts, missing: Missing, known: Scaling | None) -> tuple[float, ...] | None:
    """What missing features become: the median of each column, or what it was in training; None: none is to be
    filled."""
    if known is not None:
        if known.fill is None and np.isnan(x).any():
            raise RegardError(
                f"{parts.what} has {int(np.isnan(x).sum()):,} missing features of nodes, and the model was trained "
                "without --data.missing fill, so it knows no values to fill in; fill in the cells"
            )
        if known.fill is not None and len(known.fill) != x.shape[1]:
            raise RegardError(
                f"{parts.what} has {x.shape[1]} features per node, but the model was trained with {len(known.fill)}"
            )
        return known.fill
    if missing != "fill":
        return None
    for number, column in enumerate(x.T):
        if len(column) and np.isnan(column).all():
            name = parts.columns[number] if parts.columns else number + 1
            raise RegardError(f"every cell of column '{name}' of {parts.what} is missing; remove the column")
    return tuple((np.nanmedian(x, 0) if len(x) else np.zeros(x.shape[1])).tolist())


def note_on_filled(parts: Parts, scaling: Scaling) -> tuple[str, ...]:
    """How many features were missing, and with what they were filled."""
    if scaling.fill is None or not isinstance(parts.x, np.ndarray):
        return ()
    counts = np.isnan(parts.x).sum(0)
    if not counts.any():
        return ()
    names = parts.columns or [str(i + 1) for i in range(len(counts))]
    each = [f"{names[i]} {counts[i]:,} × {scaling.fill[i]:.6g}" for i in np.flatnonzero(counts).tolist()]
    more = f" and {len(each) - 5} more columns" if len(each) > 5 else ""
    return (
        f"filled {int(counts.sum()):,} missing features of nodes with the median of their column: "
        f"{', '.join(each[:5])}{more}",
    )
