"""Features that are mostly zero, such as the words of a page: only the others are kept, dropped out and
multiplied."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

from regard.attention.dropout import apply_dropout
from regard.attention.edge_ops import Links, edge_sum
from regard.errors import RegardError


class Sparse:
    """A matrix n d by the rows, columns and values of what is not zero. A pair that is there twice adds up.

    It is a graph of columns and rows, so a product with it is a sum along its edges: linear in what is kept,
    backward too.
    """

    def __init__(self, rows: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> None:
        for name, index, count in (("row", rows, shape[0]), ("column", columns, shape[1])):
            if index.numel() and not 0 <= int(index.min()) <= int(index.max()) < count:
                raise RegardError(f"a {name} is one of 0 … {count - 1}, got {int(index.min())} … {int(index.max())}")
        self.shape = torch.Size(shape)
        self.links = Links(columns.long(), rows.long(), *shape)
        self.values = values[self.links.order]

    @classmethod
    def of(cls, x: Tensor) -> Sparse:
        """What a tensor n d holds, dense or in a sparse layout of PyTorch. The same tensor again gives the
        same object."""
        known = seen.get(x)
        if known is None:
            parts = x.to_sparse_coo().coalesce()
            rows, columns = parts.indices()
            known = cls(rows, columns, parts.values(), (x.shape[0], x.shape[1]))
            if x.layout is not torch.strided:  # which cannot be changed in place
                seen[x] = known
        return known

    def holding(self, values: Tensor) -> Sparse:
        """Other values at the same places; what was found out about the places is shared."""
        other = object.__new__(Sparse)
        other.shape, other.links, other.values = self.shape, self.links, values
        return other

    @property
    def dtype(self) -> torch.dtype:
        return self.values.dtype

    @property
    def device(self) -> torch.device:
        return self.values.device

    @property
    def share(self) -> float:
        """How much of it is kept."""
        return self.links.count / max(1, self.shape[0] * self.shape[1])

    def to(self, target: torch.dtype | torch.device | str) -> Sparse:
        """In another dtype, or on another device."""
        if isinstance(target, torch.dtype):
            return self.holding(self.values.to(target))
        rows, columns = self.links.target.to(target), self.links.source.to(target)
        return Sparse(rows, columns, self.values.to(target), (self.shape[0], self.shape[1]))

    def dense(self) -> Tensor:
        """n d"""
        empty = torch.zeros(self.shape, dtype=self.dtype, device=self.device)
        return empty.index_put((self.links.target, self.links.source), self.values, accumulate=True)

    def __len__(self) -> int:
        return self.shape[0]

    def __matmul__(self, other: Tensor) -> Tensor:
        """n d @ d c -> n c"""
        return edge_sum(self.values[None], other[None], self.links)[0]

    def __repr__(self) -> str:
        return f"Sparse({self.shape[0]}, {self.shape[1]}, {self.links.count} kept)"


def through(layer: nn.Linear, x: Tensor | Sparse) -> Tensor:
    """A linear layer of features, mostly zero or not.   n d -> n d'"""
    if isinstance(x, Tensor):
        out: Tensor = layer(x)
        return out
    y = x @ layer.weight.mT
    if layer.bias is None:
        return y
    return y + layer.bias


def sparse_dropout(x: Tensor | Sparse, share: float, training: bool) -> Tensor | Sparse:
    """Dropout; of a zero it makes a zero, so only what is kept is drawn for."""
    if isinstance(x, Tensor):
        return apply_dropout(x, share, training)
    return x.holding(apply_dropout(x.values, share, training))


seen = WeakTensorKeyDictionary()  # a sparse tensor -> what it holds
