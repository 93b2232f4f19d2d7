"""Default settings for text: a decoder (or encoder) for plain text, a classifier for labelled text.

Sizes that depend on the data (the size of the vocabulary) are filled in when the data is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from regard.data.text_files import find
from regard.models.decoder import DecoderConfig
from regard.models.encoder import EncoderConfig
from regard.recipes.settings import Settings, check_choice, path_of, settings_class
from regard.recipes.text.dataset import CHARACTERS_UP_TO, TextConfig
from regard.recipes.text.labelled import LabelledConfig, looks_labelled
from regard.runs.run_config import RunConfig
from regard.training.config import TrainConfig

UNKNOWN = 1  # stands for a size that follows from the data
JUDGED = 120_000  # bytes of text that are enough to evaluate a small model; at most a tenth of the text

# Up to this size, a table of labelled texts (10,000 reviews, 50,000 titles) teaches blocks little that a bag of
# n-grams does not know, and they would learn it by heart: one block, which learns slowly.
FEW_LABELLED = 4_000_000  # bytes
# Up to a size (in bytes), a table of labelled texts has a budget in steps: a bag of n-grams has then learned what
# it can. Larger ones have minutes.
STEPS_OF_LABELLED = {20_000: 300, 400_000: 600}
MINUTES_OF_LABELLED = 1.0


DecoderSettings = settings_class(
    "DecoderSettings",
    "A causal LM: predicts each token from those before it.",
    data=TextConfig,
    model=DecoderConfig,
)
EncoderSettings = settings_class(
    "EncoderSettings",
    "A masked LM: predicts masked tokens from all others. A good start (--from) for classifiers with few "
    "labels.",
    data=TextConfig,
    model=EncoderConfig,
)
ClassifierSettings = settings_class(
    "ClassifierSettings", "A classifier of texts.", data=LabelledConfig, model=EncoderConfig
)
SIZES: dict[str, Any] = {"vocab": UNKNOWN, "context": UNKNOWN}


def defaults(data: Any = None, kind: str | None = None) -> Settings:
    """A decoder (or encoder) for plain text, a classifier for labelled text (.csv, .jsonl)."""
    path = path_of(data, "text")
    if path is not None and looks_labelled(path):
        check_choice("kind of model for labelled text", kind or "encoder", ("encoder",))
        size = sum(file.size for file in find(path))
        few = size <= FEW_LABELLED
        steps = next((steps for most, steps in STEPS_OF_LABELLED.items() if size <= most), None)
        model = EncoderConfig(
            dim=128, depth=1 if few else 3, heads=4, dropout=0.2, bag=True, zero_start=True, **SIZES
        )
        return ClassifierSettings(
            data=LabelledConfig(path=path, smoothing=0.1),
            model=model,
            # keep: of smoothed labels the loss falls to the end, where few rows' accuracy is chance
            train=TrainConfig(
                minutes=MINUTES_OF_LABELLED, steps=steps, batch=32, lr=0.01, adam_lr=0.001, keep="loss"
            ),
        )
    kind = kind or "decoder"
    check_choice("kind of model for text", kind, ("decoder", "encoder"))
    total = sum(file.size for file in find(path))
    small = total <= CHARACTERS_UP_TO
    # characters: many short windows; subwords: a wider model with a longer context
    share = min(0.1, round(JUDGED / total, 4))
    texts = TextConfig(path=path, context=64 if small else 256, validation=share)
    # (in a few minutes two blocks with n-grams learn more than four blocks without)
    if small:
        shape: dict[str, Any] = {"dim": 128, "depth": 2, "heads": 4}
    else:
        shape = {"dim": 256, "depth": 6, "heads": 8}
    # (16 rows per step in two halves, because the logits of thousands of subwords need most of the memory)
    large = TrainConfig(minutes=10.0, batch=8, accumulate=2)
    if small:
        train = TrainConfig(minutes=2.0, batch=32, adam_lr=0.012, warmup=10)
    else:
        train = large
    if kind == "encoder":
        return EncoderSettings(
            data=texts, model=EncoderConfig(zero_start=True, **shape, **SIZES), train=train
        )
    decoder = DecoderConfig(ngrams=5 if small else 2, zero_start=True, **shape, **SIZES)
    return DecoderSettings(data=texts, model=decoder, train=train)


def refine_defaults(settings: Settings, options: Mapping[str, Any]) -> Settings:
    """Default steps would replace the minutes that are asked for."""
    if "train.minutes" not in options or settings.train.steps is None:
        return settings
    return replace(settings, train=replace(settings.train, steps=None))


def settings_class_of(config: RunConfig) -> type[Settings]:
    """The class of the settings of a run with this config.json."""
    if is_decoder(config):
        return DecoderSettings
    if is_classifier(config):
        return ClassifierSettings
    return EncoderSettings


def is_decoder(config: RunConfig) -> bool:
    return config.kind == "decoder"


def is_classifier(config: RunConfig) -> bool:
    return config.model is not None and config.model.get("classes") is not None


def has_bag(config: RunConfig) -> bool:
    """Does the model read what tokens are made of, see BagOfNGrams?"""
    return config.model is not None and bool(config.model.get("bag"))
