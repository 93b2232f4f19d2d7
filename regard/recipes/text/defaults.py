"""Text: a decoder (or encoder) for plain text, a classifier for labelled text.

A recipe is one frozen dataclass with the sections of a run's config.json. What only the data can tell (how many tokens
there are) is filled in once it is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regard.data.text_files import find
from regard.models.decoder import DecoderConfig
from regard.models.encoder import EncoderConfig
from regard.recipes.base import choose, path_of
from regard.recipes.text.dataset import CHARACTERS_UP_TO, TextConfig
from regard.recipes.text.labelled import LabelledConfig, looks_labelled
from regard.training.config import TrainConfig

HELP = {
    "--data PATH": "a text file, a folder, a glob, or rows with labels (.csv, .jsonl); without it: Python's own\n"
    "                source (of a table --data.text and --data.label name the columns; --data rows.csv --help)",
    "--model KIND": "decoder (writes on) or encoder (fills in); rows with labels train an encoder",
}
OWN = frozenset({"vocab", "context", "classes", "pool", "dropout"})

UNKNOWN = 1  # stands for a size that follows from the data
JUDGED = 120_000  # bytes of text that are enough to judge a small model by; a tenth of the text at most


@dataclass(frozen=True, kw_only=True)
class DecoderRecipe:
    """A language model: every token is predicted from those before it."""

    data: TextConfig
    model: DecoderConfig
    train: TrainConfig


@dataclass(frozen=True, kw_only=True)
class EncoderRecipe:
    """A masked language model: hidden tokens are predicted from all others. A start for classifiers with few labels."""

    data: TextConfig
    model: EncoderConfig
    train: TrainConfig


@dataclass(frozen=True, kw_only=True)
class ClassifierRecipe:
    """A classifier of texts."""

    data: LabelledConfig
    model: EncoderConfig
    train: TrainConfig


SIZES: dict[str, Any] = {"vocab": UNKNOWN, "context": UNKNOWN}


def recipe(data: Any = None, kind: str | None = None) -> DecoderRecipe | EncoderRecipe | ClassifierRecipe:
    """A decoder (or encoder) for plain text, a classifier for labelled text (.csv, .jsonl)."""
    path = path_of(data, "text")
    if path is not None and looks_labelled(path):
        choose("kind of model for labelled text", kind or "encoder", ("encoder",))
        return ClassifierRecipe(
            data=LabelledConfig(path=path),
            model=EncoderConfig(dim=128, depth=3, heads=4, dropout=0.1, zero_start=True, **SIZES),
            train=TrainConfig(minutes=1.0, batch=32, lr=0.01),
        )
    kind = kind or "decoder"
    choose("kind of model for text", kind, ("decoder", "encoder"))
    total = sum(file.size for file in find(path))
    small = total <= CHARACTERS_UP_TO
    # characters: short windows, and many of them; pieces of words: a wider model that sees further
    share = min(0.1, round(JUDGED / total, 4))
    texts = TextConfig(path=path, context=64 if small else 256, validation=share)
    # (two blocks that see runs of letters learn more in minutes than four that have to find them)
    size: dict[str, Any] = (
        {"dim": 128, "depth": 2, "heads": 4} if small else {"dim": 256, "depth": 6, "heads": 8}
    )
    # (16 rows a step; half of them at a time, because the logits of thousands of pieces of words are most of the memory)
    large = TrainConfig(minutes=10.0, batch=8, accumulate=2)
    train = TrainConfig(minutes=2.0, batch=32, adam_lr=0.012, warmup=10) if small else large
    if kind == "encoder":
        return EncoderRecipe(data=texts, model=EncoderConfig(zero_start=True, **size, **SIZES), train=train)
    decoder = DecoderConfig(ngrams=5 if small else 2, zero_start=True, **size, **SIZES)
    return DecoderRecipe(data=texts, model=decoder, train=train)


def class_of(config: Mapping[str, Any]) -> type[Any]:
    """The recipe of a run with this config.json."""
    if config.get("kind") == "decoder":
        return DecoderRecipe
    return EncoderRecipe if config["model"].get("classes") is None else ClassifierRecipe
