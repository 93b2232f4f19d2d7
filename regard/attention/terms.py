"""The terms on which queries attend to keys: everything that decides the weights beside q and k
themselves."""

from __future__ import annotations

from dataclasses import dataclass

from regard.attention.biases import Bias
from regard.attention.mask import Mask
from regard.attention.places import Side, Slots
from regard.attention.weights import Weights


@dataclass(eq=False, slots=True)
class Terms:
    """What every kernel is given with q, k and v, checked and in its one form."""

    here: Side
    there: Side
    mask: Mask | None
    bias: Bias | None
    scale: float
    dropout: float
    weights: Weights | None = None  # None: softmax

    def part(self, rows: Slots, columns: Slots, *, full: bool = False) -> Terms:
        """The same terms for some of the rows and columns; `full` says that the mask hides nothing there."""
        here, there = self.here.part(rows), self.there.part(columns)
        return Terms(
            here, there, None if full else self.mask, self.bias, self.scale, self.dropout, self.weights
        )
