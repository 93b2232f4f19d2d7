"""Swin."""

from __future__ import annotations

from typing import Any

from regard.models.swin import SwinConfig
from regard.pretrained.family import Family
from regard.pretrained.foreign_config import ForeignConfig
from regard.pretrained.labels import read_labels
from regard.pretrained.names import Flipped, Names, Row, Shaped, linear, norm, row

PARTS = {
    "norm1": "layernorm_before",
    "norm2": "layernorm_after",
    "attention.to_q": "attention.self.query",
    "attention.to_k": "attention.self.key",
    "attention.to_v": "attention.self.value",
    "attention.mix": "attention.output.dense",
    "mlp.up": "intermediate.dense",
    "mlp.down": "output.dense",
}
CLASSES = {"SwinForImageClassification": "classes", "SwinModel": "features"}


def read(theirs: ForeignConfig, predicts: str) -> SwinConfig:
    theirs.require("qkv_bias", True)
    theirs.require("use_absolute_embeddings", False)
    theirs.require("problem_type", None, "single_label_classification")
    theirs.ignore("attention_probs_dropout_prob", "hidden_dropout_prob", "encoder_stride", "drop_path_rate")
    theirs.ignore("out_features", "out_indices", "stage_names", "hidden_size", "num_layers", "path_norm")
    ratio = theirs.number("mlp_ratio", 4.0)
    if ratio != int(ratio):
        raise theirs.refuse("mlp_ratio", ratio, "a whole number")
    return SwinConfig(
        classes=len(read_labels(theirs.plain)) if predicts == "classes" else 0,
        colours=theirs.whole("num_channels", 3),
        size=theirs.whole("image_size", 224),
        patch=theirs.whole("patch_size", 4),
        dim=theirs.whole("embed_dim", 96),
        depths=tuple(theirs.get("depths", (2, 2, 6, 2))),
        heads=tuple(theirs.get("num_heads", (3, 6, 12, 24))),
        window=theirs.whole("window_size", 7),
        ratio=int(ratio),
        mlp=theirs.choice("hidden_act", "gelu", {"gelu": "gelu", "relu": "relu"}),
        eps=theirs.number("layer_norm_eps", 1e-5),
    )


def write(config: SwinConfig) -> tuple[str, dict[str, Any]]:
    found: dict[str, Any] = {
        "num_channels": config.colours,
        "image_size": config.size,
        "patch_size": config.patch,
        "embed_dim": config.dim,
        "depths": list(config.depths),
        "num_heads": list(config.heads),
        "window_size": config.window,
        "mlp_ratio": float(config.ratio),
        "hidden_act": config.mlp,
        "layer_norm_eps": config.eps or 1e-5,
        "qkv_bias": True,
    }
    if config.classes:
        found["id2label"] = {str(i): f"LABEL_{i}" for i in range(config.classes)}
        return "SwinForImageClassification", found
    return "SwinModel", found


def names(config: SwinConfig) -> Names:
    body = "swin." if config.classes else ""
    patch = (config.dim, config.colours, config.patch, config.patch)
    flat = Shaped(patch, (config.dim, config.colours * config.patch**2))
    rows: list[Row] = [
        *linear(f"{body}embeddings.patch_embeddings.projection", "embed.linear", weight=flat),
        *norm(f"{body}embeddings.norm", "embed_norm"),
        *norm(f"{body}layernorm", "norm"),
    ]
    for stage, depth in enumerate(config.depths):
        layer = f"{body}encoder.layers.{stage}"
        for i in range(depth):
            block, ours = f"{layer}.blocks.{i}", f"stages.{stage}.{i}"
            for name, theirs in PARTS.items():
                names_of = norm if name.startswith("norm") else linear
                rows += names_of(f"{block}.{theirs}", f"{ours}.{name}")
            table = f"{block}.attention.self.relative_position_bias_table"
            rows.append(row(table, f"{ours}.bias.table", layout=Flipped()))
        if stage < len(config.depths) - 1:
            rows += norm(f"{layer}.downsample.norm", f"merges.{stage}.norm")
            rows += linear(f"{layer}.downsample.reduction", f"merges.{stage}.linear", bias=False)
    if config.classes:
        rows += linear("classifier", "head")
    constants = r"(swin\.)?encoder\.layers\.\d+\.blocks\.\d+\.attention\.self\.relative_position_index"
    return Names(rows=tuple(rows), copies={}, left_out=(constants,))


SWIN = Family("swin", "swin", CLASSES, read, write, names)
