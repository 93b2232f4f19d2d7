"""What the tests of sequence models share: small models with every option, random tokens, and how results are compared."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from regard.models.attentions import (
    BigBirdAttention,
    FullAttention,
    LinformerAttention,
    LSHAttention,
    PerformerAttention,
    WindowAttention,
)
from regard.models.decoder import Decoder, DecoderConfig
from regard.models.encoder import Encoder, EncoderConfig
from regard.models.sequence_model import BIASES, POSITIONS

VOCAB, CONTEXT, B, N = 11, 40, 3, 14
SMALL: dict[str, Any] = {"vocab": VOCAB, "context": CONTEXT, "dim": 16, "depth": 2, "heads": 2}
# every attention with its options, small enough that each makes a difference for N tokens
ATTENTIONS: dict[str, dict[str, Any]] = {
    "window": {"attention": WindowAttention(width=5)},
    "bigbird": {"attention": BigBirdAttention(block=2, random_blocks=1)},
    "performer": {"attention": PerformerAttention(features=8)},
    "linformer": {"attention": LinformerAttention(projected=4)},
    "lsh": {"attention": LSHAttention(block=2, buckets=2, rounds=2)},
    "sparsemax": {"weights": "sparsemax"},
    "entmax": {"weights": "entmax"},
}
CAUSAL_ATTENTIONS = {name: how for name, how in ATTENTIONS.items() if name != "linformer"}
PARTS = [(position, bias) for position in POSITIONS for bias in BIASES]


def within(window):
    return FullAttention() if window is None else WindowAttention(width=window)


def decoder(dtype: torch.dtype = torch.float64, **options: Any) -> Decoder:
    return ready(Decoder, DecoderConfig(**SMALL | options), dtype)


def encoder(dtype: torch.dtype = torch.float64, **options: Any) -> Encoder:
    return ready(Encoder, EncoderConfig(**SMALL | options), dtype)


def ready(cls: Any, config: Any, dtype: torch.dtype) -> Any:
    torch.manual_seed(0)
    return awake(cls(config)).to(dtype).eval()


def awake(model: nn.Module) -> nn.Module:
    """What starts at zero is given numbers, so that a test of it is no test of zeros."""
    draw = torch.Generator().manual_seed(9)
    with torch.no_grad():
        for parameter in model.parameters():
            if not parameter.any():
                parameter.copy_(0.3 * torch.randn(parameter.shape, generator=draw))
    return model


def some_tokens(b: int = B, n: int = N, seed: int = 1) -> Tensor:
    return torch.randint(VOCAB, (b, n), generator=torch.Generator().manual_seed(seed))


def orders(b: int = B, n: int = N) -> Tensor:
    return torch.stack([torch.randperm(n, generator=torch.Generator().manual_seed(s)) for s in range(b)])


def moved(x: Tensor, order: Tensor) -> Tensor:
    return torch.stack([row[o] for row, o in zip(x, order, strict=True)])


def gap(found: Tensor, true: Tensor) -> float:
    """Largest error, relative to the largest value."""
    return ((found - true).abs().max() / true.abs().max()).item()
