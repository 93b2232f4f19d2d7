"""A recurrent decoder that attends to a memory at every step.

    dot, general   s_t = cell(y_t, s_(t−1)), scores with s_t                          Luong
    with `feed`    s_t = cell([y_t; o_(t−1)], s_(t−1)), scores with s_t               Luong's input feeding
    additive       scores with s_(t−1), context c_t, s_t = cell([y_t; c_t], s_(t−1))  Bahdanau
    none           s_t = cell(y_t, s_(t−1)) alone, o_t = s_t                          Sutskever
    o_t = tanh(W [c_t; s_t]), which the head reads

Without feeding, all steps are one fused call and one call of attention. With feeding and with additive scores a
step needs the one before, so there is a loop over the target; what does not depend on the step is outside it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regard.attention.additive_attention import StepwiseMix
from regard.attention.masks import Padding
from regard.nn.recurrent import Recurrent, State
from regard.nn.recurrent_cell import RecurrentCells
from regard.nn.score import SCORES


class RecurrentDecoder(nn.Module):
    """Recurrent layers with attention to a memory.   b n d, memory b m d -> b n d

    score: one of SCORES, or "none" for no attention. Causal: output i depends on inputs up to i and on the memory.
    """

    def __init__(
        self, cell: str, dim: int, depth: int, *, score: str, feed: bool = False, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.before = score == "additive"  # it scores with the state before the step, and feeds the context
        self.fed = feed or self.before
        self.layers = Recurrent(cell, 2 * dim if self.fed else dim, dim, depth, dropout=dropout)
        self.score: nn.Module | None = None
        if score in SCORES:
            self.score = SCORES[score](dim)
            self.combine = nn.Linear(2 * dim, dim, bias=False)

    def prepare(self, memory: Tensor) -> dict[str, Tensor]:
        """What depends on the memory alone: the keys.   b m d -> b m d"""
        if self.score is None:
            return {}
        return {"keys": self.score.keys(memory)}  # type: ignore[operator]

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        keys: Tensor | None,
        state: Sequence[State],
        *,
        fed: Tensor | None = None,
        real: Tensor | None = None,
        memory_real: Tensor | None = None,
    ) -> tuple[Tensor, list[State], Tensor | None]:
        """x: b n d   keys: from `prepare`   state: where the layers go on from   fed: from an earlier call
        real, memory_real: bool b n and b m, False for padding, which comes last
        -> outputs b n d, the state after the last real token, and what is fed next"""
        if self.score is None:
            out, ends = self.layers(x, state, real)
            return out, ends, None
        assert keys is not None
        mask = None if memory_real is None else Padding(memory_real)
        look = StepwiseMix(self.score, keys, memory, mask)
        if self.fed:
            return self._loop(x, state, fed, real, look)
        s, ends = self.layers(x, state, real)
        context = look(s)
        look.end()
        return self._combine(context, s), ends, None

    def _combine(self, context: Tensor, s: Tensor) -> Tensor:
        return torch.tanh(self.combine(torch.cat((context, s), -1)))

    def _loop(
        self,
        x: Tensor,
        state: Sequence[State],
        fed: Tensor | None,
        real: Tensor | None,
        look: StepwiseMix,
    ) -> tuple[Tensor, list[State], Tensor]:
        """Step by step, because each reads what the one before made."""
        cells = RecurrentCells(self.layers, x)
        now = list(state)
        fed = torch.zeros_like(state[-1][0]) if fed is None else fed
        contexts: list[Tensor] = []
        tops: list[Tensor] = []
        for t in range(x.shape[1]):
            old, old_fed = now, fed
            if self.before:
                fed = look(now[-1][0][:, None])[:, 0]
                contexts.append(fed)
            now = cells.step(t, fed, now)
            top = now[-1][0]
            if not self.before:
                top = fed = self._combine(look(top[:, None])[:, 0], top)
            tops.append(top)
            if real is not None:  # a row that has ended keeps its state
                there = real[:, t, None]
                now = [_choose(there, *each) for each in zip(now, old, strict=True)]
                fed = torch.where(there, fed, old_fed)
        look.end()
        out = torch.stack(tops, 1)
        if self.before:
            out = self._combine(torch.stack(contexts, 1), out)
        return out, now, fed


def _choose(there: Tensor, new: State, old: State) -> State:
    return tuple(torch.where(there, one, two) for one, two in zip(new, old, strict=True))
