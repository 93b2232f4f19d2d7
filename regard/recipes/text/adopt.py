"""Weights of others as a run of the text recipe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.pretrained.weights import Pretrained
from regard.recipes.target import Target
from regard.recipes.text.config import LabelledTextConfig, TextConfig
from regard.recipes.text.processor import TextsFitted, TextsProcessor
from regard.training.config import TrainConfig

LONGEST = 1024  # tokens per window, unless more is asked for: memory grows with it
BATCH = 8  # rows: such models are large


def adopt(found: Pretrained) -> Mapping[str, Any] | None:
    """The sections of config.json; None: it reads no text."""
    if found.kind not in ("decoder", "encoder"):
        return None
    context = min(found.config.context, LONGEST)
    train = TrainConfig(batch=BATCH)
    if found.predicts != "classes":
        return {"train": train, "data": TextConfig(context=context)}
    data = LabelledTextConfig(context=context)
    fitted = TextsFitted(kind="subwords", vocabulary=found.config.vocab)
    processor = TextsProcessor(data, fitted, Target(classes=found.labels))
    return {"problem": "supervised", "train": train, "data": data, "processor": processor.store()}
