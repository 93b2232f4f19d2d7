"""Where a model keeps its places: the vector of each place, how alike places are, and how that falls with
distance."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from regard.attention.positions import Code, Learned, Position, Rotary
from regard.look import measure
from regard.look.encode_arrays import levels, round_digits
from regard.look.view import View

if TYPE_CHECKING:
    from regard.look.scene import Scene


LENGTH = 128  # places that are shown
CHANNELS = 256
TABLE = re.compile(r"(^|[._])(wpe|pos(ition)?(al)?_?(embed(ding)?s?|emb)?)($|[._])")

TURNED = "turns queries and keys: the similarity of two places is the mean cosine of how far they are turned apart"
ADDED = "adds a vector for each place: the similarity of two places is the cosine of their vectors"


class PositionsView(View):
    """The vectors of places, of any model that has them."""

    name, order = "positions", 52

    def build(self, scene: Scene) -> dict[str, Any] | None:
        return _positions(scene.model)


def _positions(model: nn.Module) -> dict[str, Any] | None:
    """The view, or None for a model without positions that have a vector."""
    items = [_item(name, sentence, codes) for name, sentence, codes in _codes_of(model)]
    if items:
        return {"view": "positions", "items": items}
    return None


def _item(name: str, sentence: str, codes: Tensor) -> dict[str, Any]:
    similar = measure.position_similarity(codes, len(codes))
    return {
        "name": name,
        "sentence": sentence,
        "codes": levels(codes[:, :CHANNELS]),
        "similarity": levels(similar),
        "by_distance": round_digits(measure.by_distance(similar)),
    }


@torch.no_grad()
def _codes_of(model: nn.Module) -> Iterator[tuple[str, str, Tensor]]:
    """Name, sentence and vectors n d of every position: ours, a table that is called one, or frequencies of a
    rotary one."""
    ours = [(name, module) for name, module in model.named_modules() if isinstance(module, Position)]
    for name, module in ours:
        # places on a grid have no one order to show them in
        if isinstance(module, Rotary | Code) and module.axes == 1:
            length = min(LENGTH, len(module.table)) if isinstance(module, Learned) else LENGTH
            yield (name, TURNED if isinstance(module, Rotary) else ADDED, measure.position_codes(module, length))
    if ours:
        return
    for name, parameter in model.named_parameters():
        rows = parameter[0] if parameter.dim() == 3 and parameter.shape[0] == 1 else parameter
        if TABLE.search(name.removesuffix(".weight")) and rows.dim() == 2 and len(rows) > 2 and "bias" not in name:
            yield name, ADDED, rows.detach()[:LENGTH].float()
    for name, buffer in model.named_buffers():
        if name.rpartition(".")[2] == "inv_freq" and buffer.dim() == 1:
            angles = torch.arange(LENGTH, device=buffer.device)[:, None] * buffer.float()
            yield name, TURNED, torch.cat((angles.cos(), angles.sin()), -1)
            return  # layers share them
