"""Weights of others as a run of the images recipe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.pretrained.weights import Pretrained
from regard.recipes.images.config import ImagesConfig
from regard.recipes.images.processor import ImagesFitted, ImagesProcessor
from regard.recipes.target import Target
from regard.training.config import TrainConfig


def adopt(found: Pretrained) -> Mapping[str, Any] | None:
    """The sections of config.json; None: it reads no images, or has no classes."""
    if found.kind not in ("vit", "swin") or found.predicts != "classes":
        return None
    config, light = found.config, found.images or {}
    half = (0.5,) * config.colours
    data = ImagesConfig(size=config.size, channels="grey" if config.colours == 1 else "colour", fit="stretch")
    fitted = ImagesFitted(
        size=config.size,
        channels=config.colours,
        fit=data.fit,
        mean=light.get("mean", half),
        deviation=light.get("deviation", half),
    )
    processor = ImagesProcessor(data, fitted, Target(classes=found.labels))
    return {
        "problem": "supervised",
        "data": data,
        "train": TrainConfig(),
        "processor": processor.store(),
        "unit": "images",
    }
