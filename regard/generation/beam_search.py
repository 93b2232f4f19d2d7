"""Beam search: the most probable sequences, for many rows at once, over any model that can be asked step by step.

A search knows three functions and no model:

    start() -> logits s v                the first token of each of s rows (a sentence, a prompt)
    step(tokens r) -> logits r v         one more token in each of the r sequences that go on
    reorder(rows r)                      from now on sequence i goes on from sequence rows[i]; r may change

Each row is searched by itself: what comes out for it does not depend on the rows beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from regard.errors import RegardError

PIECE = 1 << 17  # numbers that stay in the cache while they are worked on
RUN = 64  # tokens of which first the largest alone is looked at


class Hypothesis(NamedTuple):
    """One sequence that was found. score = logp / length^length_penalty; the end token counts as a token."""

    score: float
    ids: list[int]  # new tokens, with the end token where there is one
    logp: float  # Σ log p


class _Path(NamedTuple):
    """A sequence that goes on: its last token, and what came before."""

    token: int
    before: _Path | None
    logp: float

    def ids(self) -> list[int]:
        ids = [self.token]
        path = self.before
        while path is not None:
            ids.append(path.token)
            path = path.before
        return ids[::-1]


class _Row:
    """The search of one row."""

    def __init__(self, beams: int, n_best: int, max_new: int, penalty: float) -> None:
        self.beams, self.n_best, self.max_new, self.penalty = beams, n_best, max_new, penalty
        self.running: list[_Path | None] = [None]
        self.finished: list[Hypothesis] = []

    def go_on(
        self, candidates: Sequence[tuple[float, int, int]], length: int, ended: Callable[[int, _Path], bool]
    ) -> list[int]:
        """Choose among (sum, sequence, token), the best first, which sequences go on.  -> the one each goes on
        from"""
        parents: list[int] = []
        running: list[_Path | None] = []
        for rank, (logp, parent, token) in enumerate(candidates):
            if logp == -torch.inf:
                break
            path = _Path(token, self.running[parent], logp)
            if length == self.max_new or ended(token, path):
                # what ended counts only among the best: the others are there to fill up
                if rank < self.beams:
                    self.finished.append(Hypothesis(logp / length**self.penalty, path.ids(), logp))
            elif len(running) < self.beams:
                running.append(path)
                parents.append(parent)
        # (sorting is stable: of equals the one that ended first)
        self.finished = sorted(self.finished, key=lambda found: -found.score)[: self.n_best]
        self.running = running
        if self._is_done(length):
            self.running = []
            return []
        return parents

    def _is_done(self, length: int) -> bool:
        """Can nothing that goes on still become better than the n best? Sums only fall, so the most that a
        sequence can reach is its sum over the largest power of a length that it may get."""
        if not self.running or len(self.finished) < self.n_best:
            return not self.running
        best = self.running[0]
        assert best is not None
        longest = self.max_new if self.penalty > 0 else length
        return self.finished[-1].score >= best.logp / longest**self.penalty


def beam_search(
    start: Callable[[], Tensor],
    step: Callable[[Tensor], Tensor],
    reorder: Callable[[Tensor], None],
    *,
    beams: int,
    max_new: int | Sequence[int],
    end: int | None = None,
    ended: Callable[[list[int]], bool] | None = None,
    length_penalty: float = 1.0,
    n_best: int = 1,
) -> list[list[Hypothesis]]:
    """The `n_best` sequences found for each row, the best first.

    beams           each step goes on with so many of the likeliest sequences of a row; 1: greedy search
    max_new         the most tokens, for all rows or for each
    end             the id that ends a sequence; ended: any other rule, asked with the new ids
    length_penalty  α of Σ log p / length^α: 0 prefers short sequences, 1 is the mean, more prefers long ones

    A row is over when nothing that goes on can become better than its n best: so asking for more sequences, or
    for other rows beside it, never changes the best. Nothing is computed for rows that are over.
    """
    _check(beams, n_best, length_penalty)
    logits = start()
    count = len(logits)
    longest = [max_new] * count if isinstance(max_new, int) else list(max_new)
    if len(longest) != count or min(longest, default=1) < 1:
        raise RegardError(f"max_new must be at least 1, for all or each of {count} rows, got {max_new}")
    rows = [_Row(beams, n_best, each, length_penalty) for each in longest]
    going = list(range(count))  # the rows that are not over
    of = torch.arange(count)  # the place in `going` of each sequence
    sums = torch.zeros(count, dtype=torch.float64)
    # two for each beam: even if half of them end here, enough go on (one beam takes the best, and that is all)
    wide = 1 if beams == 1 else 2 * beams

    def is_over(token: int, path: _Path) -> bool:
        return token == end or (ended is not None and ended(path.ids()))

    for length in range(1, max(longest, default=0) + 1):
        found = _best(logits, sums, of, len(going), wide)
        parents: list[int] = []
        tokens: list[int] = []
        kept: list[float] = []
        size: list[int] = []
        first = 0  # number of the first sequence of the row
        for row, candidates in zip([rows[i] for i in going], found, strict=True):
            sequences = len(row.running)
            parents += [first + parent for parent in row.go_on(candidates, length, is_over)]
            tokens += [path.token for path in row.running if path is not None]
            kept += [path.logp for path in row.running if path is not None]
            size.append(len(row.running))
            first += sequences
        going = [i for i, left in zip(going, size, strict=True) if left]
        if not going:
            break
        of = torch.arange(len(going)).repeat_interleave(torch.tensor([left for left in size if left]))
        if parents != list(range(first)):
            reorder(torch.tensor(parents))
        logits, sums = step(torch.tensor(tokens)), torch.tensor(kept, dtype=torch.float64)
    return [row.finished for row in rows]


def _best(logits: Tensor, sums: Tensor, of: Tensor, count: int, wide: int) -> list[list[tuple[float, int, int]]]:
    """The best continuations of each row: (sum of log p, which of its sequences, token).   logits r v"""
    k = min(wide, logits.shape[-1])
    values, indices = _top(logits, k)  # no row can give more than k of the k best
    largest = values[:, :1]
    scale = _log_sum(logits, largest)
    _check_logits(largest, scale)
    logs = torch.where(values == -torch.inf, -torch.inf, values.double() - scale.double())
    totals = logs.cpu() + sums[:, None]
    # sequences of one row are beside each other: number them within the row
    number = torch.arange(len(of)) - torch.searchsorted(of, of)
    most = int(number.max()) + 1
    table = torch.full((count, most, k), -torch.inf, dtype=torch.float64)
    ids = torch.zeros(count, most, k, dtype=torch.long)
    table[of, number], ids[of, number] = totals, indices.cpu()
    top = table.flatten(1).topk(min(wide, most * k), -1)
    tokens = ids.flatten(1).gather(1, top.indices)
    each = zip(top.values.tolist(), (top.indices // k).tolist(), tokens.tolist(), strict=True)
    return [list(zip(*columns, strict=True)) for columns in each]


def _log_sum(logits: Tensor, largest: Tensor) -> Tensor:
    """log Σ e^logit, some rows at a time, so that what is written is read again from the cache.   r v -> r 1"""
    size = max(1, PIECE // logits.shape[1])
    found = torch.empty_like(largest)
    for first in range(0, len(logits), size):
        rows = slice(first, first + size)
        found[rows] = (logits[rows] - largest[rows]).exp_().sum(-1, keepdim=True)
    return found.log_().add_(largest)


def _top(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest of each row, the largest first, and their places.   r v -> r k, r k

    torch's topk sorts pairs of numbers and places. Of a large vocabulary it is asked only for the runs of tokens
    with the k largest maxima, which hold all that is wanted.
    """
    runs = logits.shape[1] // RUN
    if logits.device.type != "cpu" or runs < 2 * k:
        return logits.topk(k, -1)
    whole = logits[:, : runs * RUN].unflatten(1, (runs, RUN))  # r runs RUN
    chosen = whole.amax(-1).topk(k, -1).indices  # r k
    near = whole.gather(1, chosen[..., None].expand(-1, -1, RUN)).flatten(1)
    rest = logits[:, runs * RUN :]
    values, within = torch.cat((near, rest), 1).topk(k, -1)
    run = chosen.gather(1, (within // RUN).clamp(max=k - 1))
    places = torch.where(within < k * RUN, run * RUN + within % RUN, within - k * RUN + runs * RUN)
    return values, places


def _check_logits(largest: Tensor, scale: Tensor) -> None:
    """Raise if logits are no numbers. −inf is a token that cannot come; where nothing can come, a row ends."""
    if not bool(((scale < torch.inf) | (largest == -torch.inf)).all()):
        raise RegardError(
            "the logits of the model are NaN or infinite: its training diverged; train it again with a "
            "smaller --train.lr"
        )


def _check(beams: int, n_best: int, length_penalty: float) -> None:
    if beams < 1 or n_best < 1:
        raise RegardError(f"beams and n_best must be at least 1, got beams={beams} and n_best={n_best}")
    if n_best > beams:
        raise RegardError(f"{beams} beams cannot give the {n_best} best; use beams={n_best} or more")
    if not length_penalty >= 0 or length_penalty == float("inf"):
        raise RegardError(f"length_penalty must be a number, 0 or more, got {length_penalty}")
