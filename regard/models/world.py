"""The transformer world model: each step attends to the last ones, and predicts what comes next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from regard.attention.cache import WindowCache
from regard.attention.masks import Causal, Window
from regard.attention.positions import Rotary
from regard.config import Count, Length, config
from regard.errors import RegardError
from regard.models.attentions import check_heads
from regard.models.caches import Caches
from regard.models.sequence_model import count_places
from regard.models.world_model import WorldConfig, WorldModel
from regard.models.world_steps import RingSteps, is_plain
from regard.nn.block import Stack
from regard.symmetry.groups import Group


@config
class TransformerWorldConfig(WorldConfig):
    """A transformer world model."""

    heads: Count = 4  # attention heads of each layer
    window: Length = 8  # steps that each layer sees, the present one included

    def __post_init__(self) -> None:
        super().__post_init__()
        check_heads(self)
        if self.dim // self.heads % 2:
            raise RegardError(
                f"dim / heads must be even for rotary places, got dim={self.dim} and heads={self.heads}"
            )


class TransformerWorld(WorldModel):
    """What comes next, from attention to the last steps.   steps b n (o + a) -> b n (o + 2)

    Causal by places, within a window. Places are relative, so it keeps shifts of all of them.
    """

    Config = TransformerWorldConfig
    config: TransformerWorldConfig

    def __init__(self, config: TransformerWorldConfig) -> None:
        super().__init__(config)
        self.stack = Stack(
            config.depth,
            config.dim,
            config.heads,
            position=Rotary(config.dim // config.heads),
            norm="rmsnorm",
            mlp="gelu",
            qk_norm=True,
        )
        self.mask = Causal() & Window(config.window - 1)

    @property
    def keeps(self) -> Group:  # type: ignore[override]
        return self.stack.keeps & self.mask.keeps

    def read(self, x: Tensor, where: Tensor | None, real: Tensor | None, caches: Any) -> Tensor:
        if caches is None:
            where = count_places(real) if where is None else where
        return self.stack(x, mask=self.mask, where=where, real=real, caches=caches)

    def steps_after(self, x: Tensor, real: Tensor) -> Callable[[Tensor], Tensor]:
        if is_plain(self):
            return RingSteps(self, x, real)
        return super().steps_after(x, real)

    def body_caches(self) -> Caches:
        return Caches(WindowCache(self.config.window - 1) for _ in self.stack.blocks)
