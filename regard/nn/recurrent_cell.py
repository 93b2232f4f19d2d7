"""One step of recurrent layers, for loops in which each step reads what the one before made."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.nn.recurrent import Recurrent, State


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
