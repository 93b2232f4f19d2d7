"""Linformer: keys and values are projected along the sequence to a fixed number, which exact attention then reads."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from regard.attention import tap
from regard.attention.approximate.approximation import Approximation, first_axis
from regard.attention.attend import validate
from regard.attention.cache import Cache
from regard.attention.kernels.choose import choose
from regard.attention.kernels.reference import Terms, attention_weights
from regard.attention.places import sides
from regard.errors import RegardError
from regard.symmetry.groups import Group, Trivial


class Linformer(Approximation):
    """out_i = Σ_p w_ip (F v)_p,  w_i = softmax over p of c^(−½)·q_i·(E k)_p,  p = 1 … `projected`.   b h n c -> b h n e

    E and F are learned, for places 0 … `places` − 1, and shared by all heads. They mix places before the softmax:
    there is no causal form, and nothing is kept, not even shifts. A token without a place has a column of its own.
    """

    name = "linformer"
    keeps: ClassVar[Group] = Trivial()
    implied = "softmax over projected keys, each a learned mixture of all tokens: not weights of tokens"
    wins_from: ClassVar[dict[bool, int | None]] = {False: 512, True: None}

    def __init__(self, places: int, projected: int = 64) -> None:
        super().__init__()
        for given, what in ((places, "places"), (projected, "projected")):
            if given < 1:
                raise RegardError(f"{what} of a Linformer must be at least 1, got {given}")
        self.places, self.projected = places, projected
        self.of_keys = nn.Parameter(torch.randn(projected, places + 1) * places**-0.5)  # E
        self.of_values = nn.Parameter(torch.randn(projected, places + 1) * places**-0.5)  # F

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        causal: bool = False,
        where: Tensor | None = None,
        real: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        if causal or cache is not None:
            raise RegardError(
                "linformer mixes all places before the softmax, so it has no causal form and no cache; use "
                "performer, lsh, bigbird or window where tokens may not see the future"
            )
        columns = self._columns(q.shape[0], q.shape[2], where)
        keys = self._project(self.of_keys, columns, real, k)
        values = self._project(self.of_values, columns, real, v)
        q, keys, values, terms = validate(q, keys, values, None, None, None, None, 0.0)
        with torch.autocast(q.device.type, enabled=False):
            out: Tensor = choose(q, keys, values, terms).kernel(q, keys, values, terms)
        if tap.listeners:
            tap.tell(tap.Implied(q, keys, values, out, self.name, self.implied, _weigh, itself=False))
        return out

    def _columns(self, b: int, n: int, where: Tensor | None) -> Tensor | slice:
        """Which column of E and F belongs to each token.   -> b|1 n, or a slice"""
        places = first_axis(where, self.name)
        if places is None:
            if n > self.places:
                self._refuse(n - 1)
            return slice(0, n)
        if places.is_floating_point():
            places = places.nan_to_num(nan=float(self.places + 1))  # a token without a place: the last column
            lost = places == self.places + 1
            places = places.long().masked_fill(lost, self.places)
        else:
            lost = torch.zeros_like(places, dtype=torch.bool)
        if not torch.compiler.is_compiling():
            outside = ~lost & ((places < 0) | (places >= self.places))
            if outside.any():
                self._refuse(int(places[outside][0]))
        return places

    def _refuse(self, place: int) -> None:
        raise RegardError(
            f"place {place} is outside the {self.places} that linformer has learned (from 0 on); use a longer "
            f"context, or an attention that knows no length"
        )

    def _project(self, matrix: Tensor, columns: Tensor | slice, real: Tensor | None, x: Tensor) -> Tensor:
        """Padding is in no mixture.   b g n c -> b g p c"""
        if isinstance(columns, slice):
            mixing = matrix[:, columns][None]
        else:
            mixing = matrix[:, columns].transpose(0, 1)  # b|1 p n
        if real is not None:
            mixing = mixing * real[:, None]
        return mixing[:, None].to(x.dtype) @ x

    def extra_repr(self) -> str:
        return f"{self.places} places, {self.projected} projected"


def _weigh(q: Tensor, k: Tensor, rows: tap.Rows) -> Tensor:
    here, there = sides(None, q.shape[2], k.shape[2], q.shape[0], q.device)
    return attention_weights(q, k, Terms(here, there, None, None, q.shape[-1] ** -0.5, 0.0))
