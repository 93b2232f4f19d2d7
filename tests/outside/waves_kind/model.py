"""A small network for waves."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from regard.config import Size, Width, config
from regard.symmetry.groups import Group, Trivial


@config
class WaveNetConfig:
    """Two linear maps."""

    length: Size  # numbers of a wave
    classes: Size
    hidden: Width = 8  # channels inside


class WaveNet(nn.Module):
    """b length -> b classes"""

    Config = WaveNetConfig

    def __init__(self, config: WaveNetConfig) -> None:
        super().__init__()
        self.config = config
        self.inner = nn.Linear(config.length, config.hidden)
        self.head = nn.Linear(config.hidden, config.classes)

    @property
    def symmetry(self) -> Group:
        return Trivial()

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.relu(self.inner(x)))

    def sample_inputs(self, seed: int = 0, tokens: int | None = None, rows: int | None = None) -> dict[str, Any]:
        return {"x": torch.randn(rows or 3, self.config.length, generator=torch.Generator().manual_seed(seed))}
