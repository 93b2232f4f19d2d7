"""Swin: attention within windows, which are shifted from block to block so that neighbours meet. Cost is
linear in the image.

A window is some tokens in a certain order, so cutting is one gather and putting together another; a shift is
only another order. Tokens that a shifted window brings together over the border of the image may not see
each other. Which they are follows from where they really are: what is farther apart than a window is wide
came around the border.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from regard.attention.biases import Offsets
from regard.attention.dropout import Dropout
from regard.attention.masks import Dense, Window
from regard.attention.places import Side
from regard.config import Amount, Count, Depth, Share, Size, Width, config
from regard.errors import RegardError
from regard.models.image_model import ImageModel, make_head
from regard.models.registered_model import Options
from regard.models.vit import check_patch
from regard.nn.attention import Attention
from regard.nn.drop_path import depth_schedule, with_branch
from regard.nn.embed import PatchEmbedding, grid_places
from regard.nn.linear import Linear
from regard.nn.mlp import make_mlp
from regard.nn.norm import LayerNorm
from regard.shapes import expect_images
from regard.symmetry.roles import Roles


@config
class SwinConfig:
    """A Swin Transformer."""  # as the paper has it: the defaults are Swin-Tiny; recipes have their own

    classes: Annotated[int, Field(ge=0, le=2**16)]  # 0: no head, the features themselves
    colours: Count = 3  # channels of an image
    size: Size = 224  # the sides of images in training; others are taken, too
    patch: Count = 4  # the sides of a patch, in pixels
    dim: Width = 96  # width of the first stage; twice as many in each that follows
    # blocks of each stage; sides are halved between them
    depths: Annotated[tuple[Depth, ...], Field(min_length=1)] = (2, 2, 6, 2)
    heads: tuple[Count, ...] = (3, 6, 12, 24)  # of attention, in each stage
    window: Count = 7  # the sides of a window, in tokens
    ratio: Count = 4  # channels inside an MLP, times its width
    mlp: Literal["relu", "gelu", "relu2", "swiglu"] = "gelu"
    dropout: Share = 0.0  # share of weights, hidden channels and branches dropped in training
    # stochastic depth: the share of images that skip the last block in training; earlier blocks less
    drop_path: Share = 0.0
    # what norms of the blocks and the last one add to the variance (others: 1e-5, as in Swin's own code)
    eps: Amount | None = None

    def __post_init__(self) -> None:
        check_patch(self)
        if len(self.depths) != len(self.heads):
            raise RegardError(
                f"each stage has a depth and a number of heads, got depths={self.depths} and heads={self.heads}"
            )
        for stage, heads in enumerate(self.heads):
            dim = self.dim * 2**stage
            if dim % heads:
                raise RegardError(f"must divide widths, and stage {stage} is {dim} wide, got {heads}", option="heads")


# ---- windows


class Windows(NamedTuple):
    """How a grid of tokens is cut into windows."""

    side: int  # of a window, in tokens
    # the token that goes into each slot, window by window; the number of tokens itself for a slot that is
    # empty
    into: Tensor
    back: Tensor  # the slot that each token went into
    places: Tensor  # row and column in a window: 1 n 2
    allowed: Tensor | None  # windows n n: which pairs were neighbours before the shift; None: all


def windows(height: int, width: int, side: int, shift: int, device: torch.device) -> Windows:
    """Windows of a grid whose sides are filled up to multiples of a window's. A grid that one window covers
    is not shifted."""
    if min(height, width) <= side:
        side, shift = min(height, width), 0
    tall, wide = height + -height % side, width + -width % side
    numbers = torch.arange(height * width, device=device).view(height, width)
    numbers = F.pad(numbers, (0, wide - width, 0, tall - height), value=height * width)
    into = _slots(numbers.roll((-shift, -shift), (0, 1)), side)
    back = into.flatten().argsort(stable=True)[: height * width]
    local, allowed = grid_places((side, side), (side, side), device), None
    if shift:
        true = grid_places((tall, wide), (tall, wide), device).view(tall, wide, 2).roll((-shift, -shift), (0, 1))
        where = torch.stack([_slots(true[..., i], side) for i in range(2)], -1)  # windows n 2
        rows, columns = (Side(r, side * side, slice(0, side * side), 0, where, device) for r in (True, False))
        allowed = Window(side - 1).tile(rows, columns)[:, 0]
    return Windows(side, into.flatten(), back, local, allowed)


@lru_cache(maxsize=64)
def _known_windows(height: int, width: int, side: int, shift: int, device: torch.device) -> Windows:
    """The same, which every block and every step asks for again."""
    with torch.inference_mode(False):  # what is kept must also serve a gradient later on
        return windows(height, width, side, shift, device)


def _slots(grid: Tensor, side: int) -> Tensor:
    """Window by window, row by row in each.   h w -> windows n"""
    return grid.unflatten(1, (-1, side)).unflatten(0, (-1, side)).transpose(1, 2).flatten(2).flatten(0, 1)


def _gathered(x: Tensor, order: Tensor) -> Tensor:
    """x[:, order]. Token by token from one long list, which PyTorch does faster than slot by slot for a whole
    batch."""
    b, t, d = x.shape
    rows = order + t * torch.arange(b, device=x.device)[:, None]
    return x.reshape(b * t, d).index_select(0, rows.flatten()).view(b, len(order), d)


class Reordered(torch.autograd.Function):
    """x[:, order] where no token goes to two slots, so that the gradient is a gather as well: x̄ = ȳ[:,
    back]."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, order: Tensor, back: Tensor) -> Tensor:
        return _gathered(x, order)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[1], inputs[2])

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, None, None]:
        order, back = ctx.saved_tensors
        return Reordered.apply(dy, back, order), None, None


class Near(Dense):
    """Tokens of a window that were neighbours before the shift, the same for each image. Each sees at least
    itself."""

    leaves = True

    def __init__(self, allowed: Tensor, images: int) -> None:
        super().__init__(allowed.repeat(images, 1, 1))
        self.period = len(allowed)

    def unseen(self, m: int, device: torch.device) -> Tensor | None:
        return None


class WindowBlock(nn.Module):
    """y = x + attend within windows (norm x);  out = y + mlp(norm y).   b (h w) d -> b (h w) d"""

    def __init__(self, config: SwinConfig, dim: int, heads: int, shift: int, drop_path: float) -> None:
        super().__init__()
        self.window, self.shift = config.window, shift
        self.norm1, self.norm2 = LayerNorm(dim), LayerNorm(dim)
        self.attention = Attention(dim, heads, dropout=config.dropout)
        self.bias = Offsets(heads, reach=config.window - 1)
        self.mlp = make_mlp(config.mlp, dim, config.ratio * dim, config.dropout)
        self.dropout, self.drop_path = Dropout(config.dropout), drop_path

    @property
    def does(self) -> str:
        """In a sentence, for `check`."""
        return f"attends within windows of {self.window} × {self.window} patches"

    def forward(self, x: Tensor, grid: tuple[int, int]) -> Tensor:
        # a tracer does not look into what is kept
        found = windows if torch.compiler.is_compiling() else _known_windows
        cut = found(*grid, self.window, self.shift, x.device)
        drop: dict[str, Any] = {"drop_path": self.drop_path, "training": self.training}
        x = with_branch(x, lambda x: self.dropout(self.within(self.norm1(x), cut)), **drop)
        return with_branch(x, lambda x: self.dropout(self.mlp(self.norm2(x))), **drop)

    def within(self, x: Tensor, cut: Windows) -> Tensor:
        """Attention in each window by itself.   b t d -> b t d"""
        b, t, d = x.shape
        n = cut.side * cut.side
        count = len(cut.into) // n
        whole = len(cut.into) == t
        if whole:
            y = Reordered.apply(x, cut.into, cut.back)
        else:
            y = _gathered(F.pad(x, (0, 0, 0, 1)), cut.into)
        mask = None if cut.allowed is None else Near(cut.allowed, b)
        y = self.attention(y.reshape(b * count, n, d), mask=mask, bias=self.bias, where=cut.places)
        y = y.view(b, count * n, d)
        if whole:
            return Reordered.apply(y, cut.back, cut.into)
        return _gathered(y, cut.back)


class Merge(nn.Module):
    """Four neighbours become one token, twice as wide.   b (h w) d -> b (h/2 w/2) 2d, an odd side is filled
    up with zeros"""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm = LayerNorm(4 * dim)
        self.linear = Linear(4 * dim, 2 * dim, bias=False)

    def forward(self, x: Tensor, grid: tuple[int, int]) -> tuple[Tensor, tuple[int, int]]:
        height, width = grid
        x = x.unflatten(1, grid)
        if height % 2 or width % 2:
            x = F.pad(x, (0, 0, 0, width % 2, 0, height % 2))
        x = x.unflatten(2, (-1, 2)).unflatten(1, (-1, 2))  # b h/2 2 w/2 2 d
        x = x.permute(0, 1, 3, 4, 2, 5).flatten(3).flatten(1, 2)  # the two rows of a column first
        return self.linear(self.norm(x)), (-(-height // 2), -(-width // 2))


# ---- the model


class Swin(ImageModel):
    """Patches, stages of windowed blocks with a merge between, the mean of all tokens.   b c h w -> b classes

    No symmetry is kept exactly. Attention within windows and biases of differences would keep shifts by whole
    windows, if the image went on around its border; but there the mask says that it does not.
    """

    Config = SwinConfig
    TINY: ClassVar[Options] = dict(
        classes=5, colours=2, size=24, patch=2, dim=16, depths=(2, 1), heads=(2, 4), window=3, ratio=2
    )

    def __init__(self, config: SwinConfig) -> None:
        super().__init__()
        self.config = config
        self.embed = PatchEmbedding(config.colours, config.patch, config.dim)
        self.embed_norm = LayerNorm(config.dim)
        self.dropout = Dropout(config.dropout)
        shares = iter(depth_schedule(config.drop_path, sum(config.depths)))
        self.stages = nn.ModuleList(
            nn.ModuleList(
                WindowBlock(config, config.dim * 2**stage, heads, 0 if i % 2 == 0 else config.window // 2, next(shares))
                for i in range(depth)
            )
            for stage, (depth, heads) in enumerate(zip(config.depths, config.heads, strict=True))
        )
        self.merges = nn.ModuleList(Merge(config.dim * 2**stage) for stage in range(len(config.depths) - 1))
        width = config.dim * 2 ** (len(config.depths) - 1)
        self.norm = LayerNorm(width)
        self.head = make_head(width, config.classes)
        if config.eps is not None:
            for part in (*self.stages.modules(), self.norm):
                if isinstance(part, LayerNorm):
                    part.eps = config.eps

    @property
    def roles(self) -> Roles:
        """What each input is, for `check`."""
        return Roles(grid="x", patch=self.config.patch)

    def features(self, x: Tensor) -> Tensor:
        """What the head reads.   b c h w -> b d"""
        return self.norm(self.maps(x)[-1]).mean(1)

    def maps(self, x: Tensor) -> list[Tensor]:
        """What each stage gives, before the merge that follows it.   b c h w -> b tokens d each"""
        _, _, height, width = expect_images(x, c=self.config.colours)
        grid, found = self.embed.grid(height, width), []
        h = self.dropout(self.embed_norm(self.embed(x)))
        for stage, blocks in enumerate(self.stages):
            if stage:
                h, grid = self.merges[stage - 1](h, grid)
            for block in blocks:  # type: ignore[attr-defined]
                h = block(h, grid)
            found.append(h)
        return found
