"""Vectors of texts, by a run or by weights of others."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regard import files
from regard.data.array import Array
from regard.errors import RegardError, name_keywords
from regard.recipes.base import recipe_of
from regard.targets.imported import open_run
from regard.verbs.reading import table_config

Place = str | os.PathLike[str]


@name_keywords
def embed(
    path: Place,
    inputs: str | Sequence[str],
    out: Place | None = None,
    *,
    column: str | None = None,
    options: Mapping[str, Any] | None = None,
    note: Callable[[str], None] | None = None,
) -> tuple[list[str], Array]:
    """The texts, and a vector of length 1 for each: embed("all-MiniLM-L6-v2", "texts.txt", out="out.npz").

    A product of two vectors is their cosine. out: an .npz file with `embeddings` and `texts`; column: the one
    with the texts, where an input is a table; options: how tables are read ({"data.separator": ";"}); note: is told how
    each was read
    """
    if out is not None and Path(out).suffix != ".npz":
        raise RegardError(f"embeddings are written to a file that ends in .npz, got {os.fspath(out)!r}")
    run = open_run(path)
    several = [inputs] if isinstance(inputs, str) else list(inputs)
    tables = table_config(run, options)
    names, vectors = recipe_of(run).embed(run, several, column, tables, note or (lambda said: None))
    if out is not None:
        files.write_arrays(out, {"embeddings": vectors, "texts": np.array(names)})
    return names, vectors
