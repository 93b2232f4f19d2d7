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

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.additive_attention import StepwiseMix
from regard.attention.masks import Padding
from regard.nn.recurrent import Recurrent, State

# ── one step of recurrent layers, for loops in which each step reads what the one before made


class RecurrentCells:
    """The layers of a `Recurrent` whose inputs [x_t; fed_t] come in two parts: x is known for all steps.

    What x adds to the gates is computed for all steps at once. The gates are those of torch.nn.LSTM and GRU.
    """

    def __init__(self, layers: Recurrent, x: Tensor) -> None:
        """x: b n d, the first d of the layers' inputs"""
        self.layers, width = layers, x.shape[-1]
        self.weights = [layers.weights(i) for i in range(layers.depth)]
        w, u, b, b_state = self.weights[0]
        self.lstm = layers.cell == "lstm"
        self.of_fed = w[:, width:]
        if self.lstm:
            # one matrix for what is fed and for the state
            self.first = torch.cat((self.of_fed, u), 1).t()
            b = b + b_state
        self.given = F.linear(x, w[:, :width], b).unbind(1)  # n of b gates

    def step(self, t: int, fed: Tensor, state: Sequence[State]) -> list[State]:
        """The states of all layers after step t.  fed: b d"""
        given, h = self.given[t], state[0][0]
        if self.lstm:
            gates = torch.addmm(given, torch.cat((fed, h), 1).to(given.dtype), self.first.to(given.dtype))
            now: list[State] = [_lstm(gates, state[0][1])]
        else:
            _, u, _, b = self.weights[0]
            now = [_gru(given + F.linear(fed, self.of_fed), F.linear(h, u, b), h)]
        for i in range(1, self.layers.depth):
            x = self.layers.dropout(now[-1][0])
            w, u, b, b_state = self.weights[i]
            if self.lstm:
                h, c = state[i]
                now.append(_lstm(F.linear(x, w, b) + F.linear(h, u, b_state), c))
            else:
                (h,) = state[i]
                now.append(_gru(F.linear(x, w, b), F.linear(h, u, b_state), h))
        return now


def _lstm(gates: Tensor, c: Tensor) -> State:
    i, f, g, o = gates.chunk(4, 1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def _gru(of_input: Tensor, of_state: Tensor, h: Tensor) -> State:
    r, z, n = of_input.chunk(3, 1)
    of_r, of_z, of_n = of_state.chunk(3, 1)
    r, z = torch.sigmoid(r + of_r), torch.sigmoid(z + of_z)
    n = torch.tanh(n + r * of_n)
    return (n + z * (h - n),)


# ── scores of a recurrent decoder's attention: how well its state s fits each state m_j of the memory
#
#     dot        sᵀ m_j                        Luong
#     general    sᵀ W m_j                      Luong
#     additive   vᵀ tanh(W s + U m_j)          Bahdanau
#
# What depends on the memory alone is computed once (`keys`).


class Dot(nn.Module):
    """sᵀ m_j.   s b n d, m b m d -> b n m"""

    def __init__(self, dim: int) -> None:
        super().__init__()

    def keys(self, memory: Tensor) -> Tensor:
        return memory

    def forward(self, s: Tensor, keys: Tensor) -> Tensor:
        return s @ keys.transpose(1, 2)


class General(nn.Module):
    """sᵀ W m_j.   s b n d, m b m d -> b n m"""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.linear = nn.Linear(dim, dim, bias=False)

    def keys(self, memory: Tensor) -> Tensor:
        return self.linear(memory)

    def forward(self, s: Tensor, keys: Tensor) -> Tensor:
        return s @ keys.transpose(1, 2)


class Additive(nn.Module):
    """vᵀ tanh(W s + U m_j).   s b n d, m b m d -> b n m

    It needs no bias after v: it would add the same to all scores of a query, and cancel.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.of_state = nn.Linear(dim, dim, bias=False)
        self.of_memory = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, 1, bias=False)

    def keys(self, memory: Tensor) -> Tensor:
        return self.of_memory(memory)

    def forward(self, s: Tensor, keys: Tensor) -> Tensor:
        return self.v(torch.tanh(self.of_state(s)[:, :, None] + keys[:, None]))[..., 0]


SCORES: dict[str, Callable[[int], nn.Module]] = {"dot": Dot, "general": General, "additive": Additive}


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
        self, x: Tensor, state: Sequence[State], fed: Tensor | None, real: Tensor | None, look: StepwiseMix
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
