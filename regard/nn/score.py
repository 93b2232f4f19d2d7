"""Scores of a recurrent decoder's attention: how well its state s fits each state m_j of the memory.

    dot        sᵀ m_j                        Luong
    general    sᵀ W m_j                      Luong
    additive   vᵀ tanh(W s + U m_j)          Bahdanau

What depends on the memory alone is computed once (`keys`).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


class Dot(nn.Module):
    """sᵀ m_j.   s b n d, m b m d -> b n m"""

    def __init__(self, dim: int) -> None:
        super().__init__()

    def keys(self, memory: Tensor) -> Tensor:
        return memory

    def forward(self, s: Tensor, keys: Tensor) -> Tensor:
        return s @ keys.transpose(1, 2)


class General(nn.Module):
    """sᵀ W m_j.   s b n d, m b m d -> b n m"""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.linear = nn.Linear(dim, dim, bias=False)

    def keys(self, memory: Tensor) -> Tensor:
        return self.linear(memory)

    def forward(self, s: Tensor, keys: Tensor) -> Tensor:
        return s @ keys.transpose(1, 2)


class Additive(nn.Module):
    """vᵀ tanh(W s + U m_j).   s b n d, m b m d -> b n m

    It needs no bias after v: it would add the same to all scores of a query, and cancel.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.of_state = nn.Linear(dim, dim, bias=False)
        self.of_memory = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, 1, bias=False)

    def keys(self, memory: Tensor) -> Tensor:
        return self.of_memory(memory)

    def forward(self, s: Tensor, keys: Tensor) -> Tensor:
        return self.v(torch.tanh(self.of_state(s)[:, :, None] + keys[:, None]))[..., 0]


SCORES: dict[str, Callable[[int], nn.Module]] = {"dot": Dot, "general": General, "additive": Additive}
