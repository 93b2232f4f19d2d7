"""Pages for tests, made of numbers that the tests know."""

from __future__ import annotations

import base64
import io
import math
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from regard.look import encode_arrays as encode

View = dict[str, Any]

SENTENCE = ["The", " cat", " sat", " on", " the", " mat", " because", " it", " was", " tired", ".", "\n"]
SENTENCE += ["The", " dog", " did", " not", "."]
GERMAN = ["Die", " Katze", " saß", " auf", " der", " Matte", "."]


def attended(scores: Tensor, *, causal: bool = True) -> Tensor:
    """Weights of scores.   … n m"""
    n, m = scores.shape[-2:]
    hidden = torch.ones(n, m).triu(1).bool() & causal
    return scores.masked_fill(hidden, -torch.inf).softmax(-1)


def kinds_of_heads(n: int, layer: int, heads: int, *, causal: bool = True) -> Tensor:
    """Heads that look like those of trained models: the token before, the first, the nearest, all, every sixth.   h n n"""
    i, j = torch.arange(n)[:, None], torch.arange(n)[None, :]
    away = (i - j).abs()
    before, first, same = (i - j - 1).abs(), 1.0 * (j == 0), 1.0 * (i == j)
    shapes = [
        -2.5 * before,
        4 * first - 0.02 * away,
        -0.35 * away,
        0.0 * away,
        -0.8 * ((i - j) % 6) - 0.05 * away,
        3 * same,
    ]
    mixed = [shapes[(k + 2 * layer) % 6] * (0.5 + 0.1 * ((k * 5 + layer) % 7)) for k in range(heads)]
    noise = torch.randn(heads, n, n, generator=torch.Generator().manual_seed(layer))
    return attended(torch.stack(mixed) + 0.6 * noise, causal=causal)


def layer_of(weights: Tensor, layer: int, *, count: int | None = None, **changes: Any) -> View:
    """One layer as the page wants it.   weights: h n m"""
    h, n, m = weights.shape
    away = (torch.arange(n)[:, None] - torch.arange(m)[None, :]).abs()
    entropy = -(weights * weights.clamp_min(1e-30).log()).sum(-1).mean(-1)
    return {
        "layer": layer, "name": f"blocks.{layer}.attention", "call": 0, "kind": "self", "operator": "sdpa",
        "rows": 0, "columns": 0, "n": n, "m": m, "heads": list(range(h)),
        "proved": True, "reason": None, "error": 1.2e-7, "note": None,
        "entropy": encode.round_digits(entropy), "distance": encode.round_digits((weights * away).sum(-1).mean(-1)),
        "small": encode.thumbnails(weights), "largest": encode.largest(weights, m if count is None else count), **changes,
    }  # fmt: skip


def unproved(like: View, layer: int, reason: str) -> View:
    nothing = {"proved": False, "reason": reason, "small": None, "largest": None, "entropy": [], "distance": None}
    return {**like, "layer": layer, "name": f"blocks.{layer}.attention", **nothing}


def text_stream(labels: list[str], name: str = "tokens") -> View:
    return {"name": name, "kind": "text", "labels": labels, "grid": None}


def page_of(views: list[View], labels: list[str] = SENTENCE, **changes: Any) -> View:
    return {
        "format": 1, "title": "a small decoder", "subtitle": "Decoder · 4 layers · 1.2 M parameters", "record": 0,
        "input": {"kind": "text", "text": "".join(labels), "target": None, "name": None, "truth": None, "views": None},
        "streams": [text_stream(labels)],
        "notes": [], "live": None, "silenced": [], "views": views, **changes,
    }  # fmt: skip


def attention(labels: list[str] = SENTENCE, layers: int = 4, heads: int = 8) -> View:
    return {"view": "attention", "layers": [layer_of(kinds_of_heads(len(labels), k, heads), k) for k in range(layers)]}


def next_token(labels: list[str] = SENTENCE, seed: int = 0) -> View:
    """The real next token has the rank 1, 2, 3, 1, …"""
    random = np.random.default_rng(seed)
    at = []
    for k in range(len(labels)):
        p = np.sort(random.dirichlet(np.full(12, 0.3)))[::-1][:8].tolist()
        others = [f" word{c}" for c in "abcdefgh"]
        rank = 1 + k % 3
        actual = labels[k + 1] if k + 1 < len(labels) else None
        if actual is not None:
            others[rank - 1] = actual
        known = actual is not None
        at.append({"likely": [[name, round(x, 5)] for name, x in zip(others, p, strict=True)], "actual": actual,
                   "p": round(p[rank - 1], 5) if known else None, "rank": rank if known else None})  # fmt: skip
    return {"view": "next", "stream": 0, "what": "next", "at": at}


def classes() -> View:
    likely = [["golden retriever", 0.8125], ["labrador", 0.125], ["<b>cat</b>", 0.03], ["teapot", 0.00001]]
    return {"view": "classes", "likely": likely}


def contribution(labels: list[str] = SENTENCE) -> View:
    n = len(labels)
    left_out = [round(math.sin(1.7 * k) * math.exp(-0.1 * k), 4) for k in range(n)]
    gradient = [round(math.cos(2.3 * k) * 3, 4) for k in range(n)]
    received = [round(1 / (1 + k % 5), 4) for k in range(n)]
    columns = [
        ("leave one out", "How much less likely the prediction is without the token.", left_out, True),
        ("gradient × input", "How the prediction changes with the size of the embedding.", gradient, True),
        ("attention received", "From the last token, the mean of all heads of the last layer.", received, False),
    ]
    listed = [dict(zip(("name", "sentence", "values", "signed"), column, strict=True)) for column in columns]
    return {"view": "contribution", "stream": 0, "thing": "token", "answer": "tired", "columns": listed}


def image_url(side: int = 224) -> str:
    """A bright disc and a box before a sky, as a data URL."""
    y, x = np.mgrid[0:side, 0:side] / side
    sky = np.stack([120 + 80 * y, 150 + 60 * y, 205 - 20 * y], -1)
    ground = y > 0.72
    sky[ground] = np.stack([90 + 20 * x, 120 + 30 * x, 70 + 0 * x], -1)[ground]
    disc = (x - 0.36) ** 2 + (y - 0.42) ** 2 < 0.04
    sky[disc] = [235, 180, 70]
    box = (abs(x - 0.7) < 0.12) & (abs(y - 0.66) < 0.16)
    sky[box] = [150, 60, 55]
    file = io.BytesIO()
    Image.fromarray(sky.astype(np.uint8)).save(file, format="PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")


def image(heads: int = 6, side: int = 14) -> View:
    """Each head looks at a place of its own."""
    y, x = torch.meshgrid(torch.linspace(0, 1, side), torch.linspace(0, 1, side), indexing="ij")
    spots = [(0.36, 0.42), (0.7, 0.6), (0.5, 0.85), (0.2, 0.1), (0.8, 0.15), (0.36, 0.25), (0.9, 0.9), (0.1, 0.9)]
    noise = torch.rand(heads, side, side, generator=torch.Generator().manual_seed(0))
    layers = []
    for layer in range(3):
        wide = 0.006 * (4 - layer)
        maps = torch.stack([torch.exp(-((x - a) ** 2 + (y - b) ** 2) / wide) for a, b in spots[:heads]]) + 0.15 * noise
        maps = maps / maps.sum((-2, -1), keepdim=True)
        layers.append(
            {"layer": layer, "name": f"blocks.{layer}", "heads": list(range(heads)), "maps": encode.floats(maps)}
        )
    matters = [{"name": "leave one out", "sentence": "what is lost", "values": encode.round_digits((x - y).flatten())}]
    return {"view": "image", "picture": image_url(), "grid": {"rows": side, "columns": side}, "query": "the class token",
            "piece": "patch", "layers": layers, "rollout": encode.floats(maps.mean(0)), "matters": matters}  # fmt: skip


def positions(n: int = 64, d: int = 48) -> View:
    where = torch.arange(n)[:, None]
    angles = where / 10_000 ** (torch.arange(0, d, 2) / d)
    codes = torch.stack([angles.sin(), angles.cos()], -1).reshape(n, d)
    turned = codes @ codes.T / (d / 2)
    learned = torch.randn(n, d, generator=torch.Generator().manual_seed(1)).cumsum(0) / 4
    unit = learned / learned.norm(dim=-1, keepdim=True)

    def item(name: str, sentence: str, codes: Tensor, similarity: Tensor) -> View:
        far = [float(similarity.diagonal(k).mean()) for k in range(n)]
        return {"name": name, "sentence": sentence, "codes": encode.levels(codes), "similarity": encode.levels(similarity),
                "by_distance": encode.round_digits(torch.tensor(far))}  # fmt: skip

    return {"view": "positions", "items": [
        item("sinusoidal", "Each place is a point on circles that turn at different speeds.", codes, turned),
        item("learned", "One vector for each place, found in training.", learned, unit @ unit.T),
    ]}  # fmt: skip


def filters() -> View:
    y, x = torch.meshgrid(torch.linspace(-1, 1, 7), torch.linspace(-1, 1, 7), indexing="ij")
    turn = torch.linspace(0, math.pi, 25)[:-1, None, None]
    waves = torch.cos(4 * (x * turn.cos() + y * turn.sin())) * torch.exp(-2 * (x**2 + y**2))
    colours = torch.rand(24, 1, 1, 3, generator=torch.Generator().manual_seed(2)) - 0.3
    return {"view": "filters", "layers": [
        {"name": "conv1", "filters": encode.levels(waves[..., None] * colours)},
        {"name": "layer1.0.conv1", "filters": encode.levels(waves[..., None])},
    ]}  # fmt: skip


def features() -> View:
    """A layer of plain channels, and one of channels in four poses, drawn smaller than it is."""
    draw = torch.Generator().manual_seed(5)

    def made(*shape: int) -> View:
        colours = torch.rand(*shape[1:], 3, generator=draw)
        return {"maps": encode.levels(torch.randn(*shape, generator=draw)), "colours": encode.levels(colours)}

    how = {"name": "stem", "rows": 8, "columns": 6, "of": 9, "poses": 1, "channels": [0, 4, 7], "explained": 0.5}
    turned = {"name": "layers.1", "rows": 32, "columns": 32, "of": 2, "poses": 4, "channels": [0, 1], "explained": 0.25}
    return {"view": "features", "note": None, "layers": [how | made(3, 8, 6), turned | made(8, 4, 4)]}


def embeddings(labels: list[str] = SENTENCE) -> View:
    random = np.random.default_rng(3)
    n = len(labels)
    walk = np.cumsum(random.normal(size=(n, 2)), 0)
    groups = [k % 4 for k in range(90)]
    kinds = [f"kind {k}" for k in groups]
    centres = np.array([[3, 1], [-2, 2], [0, -3], [-3, -2]])
    cloud = centres[groups] + random.normal(size=(90, 2)) * 0.6
    digits = [f"item {k}" for k in range(90)]
    return {"view": "embeddings", "items": [
        {"name": "after blocks.0", "labels": labels, "groups": None, "pca": walk.round(3).tolist(), "explained": [0.41, 0.19],
         "tsne": (walk[:, ::-1] * 7).round(3).tolist()},
        {"name": "pooled", "labels": digits, "groups": kinds, "pca": cloud.round(3).tolist(), "explained": [0.7, 0.2],
         "tsne": None},
        {"name": "images", "labels": ["this image", "a.png", "b.png"], "groups": ["this image", "cat", "dog"],
         "said": ["cat", "cat", "cat"], "thumbs": {"sheet": 0, "cells": [0, 3, None]}, "pca": [[0, 0], [1, 1], [-1, -1]],
         "explained": [0.5, 0.5], "tsne": None},
    ], "sheets": [{"picture": image_url(64), "rows": 2, "columns": 2}]}  # fmt: skip


def curves(steps: int = 600) -> View:
    random = np.random.default_rng(4)
    loss = [1.2 + 3 * math.exp(-k / 120) for k in range(1, steps + 1)]
    noisy = [round(x + 0.12 * random.normal(), 4) for x in loss]
    looks = range(60, steps + 1, 60)
    validation = [[k, round(1.28 + 3 * math.exp(-k / 125) + 0.0004 * k, 4)] for k in looks]
    best = min(validation, key=lambda point: point[1])
    return {"view": "curves", "training": [[k + 1, x] for k, x in enumerate(noisy)],
            "smoothed": [[k + 1, round(x, 4)] for k, x in enumerate(loss)],
            "validation": validation, "best": {"which": "best", "point": best, "said": f"loss {best[1]:.4f}"},
            "measures": {"accuracy": [[k, round(0.62 - 0.5 * math.exp(-k / 200), 4)] for k in looks],
                         "bits a byte": [[k, round(1.9 + 2 * math.exp(-k / 150), 4)] for k in looks]}}  # fmt: skip


def samples() -> View:
    return {"view": "samples", "items": [
        {"step": 100, "text": "thee the and  wh ses\nTho tha me the"},
        {"step": 6000, "text": "KING:\nWhat say you to the <b>morning</b>, my lord?\nThe day is <script>alert(1)</script>."},
    ]}  # fmt: skip


def laws(n: int = 9, c: int = 16) -> View:
    """A model that keeps the order of tokens, and one that also looks at their places."""
    rows = [
        {"law": "permutation", "declared": "equivariant", "measured": "holds", "error": 1.1e-7, "tolerance": 1e-5,
         "worst": "swap 2 and 5", "layer": None, "exact": None, "reason": None, "ok": True, "seconds": 0.12, "place": ""},
        {"law": "causality", "declared": "holds", "measured": "broken", "error": 0.31, "tolerance": 1e-5,
         "worst": "token 7 changed", "layer": "blocks.1.attention", "exact": True,
         "reason": "its mask lets a token see the next one", "ok": False, "seconds": 0.5,
         "place": "blocks.1.attention"},
        {"law": "shift", "declared": "broken", "measured": "broken", "error": 0.02, "tolerance": 1e-5, "worst": "shift by 3",
         "layer": "embed", "exact": False, "reason": "places are counted from the beginning", "ok": True, "seconds": 0.2,
         "place": "in embed"},
        {"law": "padding", "declared": None, "measured": "unknown", "error": None, "tolerance": None, "worst": None,
         "layer": None, "exact": None, "reason": "the model takes no mask", "ok": True, "seconds": 0.01,
         "place": ""},
    ]  # fmt: skip
    outputs = torch.tanh(torch.randn(n, c, generator=torch.Generator().manual_seed(5)))
    names = [f"token{k}" for k in range(n)]

    def element(label: str, order: list[int], error: float) -> View:
        right = outputs[order]
        left = right + error * torch.randn(n, c, generator=torch.Generator().manual_seed(6))
        as_bytes = [
            encode.pack_array(((x.clamp(-1, 1) + 1) / 2 * 255).round().to(torch.uint8).numpy()) for x in (left, right)
        ]
        return {"label": label, "order": [names[k] for k in order], "left": as_bytes[0], "right": as_bytes[1], "n": n, "c": c,
                "error": error or 1e-7, "holds": error == 0}  # fmt: skip

    swaps = []
    for k in range(1, n):
        order = list(range(n))
        order[0], order[k] = k, 0
        swaps.append(element(f"swap 0 and {k}", order, 0))
    shifts = [element(f"shift by {k}", [(i - k) % n for i in range(n)], 0.25) for k in range(1, 4)]
    verdict = "1 law not as declared: causality"
    return {"view": "laws", "ok": False, "verdict": verdict, "error": None, "rows": rows, "actions": [
        {"name": "swap two tokens", "sentence": "A layer without places gives the same outputs in the new order.",
         "scale": [-1, 1], "elements": swaps},
        {"name": "shift", "sentence": "Learned places know where the text begins.", "scale": [-1, 1], "elements": shifts},
    ]}  # fmt: skip


CONFUSED = [[19, 1, 0], [4, 15, 1], [0, 0, 10]]  # true class × predicted class


def confusion() -> View:
    counts = encode.pack_array(np.array(CONFUSED, dtype=np.uint32))
    return {"view": "confusion", "split": "test", "labels": ["cat", "<b>dog</b>", "teapot"], "counts": counts}


def about() -> View:
    rows = [["parameters", "1,234,567"], ["tokens", "17"], ["torch", "2.13.0"], ["run", "runs/mine"]]
    return {"view": "about", "rows": rows}


def example() -> View:
    """A page with every view."""
    seen = attention()
    seen["layers"].append(unproved(seen["layers"][0], 4, "attention dropout was on; call model.eval() first"))
    others = [next_token, classes, contribution, image, positions, filters, features, embeddings, curves, samples, laws]
    others += [confusion, about]
    return page_of(
        [seen, *(each() for each in others)], notes=["The weights are those of an evaluation, without dropout."]
    )


def translation() -> View:
    """An encoder and a decoder: two streams, and cross-attention between them."""
    english = SENTENCE[:7]
    n, m = len(GERMAN), len(english)
    inside = layer_of(kinds_of_heads(m, 0, 4, causal=False), 0)
    outside = layer_of(kinds_of_heads(n, 1, 4), 1, rows=1, columns=1)
    away = (torch.arange(n)[:, None] - torch.arange(m)[None, :]).abs()
    near = torch.stack([-sharp * away for sharp in (2.0, 1.0, 0.4, 0.0)])
    cross = layer_of(attended(near, causal=False), 2, kind="cross", rows=1, columns=0, distance=None)
    streams = [text_stream(english, "source"), text_stream(GERMAN, "target")]
    asked = {"kind": "text", "text": "".join(english), "target": "".join(GERMAN)}
    return page_of([{"view": "attention", "layers": [inside, outside, cross]}], streams=streams, input=asked)


def large(layers: int = 12, heads: int = 12, n: int = 512) -> View:
    """As large as a page should ever have to be: random causal weights, the same in each layer so that they are soon made."""
    random = torch.Generator().manual_seed(0)
    one = layer_of(attended(3 * torch.randn(heads, n, n, generator=random)), 0, count=24)
    labels = [f" token{k}" for k in range(n)]
    return page_of([{"view": "attention", "layers": [{**one, "layer": k} for k in range(layers)]}], labels)


def level(levels: View, *place: int) -> Any:
    """A number as the page knows it: in 8 bits."""
    return levels["low"] + encode.unpack_array(levels["data"], "u1", *levels["shape"])[place] / 255 * (
        levels["high"] - levels["low"]
    )


def number(floats: View, *place: int) -> float:
    """A number of a map that is also read: in float32."""
    return float(encode.unpack_array(floats["data"], "f4", *floats["shape"])[place])
