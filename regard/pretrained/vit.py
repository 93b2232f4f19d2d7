"""ViT, DeiT and DINOv2: Vision Transformers with learned positions, that of the class token among them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from regard.models.vit import ViTConfig
from regard.pretrained.family import Family
from regard.pretrained.foreign_config import ACTIVATIONS, ForeignConfig
from regard.pretrained.labels import read_labels
from regard.pretrained.names import Names, Row, Shaped, Split, linear, norm, row

FEATURES_OF_STAGES = ("out_features", "out_indices", "stage_names", "apply_layernorm", "reshape_hidden_states")


@dataclass(frozen=True)
class Variant:
    """What one of them has, and how it calls it."""

    model_type: str
    stem: str  # of the names of classes: ViT
    registers: str | None  # their name for the tokens beside the class token
    parts: dict[str, str]  # ours -> theirs, in a layer
    eps: float
    dino: bool = False  # with layer scales, and a head that reads the mean of the patches, too

    @property
    def classes(self) -> dict[str, str]:
        return {f"{self.stem}ForImageClassification": "classes", f"{self.stem}Model": "features"}


ATTENTION = {
    "attention.f.to_q": "attention.attention.query",
    "attention.f.to_k": "attention.attention.key",
    "attention.f.to_v": "attention.attention.value",
    "attention.f.mix": "attention.output.dense",
}
PARTS = ATTENTION | {
    "attention.norm": "layernorm_before",
    "mlp.norm": "layernorm_after",
    "mlp.f.up": "intermediate.dense",
    "mlp.f.down": "output.dense",
}
DINO_PARTS = ATTENTION | {
    "attention.norm": "norm1",
    "mlp.norm": "norm2",
    "mlp.f.up": "mlp.fc1",
    "mlp.f.down": "mlp.fc2",
}
VARIANTS = (
    Variant("vit", "ViT", None, PARTS, 1e-12),
    Variant("deit", "DeiT", "distillation_token", PARTS, 1e-12),
    Variant("dinov2", "Dinov2", None, DINO_PARTS, 1e-6, dino=True),
    Variant("dinov2_with_registers", "Dinov2WithRegisters", "register_tokens", DINO_PARTS, 1e-6, dino=True),
)


def read(variant: Variant, theirs: ForeignConfig, predicts: str) -> ViTConfig:
    theirs.require("qkv_bias", True)
    theirs.require("use_swiglu_ffn", False)
    theirs.require("problem_type", None, "single_label_classification")
    theirs.ignore("attention_probs_dropout_prob", "hidden_dropout_prob", "encoder_stride", "drop_path_rate")
    theirs.ignore("pooler_act", "pooler_output_size", "use_mask_token", *FEATURES_OF_STAGES)
    dim = theirs.whole("hidden_size", 768)
    if variant.dino:
        hidden = dim * theirs.whole("mlp_ratio", 4)
        scale: float | None = theirs.number("layerscale_value", 1.0)
    else:
        hidden, scale = theirs.whole("intermediate_size", 3072), None
    registers = 0
    if variant.registers is not None:
        registers = theirs.whole("num_register_tokens", 4) if variant.dino else 1
    return ViTConfig(
        classes=len(read_labels(theirs.plain)) if predicts == "classes" else 0,
        colours=theirs.whole("num_channels", 3),
        size=theirs.whole("image_size", 224),
        patch=theirs.whole("patch_size", 14 if variant.registers == "register_tokens" else 16),
        dim=dim,
        depth=theirs.whole("num_hidden_layers", 12),
        heads=theirs.whole("num_attention_heads", 12),
        hidden=hidden,
        mlp=theirs.choice("hidden_act", "gelu", {"gelu": ACTIVATIONS["gelu"], "relu": ACTIVATIONS["relu"]}),
        eps=theirs.number("layer_norm_eps", variant.eps),
        layer_scale=scale,
        registers=registers,
        placed=1 if variant.dino else 1 + registers,
        pool="class_and_mean" if variant.dino and predicts == "classes" else "class",
        position="learned",
    )


def write(variant: Variant, config: ViTConfig) -> tuple[str, dict[str, Any]]:
    hidden = config.hidden or 4 * config.dim
    found: dict[str, Any] = {
        "num_channels": config.colours,
        "image_size": config.size,
        "patch_size": config.patch,
        "hidden_size": config.dim,
        "num_hidden_layers": config.depth,
        "num_attention_heads": config.heads,
        "hidden_act": config.mlp,
        "layer_norm_eps": config.eps or 1e-5,
        "qkv_bias": True,
    }
    if variant.dino:
        found |= {"mlp_ratio": hidden // config.dim, "layerscale_value": config.layer_scale or 1.0}
        if variant.registers is not None:
            found["num_register_tokens"] = config.registers
    else:
        found["intermediate_size"] = hidden
    if config.classes:
        found["id2label"] = {str(i): f"LABEL_{i}" for i in range(config.classes)}
    predicts = "classes" if config.classes else "features"
    name = next(name for name, what in variant.classes.items() if what == predicts)
    return name, found


def names(variant: Variant, config: ViTConfig) -> Names:
    body = f"{variant.model_type}." if config.classes else ""
    front, patch = f"{body}embeddings", (config.dim, config.colours, config.patch, config.patch)
    pixels = config.colours * config.patch**2
    rows: list[Row] = [
        row(f"{front}.cls_token", "pool.token", layout=Shaped((1, 1, config.dim), (config.dim,))),
        row(f"{front}.position_embeddings", "places", "position.table", layout=Split(config.placed)),
        *linear(f"{front}.patch_embeddings.projection", "embed.linear", weight=Shaped(patch, (config.dim, pixels))),
        *norm(f"{body}layernorm", "stack.norm"),
    ]
    if variant.registers is not None:
        shapes = (1, config.registers, config.dim), (config.registers, config.dim)
        rows.append(row(f"{front}.{variant.registers}", "registers", layout=Shaped(*shapes)))
    for i in range(config.depth):
        layer, block = f"{body}encoder.layer.{i}", f"stack.blocks.{i}"
        for ours, theirs in variant.parts.items():
            names_of = norm if ours.endswith("norm") else linear
            rows += names_of(f"{layer}.{theirs}", f"{block}.{ours}")
        if variant.dino:
            rows.append(row(f"{layer}.layer_scale1.lambda1", f"{block}.attention.layer_scale"))
            rows.append(row(f"{layer}.layer_scale2.lambda1", f"{block}.mlp.layer_scale"))
    if config.classes:
        rows += linear("classifier", "head")
    return Names(
        rows=tuple(rows),
        copies={},
        # what only masked training reads, and a layer after the class token that a body brings along
        left_out=(r"(\w+\.)?embeddings\.mask_token", r"pooler\.dense\.(weight|bias)"),
        zeros={f"{front}.mask_token": (1, config.dim)} if variant.dino else None,
    )


def _family(variant: Variant) -> Family:
    reads: Callable[[ForeignConfig, str], ViTConfig] = partial(read, variant)
    return Family(variant.model_type, "vit", variant.classes, reads, partial(write, variant), partial(names, variant))


VIT, DEIT, DINOV2, DINOV2_WITH_REGISTERS = (_family(variant) for variant in VARIANTS)
