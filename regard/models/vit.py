"""The Vision Transformer: an image cut into patches, which attend to each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from regard.attention.dropout import Dropout
from regard.attention.positions import LearnedGrid, Nothing, Position, Rotary, Sinusoidal
from regard.config import Amount, Count, Depth, Extras, Share, Size, Width, config
from regard.errors import RegardError
from regard.models.attentions import check_heads, check_position
from regard.models.image_model import ImageModel, make_head
from regard.models.registered_model import Options
from regard.nn.block import Stack
from regard.nn.drop_path import with_branch
from regard.nn.embed import PatchEmbedding, grid_places
from regard.nn.norm import LayerNorm
from regard.nn.pool import ClassToken, MeanPool
from regard.shapes import expect_images
from regard.symmetry.groups import Group, Permutations, Shifts, Trivial, product
from regard.symmetry.roles import Roles


def check_patch(config: Any) -> None:
    """A patch is not larger than the images it is cut from."""
    if config.patch > config.size:
        raise RegardError(
            f"must be at most the side of the images, {config.size} pixels, got {config.patch}: one patch would be the whole "
            f"image, and nothing could look at anything; take size={config.patch} or more, or a smaller patch",
            option="patch",
        )


@config
class ViTConfig:
    """A Vision Transformer."""  # as the paper has it: the defaults are ViT-Tiny at 224 × 224; recipes have their own

    classes: Annotated[int, Field(ge=0, le=2**16)]  # 0: no head, the features themselves
    colours: Count = 3  # channels of an image
    size: Size = 224  # the sides of images in training; others are taken, too, with their places in between
    patch: Count = 16  # the sides of a patch, in pixels
    dim: Width = 192  # width of the stream
    depth: Depth = 12  # blocks
    heads: Count = 3  # attention heads in each block
    hidden: Width | None = None  # channels inside the MLP (None: 4 dim)
    position: Literal["none", "learned", "sinusoidal", "rotary"] = "learned"  # how row and column are known
    # base of the frequencies of rotary and sinusoidal positions: lower than for text, since a grid is short
    base: Amount = 100.0
    # a class token that attends to all patches, the mean of the patches, or both side by side
    pool: Literal["class", "mean", "class_and_mean"] = "class"
    registers: Extras = 0  # register tokens: learned tokens without a position
    # tokens in front (the class token, then registers) that have a learned position too, as in the paper
    placed: Extras = 0
    mlp: Literal["relu", "gelu", "relu2", "swiglu"] = "gelu"
    dropout: Share = 0.0  # share of weights, hidden channels and branches dropped in training
    # stochastic depth: the share of images that skip the last block in training; earlier blocks less
    drop_path: Share = 0.0
    # a learned scale for what each branch adds, with this value at first; None: no scale
    layer_scale: Amount | None = None
    eps: Amount | None = None  # what norms add to the variance; None: 1e-5

    def __post_init__(self) -> None:
        front = self.registers + (self.pool != "mean")
        if self.placed > front:
            raise RegardError(f"must be at most the {front} tokens in front, got {self.placed}", option="placed")
        check_patch(self)
        check_heads(self)
        check_position(self, POSITIONS)

    @property
    def grid(self) -> tuple[int, int]:
        """Patches in training: rows and columns."""
        return (-(-self.size // self.patch),) * 2


POSITIONS: dict[str, Callable[[ViTConfig], Position]] = {
    "none": lambda c: Nothing(),
    "learned": lambda c: LearnedGrid(c.grid, c.dim),
    "sinusoidal": lambda c: Sinusoidal(c.dim, axes=2, base=c.base),
    "rotary": lambda c: Rotary(c.dim // c.heads, axes=2, base=c.base),
}


class ViT(ImageModel):
    """Patches attend to each other; a class token, or the mean of them, says what they are.   b c h w -> b classes

    Without positions it knows a bag of patches: any order of them gives the same prediction. Positions break that, and with it
    everything that moves patches: no shift, turn or mirror is kept, neither by rotary ones, which know differences only, since
    what rolls over the border of an image comes to be far from its neighbours.
    """

    Config = ViTConfig
    TINY: ClassVar[Options] = dict(
        classes=5, colours=2, size=12, patch=4, dim=32, depth=2, heads=4, position="none", registers=1
    )

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.config = config
        self.embed = PatchEmbedding(config.colours, config.patch, config.dim)
        self.position = POSITIONS[config.position](config)
        self.dropout = Dropout(config.dropout)
        self.registers: nn.Parameter | None = None
        if config.registers:
            self.registers = nn.Parameter(torch.randn(config.registers, config.dim) * 0.02)
        self.places: nn.Parameter | None = None
        if config.placed:
            self.places = nn.Parameter(torch.randn(config.placed, config.dim) * 0.02)
        if config.pool == "mean":
            self.pool: ClassToken | MeanPool = MeanPool()
        else:
            self.pool = ClassToken(config.dim)
        self.both = config.pool == "class_and_mean"
        # what is added to patches is added once, before the blocks
        turning = self.position if self.position.turns else None
        self.stack = Stack(
            config.depth, config.dim, config.heads,
            position=turning, mlp=config.mlp, hidden=config.hidden, dropout=config.dropout,
            drop_path=config.drop_path, layer_scale=config.layer_scale,
        )  # fmt: skip
        if config.eps is not None:
            for part in self.stack.modules():
                if isinstance(part, LayerNorm):
                    part.eps = config.eps
        self.head = make_head(2 * config.dim if self.both else config.dim, config.classes)

    @property
    def symmetry(self) -> Group:
        """What may be done to an image of the config's size so that the prediction stays."""
        # else the last patches have zeros where others have pixels
        whole = self.config.size % self.config.patch == 0
        bag = isinstance(self.position, Nothing) and whole
        if bag:
            return product(Permutations(), Shifts(self.config.patch))
        return Trivial()

    @property
    def roles(self) -> Roles:
        """What each input is, for `check`."""
        return Roles(grid="x", patch=self.config.patch)

    def features(self, x: Tensor) -> Tensor:
        """The input of the head.   b c h w -> b d

        Sides may differ from those of the config. Places are then in units of the grid of the config.
        """
        _, _, height, width = expect_images(x, c=self.config.colours)
        where: Tensor | None = grid_places(self.embed.grid(height, width), self.config.grid, x.device)
        tokens = self.embed(x)
        if not self.position.turns:
            tokens, where = (self.position(tokens, where), None)  # said and done; in the blocks nobody asks for places
        tokens, where, front = self.joined(tokens, where)
        tokens = self.dropout(tokens)
        if not isinstance(self.pool, ClassToken):
            return self.pool(self.stack(tokens, where=where)[:, front:])
        if self.both:
            found = self.stack(tokens, where=where)
            return torch.cat((found[:, 0], found[:, front:].mean(1)), -1)
        *blocks, last = self.stack.blocks
        for block in blocks:
            tokens = block(tokens, position=self.stack.position, where=where)
        return self.stack.norm(self.read(last, tokens, where))[:, 0]

    def joined(self, tokens: Tensor, where: Tensor | None) -> tuple[Tensor, Tensor | None, int]:
        """The tokens without a place in front, the class token first.   b n d -> b f+n d"""
        extra: list[Tensor] = [self.registers] if self.registers is not None else []
        if isinstance(self.pool, ClassToken):
            extra = [self.pool.token[None], *extra]
        if not extra:
            return tokens, where, 0
        first = torch.cat(extra).to(tokens.dtype)
        if self.places is not None:
            first = first + F.pad(self.places.to(tokens.dtype), (0, 0, 0, len(first) - len(self.places)))
        if where is not None:
            lost = torch.full((1, len(first), 2), torch.nan, dtype=torch.promote_types(where.dtype, torch.float32))
            where = torch.cat((lost.to(where.device), where), 1)
        return torch.cat((first.expand(len(tokens), -1, -1), tokens), 1), where, len(first)

    def read(self, block: Any, x: Tensor, where: Tensor | None) -> Tensor:
        """The last block, for the class token alone: nobody reads what it would give for the others.   b n d -> b 1 d"""
        pair = None if where is None else (where[:, :1], where)
        around = block.attention

        def asked(x: Tensor) -> Tensor:
            normed = around.norm(x)
            return around.scaled(around.f(normed[:, :1], normed, position=self.stack.position, where=pair))

        return block.mlp(with_branch(x, asked, around.drop_path, onto=x[:, :1], training=self.training))
