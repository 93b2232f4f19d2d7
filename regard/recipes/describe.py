"""What is trained on what, in one line before the first step."""

from __future__ import annotations

import os
from typing import Any

from regard.recipes.job import Job

# What a recipe may tell of its data, in this order; each is said as "1,234 rows".
COUNTED = (
    "files",
    "characters",
    "rows",
    "pictures",
    "graphs",
    "nodes",
    "edges",
    "train",
    "validation",
    "test",
)
SPLITS = ("train", "validation", "test")


def described(job: Job) -> str:
    """The data with its figures, the tokens that were chosen, the model with the number of its parameters."""
    about = job.about
    where = next(
        (str(about[name]) for name in ("path", "name", "task") if about.get(name) is not None), "data"
    )
    figures = [
        figure(name, about[name]) for name in COUNTED if counts(about.get(name)) and name not in SPLITS
    ]
    patch = getattr(getattr(job.model, "config", None), "patch", None)
    cut = "" if patch is None else f" in patches of {patch}"
    side = (
        [f"{about['size']} × {about['size']} pixels{cut}"] if "pictures" in about and "size" in about else []
    )
    splits = [f"{about[name]:,} {name}" for name in SPLITS if counts(about.get(name))]
    labels = about.get("labels")
    known = [f"{len(labels):,} classes"] if isinstance(labels, list) else []
    tokens = [f"tokens: {about['vocabulary']:,} {about['kind']}"] if "vocabulary" in about else []
    weights = sum(parameter.numel() for parameter in job.model.parameters())
    parts = [*figures, *side, *([" / ".join(splits)] if splits else []), *known, *tokens]
    return f"{os.path.basename(where.rstrip('/')) or where}: {', '.join(parts)}; {job.kind} with {weights:,} parameters"


def counts(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def figure(name: str, count: int) -> str:
    return f"{count:,} {name.removesuffix('s') if count == 1 else name}"
