"""A set of the data as a person reads it."""

from __future__ import annotations

import numpy as np

from regard.look.private import without_folders
from regard.recipes.job import Example
from regard.recipes.sets.dataset import SetsCorpus

DIGITS = 6  # of each number that is kept


def show_set(corpus: SetsCorpus, number: int) -> Example:
    """A set by its number, with its elements in the units of the data."""
    form = corpus.form
    points = corpus.points[corpus.starts[number] : corpus.starts[number + 1]]
    rows = points.astype(np.float64) * np.array(form.scale) + np.array(form.centre)
    elements = tuple(tuple(float(f"{each:.{DIGITS}g}") for each in row) for row in rows.tolist())
    name = f"set {number + 1:,}"
    if corpus.names:
        name = without_folders(corpus.names[number])
    size = f"{len(points):,} {form.element}{'s' * (len(points) != 1)}"
    return Example(name=name, text=size, elements=elements)
