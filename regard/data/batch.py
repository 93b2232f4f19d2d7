"""Batches, and where they come from. A source is asked by number: the batch of step 700 is the same whatever
was asked before, in this process or another, so going on after a stop needs nothing but the step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from regard.data.array import Array
from regard.errors import RegardError
from regard.shapes import expect

IGNORE = -100  # a target that is not to be predicted


@dataclass(frozen=True, eq=False)
class Batch:
    """The inputs of a model, and the target."""

    tokens: Tensor  # b n ids, b n d real values, or n d nodes of graphs
    target: Tensor  # b n ids (IGNORE where there is no target), b classes, b values
    real: Tensor | None = None  # bool b n, True = real; None: all are
    where: Tensor | None = None  # n, b n or b n s places; None: consecutive
    spelling: Tensor | None = None  # b n g, what each token is made of; None: the model knows it by the id
    edges: Any = None  # 2 e from source to target, or a graph made of them; None: no graph
    of: Tensor | None = None  # n, the graph of each node; None: all are of one
    pairs: Tensor | None = None  # 2 p, pairs of nodes to predict
    graphs: int | None = None  # how many graphs there are; the last ones may have no nodes
    edge_features: Tensor | None = None  # e k, numbers of each edge
    faces: Any = None  # 3 f, corners of the triangles of a mesh, or what is known of them; None: no mesh
    follows: bool = False  # each row goes on where the same row of the batch before ended
    rank: Tensor | None = None  # b n, when each token comes in an order of its row; None: as the places say
    asked: Tensor | None = None  # b p, the slots whose tokens are predicted; None: all
    documents: Tensor | None = (
        None  # b n, the text of each token, of several in a row; None: a row is one text
    )

    def __post_init__(self) -> None:
        # (targets of a graph may be those of its nodes, of whole graphs or of pairs)
        if self.tokens.dim() < 1 or (self.has_rows and self.target.shape[:1] != self.tokens.shape[:1]):
            raise RegardError(
                f"tokens and target must have the same number of rows, got shapes {tuple(self.tokens.shape)} "
                f"and {tuple(self.target.shape)}"
            )
        if self.real is not None:
            if self.real.dtype != torch.bool:
                raise RegardError(f"real must be a bool tensor 'b n', True = real, got {self.real.dtype}")
            expect(self.real, "b n", name="real", b=self.tokens.shape[0], n=self.tokens.shape[1])
        if self.documents is not None:
            expect(self.documents, "b n", name="documents", b=self.tokens.shape[0], n=self.tokens.shape[1])

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on another device."""
        parts: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: part.to(device) for name, part in parts.items() if hasattr(part, "to")})

    @property
    def has_rows(self) -> bool:
        """Is the first axis of the tokens that of the examples? Nodes of graphs and meshes lie side by side."""
        return self.edges is None and self.faces is None

    @property
    def size(self) -> int:
        """How much work it is: b · n for ids b n or steps b n d, padding included; nodes of graphs; b for
        anything else."""
        sequences = self.tokens.dim() == 3 or (self.tokens.dim() == 2 and not self.tokens.is_floating_point())
        return self.tokens.shape[0] * (self.tokens.shape[1] if sequences and self.has_rows else 1)


@runtime_checkable
class Source(Protocol):
    """Batches by number. batch(step) depends on the seed and the step alone, so resuming needs nothing but
    the step.

    For several processes: a source whose batches cannot be cut into rows says why in `whole`; one that can
    read some rows of a batch without the others has `slice(step, part, parts)` (slices.py)."""

    def batch(self, step: int) -> Batch:
        """The training batch of step 0, 1, 2, ..."""
        ...

    def validation(self) -> Iterator[Batch]:
        """The whole validation split, in the same order every time."""
        ...


# ── what sources share


class Epochs:
    """Which rows each step takes: an order for each epoch, drawn by (seed, epoch), cut into batches of one
    size.

    The rows that do not fill a last batch are left out, other ones in each epoch. With `lengths`, rows of
    like length come together (sorted within stretches of STRETCH batches, then the batches are shuffled), so
    that there is little padding.
    """

    STRETCH = 50

    def __init__(self, rows: Array, batch: int, seed: int, lengths: Array | None = None) -> None:
        if batch < 1:
            raise RegardError(f"batch must be at least 1, got {batch}")
        self.all, self.seed, self.lengths = rows, seed, lengths
        self.batch = min(batch, len(rows))
        self.steps = len(rows) // self.batch
        self._kept: tuple[int, Array] = (-1, rows)  # the last epoch, to draw each order once

    def rows(self, step: int) -> Array:
        """The rows of this step."""
        epoch, place = divmod(step, self.steps)
        if self._kept[0] != epoch:
            self._kept = (epoch, self._order(epoch))
        rows: Array = self._kept[1][place]
        return rows

    def _order(self, epoch: int) -> Array:
        random = generator(self.seed, 1, epoch)
        order = random.permutation(self.all)[: self.steps * self.batch]
        if self.lengths is not None:
            stretch = np.arange(len(order)) // (self.STRETCH * self.batch)
            order = order[np.lexsort((self.lengths[order], stretch))]
            return random.permutation(order.reshape(self.steps, self.batch))
        return order.reshape(self.steps, self.batch)


def generator(seed: int, *numbers: int) -> np.random.Generator:
    """Random numbers for this seed and these numbers (a step, an epoch), the same in every process."""
    return np.random.default_rng([number % 2**64 for number in (seed, *numbers)])


def held_out(count: int, share: float) -> int:
    """The number of rows in the validation split: at least one if share > 0, and at least one stays for
    training."""
    if not 0 <= share < 1:
        raise RegardError(f"validation is a share of the rows: at least 0 and below 1, got {share}")
    if share and count < 2:
        rows = "is 1 row" if count == 1 else f"are {count} rows"
        raise RegardError(
            f"there {rows}, too few for a validation split; give more rows, or train without one: "
            "--data.validation 0 (in Python, validation=0)"
        )
    if share:
        return min(count - 1, max(1, round(count * share)))
    return 0


def pad_rows(rows: Sequence[Array], context: int | None = None) -> tuple[Tensor, Tensor | None]:
    """Rows of ids in one tensor, as long as the longest, and which slots are real (None: all).
    b n, bool b n

    Rows longer than `context` are cut off at their end. What is no token is 0 and not real.
    """
    rows = [row[:context] for row in rows]
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    real = np.arange(max(1, lengths.max(initial=0))) < lengths[:, None]
    tokens = np.zeros(real.shape, dtype=np.int64)
    tokens[real] = np.concatenate(rows) if rows else 0
    return torch.from_numpy(tokens), None if real.all() else torch.from_numpy(real)
