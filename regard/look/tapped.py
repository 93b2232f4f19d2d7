"""What our own attention tells: queries, keys, values and terms, from which `attention_weights` gives the weights."""

from __future__ import annotations

from torch import Tensor

from regard.attention.attend import attend
from regard.attention.kernels.reference import attention_weights
from regard.attention.tap import Heard
from regard.attention.terms import Terms
from regard.look.source import Rows, Source, Unchanged, wide

CODE = attend.__code__  # what happens while this runs is told by the tap, and must not be heard a second time


class Tapped(Source):
    """One call of `attend`."""

    def __init__(self, heard: Heard) -> None:
        self.q, self.k, self.v, self.out = heard.q, heard.k, heard.v, heard.out
        self.terms = heard.terms
        (self.b, self.h, self.n, _), self.m = heard.q.shape, heard.k.shape[2]
        self.bias = Unchanged(() if heard.terms.bias is None else heard.terms.bias.parameters())

    def part(self, rows: Rows) -> Terms:
        return self.terms.part(rows, slice(0, self.m))

    def all_weights(self, rows: Rows) -> Tensor:
        assert self.q is not None and self.k is not None
        self.bias.check("the bias")
        return attention_weights(wide(self.q[:, :, rows]), wide(self.k), self.part(rows))

    def mixed(self, weights: Tensor, rows: Rows) -> Tensor:
        out = super().mixed(weights, rows)
        bias = self.terms.bias
        if bias is not None and bias.gives_values:
            terms = self.part(rows)
            out = out + bias.values(weights, terms.here, terms.there)
        return out
