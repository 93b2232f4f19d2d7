"""Tokens as points in a plane: what each block makes of them, and all there are if they are few; and pictures among others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.look.embedded import embedded
from regard.look.features import grid_of
from regard.look.model_input import Given
from regard.look.pack import rounded
from regard.look.recording.calls import State
from regard.look.streams import Streams
from regard.look.thumbnails import Sheets

FEW, MANY = 4, 1024  # points that are worth drawing
TABLE = 400  # tokens of a vocabulary that is drawn whole
KINDS = {"small letters": str.islower, "capitals": str.isupper, "digits": str.isdigit, "spaces": str.isspace}


def embeddings(
    model: nn.Module, states: Sequence[State], given: Given, streams: Streams, *, tsne: bool
) -> dict[str, Any] | None:
    """The view, or None where there are too few points. t-SNE, which takes its time, for the table and the last block."""
    items = (
        []
        if given.answers == "classes"
        else [each for each in [table(model, given, tsne)] if each is not None]
    )
    sheets = Sheets()
    crowd = among_others(model, given, sheets, tsne)
    blocks = [state for state in states if state.value.dim() == 3 and FEW <= state.value.shape[1] <= MANY]
    for state in blocks:
        n = state.value.shape[1]
        number = streams.find(n, prefer=1 if len(given.streams) > 1 and "decoder" not in state.name else 0)
        labels = list(streams.found[number].labels)
        last = tsne and crowd is None and state is blocks[-1]
        items.append(
            item(f"after {state.name}", state.value[0], labels, tsne=last)
            | {"thumbs": patches(n, given, sheets)}
        )
    if crowd is not None:
        items.insert(0, crowd)
    return {"view": "embeddings", "items": items, "sheets": sheets.found} if items else None


def among_others(model: nn.Module, given: Given, sheets: Sheets, tsne: bool) -> dict[str, Any] | None:
    """The picture among others, as the last layer reads them, in the colours of their classes, with thumbnails."""
    crowd = None if given.crowd is None else given.crowd()
    if crowd is None or given.picture is None or given.called is None:
        return None
    points, classes = embedded(model, given.pixels, torch.cat((given.inputs[given.pixels], crowd.x)))
    said = [given.called(int(i)) for i in classes]
    labels = ["this picture", *crowd.names]
    number = sheets.laid_out(torch.cat((given.picture.expand(3, -1, -1)[None], crowd.pictures)))
    return item(crowd.what, points, labels, tsne=tsne) | {
        "groups": ["this picture", *crowd.labels],
        "said": said,
        "thumbs": {"sheet": number, "cells": list(range(len(labels)))},
    }


def patches(tokens: int, given: Given, sheets: Sheets) -> dict[str, Any] | None:
    """Patches as thumbnails: parts of the picture itself, where it can be cut evenly."""
    grid = None if given.picture is None or given.grid is None else grid_of(tokens, given.grid)
    if (
        grid is None
        or given.picture is None
        or given.picture.shape[-2] % grid[0]
        or given.picture.shape[-1] % grid[1]
    ):
        return None
    count = grid[0] * grid[1]
    return {"sheet": sheets.cut(given.picture, grid), "cells": [None] * (tokens - count) + list(range(count))}


def table(model: nn.Module, given: Given, tsne: bool) -> dict[str, Any] | None:
    """The vectors of all tokens, of a model that knows few."""
    for name, module in model.named_modules():
        weight = getattr(module, "weight", None)
        if "embed" in name and isinstance(weight, Tensor) and weight.dim() == 2 and given.called is not None:
            if not FEW <= len(weight) <= TABLE:
                return None
            labels = [given.called(i) for i in range(len(weight))]
            return item(f"all tokens ({name})", weight, labels, tsne=tsne) | {
                "groups": [kind_of(label) for label in labels]
            }
    return None


def kind_of(label: str) -> str:
    """Which tokens belong together at a glance."""
    return next((kind for kind, test in KINDS.items() if test(label)), "other")


def item(name: str, points: Tensor, labels: list[str], *, tsne: bool) -> dict[str, Any]:
    flat, explained = principal(points.detach().float().cpu())
    return {
        "name": name,
        "labels": labels,
        "groups": None,
        "said": None,
        "thumbs": None,
        "pca": rounded(flat, 3),
        "explained": rounded(explained, 3),
        "tsne": neighbourly(points.detach().float().cpu()) if tsne else None,
    }


def principal(points: Tensor, axes: int = 2) -> tuple[Tensor, Tensor]:
    """The directions in which points differ most, and the share of the variance that each explains.   n d -> n axes, axes"""
    centred = points - points.mean(0)
    u, s, _ = torch.linalg.svd(centred.nan_to_num(), full_matrices=False)
    flat = torch.zeros(len(points), axes)
    count = min(axes, len(s))
    flat[:, :count] = u[:, :count] * s[:count]
    share = torch.zeros(axes)
    share[:count] = (s**2 / (s**2).sum().clamp_min(1e-30))[:count]
    return flat, share


def neighbourly(points: Tensor) -> list[list[float]] | None:
    """t-SNE: near points stay near, distances mean little. None without scikit-learn, or for a handful of points."""
    if len(points) < 12:
        return None
    try:
        from sklearn.manifold import TSNE  # type: ignore[import-untyped]
    except ImportError:
        return None
    perplexity = min(30.0, (len(points) - 1) / 3)
    found = TSNE(perplexity=perplexity, init="pca", random_state=0, max_iter=500).fit_transform(
        points.nan_to_num().numpy()
    )
    result: list[list[float]] = rounded(torch.from_numpy(found), 3)
    return result
