"""Decoders with every option that the native step has, and what its tests share."""

import os

import torch

from regard.generation.native.compile import PATHS, processor_features
from regard.models.attentions import BigBirdAttention, WindowAttention
from regard.models.decoder import Decoder, DecoderConfig
from regard.models.experts import ExpertsMLP, PlainMLP
from regard.models.sequence_model import RopeConfig

SMALL = {"vocab": 37, "context": 64, "dim": 48, "depth": 2, "heads": 4}
LLAMA3 = {"rope": RopeConfig(scaling="llama3", factor=8.0, original=16, low=1.5, high=3.0)}
CASES = {
    "default": {},
    "gpt2": {
        "position": "learned",
        "norm": "layernorm",
        "mlp": PlainMLP(activation="gelu_tanh"),
        "qk_norm": False,
        "offset": True,
        "tied": True,
    },
    "llama": {
        **LLAMA3,
        "kv_heads": 2,
        "head_dim": 16,
        "mlp": PlainMLP(activation="swiglu"),
        "qk_norm": False,
        "base": 500.0,
    },
    "qwen": {"kv_heads": 1, "mlp": PlainMLP(activation="swiglu"), "offsets": "qkv", "eps": 1e-3},
    "neox": {
        "placement": "parallel",
        "norm": "layernorm",
        "mlp": PlainMLP(activation="gelu"),
        "offset": True,
        "rope": RopeConfig(channels=4),
    },
    "post": {
        "placement": "post",
        "position": "sinusoidal",
        "mlp": PlainMLP(activation="relu"),
        "embedding_scale": True,
    },
    "deepnorm": {"placement": "deepnorm", "mlp": PlainMLP(activation="leaky"), "position": "none", "bias": "alibi"},
    "buckets": {"position": "none", "bias": "buckets", "softcap": 5.0},
    "concatenated": {"position": "concatenated", "tied": True, "embedding_norm": True},
    "roberta": {"position": "learned", "unused_places": 2},
    "ngrams": {"ngrams": 4, "vocab": 101},
    "window": {"attention": WindowAttention(width=7)},
    "full in a window": {"attention": WindowAttention(width=5), "rope": RopeConfig(scaling="linear", factor=2.0)},
    "yarn": {"rope": RopeConfig(scaling="yarn", factor=4.0, original=16, high=8.0)},
    "lora": {"lora": 2},
    "memory": {"memory": 8},
    "odd sizes": {
        "dim": 30,
        "heads": 3,
        "kv_heads": 1,
        "vocab": 33,
        "mlp": PlainMLP(activation="swiglu", hidden=41),
        "offsets": "all",
    },
}
# options that change nothing once a model is trained, or belong to an attention that is refused
OTHERS = {"dropout", "zero_start", "context", "depth", "dim", "heads"}
REFUSED = {"weights": "sparsemax", "attention": BigBirdAttention(block=8), "mlp": ExpertsMLP(count=4)}
RUNS_HERE = [name for name, (_, needed, _) in PATHS.items() if needed <= processor_features()]


def make_decoder(seed=0, **options):
    """A decoder in which everything matters: no weight is 0, and no norm leaves a channel as it is."""
    torch.manual_seed(seed)
    model = Decoder(DecoderConfig(**SMALL | options)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.15 * torch.randn_like(parameter))
    return model


def draw_ids(model, *shape, seed=1):
    return torch.randint(model.config.vocab, shape, generator=torch.Generator().manual_seed(seed))


def share_cache(tmp_path_factory):
    """A folder for compiled steps that all workers of a test run have together."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    return folder / "native-cache"
