"""How a classifier confuses the classes, on the images, sets or graphs that it did not learn from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from regard.look.pack import pack_array
from regard.look.view import View
from regard.runs.run import Run

if TYPE_CHECKING:
    from regard.look.scene import Scene


FILE = "confusion.json"  # written by api/finish.py: {"split", "labels", "counts": true × predicted}


class ConfusionView(View):
    """The confusion matrix of a run."""

    name, order = "confusion", 60

    def build(self, scene: Scene) -> dict[str, Any] | None:
        if scene.run is None:
            return None
        return confusion(scene.run)


def confusion(run: Run) -> dict[str, Any] | None:
    """The view, or None for a run that tells no classes apart, or has not ended."""
    found = run.read(FILE)
    if found is None:
        return None
    counts = np.array(found["counts"], dtype=np.uint32)
    return {
        "view": "confusion",
        "split": found["split"],
        "labels": found["labels"],
        "counts": pack_array(counts),
    }
