"""BERT, RoBERTa and DistilBERT: encoders with learned positions and norms after each part. MiniLM and other
sentence encoders are BERTs without a head."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from regard.models.encoder import EncoderConfig
from regard.models.experts import PlainMLP
from regard.pretrained.family import Family
from regard.pretrained.foreign_config import ACTIVATION_NAMES, ACTIVATIONS, ForeignConfig
from regard.pretrained.labels import read_labels
from regard.pretrained.names import Names, Row, linear, norm, row


@dataclass(frozen=True)
class Variant:
    """What one of them calls its parts."""

    model_type: str
    classes: dict[str, str]
    layer: str  # prefix of a layer, without the body's
    parts: dict[str, str]  # ours -> theirs, in a layer
    transform: tuple[str, str, str, str]  # of the masked LM: layer, norm, matrix, bias
    pool: str  # the layer on the first token of a classifier, with the body's prefix if it is there
    classifier: str
    pool_kind: str


BERT_PARTS = {
    "attention.f.to_q": "attention.self.query",
    "attention.f.to_k": "attention.self.key",
    "attention.f.to_v": "attention.self.value",
    "attention.f.mix": "attention.output.dense",
    "attention.norm": "attention.output.LayerNorm",
    "mlp.f.up": "intermediate.dense",
    "mlp.f.down": "output.dense",
    "mlp.norm": "output.LayerNorm",
}
BERT_VARIANT = Variant(
    model_type="bert",
    classes={"BertForMaskedLM": "tokens", "BertForSequenceClassification": "classes", "BertModel": "features"},
    layer="encoder.layer",
    parts=BERT_PARTS,
    transform=(
        "cls.predictions.transform.dense",
        "cls.predictions.transform.LayerNorm",
        "cls.predictions.decoder.weight",
        "cls.predictions.bias",
    ),
    pool="bert.pooler.dense",
    classifier="classifier",
    pool_kind="first",
)
ROBERTA_VARIANT = Variant(
    model_type="roberta",
    classes={"RobertaForMaskedLM": "tokens", "RobertaForSequenceClassification": "classes", "RobertaModel": "features"},
    layer="encoder.layer",
    parts=BERT_PARTS,
    transform=("lm_head.dense", "lm_head.layer_norm", "lm_head.decoder.weight", "lm_head.bias"),
    pool="classifier.dense",
    classifier="classifier.out_proj",
    pool_kind="first",
)
DISTILBERT_VARIANT = Variant(
    model_type="distilbert",
    classes={
        "DistilBertForMaskedLM": "tokens",
        "DistilBertForSequenceClassification": "classes",
        "DistilBertModel": "features",
    },
    layer="transformer.layer",
    parts={
        "attention.f.to_q": "attention.q_lin",
        "attention.f.to_k": "attention.k_lin",
        "attention.f.to_v": "attention.v_lin",
        "attention.f.mix": "attention.out_lin",
        "attention.norm": "sa_layer_norm",
        "mlp.f.up": "ffn.lin1",
        "mlp.f.down": "ffn.lin2",
        "mlp.norm": "output_layer_norm",
    },
    transform=("vocab_transform", "vocab_layer_norm", "vocab_projector.weight", "vocab_projector.bias"),
    pool="pre_classifier",
    classifier="classifier",
    pool_kind="first_relu",
)

KEYS = {
    "dim": "hidden_size",
    "depth": "num_hidden_layers",
    "heads": "num_attention_heads",
    "hidden": "intermediate_size",
    "mlp": "hidden_act",
}
DISTILBERT_KEYS = {"dim": "dim", "depth": "n_layers", "heads": "n_heads", "hidden": "hidden_dim", "mlp": "activation"}
SIZES = {"dim": 768, "depth": 12, "heads": 12, "hidden": 3072}
DISTILBERT_SIZES = SIZES | {"depth": 6}
EPS = 1e-12
FIRST_PLACE = 2  # of RoBERTa: its table has a row for padding before, and one before that


def read(variant: Variant, theirs: ForeignConfig, predicts: str) -> EncoderConfig:
    distilled = variant.model_type == "distilbert"
    keys, sizes = (DISTILBERT_KEYS, DISTILBERT_SIZES) if distilled else (KEYS, SIZES)
    theirs.require("is_decoder", False)
    theirs.require("add_cross_attention", False)
    theirs.require("position_embedding_type", "absolute")
    theirs.require("tie_word_embeddings", True)
    theirs.require("problem_type", None, "single_label_classification")
    theirs.ignore("attention_probs_dropout_prob", "hidden_dropout_prob", "sinusoidal_pos_embds", "tie_weights_")
    theirs.ignore("attention_dropout", "dropout", "qa_dropout", "seq_classif_dropout", "output_past")
    unused, context = 0, theirs.whole("max_position_embeddings", 512)
    if variant.model_type == "roberta":
        unused = FIRST_PLACE
        theirs.require("pad_token_id", FIRST_PLACE - 1)
    pooled = any(name.endswith("pooler.dense.weight") for name in theirs.tensors)
    types = 0 if distilled else theirs.get("type_vocab_size", 2)
    parts: dict[str, Any] = {name: theirs.whole(keys[name], sizes[name]) for name in sizes}
    # a masked LM has no pool; it is what a classifier that starts from it will have
    parts["pool"] = "mean" if predicts == "features" and not pooled else variant.pool_kind
    parts["head"] = {"tokens": "transform", "features": "none", "classes": "linear"}[predicts]
    return EncoderConfig(
        vocab=theirs.whole("vocab_size", 50265 if unused else 30522),
        context=context - unused,
        unused_places=unused,
        mlp=PlainMLP(activation=theirs.choice(keys["mlp"], "gelu", ACTIVATIONS), hidden=parts.pop("hidden")),
        eps=EPS if distilled else theirs.number("layer_norm_eps", EPS),
        token_types=types,
        classes=len(read_labels(theirs.plain)) if predicts == "classes" else None,
        position="learned",
        norm="layernorm",
        placement="post",
        embedding_norm=True,
        qk_norm=False,
        offset=True,
        tied=True,
        **parts,
    )


def write(variant: Variant, config: EncoderConfig) -> tuple[str, dict[str, Any]]:
    distilled = variant.model_type == "distilbert"
    keys = DISTILBERT_KEYS if distilled else KEYS
    found: dict[str, Any] = {
        "vocab_size": config.vocab,
        "max_position_embeddings": config.context + config.unused_places,
        keys["dim"]: config.dim,
        keys["depth"]: config.depth,
        keys["heads"]: config.heads,
        keys["hidden"]: config.mlp.hidden or 4 * config.dim,
        keys["mlp"]: ACTIVATION_NAMES.get(config.mlp.activation, config.mlp.activation),
        "tie_word_embeddings": True,
    }
    if not distilled:
        found |= {"layer_norm_eps": config.eps or 1e-5, "type_vocab_size": config.token_types}
    if variant.model_type == "roberta":
        found["pad_token_id"] = FIRST_PLACE - 1
    if config.classes is not None:
        found["id2label"] = {str(i): f"LABEL_{i}" for i in range(config.classes)}
    return class_of(variant, config), found


def class_of(variant: Variant, config: EncoderConfig) -> str:
    """The class of theirs with the head of a config of ours."""
    predicts = "tokens" if config.head == "transform" else "features"
    if config.classes is not None:
        predicts = "classes"
    return next(name for name, what in variant.classes.items() if what == predicts)


def names(variant: Variant, config: EncoderConfig) -> Names:
    body = f"{variant.model_type}."
    if config.classes is None and config.head == "none":
        body = ""
    rows: list[Row] = [
        row(f"{body}embeddings.word_embeddings.weight", "embed.weight"),
        row(f"{body}embeddings.position_embeddings.weight", "stack.position.of.table"),
        *norm(f"{body}embeddings.LayerNorm", "stack.position.norm"),
    ]
    if config.token_types:
        rows.append(row(f"{body}embeddings.token_type_embeddings.weight", "types"))
    for i in range(config.depth):
        for ours, theirs in variant.parts.items():
            names_of = norm if ours.endswith("norm") else linear
            rows += names_of(f"{body}{variant.layer}.{i}.{theirs}", f"stack.blocks.{i}.{ours}")
    copies = {}
    if config.classes is not None:
        rows += linear(variant.pool, "pool.linear")
        rows += linear(variant.classifier, "head")
    elif config.head == "transform":
        layer, norm_of_it, matrix, bias = variant.transform
        rows += linear(layer, "head.linear")
        rows += norm(norm_of_it, "head.norm")
        rows.append(row(bias, "head.bias"))
        copies[matrix] = f"{body}embeddings.word_embeddings.weight"
        copies[f"{matrix.removesuffix('weight')}bias"] = bias
    elif config.pool.startswith("first"):
        rows += linear("pooler.dense", "pool.linear")
    known = {each.theirs for each in rows}
    return Names(
        rows=tuple(rows),
        copies={copy: of for copy, of in copies.items() if copy not in known},
        # constants, the head of another task in the same file, and the pool that a masked LM does not read
        left_out=(
            r"(bert\.|roberta\.)?embeddings\.position_ids",
            r"cls\.seq_relationship\.(weight|bias)",
            r"cls\.predictions\..*" if config.head != "transform" else r"bert\.pooler\.dense\.(weight|bias)",
            r"roberta\.pooler\.dense\.(weight|bias)",
        ),
        prefix=body,
    )


def _family(variant: Variant) -> Family:
    reads: Callable[[ForeignConfig, str], EncoderConfig] = partial(read, variant)
    return Family(
        variant.model_type, "encoder", variant.classes, reads, partial(write, variant), partial(names, variant)
    )


BERT, ROBERTA, DISTILBERT = (_family(each) for each in (BERT_VARIANT, ROBERTA_VARIANT, DISTILBERT_VARIANT))
