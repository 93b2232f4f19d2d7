"""Texts among which others are searched, and their vectors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.data.tokenizer import Tokenizer
from regard.recipes.text.embed import embed_texts


class TextVectors:
    """Texts, each with a vector of length 1: a product of two is their cosine."""

    def __init__(self, texts: list[str], tokenizer: Tokenizer) -> None:
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
