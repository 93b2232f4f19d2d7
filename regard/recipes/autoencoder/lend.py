"""The encoder of a trained autoencoder as the start of a classifier: self-supervision, then a few labels."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from regard.config import to_dict
from regard.models.autoencoder_backbones import encoder_config
from regard.recipes.base import LentBody
from regard.runs.load import load_model
from regard.runs.run import Run

HEAD = "head."


def lend_encoder(run: Run) -> LentBody | None:
    """A Vision Transformer, if that is the body: it sees images scaled as `regard train images` scales them."""
    model = run.config.model or {}
    if model.get("body") != "vit":
        return None

    def weights() -> dict[str, Tensor]:
        body: Any = load_model(run).body
        state = body.encoder.state_dict()
        return {name: tensor for name, tensor in state.items() if not name.startswith(HEAD)}

    return LentBody("vit", to_dict(encoder_config(_Sizes(model), model["latent"])), weights)


class _Sizes:
    """The sizes of a model config, by name."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.shape = config["shape"]
        self.patch, self.dim = config["patch"], config["dim"]
        self.depth, self.heads = config["depth"], config["heads"]
