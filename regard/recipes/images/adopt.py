"""Weights of others as a run of the images recipe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.pretrained.weights import Pretrained
from regard.recipes.images.dataset import ImagesConfig, ImagesInfo
from regard.training.config import TrainConfig


def adopt(found: Pretrained) -> Mapping[str, Any] | None:
    """The sections of config.json; None: it reads no images, or has no classes."""
    if found.kind not in ("vit", "swin") or found.predicts != "classes":
        return None
    config, light = found.config, found.images or {}
    half = (0.5,) * config.colours
    info = ImagesInfo(
        path="",
        pictures=0,
        train=0,
        validation=0,
        test=0,
        labels=found.labels,
        counts=(0,) * len(found.labels),
        size=config.size,
        channels=config.colours,
        mean=light.get("mean", half),
        deviation=light.get("deviation", half),
        skipped=(),
    )
    data = ImagesConfig(size=config.size, channels="grey" if config.colours == 1 else "colour", fit="stretch")
    return {"data": data, "train": TrainConfig(), "corpus": info, "unit": "images"}
