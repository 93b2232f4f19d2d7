"""The recipe for autoencoders."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, ClassVar

from torch import Tensor

from regard.config import to_dict
from regard.models.autoencoder_backbones import encoder_config
from regard.recipes.autoencoder.autoencode import Autoencode
from regard.recipes.autoencoder.config import InputsConfig
from regard.recipes.autoencoder.defaults import ASKED, KINDS, choose_defaults
from regard.recipes.base import LentBody, Recipe
from regard.recipes.example import Examples
from regard.recipes.problem import Problem
from regard.recipes.settings import Settings, kind_of
from regard.runs.load import load_model
from regard.runs.run import Run


class AutoencoderRecipe(Recipe):
    """Images, tables or point clouds through a small code and back."""

    name = "autoencoder"
    title = "Autoencoders: compress, denoise and generate images, rows of tables or point clouds."
    help: ClassVar[Mapping[str, str]] = {
        "--data PATH": "images as for regard train images, with labels or without; a table of numbers (.csv, .parquet);\n"
        "                a folder of point clouds; without it: scikit-learn's digits",
        "--model KIND": "vae (default: variational, so that new samples can be drawn), autoencoder or denoising; each\n"
        "                with --model.body mlp, conv, vit, spatial (images) or set (point clouds)",
    }
    examples = (
        "regard train autoencoder",
        "regard train autoencoder --data photos --model.body conv --train.minutes 20",
        "regard train autoencoder --data mnist --data.binarise dynamic --model.latent 2",
        "regard train autoencoder --data photos --model denoising --model.noise 0.2",
        "regard train autoencoder --data measurements.csv --model.latent 3",
    )
    models = KINDS
    data_derived: ClassVar[Mapping[str, str]] = {
        "model.shape": "give --data.size or --data.points",
        "model.mean": "",
        "model.deviation": "",
    }
    not_inherited = frozenset({"shape", "mean", "deviation"})
    reading_options = ("image", "label", "damaged")
    problems: ClassVar[Mapping[str, Problem]] = {Autoencode.name: Autoencode()}

    def data_section(self, data: Any, kind: str | None = None, given: Collection[str] = ()) -> InputsConfig:
        return InputsConfig(path=os.fspath(data) if isinstance(data, str | os.PathLike) else None)

    def choose_defaults(self, data: InputsConfig, examples: Examples | None, kind: str | None) -> Settings:
        """Without examples, for the help, the data is read here."""
        return choose_defaults(data, Autoencode().read(data) if examples is None else examples, kind)

    def adjust_defaults(self, settings: Settings, examples: Examples | None, options: Mapping[str, Any]) -> Settings:
        asked = {name: options[name] for name in ASKED if name in options}
        if not asked or examples is None:
            return settings
        return choose_defaults(replace(settings.data, binarise="none"), examples, kind_of(KINDS, settings), asked)

    def lend_body(self, run: Run) -> LentBody | None:
        """The Vision Transformer that encodes images, if that is the body, for a classifier with a few labels. It sees
        images scaled as `regard train images` scales them."""
        model = run.config.model or {}
        if model.get("body") != "vit":
            return None

        def weights() -> dict[str, Tensor]:
            body: Any = load_model(run).body
            state = body.encoder.state_dict()
            return {name: tensor for name, tensor in state.items() if not name.startswith("head.")}

        return LentBody("vit", to_dict(encoder_config(SimpleNamespace(**model), model["latent"])), weights)


RECIPE = AutoencoderRecipe()
