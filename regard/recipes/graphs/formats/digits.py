"""The built-in graph: handwritten digits of scikit-learn, each linked to the most similar ones."""

from __future__ import annotations

import numpy as np

from regard.errors import RegardError
from regard.recipes.graphs.parts import Parts, one

NEAREST = 5  # links of each digit


def digits() -> Parts:
    """1,797 images of 8 × 8 pixels, the digit as label."""
    try:
        from sklearn.datasets import load_digits  # type: ignore[import-untyped]
    except ImportError as error:
        raise RegardError(
            'the graph of digits needs scikit-learn: pip install "regard[look]"; or give --data PATH'
        ) from error
    images = load_digits()
    x = (images.data / 16.0).astype(np.float32)
    square = (x**2).sum(1)
    apart = square[:, None] + square - 2 * x @ x.T
    np.fill_diagonal(apart, np.inf)
    near = np.argsort(apart, axis=1, kind="stable")[:, :NEAREST]
    edges = np.stack([near.ravel(), np.repeat(np.arange(len(x)), NEAREST)])
    return one("digits, linked by likeness", edges, len(x), x=x, node_labels=images.target)
