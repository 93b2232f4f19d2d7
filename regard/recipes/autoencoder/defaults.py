"""Default settings for autoencoders: a body for what the data is, and a likelihood that suits its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from regard.data.array import Array
from regard.data.splits import TRAIN
from regard.models.autoencoder import AutoencoderConfig, DenoisingConfig, VAEConfig
from regard.recipes.autoencoder.dataset import Binarise, Form, InputsConfig, find_form
from regard.recipes.autoencoder.read_inputs import image_reader, splits_of
from regard.recipes.autoencoder.read_rows import read_rows
from regard.recipes.autoencoder.unlabelled_images import find_any_images
from regard.recipes.example import Examples
from regard.recipes.images.defaults import DIGITS, SMALL, patch_of
from regard.recipes.images.processor import LARGEST_SIDE, ImagesProcessor, choose_size
from regard.recipes.settings import Settings, check_choice, path_of, settings_class
from regard.training.config import TrainConfig

CONFIGS: dict[str, type[AutoencoderConfig]] = {
    "vae": VAEConfig,
    "autoencoder": AutoencoderConfig,
    "denoising": DenoisingConfig,
}
SENTENCES = {
    "vae": "A variational autoencoder: codes near a normal prior, which can be sampled. The default.",
    "autoencoder": "A plain autoencoder: the smallest error through a small code.",
    "denoising": "A denoising autoencoder: given corrupted inputs, it gives clean ones back.",
}
SETTINGS = {
    kind: settings_class(f"{kind.title()}Settings", SENTENCES[kind], data=InputsConfig, model=cls)
    for kind, cls in CONFIGS.items()
}
LOOKED_AT = 64  # images that tell which likelihood suits them
BLACK, WHITE = 25, 230  # a pixel below or above is nearly black or white
NEARLY = 0.7  # share of such pixels from which grey images are taken for black and white ones


def defaults(data: Any = None, kind: str | None = None, early: Mapping[str, Any] | None = None) -> Settings:
    """Settings for these inputs and this kind of model. early: options that are known already"""
    asked = dict(early or {})
    path, kind = path_of(data, "autoencoder"), kind or "vae"
    check_choice("kind of autoencoder", kind, tuple(CONFIGS))
    named = {name: asked[f"data.{name}"] for name in ("image", "label") if f"data.{name}" in asked}
    config = InputsConfig(path=path, **named)
    form = _form_of(config)
    if form == "images":
        return _of_images(config, kind, asked)
    return _of_numbers(config, kind, form)


def _form_of(config: InputsConfig) -> Form:
    """What is wrong with the data is said later, when it is read as was asked for."""
    try:
        return find_form(config.path, config.image)
    except (ValueError, OSError):
        return "images"


# ── images


def _of_images(config: InputsConfig, kind: str, asked: Mapping[str, Any]) -> Settings:
    side, colours, some = _look_at(config, asked.get("data.size"))
    body = str(asked.get("model.body", "mlp" if side <= SMALL else "conv"))
    binarise, likelihood = _suit_images(kind, some, asked)
    shape = (colours, side, side)
    more: dict[str, Any] = _sizes(kind, body, side)
    model = CONFIGS[kind](shape=shape, likelihood=likelihood, **more)
    return SETTINGS[kind](
        data=replace(config, binarise=binarise), model=model, train=train_config(config.path, likelihood)
    )


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


def _look_at(config: InputsConfig, size: Any) -> tuple[int, int, Array | None]:
    """The side and the channels of the images, and some of their bytes."""
    if config.path is None:
        side, colours = DIGITS, 1
    else:
        side, colours = LARGEST_SIDE, 1
    some = None
    try:
        reader = image_reader(config)
        found = find_any_images(reader.config)
        side, colours = choose_size(found, reader.config)
        rows = np.flatnonzero(splits_of(found) == TRAIN)
        rows = rows[:: max(1, len(rows) // LOOKED_AT)][:LOOKED_AT]
        if "pixels" in found.about:
            some = found.about["pixels"][rows]
        else:
            some = _decode(found, reader.sized(side, colours), rows)
    except (ValueError, OSError):  # said later, when they are read
        pass
    if type(size) is int and size > 0:
        side = size
    return side, colours, some


def _decode(found: Examples, reader: ImagesProcessor, rows: Array) -> Array | None:
    """Those of these images that can be read."""
    good = []
    for row in rows.tolist():
        with suppress(ValueError):
            good.append(reader.encode(found[row])["x"])
    return np.stack(good) if good else None


def _suit_images(kind: str, some: Array | None, asked: Mapping[str, Any]) -> tuple[Binarise, Any]:
    """How images become black and white, and the likelihood of their pixels."""
    wanted = asked.get("data.binarise")
    if wanted in ("threshold", "dynamic"):
        return wanted, "bernoulli"
    if is_black_and_white(some):
        return "none", "bernoulli"
    if kind != "vae":
        return "none", "gaussian"
    nearly = _is_nearly_black_and_white(some)
    if wanted is None and nearly and asked.get("model.likelihood", "bernoulli") == "bernoulli":
        return "dynamic", "bernoulli"
    return "none", "discretised"


def is_black_and_white(pixels: Array | None) -> bool:
    """Are there only black and white pixels?"""
    return pixels is not None and bool(np.isin(pixels, (0, 255)).all())


def _is_nearly_black_and_white(pixels: Array | None) -> bool:
    if pixels is None or (pixels.ndim == 4 and 3 in (pixels.shape[1], pixels.shape[3])):
        return False
    return float(((pixels < BLACK) | (pixels > WHITE)).mean()) >= NEARLY


# ── rows and points


def _of_numbers(config: InputsConfig, kind: str, form: Form) -> Settings:
    if form == "points":
        shape: tuple[int, ...] = (config.points, 3)
        more: dict[str, Any] = {"body": "set", "latent": 32, "hidden": 256, "depth": 3}
    else:
        shape, more = (1,), {"latent": 4, "hidden": 128, "sigma": "each"}
        if _is_binary_table(config):
            more |= {"likelihood": "bernoulli", "sigma": "shared"}
    return SETTINGS[kind](
        data=config,
        model=CONFIGS[kind](shape=shape, **more),
        train=train_config(config.path, more.get("likelihood", "gaussian")),
    )


def _is_binary_table(config: InputsConfig) -> bool:
    try:
        numbers = read_rows(config).numbers
    except (ValueError, OSError):
        return False
    return bool(np.isin(numbers, (0, 1)).all())


def train_config(path: str | None, likelihood: str) -> TrainConfig:
    """How long, and how fast. Much weight decay: a decoder learns its training inputs by heart."""
    how: dict[str, Any] = {"batch": 128, "optimiser": "adamw", "lr": 1e-3, "average": 0.999}
    if likelihood == "discretised":  # bfloat16 has steps as large as the levels of a byte
        how["precision"] = "float32"
    if path is None:
        return TrainConfig(minutes=1.5, weight_decay=1.0, **how)
    return TrainConfig(minutes=10.0, weight_decay=0.3, warmup=100, **how)


def model_kind(settings: Settings) -> str:
    """The kind of model that these are the settings of."""
    return next(kind for kind, cls in CONFIGS.items() if type(settings.model) is cls)
