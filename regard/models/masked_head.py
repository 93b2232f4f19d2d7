"""The head of BERT: one more layer before the logits."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.models.sequence_model import Head, SequenceConfig
from regard.nn.mlp import ACTIVATIONS
from regard.nn.norm import LayerNorm


class MaskedHead(Head):
    """W norm(σ(θᵀx + b)) + c, with the σ of the MLPs; W may be the matrix of the embedding.   b n d -> b n vocab"""

    def __init__(self, config: SequenceConfig) -> None:
        super().__init__(config)
        self.activation = ACTIVATIONS[config.mlp.activation]
        self.linear = nn.Linear(config.dim, config.dim)
        self.norm = LayerNorm(config.dim, eps=config.eps or 1e-5)
        self.bias = nn.Parameter(torch.zeros(config.vocab))

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:
        return super().forward(self.norm(self.activation(self.linear(x))), embedding) + self.bias
