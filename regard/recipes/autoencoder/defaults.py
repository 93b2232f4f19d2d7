"""Default settings for autoencoders: a body for what the data is, and a likelihood that suits its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from regard import registry
from regard.data.array import Array
from regard.data.splits import TRAIN
from regard.recipes.autoencoder.config import Binarise, InputsConfig
from regard.recipes.autoencoder.image_inputs import ImageInputs
from regard.recipes.example import Examples
from regard.recipes.images.defaults import DIGITS, SMALL, patch_of
from regard.recipes.images.processor import choose_size
from regard.recipes.settings import Settings, check_choice, settings_of_kind
from regard.training.config import TrainConfig

KINDS = ("vae", "autoencoder", "denoising")
ASKED = ("data.binarise", "model.body", "model.likelihood")  # options on which these defaults depend
LOOKED_AT = 64  # images that tell which likelihood suits them
BLACK, WHITE = 25, 230  # a pixel below or above is nearly black or white
NEARLY = 0.7  # share of such pixels from which grey images are taken for black and white ones


def choose_defaults(
    data: InputsConfig, examples: Examples, kind: str | None, options: Mapping[str, Any] | None = None
) -> Settings:
    """Settings for these inputs and this kind of model. options: those of `ASKED` that were given"""
    kind, asked = kind or "vae", dict(options or {})
    check_choice("kind of autoencoder", kind, KINDS)
    if data.binarise != "none":
        asked.setdefault("data.binarise", data.binarise)
    form = examples.about["form"]
    if form == "images":
        data, model = _suit_images(data, examples, kind, asked)
    elif form == "points":
        model = {"shape": (data.points, 3), "body": "set", "latent": 32, "hidden": 256, "depth": 3}
    else:
        model = {"shape": (1,), "latent": 4, "hidden": 128, "sigma": "each"}
        if np.isin(examples.about["numbers"], (0, 1)).all():
            model |= {"likelihood": "bernoulli", "sigma": "shared"}
    built_in = data.path is None and form == "images" and "in_memory" not in examples.about
    config = registry.find("models", kind).Config(**model)
    train = _train_config(config.likelihood, built_in=built_in)
    return settings_of_kind(kind, InputsConfig)(data=data, model=config, train=train)


def _train_config(likelihood: str, *, built_in: bool) -> TrainConfig:
    """How long, and how fast. Much weight decay: a decoder learns its training inputs by heart."""
    how: dict[str, Any] = {"batch": 128, "optimiser": "adamw", "lr": 1e-3, "average": 0.999}
    if likelihood == "discretised":  # bfloat16 has steps as large as the levels of a byte
        how["precision"] = "float32"
    if built_in:
        return TrainConfig(minutes=1.5, weight_decay=1.0, **how)
    return TrainConfig(minutes=10.0, weight_decay=0.3, warmup=100, **how)


# ── images


def _suit_images(
    data: InputsConfig, examples: Examples, kind: str, asked: Mapping[str, Any]
) -> tuple[InputsConfig, dict[str, Any]]:
    """How they become black and white, and the settings of the model."""
    images = ImageInputs(data).images
    side, colours = choose_size(examples, images.config)
    rows = np.arange(len(examples)) if examples.splits is None else np.flatnonzero(examples.splits == TRAIN)
    rows = rows[:: max(1, len(rows) // LOOKED_AT)][:LOOKED_AT]
    if "pixels" in examples.about:
        some = examples.about["pixels"][rows]
    else:
        decode, good = images.sized(side, colours).encode, []
        for row in rows.tolist():
            with suppress(ValueError, OSError):  # they are named when all are read
                good.append(decode(examples[row])["x"])
        some = np.stack(good) if good else None
    body = str(asked.get("model.body", "mlp" if side <= SMALL else "conv"))
    binarise, likelihood = _suit_pixels(kind, some, asked)
    model = {"shape": (colours, side, side), "likelihood": likelihood, **_sizes(kind, body, side)}
    return replace(data, binarise=binarise), model


def _sizes(kind: str, body: str, side: int) -> dict[str, Any]:
    """Of each body for images of this side."""
    found: dict[str, Any] = {"latent": 16 if side <= DIGITS else 32}
    if side <= DIGITS:
        found |= {"hidden": 256}
    if body in ("mlp", "conv", "vit", "spatial"):
        found |= {"body": body}
    if body == "conv":
        found |= {"depth": max(1, min(4, (side // 4).bit_length() - 1)), "hidden": 256}
    if body == "spatial":
        found |= {"width": 16}
    if body == "vit":
        found |= {"depth": 4, "patch": patch_of(side), "latent": 64}
    elif kind == "denoising":
        found |= {"patch": patch_of(side)}
        found |= {"latent": 4 * found["latent"]}  # nothing asks for a small code
    return found


def _suit_pixels(kind: str, some: Array | None, asked: Mapping[str, Any]) -> tuple[Binarise, str]:
    """How images become black and white, and the likelihood of their pixels. some: bytes of some images"""
    wanted = asked.get("data.binarise")
    if wanted in ("threshold", "dynamic"):
        return wanted, "bernoulli"
    if some is not None and np.isin(some, (0, 255)).all():
        return "none", "bernoulli"
    if kind != "vae":
        return "none", "gaussian"
    nearly = _is_nearly_black_and_white(some)
    if wanted is None and nearly and asked.get("model.likelihood", "bernoulli") == "bernoulli":
        return "dynamic", "bernoulli"
    return "none", "discretised"


def _is_nearly_black_and_white(pixels: Array | None) -> bool:
    if pixels is None or (pixels.ndim == 4 and 3 in (pixels.shape[1], pixels.shape[3])):
        return False
    return float(((pixels < BLACK) | (pixels > WHITE)).mean()) >= NEARLY
