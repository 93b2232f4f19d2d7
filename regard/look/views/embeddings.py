"""Tokens as points in a plane: what each block makes of them, and all there are if they are few; and images
among others."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from regard.look.encode_arrays import round_digits
from regard.look.model_input import ModelInput
from regard.look.recording.calls import State
from regard.look.thumbnails import Sheets
from regard.look.token_streams import Streams
from regard.look.view import View

if TYPE_CHECKING:
    from regard.look.scene import Scene


FEW, MANY = 4, 1024  # points that are worth drawing
FARTHEST = 1e12  # from 0 that a point may be
SAME = 1e-6  # of their distance from 0: points that are no farther apart are one point
TABLE = 400  # tokens of a vocabulary that is drawn whole
CHARACTER_CLASSES = {
    "small letters": str.islower,
    "capitals": str.isupper,
    "digits": str.isdigit,
    "spaces": str.isspace,
}


class EmbeddingsView(View):
    """Tokens as points, after each block."""

    name, order, stands_alone = "embeddings", 50, True

    def build(self, scene: Scene) -> dict[str, Any] | None:
        return _embeddings(scene.model, scene.seen.states, scene.given, scene.streams, tsne=scene.tsne)


def _embeddings(
    model: nn.Module, states: Sequence[State], given: ModelInput, streams: Streams, *, tsne: bool
) -> dict[str, Any] | None:
    """The view, or None where there are too few points. t-SNE, which takes its time, for the table and the
    last block."""
    if given.answers in ("classes", "numbers"):
        items = []
    else:
        items = [each for each in [_table(model, given, tsne)] if each is not None]
    sheets = Sheets()
    crowd = given.embeddings(model, sheets, partial(_item, tsne=tsne))
    blocks = [state for state in states if state.value.dim() == 3 and FEW <= state.value.shape[1] <= MANY]
    for state in blocks:
        n = state.value.shape[1]
        number = streams.find(n, prefer=1 if len(given.streams) > 1 and "decoder" not in state.name else 0)
        labels = list(streams.found[number].labels)
        last = tsne and crowd is None and state is blocks[-1]
        items.append(
            _item(f"after {state.name}", state.value[0], labels, tsne=last)
            | {"thumbs": given.thumbnails(n, sheets), "ordered": given.ordered}
            | _grouped(given, n)
        )
    if crowd is not None:
        items.insert(0, crowd)
    if items:
        return {"view": "embeddings", "items": items, "sheets": sheets.found}
    return None


def _grouped(given: ModelInput, n: int) -> dict[str, Any]:
    """The classes of tokens, where the input knows them."""
    found = given.token_groups(n)
    if found is None:
        return {}
    return {"groups": found.of_each, "classes": found.names}


def _table(model: nn.Module, given: ModelInput, tsne: bool) -> dict[str, Any] | None:
    """The vectors of all tokens, of a model that knows few."""
    for name, module in model.named_modules():
        weight = getattr(module, "weight", None)
        if "embed" in name and isinstance(weight, Tensor) and weight.dim() == 2 and given.called is not None:
            if not FEW <= len(weight) <= TABLE:
                return None
            labels = [given.called(i) for i in range(len(weight))]
            return _item(f"all tokens ({name})", weight, labels, tsne=tsne) | {
                "groups": [_character_class(label) for label in labels]
            }
    return None


def _character_class(label: str) -> str:
    """Which tokens belong together at a glance."""
    return next((name for name, test in CHARACTER_CLASSES.items() if test(label)), "other")


def _item(name: str, points: Tensor, labels: list[str], *, tsne: bool) -> dict[str, Any]:
    points = _finite(points.detach().float().cpu())
    flat, explained = principal(points)
    return {
        "name": name,
        "labels": labels,
        "groups": None,
        "classes": None,
        "ordered": True,
        "said": None,
        "thumbs": None,
        "pca": round_digits(flat, 3),
        "explained": round_digits(explained, 3),
        "tsne": _neighbourly(points) if tsne else None,
    }


def _finite(points: Tensor) -> Tensor:
    """Points at places that can be drawn: what is not finite is at 0, and none is so far away that squares of
    distances would not be finite."""
    found = points.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    largest = float(found.abs().max()) if found.numel() else 0.0
    if largest > FARTHEST:
        return found * (FARTHEST / largest)
    return found


def principal(points: Tensor, axes: int = 2) -> tuple[Tensor, Tensor]:
    """The directions in which points differ most, and the share of the variance that each explains.
    n d -> n axes, axes"""
    centred = _finite(points) - _finite(points).mean(0)
    u, s, _ = torch.linalg.svd(centred, full_matrices=False)
    flat = torch.zeros(len(points), axes)
    count = min(axes, len(s))
    flat[:, :count] = u[:, :count] * s[:count]
    share = torch.zeros(axes)
    share[:count] = (s**2 / (s**2).sum().clamp_min(1e-30))[:count]
    return flat, share


def _neighbourly(points: Tensor) -> list[list[float]] | None:
    """t-SNE: near points stay near, distances mean little. None without scikit-learn, for a handful of
    points, and for points of which hardly any two differ: there the package divides by 0, and crashes."""
    spread = (points - points.mean(0)).double()
    widest = float(spread.abs().max()) if points.numel() else 0.0
    if len(points) < 12 or points.shape[1] < 2 or not widest > SAME * max(1e-30, float(points.abs().max())):
        return None
    spread = (spread / widest).float()
    if len(spread.unique(dim=0)) < 4:
        return None
    try:
        from sklearn.manifold import TSNE  # type: ignore[import-untyped]
    except ImportError:
        return None
    perplexity = min(30.0, (len(points) - 1) / 3)
    found = TSNE(perplexity=perplexity, init="pca", random_state=0, max_iter=500).fit_transform(
        spread.numpy() * (widest if 1e-3 < widest < 1e3 else 1.0)
    )
    result: list[list[float]] = round_digits(torch.from_numpy(found), 3)
    return result
