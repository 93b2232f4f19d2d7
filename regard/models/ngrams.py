"""A vector for each run of neighbours: what a model would else spend its first blocks on finding out."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.positions import coordinates
from regard.models.caches import Caches
from regard.nn.padding import zero_padding
from regard.symmetry.groups import Shifts

ROWS = 2**14  # a table of this many rows is small; larger vocabularies get four rows for each id


class NGrams(nn.Module):
    """Σ over k = 2 … most of table_k[row of (the k − 1 tokens before, this token)].   ids b n -> b n d

    Every run of k tokens has its own row as long as they fit into the table, else runs share rows by a hash.
    The tokens before are found by their places, one place back at a time, not by their slots: so it looks
    only back, tokens may be given in any order with their places, and padding does not matter. Where a place
    is empty, it and all before it are nothing. The tables start at zero.
    """

    keeps = Shifts()

    def __init__(self, vocab: int, dim: int, most: int) -> None:
        super().__init__()
        self.vocab, self.dim, self.most = vocab, dim, most
        sizes = [min((vocab + 1) ** (k - 1) * vocab, max(ROWS, 4 * vocab)) for k in range(2, most + 1)]
        self.tables = nn.ParameterList(nn.Parameter(torch.zeros(size, dim)) for size in sizes)

    def forward(
        self,
        tokens: Tensor,
        where: Tensor | None = None,
        real: Tensor | None = None,
        caches: Caches | None = None,
        documents: Tensor | None = None,
    ) -> Tensor:
        """where: as in `attend`; None: consecutive. With caches the tokens follow what these have seen
        last. documents: b n, the text of each token; nothing of another text comes before it."""
        ids = tokens.long() if real is None else tokens.long().masked_fill(~real, 0)
        if caches is not None:
            before = self.before_with(ids, where, real, caches)
        elif documents is not None:
            before = _runs(ids, _set_apart(self.places(ids, where, real), documents), self.most, self.vocab)
        elif where is None:
            before = [F.pad(ids, (k, 0), value=self.vocab)[:, : ids.shape[1]] for k in range(1, self.most)]
        else:
            before = _runs(ids, self.places(ids, where, real), self.most, self.vocab)
        vectors = [F.embedding(row, table) for row, table in zip(self.rows(ids, before), self.tables, strict=True)]
        return zero_padding(torch.stack(vectors).sum(0) if len(vectors) > 1 else vectors[0], real)

    def rows(self, ids: Tensor, before: list[Tensor]) -> list[Tensor]:
        """The row of each run that ends here, in each table.  before: b n each, the nearest first; vocab
        means nothing"""
        own, shared, found = ids, ids + 1, []
        for k, (table, token) in enumerate(zip(self.tables, before, strict=True), 2):
            longer = (self.vocab + 1) ** (k - 2) * self.vocab  # how many runs are shorter by one
            own = own + token * longer
            shared = (shared ^ (shared >> 15)) * 0x2C1B3C6D + (token + 1) * 0x3C6EF372
            fits = table.shape[0] == longer * (self.vocab + 1)
            found.append(own if fits else (shared ^ (shared >> 15)) % table.shape[0])
        return found

    def places(self, ids: Tensor, where: Tensor | None, real: Tensor | None, first: int = 0) -> Tensor:
        """One number a token, −inf for what has no place.  b n"""
        b, n = ids.shape
        laid = coordinates(where, first, n, b, ids.device, "ngrams").expand(b, n).double()
        laid = laid.masked_fill(laid.isnan(), -torch.inf)
        if real is None:
            return laid
        return laid.masked_fill(~real, -torch.inf)

    def before_with(self, ids: Tensor, where: Tensor | None, real: Tensor | None, caches: Caches) -> list[Tensor]:
        """What comes before each token when earlier ones were given in an earlier call; remembers the last
        for the next."""
        b, n = ids.shape
        kept = self.most - 1
        if caches.before is None:
            nothing = torch.full((b, kept), self.vocab, device=ids.device)
            caches.before = (nothing, torch.full((b, kept), -torch.inf, dtype=torch.float64, device=ids.device))
        last, at = caches.before
        here = caches[0].upcoming(b, n, ids.device, where, real)
        places = torch.cat((at, self.places(ids, here, real, caches[0].count)), 1)
        both = torch.cat((last, ids), 1)  # b kept+n
        latest = places.topk(kept, 1).indices
        caches.before = (both.gather(1, latest), places.gather(1, latest))
        return [token[:, kept:] for token in _runs(both, places, self.most, self.vocab)]


def _set_apart(places: Tensor, documents: Tensor) -> Tensor:
    """Places of several documents on one line, with an empty place between any two.   b n, −inf stays"""
    placed = places.isfinite()
    first = places.masked_fill(~placed, torch.inf).amin()
    last = places.masked_fill(~placed, -torch.inf).amax()
    return places + documents * (last - first + 2).nan_to_num(posinf=0, neginf=0)


def _runs(ids: Tensor, places: Tensor, most: int, nothing: int) -> list[Tensor]:
    """The ids one place before each token, two places before, and so on; `nothing` from the first empty place
    on.  b n"""
    sorted_places, order = places.sort(dim=1, stable=True)
    follows = F.pad(sorted_places[:, 1:] - sorted_places[:, :-1] == 1, (1, 0))  # b n
    line, unbroken = ids.gather(1, order), torch.ones_like(follows)
    found = []
    for k in range(1, most):
        unbroken = unbroken & F.pad(follows, (k - 1, 0))[:, : ids.shape[1]]
        token = F.pad(line, (k, 0), value=nothing)[:, : ids.shape[1]].masked_fill(~unbroken, nothing)
        found.append(torch.zeros_like(ids).scatter(1, order, token))
    return found
