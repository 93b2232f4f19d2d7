"""Attention of each head laid over the picture, attention followed through all layers, and beside both what matters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.look.model_input import Given
from regard.look.pack import floats
from regard.look.thumbnails import as_png
from regard.look.where import Looked


def image(
    given: Given, found: Looked | None, matters: Mapping[str, Any] | None = None
) -> dict[str, Any] | None:
    """The view, or None where there is no picture.

    found    where the model looks, if it attends
    matters  the view of contributions, which can be laid over the picture, too
    """
    if given.picture is None:
        return None
    rows, columns = given.grid or (0, 0)
    layers = [] if found is None else found.layers
    return {
        "view": "image",
        "picture": as_png(given.picture),
        "grid": {"rows": rows, "columns": columns},
        "piece": given.piece,
        "query": None if found is None else found.query,
        "layers": [
            {
                "layer": each.entry.layer,
                "name": each.entry.name,
                "heads": list(each.entry.heads),
                "maps": floats(each.maps),
            }
            for each in layers
        ],
        "rollout": None if found is None or found.rollout is None else floats(found.rollout),
        "matters": [] if matters is None or given.grid is None else over_patches(matters),
    }


def over_patches(matters: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Contributions of patches, what was really tried first. What each receives is shown by the heads themselves."""
    shown = [column for column in reversed(matters["columns"]) if column["name"] != "attention received"]
    return [{name: column[name] for name in ("name", "sentence", "values", "faint")} for column in shown]
