"""Recurrent layers: LSTM and GRU, a whole sequence in one fused call of torch for each layer.

    LSTM   i, f, o = σ(W x + U h),  g = tanh(W x + U h),  c' = f ⊙ c + i ⊙ g,  h' = o ⊙ tanh c'
    GRU    r, z = σ(W x + U h),  n = tanh(W x + r ⊙ U h),  h' = (1 − z) ⊙ n + z ⊙ h

Names, shapes and order of the weights are those of torch.nn.LSTM and torch.nn.GRU, so one loads the other's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.dropout import Dropout
from regard.errors import RegardError
from regard.nn.padding import zero_padding
from regard.shapes import expect
from regard.symmetry.groups import Shifts

# What padding adds to the gates before σ: then σ is 0 or 1 to the last bit, in every dtype.
SHUT = 1e4
GATES = {"lstm": (-1.0, 1.0, 0.0, 0.0), "gru": (0.0, 1.0, 0.0)}  # i f g o: i shut, f open; r z n: z open
RUN: dict[str, Any] = {"lstm": torch.lstm, "gru": torch.gru}

State = tuple[Tensor, ...]  # of one layer: (h, c) of an LSTM, (h,) of a GRU, each b d


class Recurrent(nn.Module):
    """A stack of LSTM or GRU layers.   b n inputs -> b n hidden, or b n 2·hidden in both directions

    Causal in one direction: output i depends on inputs up to i. Padding comes after the real tokens; there the
    gates are shut, so the state passes it unchanged, and the backward direction begins at the last real token.
    It reads order and no places, so it keeps shifts of all places.
    """

    keeps = Shifts()

    def __init__(
        self, cell: str, inputs: int, hidden: int, depth: int = 1, *, bidirectional: bool = False, dropout: float = 0.0
    ) -> None:
        super().__init__()
        if cell not in GATES:
            raise RegardError(f"cell must be one of {', '.join(GATES)}, got {cell!r}")
        if min(inputs, hidden, depth) < 1:
            sizes = f"inputs={inputs}, hidden={hidden} and depth={depth}"
            raise RegardError(f"a recurrent layer needs sizes of at least 1, got {sizes}")
        self.cell, self.inputs, self.hidden, self.depth = cell, inputs, hidden, depth
        self.bidirectional = bidirectional
        self.directions = 2 if bidirectional else 1
        self.dropout = Dropout(dropout)
        gates = len(GATES[cell])
        for layer in range(depth):
            width = hidden * self.directions if layer else inputs
            for suffix in self._suffixes(layer):
                self._add(f"weight_ih_{suffix}", gates * hidden, width)
                self._add(f"weight_hh_{suffix}", gates * hidden, hidden)
                self._add(f"bias_ih_{suffix}", gates * hidden)
                self._add(f"bias_hh_{suffix}", gates * hidden)
        self.reset_parameters()

    def _suffixes(self, layer: int) -> tuple[str, ...]:
        return (f"l{layer}", f"l{layer}_reverse")[: self.directions]

    def _add(self, name: str, *shape: int) -> None:
        self.register_parameter(name, nn.Parameter(torch.empty(*shape)))

    def reset_parameters(self) -> None:
        """As torch's own, but the forget gates of an LSTM start open (bias 1): it first remembers."""
        bound = self.hidden**-0.5
        for name, parameter in self.named_parameters():
            nn.init.uniform_(parameter, -bound, bound)
            if self.cell == "lstm" and name.startswith("bias_ih"):
                with torch.no_grad():
                    parameter[self.hidden : 2 * self.hidden].add_(1.0)

    def weights(self, layer: int) -> list[Tensor]:
        """W, U and their biases of one layer, for each direction."""
        kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        return [getattr(self, f"{kind}_{suffix}") for suffix in self._suffixes(layer) for kind in kinds]

    def forward(
        self, x: Tensor, state: Sequence[State] | None = None, real: Tensor | None = None
    ) -> tuple[Tensor, list[State]]:
        """x: b n inputs   state: of each layer, where the sequence goes on from; None: it begins
        real: bool b n, False for padding, which comes after all real tokens.
        -> outputs b n d, and the state of each layer after its last real token, both directions beside each
        other."""
        b, _, _ = expect(x, "b n inputs", name="x", inputs=self.inputs)
        begins = state is None
        if state is None:
            state = self.empty(b, x)
        ends: list[State] = []
        for layer in range(self.depth):
            if layer:
                x = self.dropout(x)
            x, end = self._run(layer, x, state[layer], real, begins)
            ends.append(end)
        return x, ends

    def empty(self, b: int, like: Tensor) -> list[State]:
        """The state before the first token: zeros."""
        dtype = self.weights(0)[0].dtype
        zeros = torch.zeros(b, self.directions * self.hidden, dtype=dtype, device=like.device)
        return [(zeros, zeros)[: 2 if self.cell == "lstm" else 1] for _ in range(self.depth)]

    def _run(self, layer: int, x: Tensor, state: State, real: Tensor | None, begins: bool) -> tuple[Tensor, State]:
        weights = self.weights(layer)
        if not torch.is_autocast_enabled(x.device.type):  # which casts by itself
            x = x.to(weights[0].dtype)
        if real is not None:
            x = torch.cat((zero_padding(x, real), (~real[..., None]).to(x.dtype)), -1)
            shut = self._shut(weights[0])
            weights = [torch.cat((w, shut), 1) if i % 4 == 0 else w for i, w in enumerate(weights)]
        first = [h.unflatten(1, (self.directions, self.hidden)).transpose(0, 1).contiguous() for h in state]
        if real is not None and self.cell == "lstm" and self.bidirectional and not begins:
            out, last = self._run_each_way(x, first, weights, real)
        else:
            out, *last = self._call(x, first, weights, self.bidirectional)
        ends = [h.transpose(0, 1).flatten(1).to(x.dtype) for h in last]  # b d
        if real is not None:
            # c is right; h is read again, because an LSTM's output gate is not shut, and torch computes the h' of a
            # GRU as (h − n) ⊙ z + n, which rounds
            ends[0] = self._last(out, state[0], real)
        return out, tuple(ends)

    def _call(self, x: Tensor, first: list[Tensor], weights: list[Tensor], both: bool) -> tuple[Tensor, ...]:
        """One call of torch.   x: b n inputs   first: each directions b hidden"""
        # torch keeps what the backward pass needs only in training
        keep = self.training or torch.is_grad_enabled()
        given = tuple(first) if self.cell == "lstm" else first[0]
        found: tuple[Tensor, ...] = RUN[self.cell](x, given, weights, True, 1, 0.0, keep, both, True)
        return found

    def _run_each_way(
        self, x: Tensor, first: list[Tensor], weights: list[Tensor], real: Tensor
    ) -> tuple[Tensor, list[Tensor]]:
        """Both directions of an LSTM with padding and a given state. Padding keeps c, but h becomes σ(o) ⊙ tanh c
        there, which is not the given h unless both are 0; so the backward direction reads the real tokens of
        each row turned round, with padding after them."""
        turn = _turn_round(real)[..., None]  # b n 1, its own inverse
        turned = x.gather(1, turn.expand_as(x))
        there = self._call(x, [h[:1] for h in first], weights[:4], False)
        back = self._call(turned, [h[1:] for h in first], weights[4:], False)
        out = torch.cat((there[0], back[0].gather(1, turn.expand_as(back[0]))), -1)
        return out, [torch.cat(ends) for ends in zip(there[1:], back[1:], strict=True)]

    def _shut(self, like: Tensor) -> Tensor:
        """What padding adds to each gate.   gates·hidden 1"""
        gates = torch.tensor(GATES[self.cell], dtype=like.dtype, device=like.device)
        return (SHUT * gates).repeat_interleave(self.hidden)[:, None]

    def _last(self, out: Tensor, first: Tensor, real: Tensor) -> Tensor:
        """The output at the last real token of each row (backward: the first), or the first state of a row
        with none.   b d"""
        length = real.sum(1)
        at = (length - 1).clamp(min=0)[:, None, None].expand(-1, 1, self.hidden)
        last = out[..., : self.hidden].gather(1, at)[:, 0]
        if self.bidirectional:
            last = torch.cat((last, out[:, 0, self.hidden :]), -1)
        return torch.where(length[:, None] > 0, last, first).to(first.dtype)

    def extra_repr(self) -> str:
        both = ", bidirectional" if self.bidirectional else ""
        return f"{self.cell}, {self.inputs}, {self.hidden}, depth={self.depth}{both}"


def _turn_round(real: Tensor) -> Tensor:
    """For each place the one it comes from if the real tokens of its row are turned round; padding stays.   b n"""
    place = torch.arange(real.shape[1], device=real.device).expand_as(real)
    return torch.where(real, real.sum(1, keepdim=True) - 1 - place, place)
