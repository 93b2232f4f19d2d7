"""One attention of one call of a model: its weights, the proof that they are those, and what else was
heard.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, overload

import torch
from torch import Tensor

from regard.attention.kernels.reference import heads_of
from regard.errors import RegardError
from regard.look.measure import entropy, farness
from regard.look.recording.calls import State
from regard.look.recording.edges import EdgeSource
from regard.look.recording.weighted_sum import Source, quiet

TOP = 8  # largest weights of a row in a summary


@dataclass(eq=False, kw_only=True)
class Entry:
    """out_i = Σ_j w_ij (v_j + r_ij).

    Weights are b h n m (for the heads and rows that were asked for), in float32 or float64; along edges they
    are h e, with the list of `edges`. `q`, `k` and `v` are as the operator was given them; keys and values
    may have fewer heads than queries. They are None where the operator shows none, and `k` and `v` also where
    a few queries look at many keys, as in a step with a cache: there the weights are smaller than what they
    follow from. Nothing here has a gradient.
    """

    name: str  # dotted name of the innermost module in which it happened
    call: int  # which call of that module
    layer: int  # places where attention happens, counted as they are first met
    kind: str  # "self", "cross" or "edges"
    operator: str  # what computed it
    heads: tuple[int, ...]  # the numbers of the heads
    shape: tuple[int, ...]  # of the whole: b h n m, or h e
    dtype: torch.dtype  # in which the model computed
    error: float  # the largest of `errors`
    reason: str | None  # why it is not proved
    # b h r: max over channels of |Σ_j w_ij (v_j + r_ij) − what was computed| / Σ_j |w_ij| |v_j|, for the heads
    # and rows that are kept; along edges 1 h n. None: no sum of values was heard
    errors: Tensor | None = field(default=None, repr=False)
    # b h: which part of the weight lies on values that are alike, where the output says nothing of the weights
    alike: Tensor | None = field(default=None, repr=False)
    note: str | None = None
    # what the weights are, where an approximation implies them: the output is their sum of the values, but they
    # are no softmax over all tokens; None: they are the weights of attention itself
    implied: str | None = None
    rows: tuple[int, ...] | None = None  # the numbers of the queries; None: all
    top: int | None = None
    source: Source | EdgeSource | None = field(default=None, repr=False)
    kept: Summary | None = field(default=None, repr=False)

    @property
    def proved(self) -> bool:
        return self.reason is None

    @property
    def weights(self) -> Tensor:
        """b h n m, or h e along edges. Raises if they are not proved."""
        return self.get_weights()

    def get_weights(self, *, unproved: bool = False) -> Tensor:
        """The weights; `unproved=True` gives them also when they are not known to be those that the model
        used."""
        if self.source is None:
            raise RegardError(
                f"of {self.where} only a summary was kept; record with keep='weights' to have its weights"
            )
        self.trusted(unproved)
        return self.source.weights()

    def get_summary(self, *, unproved: bool = False) -> Summary:
        """Entropy, mean distance, attention received and the largest weights; `unproved` as for the
        weights."""
        self.trusted(unproved)
        if self.kept is not None:
            return self.kept
        if not isinstance(self.source, Source):
            raise RegardError(f"{self.where} attends along edges; it has weights (h e) and edges (2 e), and no summary")
        return summarize(self.source, self.top, itself=self.kind == "self")

    @property
    def summary(self) -> Summary:
        return self.get_summary()

    def trusted(self, unproved: bool) -> None:
        if self.reason is not None and not unproved:
            raise RegardError(
                f"the weights of {self.where} are not proved: {self.reason}; unproved=True gives them anyway"
            )

    @property
    def where(self) -> str:
        return f"{self.name or 'the model'} (layer {self.layer}, call {self.call})"

    @property
    def q(self) -> Tensor | None:
        """b h n c"""
        if not isinstance(self.source, Source) or self.source.q is None:
            return None
        return self.rowwise(self.source.q)

    @property
    def out(self) -> Tensor | None:
        """What was computed.   b h n e, or n h e along edges"""
        if self.source is None:
            return None
        if isinstance(self.source, Source):
            return self.rowwise(self.source.out)
        return self.source.out

    @property
    def k(self) -> Tensor | None:
        """b g m c"""
        return self.shared(self.source.k) if isinstance(self.source, Source) else None

    @property
    def v(self) -> Tensor | None:
        """b g m e"""
        return self.shared(self.source.v) if isinstance(self.source, Source) else None

    @property
    def edges(self) -> Tensor | None:
        """From where to where each edge goes, loops that the layer added included.   2 e"""
        return self.source.edges if isinstance(self.source, EdgeSource) else None

    def rowwise(self, x: Tensor) -> Tensor:
        assert isinstance(self.source, Source)
        x = self.source.pick_heads(x)
        if self.source.rows is None:
            return x
        return x[:, :, self.source.rows]

    def shared(self, x: Tensor | None) -> Tensor | None:
        source = self.source
        assert isinstance(source, Source)
        if x is None or source.among is None:
            return x
        return source.pick_heads(heads_of(x, source.h))

    def __repr__(self) -> str:
        shape = " ".join(map(str, self.shape))
        proof = f"proved, error {self.error:.1e}" if self.proved else f"not proved: {self.reason}"
        return f"<{self.name or 'model'}: {self.kind}-attention {shape}, layer {self.layer}, call {self.call}, {proof}>"


class Seen(Sequence[Entry]):
    """Everything that was recorded, in the order in which it was computed."""

    def __init__(self, states: list[State]) -> None:
        self.entries: list[Entry] = []
        self.states = states  # what blocks put out, if asked for

    def __len__(self) -> int:
        return len(self.entries)

    @overload
    def __getitem__(self, i: int) -> Entry: ...
    @overload
    def __getitem__(self, i: slice) -> list[Entry]: ...
    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, int) and not -len(self) <= i < len(self):
            if not len(self):
                advice = "run the model inside the block, and see that the layers asked for exist"
            else:
                advice = ""
            raise IndexError(
                f"{len(self)} attentions were heard, so there is no number {i}{'; ' if advice else ''}{advice}"
            )
        return self.entries[i]

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    @property
    def layers(self) -> int:
        """How many places there are where attention happens."""
        return len({entry.layer for entry in self.entries})

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.entries)) or "<no attention was recorded>"

    def _repr_html_(self) -> str:
        from regard.look.notebook import page_in_frame  # a page is made of entries

        return page_in_frame(self)


# ── what is kept of weights that are too many to keep: a few numbers for each row


@dataclass(frozen=True, eq=False)
class Summary:
    """One attention in short."""

    entropy: Tensor  # b h n: −Σ_j w_ij log w_ij
    distance: Tensor | None  # b h n: Σ_j w_ij |i − j|, of self-attention
    received: Tensor  # b h m: the mean of a column
    top: Tensor  # b h n t: the largest weights of each row, from large to small
    top_at: Tensor  # b h n t: and which keys they belong to


def summarize(source: Source, top: int | None, *, itself: bool) -> Summary:
    """The wanted heads and rows in short."""
    with quiet(source.out):
        entropies, distances, tops, places = [], [], [], []
        received: Tensor | None = None
        count = min(TOP if top is None else top, source.m)
        for rows, weights in source.blocks():
            weights = source.pick_heads(weights)
            entropies.append(entropy(weights))
            if itself:
                distances.append(
                    farness(weights, torch.arange(source.n, device=weights.device)[rows] + source.m - source.n)
                )
            largest = weights.topk(count, dim=-1)
            tops.append(largest.values)
            places.append(largest.indices)
            total = weights.sum(2)
            received = total if received is None else received + total
        wanted = max(1, source.n if source.rows is None else len(source.rows))
        if received is None:
            received = source.pick_heads(source.out.new_zeros(source.b, source.h, source.m))
        joined = [torch.cat(parts, 2) for parts in (entropies, tops, places)]
        distance = torch.cat(distances, 2) if itself else None
        return Summary(joined[0], distance, received / wanted, joined[1], joined[2])


# ── queries that come one by one, in a loop inside one call of a module, and look at the same values
#
# A recurrent decoder begins with the last state of its encoder, and carries a part of it from step to step. So its
# queries descend from the tokens they look at, which alone would make it self-attention. That the values stay as
# they are while queries come one after another tells it apart: a sequence that attends to itself has as many
# queries as values.


@dataclass(eq=False)
class _Loop:
    """Entries of one loop so far."""

    call: int
    values: Tensor
    # each with the kind and the summary that it had by itself
    entries: list[tuple[Entry, str, Summary | None]] = field(default_factory=list)


class DecodeLoops:
    """All loops: the last one of each module."""

    def __init__(self) -> None:
        self.loops: dict[str, _Loop] = {}

    def add(self, entry: Entry, values: Tensor | None) -> None:
        """Take in an entry, and settle the kind of all entries of its loop.   values: b g m e"""
        if values is None or entry.shape[2] != 1 or entry.shape[3] == 1:
            return
        loop = self.loops.get(entry.name)
        if loop is None or loop.call != entry.call or not _are_same(loop.values, values):
            loop = self.loops[entry.name] = _Loop(entry.call, values)
        loop.entries.append((entry, entry.kind, entry.kept))
        if len(loop.entries) == 1:
            return
        alone = {kind for _, kind, _ in loop.entries}
        kind = "self" if alone == {"self"} and len(loop.entries) == entry.shape[3] else "cross"
        for each, _, kept in loop.entries:
            each.kind = kind
            if kept is not None:
                each.kept = replace(kept, distance=None) if kind == "cross" else kept


def _are_same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and torch.equal(one, other)
