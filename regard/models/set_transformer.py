"""The Set Transformer: elements attend to each other, then learned seed vectors pool them by attention."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from regard.config import Count, Extras, Length, config
from regard.errors import RegardError
from regard.models.registered_model import Options
from regard.models.set_model import SetConfig, SetModel
from regard.nn.set_attention import ISAB, MAB, PMA


@config
class SetTransformerConfig(SetConfig):
    """The Set Transformer: elements attend to each other, directly or through inducing points; then learned
    seed vectors pool them by attention."""

    heads: Count = 4  # attention heads
    # inducing points (ISAB): cost linear in the set; None: every element attends to every element (SAB)
    points: Length | None = None
    seeds: Count = 1  # seed vectors of the pool
    after: Extras = 0  # attention layers among the seeds, after the pool
    norm: Literal["layernorm", "rmsnorm"] = "layernorm"
    mlp: Literal["relu", "leaky", "gelu", "relu2", "swiglu"] = "relu"

    def __post_init__(self) -> None:
        if self.hidden % self.heads:
            raise RegardError(f"must be a multiple of heads={self.heads}, got {self.hidden}", option="hidden")


class SetTransformer(SetModel):
    """Elements attend to each other, then learned seed vectors pool them by attention (Lee et al.).
    b n features -> b outputs, or b (seeds·outputs)

    With each=True there are no seeds: b n outputs, equivariant. The output of an empty set
    is defined: it depends on the seeds alone.
    """

    Config = SetTransformerConfig
    TINY: ClassVar[Options] = dict(features=3, outputs=5, hidden=32, points=4, seeds=2, after=1)

    def __init__(self, config: SetTransformerConfig) -> None:
        super().__init__()
        self.config: SetTransformerConfig = config
        how: dict[str, Any] = {"mlp": config.mlp, "norm": config.norm}
        self.embed = nn.Linear(config.features, config.hidden)
        self.layers = nn.ModuleList()
        for _ in range(config.depth):
            if config.points is None:
                self.layers.append(MAB(config.hidden, config.heads, **how))
            else:
                self.layers.append(ISAB(config.hidden, config.heads, config.points, **how))
        if config.each:
            self.pool = None
        else:
            self.pool = PMA(config.hidden, config.heads, config.seeds, **how)
        after = 0 if config.each else config.after
        self.after = nn.ModuleList(MAB(config.hidden, config.heads, **how) for _ in range(after))
        self.head = nn.Linear(config.hidden, config.outputs)

    def forward(self, x: Tensor, *, real: Tensor | None = None) -> Tensor:
        h = self.embed(self.checked_elements(x, real))
        for layer in self.layers:
            h = layer(h, h, real) if isinstance(layer, MAB) else layer(h, real)
        if self.pool is None:
            return self.head(h)
        h = self.pool(h, real)  # b s d
        for layer in self.after:
            h = layer(h, h)
        return self.head(h).flatten(1)
