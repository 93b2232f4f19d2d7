"""Correct models made of torch.nn."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.symmetry.actions import Fixed, OnVectors
from regard.symmetry.groups import Permutations, Reflections, Rotations, Scalings, Shifts, product
from regard.symmetry.laws import Symmetry
from regard.symmetry.roles import Inputs, Roles, Stream
from tests.symmetry.correct import EVERY, ROW, TOKENS, Made, Table, adder, vectors

LIBRARY = "torch"
TABLE: Table = {}
add = adder(TABLE)
CAUSAL = {"causality": "holds"}


class SelfAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 4, dropout=0.1, batch_first=True)

    def forward(self, x: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        return self.attention(x, x, x, key_padding_mask=key_padding_mask)[0]


@add(f"{TOKENS} padding permutation")
def multihead_attention() -> Made:
    return SelfAttention(), vectors(), {"symmetry": Permutations()}


@add(f"{TOKENS} permutation", name="multihead attention, its own inputs")
def cross_attention() -> Made:
    """Three inputs, a tuple as output: queries are what the output follows, keys and values belong together."""
    streams = (Stream("query"), Stream("key", mask="key_padding_mask", hides=True, along=("value",)))
    inputs = {"query": vectors(n=5), "key": vectors(n=9), "value": vectors(n=9)}
    return (
        nn.MultiheadAttention(16, 4, batch_first=True),
        inputs,
        {"roles": Roles(streams=streams), "symmetry": Permutations()},
    )


@add(f"{TOKENS} padding permutation", name="encoder layer")
@add(f"{TOKENS} padding permutation", name="encoder layer, norm first", norm_first=True, activation="gelu")
def encoder_layer(**options: Any) -> Made:
    return (nn.TransformerEncoderLayer(16, 4, 24, batch_first=True, **options), vectors(), {"symmetry": Permutations()})


@add(f"{TOKENS} padding permutation", name="encoder")
@add(f"{TOKENS} padding permutation", name="encoder, norm first", norm_first=True)
@add(f"{TOKENS} padding permutation", name="encoder, batch second", batch_first=False)
def encoder(batch_first: bool = True, **options: Any) -> Made:
    layer = nn.TransformerEncoderLayer(16, 4, 24, batch_first=batch_first, **options)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=batch_first and not options)
    x = vectors()
    return model, x if batch_first else x.transpose(0, 1).contiguous(), {"symmetry": Permutations()}


class CausalEncoder(nn.Module):
    """A language model as the tutorials build it: embedding, learned places, encoder layers under a causal mask."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.places = nn.Embedding(23, 16), nn.Embedding(128, 16)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 24, batch_first=True), 2)
        self.head = nn.Linear(16, 23)

    def forward(self, tokens: Tensor, src_key_padding_mask: Tensor | None = None) -> Tensor:
        n = tokens.shape[1]
        later = torch.ones(n, n, dtype=torch.bool, device=tokens.device).triu(1)
        x = self.embed(tokens) + self.places.weight[:n]
        return self.head(self.encoder(x, mask=later, src_key_padding_mask=src_key_padding_mask, is_causal=True))


@add(f"{TOKENS} padding causality")
def causal_encoder() -> Made:
    stream = Stream("tokens", mask="src_key_padding_mask", hides=True)
    return CausalEncoder(), torch.randint(23, (3, 9)), {"roles": Roles(streams=(stream,), promises=CAUSAL)}


class Translator(nn.Module):
    """nn.TransformerDecoder with a causal mask, and a memory that may be padded."""

    def __init__(self) -> None:
        super().__init__()
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 4, 24, batch_first=True), 2)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
    ) -> Tensor:
        later = torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool, device=tgt.device).triu(1)
        return self.decoder(
            tgt,
            memory,
            tgt_mask=later,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
        )


@add(f"{TOKENS} padding causality")
def decoder_with_a_memory() -> Made:
    streams = (
        Stream("tgt", mask="tgt_key_padding_mask", hides=True),
        Stream("memory", mask="memory_key_padding_mask", hides=True),
    )
    return Translator(), (vectors(n=7), vectors(n=10)), {"roles": Roles(streams=streams, promises=CAUSAL)}


def remember(model: nn.Module, new: Inputs, state: Any) -> tuple[Any, Any]:
    out, state = model(new["input"], state)
    return out, state


@add(f"{TOKENS} causality cache", name="LSTM", cls=nn.LSTM)
@add(f"{TOKENS} causality cache", name="GRU", cls=nn.GRU)
@add(f"{TOKENS} causality cache", name="GRU, batch second", cls=nn.GRU, batch_first=False)
def recurrent(cls: Any, batch_first: bool = True) -> Made:
    model = cls(8, 16, num_layers=2, batch_first=batch_first, dropout=0.1)
    x = vectors(d=8)
    roles = Roles(streams=(Stream("input", axis=1 if batch_first else 0),), step=remember, promises=CAUSAL)
    return model, x if batch_first else x.transpose(0, 1).contiguous(), {"roles": roles}


@add(TOKENS, name="LSTM in both directions")
def both_directions() -> Made:
    return (
        nn.LSTM(8, 16, batch_first=True, bidirectional=True),
        vectors(d=8),
        {"roles": Roles(streams=(Stream("input"),))},
    )


class CausalConvolutions(nn.Module):
    """Kernels of three that look back, one place apart and then two.   b n d -> b n d"""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv1d(8, 16, 3), nn.Conv1d(16, 8, 3, dilation=2)

    def forward(self, x: Tensor) -> Tensor:
        x = x.transpose(1, 2)
        x = torch.relu(self.one(F.pad(x, (2, 0))))
        return self.two(F.pad(x, (4, 0))).transpose(1, 2)


@add(f"{TOKENS} causality")
def causal_convolutions() -> Made:
    return CausalConvolutions(), vectors(d=8), {"roles": Roles(streams=(Stream("x"),), promises=CAUSAL)}


def images(channels: int = 3, size: int = 12) -> Tensor:
    return torch.randn(3, channels, size, size)


def around(inside: int, out: int, size: int = 3, **options: Any) -> nn.Conv2d:
    return nn.Conv2d(inside, out, size, padding=size // 2, padding_mode="circular", **options)


@add(f"{ROW} shift")
def circular_convolutions() -> Made:
    return (
        nn.Sequential(around(3, 8), nn.ReLU(), around(8, 8), nn.GELU(), around(8, 4)),
        images(),
        {"symmetry": Shifts()},
    )


@add(f"{ROW} shift", name="circular convolutions, stride 4")
def strided() -> Made:
    model = nn.Sequential(around(3, 8), nn.ReLU(), nn.MaxPool2d(2), around(8, 4), nn.AvgPool2d(2))
    return model, images(), {"symmetry": Shifts(4)}


@add(f"{ROW} shift", name="circular convolutions and a pool", mixes=True)
def pooled() -> Made:
    model = nn.Sequential(
        around(3, 8), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5)
    )
    return model, images(), {"symmetry": Shifts(), "roles": Roles(grid="input", promises=BATCH_NORM)}


class TurnsAndMirrors(nn.Module):
    """The mean of a network over the eight symmetries of a square: whatever is inside, the whole is invariant."""

    def __init__(self) -> None:
        super().__init__()
        maps = (nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU())
        self.inside = nn.Sequential(*maps, nn.Flatten(), nn.Linear(512, 4))

    def forward(self, x: Tensor) -> Tensor:
        views = [y.rot90(k, (-2, -1)) for y in (x, x.flip(-1)) for k in range(4)]
        return torch.stack([self.inside(view) for view in views]).mean(0)


@add(f"{ROW} rotation reflection")
def mean_over_turns_and_mirrors() -> Made:
    return TurnsAndMirrors(), images(), {"symmetry": product(Rotations("quarter"), Reflections())}


@add(ROW, name="convolutions with zeros around")
def zero_padded() -> Made:
    maps = (nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1))
    return nn.Sequential(*maps, nn.Flatten(), nn.Linear(1152, 4)), images(), {}


# In training a row depends on the others by design: that is no promise of batch norm.
BATCH_NORM = {"neighbours in training": "not promised", "padding in training": "not promised"}


def batch_norm(model: nn.Module) -> nn.Module:
    """As after some training: running means and variances that are not 0 and 1."""
    for part in model.modules():
        if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d):
            nn.init.normal_(part.running_mean)
            nn.init.uniform_(part.running_var, 0.5, 2.0)
    return model


@add(f"{ROW} shift", mixes=True)
def batch_norm_net() -> Made:
    model = nn.Sequential(around(3, 8), nn.BatchNorm2d(8), nn.ReLU(), around(8, 4), nn.BatchNorm2d(4))
    return (batch_norm(model), images(), {"symmetry": Shifts(), "roles": Roles(grid="input", promises=BATCH_NORM)})


@add(f"{TOKENS} permutation")
def layer_norm_MLP() -> Made:
    model = nn.Sequential(nn.Linear(16, 24), nn.LayerNorm(24), nn.GELU(), nn.Dropout(0.3), nn.Linear(24, 4))
    return model, vectors(), {"symmetry": Permutations()}


@add(f"{ROW} shift")
def group_norm_net() -> Made:
    return (nn.Sequential(around(3, 8), nn.GroupNorm(2, 8), nn.SiLU(), around(8, 4)), images(), {"symmetry": Shifts()})


class DeepSets(nn.Module):
    """head(Σ over real tokens of each(x_i) / their number).   b n d -> b c"""

    def __init__(self) -> None:
        super().__init__()
        self.each = nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 24))
        self.head = nn.Sequential(nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 4))

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        real = x.new_ones(x.shape[:2], dtype=torch.bool) if real is None else real
        total = torch.where(real[..., None], self.each(x), 0.0).sum(1)
        return self.head(total / real.sum(1, keepdim=True).clamp(min=1))


@add(f"{TOKENS} padding permutation")
def deep_sets() -> Made:
    return DeepSets(), vectors(), {"symmetry": Permutations()}


class Distances(nn.Module):
    """Σ_ij g(|x_i − x_j|²): knows a cloud of points only up to motions and mirrors.   b n 3 -> b c"""

    def __init__(self) -> None:
        super().__init__()
        self.each = nn.Sequential(nn.Linear(1, 16), nn.SiLU(), nn.Linear(16, 4))

    def forward(self, x: Tensor) -> Tensor:
        square = (x[:, :, None] - x[:, None]).square().sum(-1, keepdim=True)  # b n n 1
        return self.each(square).sum((1, 2))


@add(f"{TOKENS} permutation rotation reflection")
def distances_of_points() -> Made:
    promised = product(Permutations(), Rotations("space"), Reflections())
    return Distances(), vectors(d=3), {"symmetry": promised}


class Forces(nn.Module):
    """Σ_j g(|x_i − x_j|²)·(x_i − x_j): vectors that turn with the points.   b n 3 -> b n 3"""

    def __init__(self) -> None:
        super().__init__()
        self.each = nn.Sequential(nn.Linear(1, 16), nn.SiLU(), nn.Linear(16, 1))

    def forward(self, x: Tensor) -> Tensor:
        apart = x[:, :, None] - x[:, None]
        return (self.each(apart.square().sum(-1, keepdim=True)) * apart).sum(2)


@add(f"{TOKENS} rotation")
def forces_between_points() -> Made:
    return Forces(), vectors(d=3), {"symmetry": Symmetry(Rotations("space"), OnVectors(), OnVectors())}


@add(f"{ROW} scaling")
def rectifiers_without_bias() -> Made:
    """Piecewise linear through the origin: twice the input is twice the output."""
    model = nn.Sequential(nn.Linear(16, 24, bias=False), nn.ReLU(), nn.Linear(24, 4, bias=False))
    return model, torch.randn(5, 16), {"symmetry": Symmetry(Scalings(), OnVectors(), OnVectors())}


@add(f"{ROW} scaling")
def directions_only() -> Made:
    model = nn.Sequential(nn.LayerNorm(16, elementwise_affine=False, eps=0.0), nn.Linear(16, 8), nn.Tanh())
    return model, torch.randn(5, 16), {"symmetry": Symmetry(Scalings(), OnVectors(), Fixed())}


class DenseGraph(nn.Module):
    """Two rounds of D^(−½)(A + I)D^(−½) X W on an adjacency matrix.   n d, n n -> n c"""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(6, 16), nn.Linear(16, 4)

    def forward(self, x: Tensor, adjacency: Tensor) -> Tensor:
        a = adjacency + torch.eye(len(adjacency), dtype=adjacency.dtype, device=adjacency.device)
        scale = a.sum(1).rsqrt()
        a = scale[:, None] * a * scale
        return a @ self.two(torch.relu(a @ self.one(x)))


@add(f"{EVERY} relabelling")
def dense_graph() -> Made:
    upper = (torch.rand(10, 10) < 0.3).float().triu(1)
    roles = Roles(nodes="x", adjacency="adjacency", promises={"relabelling": "equivariant"})
    return DenseGraph(), (torch.randn(10, 6), upper + upper.T), {"roles": roles}
