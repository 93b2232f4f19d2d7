"""Correct modules of torch.nn and what people wrap them in, checked by the plain call, without roles."""

from __future__ import annotations

import functools

import torch
from torch import nn

from tests.symmetry.correct import Correct, Table

D = 16


def rows(*shape):
    return torch.randn(*shape, D)


class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(D, 8, batch_first=True)

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)[0]


class NamesOnly(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(D, D)

    def forward(self, *, x, scale=1.0):
        return self.line(x) * scale


class Any(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(D, D)

    def forward(self, *xs):
        return sum(self.line(x) for x in xs)


def layer():
    return nn.TransformerEncoderLayer(D, 2, 32, batch_first=True)


CASES = {
    "script": lambda: (torch.jit.script(nn.Sequential(nn.Linear(D, D), nn.ReLU())), rows(3, 9)),
    "traced": lambda: (torch.fx.symbolic_trace(nn.Sequential(nn.Linear(D, D), nn.ReLU())), rows(3, 9)),
    "weight norm": lambda: (nn.utils.parametrizations.weight_norm(nn.Linear(D, D)), rows(3, 9)),
    "old weight norm": lambda: (nn.utils.weight_norm(nn.Linear(D, D)), rows(3, 9)),
    "spectral norm": lambda: (nn.utils.parametrizations.spectral_norm(nn.Linear(D, D)), rows(3, 9)),
    "function of two": lambda: (lambda a, b: a + b, (rows(3, 9), rows(3, 9))),
    "partial": lambda: (functools.partial(torch.softmax, dim=-1), rows(3, 9)),
    "attention": lambda: (nn.MultiheadAttention(D, 2), (rows(9, 3), rows(9, 3), rows(9, 3))),
    "attention, batch first": lambda: (
        nn.MultiheadAttention(D, 2, batch_first=True),
        (rows(3, 9), rows(3, 9), rows(3, 9)),
    ),
    "cross attention": lambda: (nn.MultiheadAttention(D, 2, batch_first=True), (rows(3, 9), rows(3, 5), rows(3, 5))),
    "transformer": lambda: (nn.Transformer(D, 2, 1, 1, 32), (rows(9, 3), rows(7, 3))),
    "transformer, batch first": lambda: (nn.Transformer(D, 2, 1, 1, 32, batch_first=True), (rows(3, 9), rows(3, 7))),
    "lstm": lambda: (nn.LSTM(D, 8), rows(9, 3)),
    "lstm, batch first": lambda: (nn.LSTM(D, 8, batch_first=True), rows(3, 9)),
    "gru, as many rows as tokens": lambda: (nn.GRU(D, 8), rows(4, 4)),
    "cell": lambda: (nn.RNNCell(D, 8), torch.randn(4, D)),
    "conv1d": lambda: (nn.Conv1d(D, 8, 3, padding=1), torch.randn(3, D, 20)),
    "batch norm": lambda: (nn.BatchNorm1d(D), torch.randn(3, D, 20)),
    "conv3d": lambda: (nn.Conv3d(2, 3, 3), torch.randn(2, 2, 6, 6, 6)),
    "embedding": lambda: (nn.Embedding(30, 8), torch.randint(30, (3, 9))),
    "bag": lambda: (nn.EmbeddingBag(30, 8), torch.randint(30, (3, 9))),
    "bilinear": lambda: (nn.Bilinear(4, 5, 6), (torch.randn(3, 7, 4), torch.randn(3, 7, 5))),
    "cosine": lambda: (nn.CosineSimilarity(dim=-1), (rows(3, 9), rows(3, 9))),
    "encoder": lambda: (nn.TransformerEncoder(layer(), 2, enable_nested_tensor=False), rows(3, 9)),
    "encoder with nested tensors": lambda: (
        nn.TransformerEncoder(layer(), 2),
        {"src": rows(3, 9), "src_key_padding_mask": torch.zeros(3, 9, dtype=torch.bool)},
    ),
    "packed": lambda: (Packed(), (rows(3, 9), torch.tensor([9, 5, 3]))),
    "names only": lambda: (NamesOnly(), {"x": rows(3, 9), "scale": 2.0}),
    "any number": lambda: (Any(), (rows(3, 9), rows(3, 9))),
}
OPEN = {"packed"}  # the shape of a row depends on the longest row beside it
LIBRARY = "torch, plain call"
TABLE: Table = {
    name: Correct(
        functools.partial(lambda make: (*make(), {}), make), frozenset({"determinism", "neighbours"}), seldom=True
    )
    for name, make in CASES.items()
    if name not in OPEN and not name.startswith(("function", "partial"))  # which have no eval mode
}
