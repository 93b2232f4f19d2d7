"""The GRU world model: the rival of the transformer, with one state in place of attention."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from regard.config import config
from regard.models.recurrent import keep_state, load_state
from regard.models.states import States
from regard.models.world_model import WorldConfig, WorldModel
from regard.nn.recurrent import Recurrent
from regard.nn.sort_by_position import line_up


@config
class GRUWorldConfig(WorldConfig):
    """A GRU world model."""


class GRUWorld(WorldModel):
    """What comes next, from a state that gates keep.   steps b n (o + a) -> b n (o + 2)

    Causal: output i depends on steps up to i. Keeps shifts of all places.
    """

    Config = GRUWorldConfig
    keeps = Recurrent.keeps

    def __init__(self, config: GRUWorldConfig) -> None:
        super().__init__(config)
        self.layers = Recurrent("gru", config.dim, config.dim, config.depth)

    def read(self, x: Tensor, where: Tensor | None, real: Tensor | None, caches: Any) -> Tensor:
        line = line_up(x, where, real)
        x = line.take(x)
        if caches is None:
            return line.put_back(self.layers(x, None, line.real)[0])
        x, ends = self.layers(x, load_state(caches, self.layers), line.real)
        keep_state(caches, ends)
        return line.put_back(x)

    def body_caches(self) -> States:
        return States()
