"""The transformer of series: each step attends to those before it, or to all of them."""

from __future__ import annotations

from torch import Tensor

from regard.attention.mask import Mask
from regard.attention.masks import Causal
from regard.attention.positions import Rotary
from regard.config import Count, config
from regard.errors import RegardError
from regard.models.attentions import check_heads
from regard.models.series_model import SeriesConfig, SeriesModel
from regard.nn.block import Stack
from regard.symmetry.groups import Group


@config
class TransformerSeriesConfig(SeriesConfig):
    """A transformer of series."""

    heads: Count = 4  # attention heads of each layer

    def __post_init__(self) -> None:
        super().__post_init__()
        check_heads(self)
        if self.dim // self.heads % 2:
            raise RegardError(f"dim / heads must be even for rotary places, got dim={self.dim} and heads={self.heads}")


class TransformerSeries(SeriesModel):
    """Attention over steps, by their times: a decoder for forecasts, an encoder for gaps and classes.

    Rotary places read differences of times only, of equal or uneven steps, so it keeps shifts of all times.
    """

    Config = TransformerSeriesConfig
    config: TransformerSeriesConfig

    def __init__(self, config: TransformerSeriesConfig) -> None:
        super().__init__(config)
        self.stack = Stack(
            config.depth,
            config.dim,
            config.heads,
            position=Rotary(config.dim // config.heads),
            norm="rmsnorm",
            mlp="gelu",
            qk_norm=True,
            dropout=config.dropout,
        )
        self.mask: Mask | None = Causal() if config.causal else None

    @property
    def keeps(self) -> Group:  # type: ignore[override]
        if self.mask is None:
            return self.stack.keeps
        return self.stack.keeps & self.mask.keeps

    def read(self, x: Tensor, times: Tensor | None, real: Tensor | None) -> Tensor:
        return self.stack(x, mask=self.mask, where=times, real=real)
