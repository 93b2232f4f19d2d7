"""Texts that a trained model writes: of a run by its path, or of a model that was loaded."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from torch import nn

from regard.api.load import load
from regard.data import tokenizer as tokenizers
from regard.generation import generate as generation
from regard.models.encoder import Encoder
from regard.recipes.text.predict import unknown_words


def generate(model: nn.Module | str | os.PathLike[str], prompt: str = "", **how: Any) -> Iterator[str]:
    """Pieces of text as they are written: generate("runs/mine", "Once upon", max_new=50, seed=0).

    model  what `load` gave, or the path of a run; several texts at once: regard.api.generate.samples
    """
    model = writer(model)
    if how.get("samples", 1) != 1:
        raise ValueError(
            f"generate gives one text, got samples={how['samples']}; use regard.api.generate.samples"
        )
    return generation.generate(model, prompt, **how)


def samples(model: nn.Module | str | os.PathLike[str], prompt: str = "", **how: Any) -> list[str]:
    """Several texts at once: samples("runs/mine", "Once upon", samples=3, seed=0)."""
    model = writer(model)
    texts = [""] * int(how.get("samples", 1))
    for number, piece in generation.generate_samples(model, prompt, **how):
        texts[number] += piece
    return texts


def writer(model: nn.Module | str | os.PathLike[str]) -> nn.Module:
    """The model of a run, if it is given by its path, and in any case one that writes."""
    if isinstance(model, str | os.PathLike):
        model = load(model)
    check_writes(model)
    return model


def unknown_to(model: nn.Module, prompt: str) -> str | None:
    """How many words of a prompt the model does not know, in a sentence; None: it knows all."""
    tokenizer = getattr(model, "tokenizer", None)
    return unknown_words(tokenizer, prompt) if isinstance(tokenizer, tokenizers.Tokenizer) else None


def check_writes(model: nn.Module) -> None:
    """A ValueError for a model that has no next token."""
    if isinstance(model, Encoder):
        does = "fills in hidden tokens" if model.pool is None else "classifies (use regard predict)"
        raise ValueError(
            f"this model is an encoder, which {does} and cannot write on; train a decoder on text to generate"
        )
