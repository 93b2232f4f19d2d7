"""PointNet: a learned transform aligns the point cloud, one network sees each point, then a max pool."""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor, nn

from regard.config import Width, config
from regard.models.registered_model import Options
from regard.models.set_model import SetConfig, SetModel, perceptron
from regard.nn.set_attention import POOLS


@config
class PointNetConfig(SetConfig):
    """PointNet: a matrix that depends on the whole point cloud transforms its points, one network sees each
    point, then a max pool."""

    turned: Width = 64  # width of the features that a second matrix transforms


class Turn(nn.Module):
    """x A with a matrix A near the identity that depends on all points of a point cloud.   b n d -> b n d

    It has layer norms instead of the batch norms of the original PointNet: a point cloud must not depend on
    others in its batch.
    """

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.see = nn.Sequential(nn.Linear(dim, hidden), nn.LayerNorm(hidden), nn.ReLU(), nn.Linear(hidden, hidden))
        self.pool = POOLS["max"](hidden)
        self.decide = nn.Linear(hidden, dim * dim)
        nn.init.zeros_(self.decide.weight)
        nn.init.zeros_(self.decide.bias)

    def forward(self, x: Tensor, real: Tensor | None) -> Tensor:
        d = x.shape[-1]
        matrix = self.decide(self.pool(self.see(x), real)).unflatten(-1, (d, d))
        return x + x @ matrix


class PointNet(SetModel):
    """max_i of a network that sees one point at a time, after two learned transforms.
    b n features -> b outputs

    With each=True the output of a point depends on its own features and those of the whole point cloud.
    """

    Config = PointNetConfig
    TINY: ClassVar[Options] = dict(features=3, outputs=5, hidden=32, turned=16)

    def __init__(self, config: PointNetConfig) -> None:
        super().__init__()
        self.config: PointNetConfig = config
        hidden, turned = config.hidden, config.turned
        self.turn_points, self.turn_features = Turn(config.features, hidden), Turn(turned, hidden)
        self.first = perceptron(config.features, turned, turned)
        self.second = nn.Sequential(
            *[layer for a, b in pairwise([turned, *[hidden] * config.depth]) for layer in _seeing(a, b)]
        )
        self.pool = POOLS["max"](hidden)
        self.head = perceptron(hidden + turned if config.each else hidden, hidden, config.outputs)

    def forward(self, x: Tensor, *, real: Tensor | None = None) -> Tensor:
        x = self.turn_points(self.checked_elements(x, real), real)
        near = self.turn_features(self.first(x), real)
        whole = self.pool(self.second(near), real)
        if self.config.each:
            whole = torch.cat((near, whole[:, None].expand(-1, near.shape[1], -1)), -1)
        return self.head(whole)


def _seeing(dim: int, out: int) -> list[nn.Module]:
    return [nn.Linear(dim, out), nn.LayerNorm(out), nn.ReLU()]
