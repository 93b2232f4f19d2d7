"""Multi-head attention as a layer: project, turn, attend, project back. Cross-attention is the same class
with a memory."""

from __future__ import annotations

from torch import Tensor, nn

from regard.attention.approximate.approximation import Approximation, is_causal
from regard.attention.attend import attend
from regard.attention.biases import Bias
from regard.attention.cache import Cache, WindowCache
from regard.attention.mask import Mask
from regard.attention.masks import Padding
from regard.attention.places import Where
from regard.attention.positions import Nothing, Position
from regard.attention.weights import Weights
from regard.errors import RegardError
from regard.nn.linear import Linear
from regard.nn.norm import RMSNorm
from regard.nn.padding import zero_padding
from regard.shapes import expect
from regard.symmetry.groups import EVERYTHING

NOTHING = Nothing()


class Attention(nn.Module):
    """out = mix(attend(turn(to_q x), turn(to_k y), to_v y)), with y = x, or y = memory in cross-attention.
    b n d -> b n d

    It holds the projections only. What tells order (mask, bias, position, where) comes with each call, as for
    `attend`, so the layer itself is permutation-equivariant. `kv_heads` < `heads` shares keys and values
    among groups of heads. `channels` are those of each head, d / heads unless given. `qk_norm` gives queries
    and keys a fixed length times a learned scale, so that scores cannot grow without bound. `approximate` takes
    the place of `attend`, `weights` that of softmax.
    """

    keeps = EVERYTHING

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        kv_heads: int | None = None,
        channels: int | None = None,
        memory_dim: int | None = None,
        qk_norm: bool = False,
        dropout: float = 0.0,
        offset: bool = True,
        approximate: Approximation | None = None,
        weights: Weights | None = None,
    ) -> None:
        super().__init__()
        if kv_heads is None:
            kv_heads = heads
        if heads < 1 or (channels is None and dim % heads):
            fits = dim + heads - dim % heads if heads >= 1 else dim
            raise RegardError(
                f"dim must be a multiple of heads, got dim={dim} and heads={heads}; the next one that fits "
                f"is dim={fits}"
            )
        if kv_heads < 1 or heads % kv_heads:
            raise RegardError(f"kv_heads must divide heads, got kv_heads={kv_heads} and heads={heads}")
        if not 0.0 <= dropout < 1.0:
            raise RegardError(f"dropout must be at least 0 and less than 1, got {dropout}")
        if channels is None:
            channels = dim // heads
        self.dim, self.heads, self.kv_heads, self.dropout = dim, heads, kv_heads, dropout
        self.memory_dim = dim if memory_dim is None else memory_dim
        self.to_q = Linear(dim, heads * channels, bias=offset)
        self.to_k: nn.Module = Linear(self.memory_dim, kv_heads * channels, bias=offset)
        self.to_v = Linear(self.memory_dim, kv_heads * channels, bias=offset)
        self.mix = Linear(heads * channels, dim, bias=offset)
        if qk_norm:
            self.norm_q: nn.Module = RMSNorm(channels)
            self.norm_k: nn.Module = RMSNorm(channels)
        else:
            self.norm_q = nn.Identity()
            self.norm_k = nn.Identity()
        self.approximate, self.weights = approximate, weights
        if approximate is not None and approximate.shares_keys:
            if kv_heads != heads:
                raise RegardError(
                    f"{approximate.name} makes keys of the queries, so kv_heads must be heads={heads}, got "
                    f"kv_heads={kv_heads}"
                )
            self.to_k, self.norm_k = nn.Identity(), nn.Identity()

    def project(self, memory: Tensor, real: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Keys and values of a memory, which `forward` takes in its stead: for one that is read again and
        again.   b m d' -> b g m c, b g m c"""
        return self._project(zero_padding(memory, real))

    def _project(self, source: Tensor) -> tuple[Tensor, Tensor]:
        k = self.to_k(source).unflatten(-1, (self.kv_heads, -1))  # b m g c
        v = self.to_v(source).unflatten(-1, (self.kv_heads, -1))
        k = self.norm_k(k).to(v.dtype)  # autocast leaves norms in float32
        return k.transpose(1, 2), v.transpose(1, 2)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | tuple[Tensor, Tensor] | None = None,
        *,
        mask: Mask | None = None,
        bias: Bias | None = None,
        position: Position = NOTHING,
        where: Where = None,
        real: Tensor | None = None,
        cache: Cache | None = None,
        asks: int = 0,
    ) -> Tensor:
        """x: b n d   memory: b m d', or what `project` made of it   mask, bias, where: as in `attend`
        real: bool, which keys are no padding (b m)

        With a cache, x holds the new tokens only, and `where` and `real` are theirs. The last `asks` tokens
        only ask: they attend to the others, and nobody attends to them (`where` and `real` are of all n).
        """
        if self.approximate is not None:
            if memory is not None or bias is not None or isinstance(where, tuple):
                raise RegardError(
                    f"{self.approximate.name} is self-attention over one sequence and takes no bias; "
                    f"use exact attention for a memory or a bias"
                )
            out = self._approximate(self.approximate, zero_padding(x, real), mask, position, where, real, cache)
            return self.mix(out.transpose(1, 2).flatten(2))
        if memory is None:
            x = zero_padding(x, real)
        b, n, _ = expect(x, "b n d", name="x", d=self.dim)
        q = self.to_q(x).unflatten(-1, (self.heads, -1))  # b n h c
        if isinstance(memory, tuple):
            k, v = memory
        else:
            source = x if memory is None else zero_padding(memory, real)
            if asks:
                source = source[:, : n - asks]
            expect(source, "b m d", name="memory", b=b, d=self.memory_dim)
            k, v = self._project(source)
        q, m = self.norm_q(q).to(v.dtype).transpose(1, 2), k.shape[2]  # b h n c
        if asks:
            where, real = _places_of_keys(where, n - asks), None if real is None else real[:, : n - asks]
        if cache is None:
            here, there, first = _places(where, n, m)
            q, k = position.turn(q, here, first), position.turn(k, there)
            mask = _with_padding(mask, real)
        else:
            if memory is not None or (isinstance(where, tuple) and not asks):
                raise RegardError("a cache is for self-attention: give it new tokens and one `where`, and no memory")
            _check_cache(cache, mask)
            here, of_keys = where if isinstance(where, tuple) else (None, where)
            first, upcoming = cache.count, cache.upcoming(b, m, x.device, of_keys, real)
            q = position.turn(q, upcoming if here is None else here, first)
            past = cache.add(position.turn(k, upcoming, first), v, upcoming, real)
            k, v, where, mask = past.k, past.v, past.where, past.mask(mask)
            if here is not None:
                assert isinstance(where, tuple)
                where = (here, where[1])
        dropout = self.dropout if self.training else 0.0
        out = attend(q, k, v, mask=mask, bias=bias, where=where, dropout=dropout, weights=self.weights)
        return self.mix(out.transpose(1, 2).flatten(2))  # b n d

    def _approximate(
        self,
        approximate: Approximation,
        x: Tensor,
        mask: Mask | None,
        position: Position,
        where: Tensor | None,
        real: Tensor | None,
        cache: Cache | None,
    ) -> Tensor:
        """What `attend` would give, or nearly.   b n d -> b h n c"""
        b, n, _ = expect(x, "b n d", name="x", d=self.dim)
        first = 0
        if cache is not None:
            first, where = cache.count, cache.upcoming(b, n, x.device, where, real)
        q = self.to_q(x).unflatten(-1, (self.heads, -1))  # b n h c
        if approximate.shares_keys:
            v = self.to_v(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            k = q = position.turn(self.norm_q(q).to(v.dtype).transpose(1, 2), where, first)
        else:
            k, v = self._project(x)
            q = position.turn(self.norm_q(q).to(v.dtype).transpose(1, 2), where, first)
            k = position.turn(k, where, first)
        causal = is_causal(mask, approximate.name)
        return approximate(q, k, v, causal=causal, where=where, real=real, cache=cache)


def _places(where: Where, n: int, m: int) -> tuple[Tensor | None, Tensor | None, int]:
    """Places of queries and of keys, and the first place of a query when they are consecutive."""
    if where is None:
        return None, None, m - n
    if isinstance(where, Tensor):
        if m == n:
            return where, where, 0  # the same tensor, by which positions know that they were asked before
        return where[m - n :] if where.dim() == 1 else where[:, m - n :], where, 0
    return where[0], where[1], 0


def _places_of_keys(where: Where, keys: int) -> tuple[Tensor, Tensor]:
    """Places of all tokens, and of the first `keys` of them, the others of which only ask."""
    if not isinstance(where, Tensor):
        raise RegardError("tokens that only ask need places: give `where` as one tensor for all tokens")
    return where, where[:keys] if where.dim() == 1 else where[:, :keys]


def _check_cache(cache: Cache, mask: Mask | None) -> None:
    """Raise where a mask means something else with a cache, or needs what the cache forgets."""
    if mask is not None and any(isinstance(part, Padding) and part.by_length for part in mask.parts()):
        raise RegardError(
            "lengths in a Padding do not say which slots of a cache are real; give real= with the new tokens"
        )
    if isinstance(cache, WindowCache) and (mask is None or mask.farthest > cache.reach):
        raise RegardError(
            f"the cache forgets what is farther than {cache.reach}, but the mask looks farther; "
            f"use a mask such as Causal() & Window({cache.reach}), or Cache()"
        )


def _with_padding(mask: Mask | None, real: Tensor | None) -> Mask | None:
    """The mask, and only what is real."""
    if real is None:
        return mask
    if mask is None:
        return Padding(real)
    return mask & Padding(real)
