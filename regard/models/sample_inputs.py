"""Inputs to the measure of a model: random, and the same for the same seed. `check` tries laws on them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

ROWS, TOKENS = 3, 12  # of sequences, unless more are asked for
EXAMPLES, POINTS = 2, 12  # images or sets of a batch, and points of a set
NODES, EDGES = 11, 26


def sample_sequences(
    config: Any, seed: int = 0, tokens: int | None = None, rows: int | None = None
) -> dict[str, Tensor]:
    """Token ids.   b n"""
    n = min(tokens or TOKENS, config.context or TOKENS)
    return {"tokens": torch.randint(config.vocab, (rows or ROWS, n), generator=_generator(seed))}


def sample_images(config: Any, seed: int = 0) -> dict[str, Tensor]:
    """Pixels.   b c s s"""
    return {"x": torch.randn(EXAMPLES, config.colours, config.size, config.size, generator=_generator(seed))}


def sample_sets(config: Any, seed: int = 0) -> dict[str, Tensor]:
    """Points, no more of them than the model takes.   b n d"""
    n = min(POINTS, getattr(config, "size", POINTS))
    return {"x": torch.randn(EXAMPLES, n, config.features, generator=_generator(seed))}


def sample_graph(config: Any, seed: int = 0) -> dict[str, Any]:
    """Nodes and edges, with features if the model reads them.   n d, 2 e, e k"""
    draw = _generator(seed)
    x, edges = (torch.randn(NODES, config.features, generator=draw), torch.randint(NODES, (2, EDGES), generator=draw))
    width = getattr(config, "edge_features", 0)
    if not width:
        return {"x": x, "edges": edges}
    return {"x": x, "edges": edges, "edge_features": torch.randn(EDGES, width, generator=draw)}


def sample_mesh(seed: int = 0) -> dict[str, Tensor]:
    """A bumpy closed surface of 42 vertices, an icosahedron cut twice as fine, with random frames.   n 3, 3 f, n"""
    draw = _generator(seed)
    phi = (1 + 5**0.5) / 2
    signs = torch.tensor([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])
    flat = torch.stack((torch.zeros(4), signs[:, 0], phi * signs[:, 1]), -1)
    corners = torch.cat([flat.roll(k, 1) for k in range(3)])  # 12 3
    near = torch.cdist(corners, corners) < 2.1
    found = [
        (i, j, k)
        for i in range(12)
        for j in range(i + 1, 12)
        for k in range(j + 1, 12)
        if near[i, j] and near[j, k] and near[i, k]
    ]
    faces = torch.tensor(found)
    a, b, c = (corners[faces[:, k]] for k in range(3))
    inward = (torch.linalg.cross(b - a, c - a) * a).sum(-1) < 0
    faces[inward] = faces[inward].flip(1)
    points, fine = _halve_edges(corners, faces.tolist())
    points = points / points.norm(dim=1, keepdim=True)
    points = points + 0.2 * torch.randn(points.shape, generator=draw)
    frames = 6.28 * torch.rand(len(points), generator=draw)
    return {"points": points, "faces": fine, "frames": frames}


def _halve_edges(corners: Tensor, faces: list[list[int]]) -> tuple[Tensor, Tensor]:
    """A mesh with a vertex in the middle of each edge: every triangle becomes four.   n 3, f 3 -> n′ 3, 3 4f"""
    points, middle = list(corners), dict[tuple[int, int], int]()

    def between(i: int, j: int) -> int:
        key = (min(i, j), max(i, j))
        if key not in middle:
            middle[key] = len(points)
            points.append((corners[i] + corners[j]) / 2)
        return middle[key]

    fine = []
    for a, b, c in faces:
        ab, bc, ca = between(a, b), between(b, c), between(c, a)
        fine += [(a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca)]
    return torch.stack(points), torch.tensor(fine).T.contiguous()


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def build_seeded(cls: Any, config: Any) -> Any:
    """A model that is the same every time, without touching the random numbers of others."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return cls(config).eval()
