"""Default settings for text: a language model (or a masked one) for plain text, a classifier for labelled text.

Sizes that depend on the data (the size of the vocabulary) are filled in when the data is read.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from regard.data.table_formats import SUFFIXES
from regard.data.text_files import find
from regard.models.additive import AdditiveConfig
from regard.models.conv import ConvConfig
from regard.models.decoder import DecoderConfig
from regard.models.encoder import EncoderConfig
from regard.models.permutation_lm import PermutationConfig
from regard.models.recurrent import GRUConfig, LSTMConfig
from regard.models.token_model import TokenConfig
from regard.recipes.example import Examples
from regard.recipes.settings import Settings, check_choice, settings_of_kind
from regard.recipes.text.chats import looks_like_chats
from regard.recipes.text.config import ChatConfig, LabelledTextConfig, TextConfig
from regard.recipes.text.dataset import CHARACTERS_UP_TO
from regard.training.config import TrainConfig

UNKNOWN = 1  # stands for a size that follows from the data
JUDGED = 120_000  # bytes of text that are enough to evaluate a small model; at most a tenth of the text

# Up to this size, a table of labelled texts (10,000 reviews, 50,000 titles) teaches blocks little that a bag of
# n-grams does not know, and they would learn it by heart: one block, which learns slowly.
FEW_LABELLED = 4_000_000  # bytes
# Up to a size (of the texts, in bytes), a table of labelled texts has a budget in steps: a bag of n-grams has then
# learned what it can. Larger ones have minutes.
STEPS_OF_LABELLED = {20_000: 300, 400_000: 600}
MINUTES_OF_LABELLED = 1.0
SMOOTHING = 0.1  # share of each label that is given to all classes alike
SIZES: dict[str, Any] = {"vocab": UNKNOWN, "context": UNKNOWN}

# Models without self-attention: language models of plain text, classifiers of labelled text.
KINDS: dict[str, type[TokenConfig]] = {"lstm": LSTMConfig, "gru": GRUConfig, "conv": ConvConfig}
LANGUAGE_MODELS = ("decoder", *KINDS)
PLAIN_MODELS = ("decoder", "encoder", "permutation", *KINDS)
MODELS = (*PLAIN_MODELS, "additive")
# what a model of plain text learns (--task, the name of a problem) -> the kinds of model that can, the default first
TASKS = {"next": LANGUAGE_MODELS, "masked": ("encoder",), "permutation": ("permutation",)}
CHAT_MODELS = ("decoder",)  # only its mask keeps conversations in one row apart
LABELLED_MODELS = ("encoder", *KINDS, "additive")
# a classifier reads both ways: a recurrent one in two directions, a convolution around each token
BOTH_WAYS: dict[str, dict[str, Any]] = {
    "lstm": {"bidirectional": True, "depth": 1},
    "gru": {"bidirectional": True, "depth": 1},
    "conv": {"depth": 2},
}


def data_section(data: Any, kind: str | None, columns: bool = False) -> TextConfig | LabelledTextConfig | ChatConfig:
    """Labelled text for a table (.csv, .jsonl), in a file or in memory; conversations (.jsonl); else plain text. columns:
    those of text and label are named, so there are labels"""
    if data is not None and not isinstance(data, str | os.PathLike):
        return LabelledTextConfig(smoothing=SMOOTHING)
    path = None if data is None else os.fspath(data)
    if path is not None and not columns and looks_like_chats(path):
        check_choice("kind of model for conversations", kind or "decoder", CHAT_MODELS)
        return ChatConfig(path=path)
    if is_labelled(path) or kind == "additive":
        check_choice("kind of model for labelled text", kind or "encoder", LABELLED_MODELS)
        return LabelledTextConfig(path=path, smoothing=SMOOTHING)
    check_choice("kind of model for plain text", kind or "decoder", PLAIN_MODELS)
    total = sum(file.size for file in find(path))
    # characters: many short windows; subwords: a longer context
    share = min(0.1, round(JUDGED / total, 4))
    return TextConfig(path=path, context=64 if total <= CHARACTERS_UP_TO else 256, validation=share)


def is_labelled(data: Any) -> bool:
    """Is this a table with labels: the path of one, by its suffix, or data in memory?"""
    if data is None or isinstance(data, str | os.PathLike):
        return data is not None and os.fspath(data).lower().endswith(SUFFIXES)
    return True


def plain_defaults(data: TextConfig, examples: Examples | None, kind: str | None) -> Settings:
    """A causal LM, unless another kind is asked for."""
    kind = kind or "decoder"
    small = sum(file.size for file in find(data.path)) <= CHARACTERS_UP_TO
    # (in a few minutes two blocks with n-grams learn more than four blocks without)
    if small:
        shape: dict[str, Any] = {"dim": 128, "depth": 2, "heads": 4}
        train = TrainConfig(minutes=2.0, batch=32, adam_lr=0.012, warmup=10)
    else:  # (16 rows per step in two halves, because the logits of thousands of subwords need most of the memory)
        shape = {"dim": 256, "depth": 6, "heads": 8}
        train = TrainConfig(minutes=10.0, batch=8, accumulate=2)
    if kind == "conv":
        model: Any = ConvConfig(dim=128 if small else 384, depth=6 if small else 8, **SIZES)
    elif kind in KINDS:
        model = KINDS[kind](dim=256 if small else 512, depth=2, **SIZES)
    elif kind == "encoder":
        model = EncoderConfig(zero_start=True, **shape, **SIZES)
    elif kind == "permutation":
        model = PermutationConfig(zero_start=True, **shape, **SIZES)
    else:
        model = DecoderConfig(ngrams=5 if small else 2, zero_start=True, **shape, **SIZES)
    return settings_of_kind(kind, TextConfig)(data=data, model=model, train=train)


def chat_defaults(data: ChatConfig, examples: Examples | None, kind: str | None) -> Settings:
    """A decoder for conversations; bytes are enough for small files, as characters are for plain text."""
    small = sum(file.size for file in find(data.path)) <= CHARACTERS_UP_TO
    if small:
        shape: dict[str, Any] = {"dim": 128, "depth": 2, "heads": 4, "ngrams": 5}
        train = TrainConfig(minutes=2.0, batch=8, adam_lr=0.012, warmup=10)
    else:
        shape = {"dim": 256, "depth": 6, "heads": 8, "ngrams": 2}
        train = TrainConfig(minutes=10.0, batch=8, accumulate=2)
    model = DecoderConfig(zero_start=True, **shape, **SIZES)
    return settings_of_kind("decoder", ChatConfig)(data=data, model=model, train=train)


def labelled_defaults(data: LabelledTextConfig, examples: Examples | None, kind: str | None) -> Settings:
    """A small encoder with a bag of n-grams, unless another kind is asked for, sized for the texts that are there."""
    kind = kind or "encoder"
    size = 0 if examples is None else int(examples.about["bytes"])
    few = size <= FEW_LABELLED
    # of smoothed labels the loss falls to the end, where few rows' accuracy is chance
    steps = next((steps for most, steps in STEPS_OF_LABELLED.items() if size <= most), None)
    train = TrainConfig(minutes=MINUTES_OF_LABELLED, steps=steps, batch=32, lr=0.01, adam_lr=0.001)
    if kind == "encoder":
        model: Any = EncoderConfig(
            dim=128, depth=1 if few else 3, heads=4, dropout=0.2, bag=True, zero_start=True, classes=UNKNOWN, **SIZES
        )
    elif kind == "additive":
        model = AdditiveConfig(outputs=UNKNOWN, bag=True, dropout=0.2, **SIZES)
        train = replace(train, lr=0.001 if few else 0.01, adam_lr=0.0003)
    else:
        model = KINDS[kind](dim=128, dropout=0.3, pool="max", classes=UNKNOWN, **BOTH_WAYS[kind], **SIZES)
        train = replace(train, steps=None, adam_lr=0.003)
    return settings_of_kind(kind, LabelledTextConfig)(data=data, model=model, train=train)


# the section of the data -> its defaults, for what was read and for a kind of model
DEFAULTS: dict[type[Any], Callable[[Any, Examples | None, str | None], Settings]] = {
    TextConfig: plain_defaults,
    LabelledTextConfig: labelled_defaults,
    ChatConfig: chat_defaults,
}
