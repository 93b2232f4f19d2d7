"""Blocks and stacks: attention and MLP around a residual stream, with the norm where it was asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.approximate.approximation import Approximation
from regard.attention.biases import Bias
from regard.attention.cache import Cache
from regard.attention.dropout import Dropout
from regard.attention.mask import Mask
from regard.attention.positions import Nothing, Position
from regard.attention.weights import Weights
from regard.errors import RegardError
from regard.nn.attention import Attention
from regard.nn.drop_path import depth_schedule, with_branch
from regard.nn.mlp import make_mlp
from regard.nn.moe import Experts
from regard.nn.norm import NORMS
from regard.nn.padding import zero_padding
from regard.symmetry.groups import EVERYTHING, Group, Trivial


class Pre(nn.Module):
    """x + f(norm x): the stream itself is never normalised, so it needs a norm at the very end.

    `layer_scale` multiplies what the branch adds, channel by channel: a learned vector that begins there.
    """

    def __init__(
        self,
        norm: nn.Module,
        f: nn.Module,
        dropout: float,
        drop_path: float = 0.0,
        layer_scale: float | None = None,
        dim: int = 0,
    ) -> None:
        super().__init__()
        self.norm, self.f, self.dropout, self.drop_path = norm, f, Dropout(dropout), drop_path
        self.layer_scale: nn.Parameter | None = None
        if layer_scale is not None:
            self.layer_scale = nn.Parameter(torch.full((dim,), layer_scale))

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        def branch(x: Tensor) -> Tensor:
            return self.scaled(self.f(self.norm(x), *args, **kwargs))

        apart = not self.drop_path or same_for_all(args, kwargs)
        return with_branch(x, branch, self.drop_path, training=self.training, apart=apart)

    def beside(self, x: Tensor, onto: Tensor, **kwargs: Any) -> Tensor:
        """onto + f(norm x): what is read is not what it is added to."""

        def branch(x: Tensor) -> Tensor:
            return self.scaled(self.f(self.norm(x), **kwargs))

        apart = not self.drop_path or same_for_all((), kwargs)
        return with_branch(x, branch, self.drop_path, onto=onto, training=self.training, apart=apart)

    def scaled(self, y: Tensor) -> Tensor:
        """What a branch adds, after its dropout and its scale."""
        return self.dropout(y) if self.layer_scale is None else self.dropout(y) * self.layer_scale


class Post(nn.Module):
    """norm(α·x + f(x)), as the transformer was first built (α = 1), and as DeepNorm is with its larger α."""

    def __init__(
        self, norm: nn.Module, f: nn.Module, dropout: float, drop_path: float = 0.0, alpha: float = 1.0
    ) -> None:
        super().__init__()
        self.norm, self.f, self.dropout, self.drop_path, self.alpha = (norm, f, Dropout(dropout), drop_path, alpha)

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        def branch(x: Tensor) -> Tensor:
            return self.dropout(self.f(x, *args, **kwargs))

        apart = not self.drop_path or same_for_all(args, kwargs)
        return self.norm(
            with_branch(x, branch, self.drop_path, onto=self.alpha * x, training=self.training, apart=apart)
        )


def same_for_all(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Does a branch read the same for every example, beside the example? Masks, biases, memories and caches
    may be its own."""
    where = kwargs.get("where")
    each = args or (isinstance(where, Tensor) and where.dim() > 1 and len(where) > 1)
    return not each and all(kwargs.get(name) is None for name in ("mask", "bias", "real", "cache"))


PLACEMENTS = ("pre", "post", "deepnorm", "parallel")


def deepnorm_scales(depth: int, across: int | None = None, *, decoder: bool = False) -> tuple[float, float]:
    """DeepNet's α (of the residual) and β (of the initial weights) for a stack of `depth` blocks.

    Alone, encoder or decoder: α = (2N)^¼, β = (8N)^(−¼). In an encoder-decoder of N and M blocks: the encoder
    has α = 0.81·(N⁴M)^(1/16), β = 0.87·(N⁴M)^(−1/16), the decoder α = (3M)^¼, β = (12M)^(−¼). `across` is the
    depth of the other.
    """
    if across is None:
        return (2 * depth) ** 0.25, (8 * depth) ** -0.25
    if decoder:
        return (3 * depth) ** 0.25, (12 * depth) ** -0.25
    return 0.81 * (depth**4 * across) ** (1 / 16), 0.87 * (depth**4 * across) ** (-1 / 16)


class Block(nn.Module):
    """y = x + attend(norm x);  with a memory y += attend(norm y, memory);  out = y + mlp(norm y).
    b n d -> b n d

    (Equations for `placement="pre"`; see Pre and Post. "parallel" is x + attend(norm x) + mlp(norm x).)
    Permutation-equivariant by itself; position, bias and
    mask come with the call. `mlp` is a name of `make_mlp`, or a function that makes what looks at each token alone.
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
        mlp: str | Callable[[], nn.Module] = "gelu",
        hidden: int | None = None,
        norm: str = "layernorm",
        placement: str = "pre",
        alpha: float = 1.0,
        dropout: float = 0.0,
        drop_path: float = 0.0,
        approximate: Approximation | None = None,
        weights: Weights | None = None,
        layer_scale: float | None = None,
    ) -> None:
        super().__init__()
        if norm not in NORMS or placement not in PLACEMENTS:
            raise RegardError(
                f"norm must be one of {', '.join(NORMS)} and placement one of {', '.join(PLACEMENTS)}, "
                f"got {norm!r} and {placement!r}"
            )

        def around(f: nn.Module) -> nn.Module:
            if placement in ("pre", "parallel"):
                return Pre(NORMS[norm](dim), f, dropout, drop_path, layer_scale, dim)
            return Post(NORMS[norm](dim), f, dropout, drop_path, alpha if placement == "deepnorm" else 1.0)

        self.parallel = placement == "parallel"
        if self.parallel and memory_dim is not None:
            raise RegardError("a block with cross-attention is not parallel; use placement pre, post or deepnorm")
        if layer_scale is not None and placement not in ("pre", "parallel"):
            raise RegardError(f"layer_scale goes with placement pre or parallel, got {placement!r}")
        heads_and_more: dict[str, Any] = {
            "kv_heads": kv_heads,
            "channels": channels,
            "qk_norm": qk_norm,
            "dropout": dropout,
            "weights": weights,
        }
        self.attention = around(Attention(dim, heads, approximate=approximate, **heads_and_more))
        self.cross: nn.Module | None = None
        if memory_dim is not None:
            self.cross = around(Attention(dim, heads, memory_dim=memory_dim, **heads_and_more))
        each_token = make_mlp(mlp, dim, hidden, dropout) if isinstance(mlp, str) else mlp()
        self.routes = isinstance(each_token, Experts)
        self.mlp = around(each_token)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | tuple[Tensor, Tensor] | None = None,
        *,
        memory_real: Tensor | None = None,
        **how: Any,
    ) -> Tensor:
        """memory: b m d, or its keys and values as the cross-attention's `project` made them; b may be a part of
        the rows of x: memory i is then that of as many rows from i·rows/b on
        how: mask, bias, position, where, real, cache and asks of the self-attention (see Attention)."""
        # experts are told which tokens are padding: only real ones count in their balance
        more = {"real": how.get("real")} if self.routes else {}
        if self.parallel:
            return self.mlp.beside(x, self.attention(x, **how), **more)  # type: ignore[operator]
        x = self.attention(x, **how)
        if memory is not None:
            if self.cross is None:
                raise RegardError("this block has no cross-attention; make it with memory_dim= to give it a memory")
            x = self._cross(x, memory, memory_real)
        return self.mlp(x, **more)

    def _cross(self, x: Tensor, memory: Tensor | tuple[Tensor, Tensor], real: Tensor | None) -> Tensor:
        """Attention to the memory. Fewer memories than rows of x are each for several rows in a row, whose tokens
        are then queries of one sequence: nothing else in this layer mixes them."""
        assert self.cross is not None
        count = len(memory[0]) if isinstance(memory, tuple) else len(memory)
        if count == len(x):
            found: Tensor = self.cross(x, memory, real=real)
            return found
        return self.cross(x.reshape(count, -1, x.shape[-1]), memory, real=real).view_as(x)

    def project(self, memory: Tensor, real: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Keys and values of a memory in the cross-attention of this block."""
        assert self.cross is not None
        keys_and_values: tuple[Tensor, Tensor] = self.cross.f.project(memory, real)  # type: ignore[operator, union-attr]
        return keys_and_values


def kept_by(position: Position, bias: Bias | None) -> Group:
    """The symmetry that survives a position and a bias together."""
    if bias is None:
        return position.keeps
    # alone each keeps shifts, but the bias then reads where a query is
    if bias.reads_queries and position.turns:
        return Trivial()
    return position.keeps & bias.keeps


class Stack(nn.Module):
    """`depth` blocks, and the norm that pre-norm needs at its end.   b n d -> b n d

    `position` acts once on the tokens and in every block on queries and keys. `bias` is shared by all blocks,
    as T5's is; a function that makes one gives each block its own, as Shaw's has. Padded tokens (`real`
    False) may hold anything. With a Concatenated position x comes without the channels that it adds.
    `drop_path` is that of the last block, less the higher up (see `with_branch`). `approximate` makes what takes
    the place of exact self-attention in the block of a number. `options` are those of Block.
    """

    def __init__(
        self,
        depth: int,
        dim: int,
        heads: int,
        *,
        position: Position | None = None,
        bias: Bias | Callable[[], Bias] | None = None,
        norm: str = "layernorm",
        placement: str = "pre",
        across: int | None = None,
        memory_dim: int | None = None,
        drop_path: float = 0.0,
        approximate: Callable[[int], Approximation] | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        if depth < 1:
            raise RegardError(f"depth must be at least 1, got {depth}")
        if isinstance(position, Bias) or isinstance(bias, Position):
            raise RegardError(
                "ALiBi, Relative and Buckets are given as bias=, Rotary, Learned and Sinusoidal as position="
            )
        self.position = Nothing() if position is None else position
        self.bias: Bias | nn.ModuleList | None = (
            bias if bias is None or isinstance(bias, Bias) else nn.ModuleList(bias() for _ in range(depth))
        )
        alpha, beta = deepnorm_scales(depth, across, decoder=memory_dim is not None)
        self.blocks = nn.ModuleList(
            Block(
                dim,
                heads,
                norm=norm,
                placement=placement,
                alpha=alpha,
                memory_dim=memory_dim,
                drop_path=share,
                approximate=None if approximate is None else approximate(i),
                **options,
            )
            for i, share in enumerate(depth_schedule(drop_path, depth))
        )
        if placement in ("pre", "parallel"):
            self.norm: nn.Module = NORMS[norm](dim)
        else:
            self.norm = nn.Identity()
        if placement == "deepnorm":
            self.shrink(beta)

    def shrink(self, beta: float) -> None:
        """DeepNet's start: Xavier, with gain β for values, mixing and MLPs and gain 1 for queries and
        keys."""
        for name, parameter in self.named_parameters():
            if ".f." not in name or parameter.dim() not in (2, 3):
                continue
            gain = 1.0 if ".to_q." in name or ".to_k." in name else beta
            for matrix in parameter.detach().view(-1, *parameter.shape[-2:]):  # several of experts
                nn.init.xavier_normal_(matrix, gain=gain)

    def bias_of(self, i: int) -> Bias | None:
        """The bias of block i."""
        if isinstance(self.bias, nn.ModuleList):
            return self.bias[i]  # type: ignore[return-value]
        return self.bias

    @property
    def approximation(self) -> Approximation | None:
        """What takes the place of exact self-attention, in the first block; None: nothing does."""
        found: Approximation | None = self.blocks[0].attention.f.approximate  # type: ignore[union-attr, assignment]
        return found

    @property
    def keeps(self) -> Group:
        """What survives position and bias; a mask given to `forward` comes on top."""
        approximate = self.approximation
        if approximate is None:
            return self.exact_keeps
        # it sees turned queries and keys one by one, and not the angle between them
        if self.position.turns:
            return Trivial()
        return self.position.keeps & approximate.keeps

    @property
    def exact_keeps(self) -> Group:
        """What survives position and bias with exact attention."""
        return kept_by(self.position, self.bias_of(0))

    def forward(
        self,
        x: Tensor,
        memory: Tensor | Sequence[tuple[Tensor, Tensor]] | None = None,
        *,
        mask: Mask | None = None,
        where: Tensor | None = None,
        real: Tensor | None = None,
        memory_real: Tensor | None = None,
        caches: Sequence[Cache] | None = None,
        asks: int = 0,
    ) -> Tensor:
        """memory: b m d, or its keys and values for each block (Block.project)
        caches: one for each block; x then holds the new tokens only.
        asks: so many of the last tokens attend, and nobody attends to them; they need `where`."""
        first = 0
        x = zero_padding(x, real)
        if caches is not None:
            different = len({id(cache) for cache in caches}) if isinstance(caches, Sequence) else 0
            if different != len(self.blocks):
                raise RegardError(
                    f"each of the {len(self.blocks)} blocks needs a cache of its own, got {different}; "
                    f"use [Cache() for _ in stack.blocks]"
                )
            for cache in caches:
                cache.begin()
            first = caches[0].count
            if not asks:
                where = caches[0].upcoming(x.shape[0], x.shape[1], x.device, where, real)
        x = self.position.place(x, where, first)
        more = {"asks": asks} if asks else {}
        for i, block in enumerate(self.blocks):
            x = block(
                x,
                memory if memory is None or isinstance(memory, Tensor) else memory[i],
                memory_real=memory_real,
                mask=mask,
                bias=self.bias_of(i),
                position=self.position,
                where=where,
                real=real,
                cache=None if caches is None else caches[i],
                **more,
            )
        return self.norm(x)
