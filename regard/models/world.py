"""The transformer world model: each step attends to the last ones, and predicts what comes next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import tap
from regard.attention.cache import WindowCache
from regard.attention.masks import Causal, Window
from regard.attention.positions import Rotary, turns_at
from regard.config import Count, Length, config
from regard.errors import RegardError
from regard.models.attentions import check_heads
from regard.models.caches import Caches
from regard.models.sequence_model import count_places
from regard.models.world_model import WorldConfig, WorldModel
from regard.nn.block import Stack
from regard.symmetry.groups import Group


@config
class TransformerWorldConfig(WorldConfig):
    """A transformer world model."""

    heads: Count = 4  # attention heads of each layer
    window: Length = 8  # steps that each layer sees, the present one included

    def __post_init__(self) -> None:
        super().__post_init__()
        check_heads(self)
        if self.dim // self.heads % 2:
            raise RegardError(f"dim / heads must be even for rotary places, got dim={self.dim} and heads={self.heads}")


class TransformerWorld(WorldModel):
    """What comes next, from attention to the last steps.   steps b n (o + a) -> b n (o + 2)

    Causal by places, within a window. Places are relative, so it keeps shifts of all of them.
    """

    Config = TransformerWorldConfig
    config: TransformerWorldConfig

    def __init__(self, config: TransformerWorldConfig) -> None:
        super().__init__(config)
        self.stack = Stack(
            config.depth,
            config.dim,
            config.heads,
            position=Rotary(config.dim // config.heads),
            norm="rmsnorm",
            mlp="gelu",
            qk_norm=True,
        )
        self.mask = Causal() & Window(config.window - 1)

    @property
    def keeps(self) -> Group:  # type: ignore[override]
        return self.stack.keeps & self.mask.keeps

    def read(self, x: Tensor, where: Tensor | None, real: Tensor | None, caches: Any) -> Tensor:
        if caches is None:
            where = count_places(real) if where is None else where
        return self.stack(x, mask=self.mask, where=where, real=real, caches=caches)

    def steps_after(self, x: Tensor, real: Tensor) -> Callable[[Tensor], Tensor]:
        return RingSteps(self, x, real) if is_plain(self) else super().steps_after(x, real)

    def body_caches(self) -> Caches:
        return Caches(WindowCache(self.config.window - 1) for _ in self.stack.blocks)


# ── imagination with a transformer, one step at a time for all rows together, in few operators
#
# The same as `TransformerWorld.read` with a cache, for what imagination is: every row goes on by one step, so all share
# their places, and the last `window` keys lie in a ring. Scales of norms are part of the weights that follow them.
# Masks, positions and kernels of any kind cost more to look at than such small products take.


def is_plain(model: nn.Module) -> bool:
    """Does nobody listen to attention, or change what its layers give?"""
    if tap.listeners or torch.is_grad_enabled():
        return False
    return not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())


class RingSteps:
    """h of each new step, after those that were read.   b d -> b d

    past   embedded steps before, b n d; real: bool b n
    """

    def __init__(self, model: TransformerWorld, past: Tensor, real: Tensor) -> None:
        final: Any = model.stack.norm
        self.window, self.eps = model.config.window, final.eps
        self.place = past.shape[1]
        caches = model.body_caches()
        if self.place:
            model.read(past, torch.arange(self.place, device=past.device), real, caches)
        self.norm = final.scale.detach()
        rows = len(past)
        self.layers = [_Layer(block, model.stack.position, self.window, rows) for block in model.stack.blocks]
        # what is added to scores: 0 for steps that there are
        self.hidden = past.new_full((self.window, rows, 1), -torch.inf)
        kept = torch.arange(max(0, self.place - self.window), self.place, device=past.device)
        if not self.place:
            return
        self.hidden[kept % self.window] = self.hidden[kept % self.window].masked_fill(real.T[kept, :, None], 0.0)
        for layer, cache in zip(self.layers, caches, strict=True):
            layer.fill(cache.store, kept)

    def __call__(self, x: Tensor) -> Tensor:
        slot = self.place % self.window
        self.hidden[slot] = 0.0
        for layer in self.layers:
            x = layer.step(x, self.place, slot, self.hidden)
        self.place += 1
        return _normalise(x, self.eps) * self.norm


def _normalise(x: Tensor, eps: float) -> Tensor:
    """x / √(mean of squares + eps)"""
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return x * length.square_().div_(x.shape[-1]).add_(eps).rsqrt_()


class _Layer:
    """One block, with its last keys and values.   keys, values: w b h c"""

    def __init__(self, block: Any, position: Any, window: int, rows: int) -> None:
        attention, mlp = block.attention, block.mlp
        f, g = attention.f, mlp.f
        self.heads, self.eps, self.inner = f.heads, attention.norm.eps, f.norm_q.eps
        weight = torch.cat((f.to_q.weight, f.to_k.weight, f.to_v.weight)).detach()
        self.project = (weight * attention.norm.scale.detach()).T.contiguous()
        self.offset = torch.cat((f.to_q.bias, f.to_k.bias, f.to_v.bias)).detach()
        self.mix, self.mixed = f.mix.weight.detach().T.contiguous(), f.mix.bias.detach()
        self.up = (g.up.weight * mlp.norm.scale).detach().T.contiguous()
        self.raised, self.down = g.up.bias.detach(), g.down.weight.detach().T.contiguous()
        self.lowered = g.down.bias.detach()
        c = self.channels = f.mix.weight.shape[1] // self.heads
        room = (window, rows, self.heads, c)
        self.keys, self.values = weight.new_zeros(room), weight.new_zeros(room)
        self.position = position
        # the scales of the norms of queries and keys, and that of scores   2h c
        scales = (f.norm_q.scale * c**-0.5).expand(self.heads, c), f.norm_k.scale.expand(self.heads, c)
        self.scale = torch.cat(scales).detach()
        self.straight = self.crossed = self.scale[:0]  # p 2h c: turns at each place

    def _lay_turns(self, places: int) -> None:
        """Turns of queries and keys at so many places, with their scales."""
        c, like, position = self.channels, self.scale, self.position
        cos, sin = turns_at(None, 0, places, 1, c, 1, position.spectrum, like.device, like.dtype, position.interleaved)
        self.straight = cos[0, 0][:, None] * like
        self.crossed = sin[0, 0][:, None] * like.roll(c // 2, -1)

    def fill(self, store: dict[str, Tensor], kept: Tensor) -> None:
        """Take keys and values at these places from a cache of attention. It forgets padding, which stays hidden."""
        match = (store["where"][:, None, :, 0] == kept[:, None]) & store["real"][:, None]  # b p m
        at = match.byte().argmax(-1)[:, None, :, None]  # b 1 p 1
        slots = kept % len(self.keys)
        for own, name in ((self.keys, "k"), (self.values, "v")):
            own[slots] = torch.take_along_dim(store[name], at, 2).permute(2, 0, 1, 3)

    def step(self, x: Tensor, place: int, slot: int, hidden: Tensor) -> Tensor:
        h, c = self.heads, self.channels
        if place >= len(self.straight):
            self._lay_turns(2 * place + 32)
        found = torch.addmm(self.offset, _normalise(x, self.eps), self.project)
        both = _normalise(found[:, : 2 * h * c].unflatten(1, (2 * h, c)), self.inner)
        turned = torch.addcmul(both * self.straight[place], both.roll(c // 2, -1), self.crossed[place])
        self.keys[slot] = turned[:, h:]
        self.values[slot] = found[:, 2 * h * c :].unflatten(1, (h, c))
        scores = (self.keys * turned[:, :h]).sum(-1)  # w b h
        weights = torch.softmax(scores.add_(hidden), 0)
        out = (self.values * weights[..., None]).sum(0).flatten(1)
        x = x + torch.addmm(self.mixed, out, self.mix)
        raised = F.gelu(torch.addmm(self.raised, _normalise(x, self.eps), self.up))
        return x + torch.addmm(self.lowered, raised, self.down)
