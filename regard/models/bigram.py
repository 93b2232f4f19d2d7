"""A vector for each pair of neighbours: what a model would else spend its first block on finding out."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.positions import coordinates
from regard.models.caches import Caches
from regard.nn.padding import cleared
from regard.symmetry.groups import Shifts

ROWS = 2**14  # a table of this many rows is small; larger vocabularies get four rows for each id


class Bigram(nn.Module):
    """table[row of (the token one place before, this token)].   ids b n -> b n d

    Every pair has its own row as long as they fit into the table, else pairs share rows by a hash. The token before is found
    by its place, not by its slot: so it looks only back, tokens may be given in any order with their places, and padding does
    not matter. A token with nothing one place before it makes a pair with nothing. It starts at zero.
    """

    keeps = Shifts()

    def __init__(self, vocab: int, dim: int) -> None:
        super().__init__()
        self.vocab, self.dim = vocab, dim
        self.rows = min((vocab + 1) * vocab, max(ROWS, 4 * vocab))
        self.weight = nn.Parameter(torch.zeros(self.rows, dim))

    def forward(
        self, tokens: Tensor, where: Tensor | None = None, real: Tensor | None = None, caches: Caches | None = None
    ) -> Tensor:
        """where: as in `attend`; None: consecutive. With caches the tokens follow what these have seen last."""
        ids = tokens.long() if real is None else tokens.long().masked_fill(~real, 0)
        if caches is not None:
            first = self.before_with(ids, where, real, caches)
        elif where is None:
            first = F.pad(ids[:, :-1], (1, 0), value=self.vocab)
        else:
            first = one_before(ids, self.places(ids, where, real), self.vocab)
        return cleared(F.embedding(self.row(first, ids), self.weight), real)

    def row(self, first: Tensor, second: Tensor) -> Tensor:
        """The row of each pair; first = vocab means nothing."""
        if self.rows == (self.vocab + 1) * self.vocab:
            return first * self.vocab + second
        mixed = (first + 1) * 0x3C6EF372 + (second + 1) * 0x1B873593
        return (mixed ^ (mixed >> 15)) % self.rows

    def places(self, ids: Tensor, where: Tensor | None, real: Tensor | None, first: int = 0) -> Tensor:
        """One number a token, −inf for what has no place.  b n"""
        b, n = ids.shape
        laid = coordinates(where, first, n, b, ids.device, "bigram").expand(b, n).double()
        laid = laid.masked_fill(laid.isnan(), -torch.inf)
        return laid if real is None else laid.masked_fill(~real, -torch.inf)

    def before_with(self, ids: Tensor, where: Tensor | None, real: Tensor | None, caches: Caches) -> Tensor:
        """What comes before each token when earlier ones were given in an earlier call; remembers the last for the next."""
        b, n = ids.shape
        if caches.before is None:
            nothing = torch.full((b, 1), self.vocab, device=ids.device)
            caches.before = (nothing, torch.full((b, 1), -torch.inf, dtype=torch.float64, device=ids.device))
        last, at = caches.before
        here = caches[0].upcoming(b, n, ids.device, where, real)
        places = torch.cat((at, self.places(ids, here, real, caches[0].count)), 1)
        both = torch.cat((last, ids), 1)  # b 1+n
        latest = places.argmax(1, keepdim=True)
        caches.before = (both.gather(1, latest), places.gather(1, latest))
        return one_before(both, places, self.vocab)[:, 1:]


def one_before(ids: Tensor, places: Tensor, nothing: int) -> Tensor:
    """The id of the token whose place is one less, or `nothing`.  b n, b n -> b n"""
    sorted_places, order = places.sort(dim=1, stable=True)
    follows = sorted_places[:, 1:] - sorted_places[:, :-1] == 1
    found = ids.gather(1, order)[:, :-1].masked_fill(~follows, nothing)
    return torch.zeros_like(ids).scatter(1, order, F.pad(found, (1, 0), value=nothing))
