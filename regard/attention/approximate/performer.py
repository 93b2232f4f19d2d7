"""Performer: softmax attention estimated by random features, linear in the length."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from regard.attention import tap
from regard.attention.approximate.approximation import Approximation, inverse, order_of, refuse_gradients, take_tokens
from regard.attention.approximate.favor import Favor, Features, draw_features, read_on
from regard.attention.cache import Cache
from regard.attention.kernels.precision import HALF
from regard.attention.kernels.reference import heads_of
from regard.errors import RegardError
from regard.symmetry.groups import EVERYTHING, Group


class Performer(Approximation):
    """out_i = Σ_j w_ij v_j,  w_ij = φ(q_i)·φ(k_j) / Σ_j' φ(q_i)·φ(k_j').   b h n c -> b h n e

    φ are `features` positive random features (see `features`), the same for all heads. Causal: j up to i in the
    order of places. Without a position that turns q and k it commutes with permutations, exactly. `redraw` draws
    new features after so many forward passes of training; they and the count are stored.
    """

    name = "performer"
    keeps: ClassVar[Group] = EVERYTHING
    implied = "φ(q)·φ(k), normalised: those of the estimate, not softmax weights"
    wins_from: ClassVar[dict[bool, int | None]] = {False: 1024, True: 2048}
    omega: Tensor
    drawn: Tensor

    def __init__(
        self, channels: int, features: int = 256, *, redraw: int | None = None, seed: int = 0, layer: int = 0
    ) -> None:
        super().__init__()
        for given, what in ((channels, "channels"), (features, "features")):
            if given < 1:
                raise RegardError(f"{what} of a Performer must be at least 1, got {given}")
        self.features, self.redraw, self.seed, self.layer = features, redraw, seed, layer
        self.register_buffer("omega", torch.empty(features, channels))
        if redraw is not None:
            self.register_buffer("drawn", torch.zeros((), dtype=torch.long))  # forward passes of training
        self.draw()

    def draw(self, number: int = 0) -> None:
        """Features number `number` of this seed and layer."""
        if self.omega.is_meta:  # shapes alone are wanted
            return
        with torch.no_grad():
            self.omega.copy_(draw_features(*self.omega.shape, self.seed, self.layer, number))

    def count_pass(self) -> None:
        """Draw anew when it is time. What is computed again in the backward pass is no new pass."""
        if self.redraw is None or not self.training or not torch.is_grad_enabled():
            return
        if torch._C._current_graph_task_id() != -1:
            return
        self.drawn += 1
        passes = int(self.drawn)
        if passes % self.redraw == 0:
            self.draw(passes // self.redraw)

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
        self.count_pass()
        (b, h, n, c), dtype = q.shape, q.dtype
        wide = torch.float32 if dtype in HALF else dtype
        order = order_of(where, real, b, self.name) if causal else None
        seen = real
        if real is not None and order is not None:
            seen = real.gather(1, order)
        with torch.autocast(q.device.type, enabled=False):
            laid = [take_tokens(x.to(wide), order) for x in (q, heads_of(k, h), heads_of(v, h))]
            features = Features.of(self.omega.to(wide), c**-0.5)
            if cache is None:
                out = Favor.apply(*laid, features, seen, causal)
            else:
                out = self._step(laid, features, seen, where, real, cache, causal)
            out = take_tokens(out, inverse(order)).to(dtype)
        if tap.listeners and (cache is None or cache.count == n):
            self._tell(q, k, v, out, inverse(order), real, causal)
        return out

    def _step(
        self,
        laid: list[Tensor],
        features: Features,
        seen: Tensor | None,
        where: Tensor | None,
        real: Tensor | None,
        cache: Cache,
        causal: bool,
    ) -> Tensor:
        if not causal or not isinstance(cache, FeatureCache):
            raise RegardError(
                f"a performer writes step by step with Causal() and the cache of make_cache(), got "
                f"{type(cache).__name__}"
            )
        refuse_gradients(*laid)
        q, k, v = laid
        state = cache.open_sums(q.shape[0], q.shape[1], self.features, v, where, real)
        out, cache.store["state"] = read_on(q, k, v, features, seen, state)
        cache.end(q.shape[2])
        return out

    def _tell(
        self, q: Tensor, k: Tensor, v: Tensor, out: Tensor, rank: Tensor | None, real: Tensor | None, causal: bool
    ) -> None:
        omega = self.omega.detach().clone()  # it may be redrawn

        def weigh(q: Tensor, k: Tensor, rows: tap.Rows) -> Tensor:
            return performer_weights(q, k, omega.to(q.dtype), rows, rank, real, causal)

        tap.tell(tap.Implied(q, k, v, out, self.name, self.implied, weigh))

    def make_cache(self, length: int | None = None) -> FeatureCache:
        return FeatureCache()

    def extra_repr(self) -> str:
        return f"{self.omega.shape[1]} channels, {self.features} features, seed={self.seed}, layer={self.layer}"


def performer_weights(
    q: Tensor,
    k: Tensor,
    omega: Tensor,
    rows: tap.Rows = slice(None),
    rank: Tensor | None = None,
    real: Tensor | None = None,
    causal: bool = False,
) -> Tensor:
    """The definition: φ(q_i)·φ(k_j), of what may be seen, normalised. rank: place in the order of reading, b n.
    q: b h r c   k: b g m c   ->   b h r m"""
    features = Features.of(omega, q.shape[-1] ** -0.5)
    weights = features.queries(q) @ features.keys(heads_of(k, q.shape[1])).mT
    if causal:
        if rank is None:
            rank = torch.arange(k.shape[2], device=k.device)[None]
        weights = weights * (rank[:, None, None, :] <= rank[:, None, rows, None])
    if real is not None:
        weights = weights * real[:, None, None, :]
    return weights / weights.sum(-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)


class FeatureCache(Cache):
    """The past of one layer as a sum of constant size: Σ_j φ(k_j)·[v_j, 1].   b h m e+1

    New tokens must come after all before: a sum cannot say which of its parts a token may see.
    """

    def open_sums(self, b: int, h: int, features: int, v: Tensor, where: Tensor | None, real: Tensor | None) -> Tensor:
        """The sum so far. where and real: of the new tokens"""
        if "state" not in self.store:
            self.store["state"] = v.new_zeros(b, h, features, v.shape[-1] + 1)
        if where is not None:
            places = where[..., 0] if where.dim() == 3 else where.expand(b, where.shape[-1])
            self.count_on(places[..., None], real)
            self._go_on(places, real)
        return self.store["state"]

    def end(self, n: int) -> None:
        self.count += n

    def count_on(self, here: Tensor, real: Tensor | None) -> Tensor:
        b, n, _ = here.shape
        if self.seen is None:
            self.seen = torch.full((b,), self.count, device=here.device)
        if real is None:
            real = torch.ones(b, n, dtype=torch.bool, device=here.device)
        self.seen = self.seen + real.sum(1)
        return real

    def _go_on(self, places: Tensor, real: Tensor | None) -> None:
        places = places.double()
        if real is None:
            real = torch.ones_like(places, dtype=torch.bool)
        last = self.store.get("last")
        if last is None:
            last = torch.full_like(places[:, :1], self.count - 1.0)
        if (places.masked_fill(~real, torch.inf).amin(1, keepdim=True) <= last).any():
            raise RegardError(
                "a performer's cache is a sum over the past: new tokens must have places after those before"
            )
        newest = places.masked_fill(~real, -torch.inf).amax(1, keepdim=True)
        self.store["last"] = torch.maximum(last, newest)
