"""Weights of Hugging Face's ViT and Swin by our names, for tests that compare numbers and a benchmark that compares speed."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import Tensor, nn

BLOCK = {
    "q_proj": "to_q", "k_proj": "to_k", "v_proj": "to_v", "o_proj": "mix", "fc1": "up", "fc2": "down",
}  # fmt: skip
NORM = {"weight": "scale", "bias": "shift"}


def shaken(model: nn.Module, seed: int = 1) -> nn.Module:
    """All parameters random, biases and norms too, so that a forgotten one shows."""
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=draw)
            size = parameter[0].numel() ** -0.5 if parameter.dim() > 1 else 0.3
            parameter.copy_(size * noise + (parameter.dim() == 1))
    return model.eval()


def vit_weights(theirs: Any) -> dict[str, Tensor]:
    """ViTForImageClassification -> the state of a ViT with learned positions and a class token.

    Their class token has a position of its own, which is added to it once and for all.
    """
    given = {name.removeprefix("vit."): tensor for name, tensor in theirs.state_dict().items()}
    places = given.pop("embeddings.position_embeddings")[0]
    projection = given.pop("embeddings.patch_embeddings.projection.weight")
    ours = {
        "pool.token": given.pop("embeddings.cls_token")[0, 0] + places[0],
        "position.table": places[1:],
        "embed.linear.weight": projection.flatten(1),
        "embed.linear.bias": given.pop("embeddings.patch_embeddings.projection.bias"),
    }
    for name, tensor in given.items():
        if name.startswith("classifier."):
            ours[name.replace("classifier", "head")] = tensor
        elif name.startswith("layernorm."):
            ours["stack.norm." + NORM[name.split(".")[1]]] = tensor
        else:
            layer, part, rest = re.fullmatch(r"layers\.(\d+)\.(\w+)\.(.+)", name).groups()
            block = f"stack.blocks.{layer}."
            if part.startswith("layernorm"):
                ours[block + ("attention" if part.endswith("before") else "mlp") + ".norm." + NORM[rest]] = tensor
            else:
                linear, which = rest.split(".")
                ours[f"{block}{part}.f.{BLOCK[linear]}.{which}"] = tensor
    return ours


def swin_weights(theirs: Any) -> dict[str, Tensor]:
    """SwinForImageClassification -> the state of a Swin. Their table counts here − there, ours there − here."""
    ours = {}
    for name, tensor in theirs.state_dict().items():
        name = name.removeprefix("swin.")
        which = name.rpartition(".")[2]
        if name.startswith("classifier."):
            ours["head." + which] = tensor
        elif name.startswith("layernorm."):
            ours["norm." + NORM[which]] = tensor
        elif name.startswith("embeddings.norm."):
            ours["embed_norm." + NORM[which]] = tensor
        elif name.startswith("embeddings.patch_embeddings.projection."):
            ours["embed.linear." + which] = tensor.flatten(1) if which == "weight" else tensor
        elif found := re.fullmatch(r"encoder\.layers\.(\d+)\.downsample\.(norm|reduction)\.\w+", name):
            stage, part = found.groups()
            ours[f"merges.{stage}." + (f"norm.{NORM[which]}" if part == "norm" else "linear.weight")] = tensor
        else:
            stage, block, rest = re.fullmatch(r"encoder\.layers\.(\d+)\.blocks\.(\d+)\.(.+)", name).groups()
            ours[f"stages.{stage}.{block}.{in_block(rest)}"] = tensor.flip(0) if rest.endswith("_table") else tensor
    return ours


def in_block(name: str) -> str:
    part, which = name.split(".")[-2:]
    if part == "layernorm_before" or part == "layernorm_after":
        return ("norm1." if part.endswith("before") else "norm2.") + NORM[which]
    if which == "relative_position_bias_table":
        return "bias.table"
    return f"{name.split('.')[0]}.{BLOCK[part]}.{which}"
