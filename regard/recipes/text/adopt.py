"""Weights of others as a run of the text recipe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.pretrained.weights import Pretrained
from regard.recipes.text.dataset import TextConfig
from regard.recipes.text.labelled import LabelledConfig, LabelledInfo
from regard.training.config import TrainConfig

LONGEST = 1024  # tokens per window, unless more is asked for: memory grows with it
BATCH = 8  # rows: such models are large


def adopt(found: Pretrained) -> Mapping[str, Any] | None:
    """The sections of config.json; None: it reads no text."""
    if found.kind not in ("decoder", "encoder"):
        return None
    context = min(found.config.context, LONGEST)
    sections: dict[str, Any] = {"train": TrainConfig(batch=BATCH), "data": TextConfig(context=context)}
    if found.predicts == "classes":
        sections["data"] = LabelledConfig(path="", context=context)
        sections["corpus"] = LabelledInfo(
            path="",
            rows=0,
            train=0,
            validation=0,
            labels=found.labels,
            counts=(0,) * len(found.labels),
            tokens=0,
            longest=0,
            kind="subwords",
            vocabulary=found.config.vocab,
        )
    return sections
