"""Texts as vectors: the mean of what the blocks give for their tokens, of length 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data import tokenizer as tokenizers
from regard.data.array import Array
from regard.data.batch import pad_rows
from regard.data.dialect import TableConfig
from regard.data.table_formats import is_table
from regard.data.tables import open_table
from regard.errors import RegardError
from regard.nn.pool import MeanPool
from regard.recipes.text.read_texts import is_given_file, read_given_text
from regard.runs.load import load_model
from regard.runs.run import Run

AT_ONCE = 32  # texts in one forward pass


def embed(
    run: Run, inputs: Sequence[str], column: str | None, tables: TableConfig, note: Callable[[str], None]
) -> tuple[list[str], Array]:
    """The texts, and a vector for each: of a text file each line is a text, of a table each row.   n d"""
    model: Any = load_model(run)
    if not run.tokenizer_file.exists():
        raise RegardError(f"{run.path} has no tokenizer, so it cannot read texts")
    if not hasattr(model, "stack"):
        raise RegardError(f"{run.path} is a {run.config.kind}, which has no vectors of texts; use a transformer")
    tokenizer = tokenizers.load(run.verify("tokenizer.json"))
    own = str((run.config.data or {}).get("text", "text"))
    texts = [text for given in inputs for text in _texts_of(given, column or own, tables, note)]
    return texts, embed_texts(model, tokenizer, texts)


@torch.no_grad()
def embed_texts(model: Any, tokenizer: tokenizers.Tokenizer, texts: Sequence[str]) -> Array:
    """A vector of length 1 for each text, as much of it as the model reads.   n d"""
    most = model.config.context
    ids = [tokenizer.frame(tokenizer.encode(text), most)[:most] for text in texts]
    empty = next((text for text, row in zip(texts, ids, strict=True) if not len(row)), None)
    if empty is not None:
        raise RegardError(f"the text {empty[:40]!r} has no tokens, and no vector")
    order = sorted(range(len(texts)), key=lambda i: len(ids[i]))
    found = np.zeros((len(texts), model.config.dim), dtype=np.float32)
    for start in range(0, len(order), AT_ONCE):
        rows = order[start : start + AT_ONCE]
        tokens, real = pad_rows([ids[i] for i in rows])
        found[rows] = F.normalize(_pooled(model, tokens, real), dim=-1).float().numpy()
    return found


class TextVectors:
    """Texts, each with a vector of length 1: a product of two is their cosine."""

    def __init__(self, texts: list[str], tokenizer: tokenizers.Tokenizer) -> None:
        self.texts, self.tokenizer = texts, tokenizer
        self._kept: Tensor | None = None

    def vectors(self, model: Any, *, keep: bool = True) -> Tensor:
        """Those of all texts. keep: for the next time, because the model will not have changed.   n d"""
        if not keep:
            return self.embed(model, self.texts)
        if self._kept is None:
            self._kept = self.embed(model, self.texts)
        return self._kept

    def embed(self, model: Any, texts: list[str]) -> Tensor:
        """The vectors of any texts.   n d"""
        return torch.from_numpy(embed_texts(model, self.tokenizer, texts))


def _pooled(model: Any, tokens: Tensor, real: Tensor | None) -> Tensor:
    """The mean over the tokens of each text; a classifier has a pool of its own.   b n -> b d"""
    features: Tensor = model.features(tokens, real=real)
    if features.dim() == 2:
        return features
    pooled: Tensor = MeanPool()(features, real)
    return pooled


def _texts_of(given: str, column: str, tables: TableConfig, note: Callable[[str], None]) -> list[str]:
    if is_given_file(given) and is_table(given):
        table = open_table(given, tables)
        table.place(column, "name the column of texts with --data.text")
        for said in table.notes:
            note(said)
        return [text or "" for part in table.batches() for text in part.texts(column)]
    text, kind = read_given_text(given)
    if kind == "text":
        return [text]
    return lines_of(text)


def lines_of(text: str) -> list[str]:
    """The texts of a file of texts: its lines, but for empty ones."""
    return [line for line in text.splitlines() if line.strip()]
