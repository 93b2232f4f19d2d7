"""Inputs as a page draws them: images on one sheet, rows and point clouds as numbers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.look import encode_arrays
from regard.look.thumbnails import Sheets, as_png
from regard.recipes.autoencoder.config import Form
from regard.recipes.autoencoder.processor import InputsProcessor

FARTHEST = 1e6  # from 0 that a number may be which is drawn
POINTS = 192  # of a small point cloud
LARGE_POINTS = 2_048  # of one that is drawn large
# numbers that all small ones of a figure may have together
BUDGETS = {"images": 3 * 2**19, "rows": 2**17, "points": 2**17}


def describe_inputs(inputs: InputsProcessor[Any], reach: float) -> dict[str, Any]:
    """What the page must know to draw them. reach: of a point cloud, how far from 0 its points are"""
    return {
        "form": inputs.form,
        "shape": list(inputs.shape),
        "columns": list(inputs.columns),
        "centre": list(inputs.centre),
        "scale": list(inputs.scale),
        "reach": encode_arrays.round_digits(reach),
    }


def count_that_fits(inputs: InputsProcessor[Any]) -> int:
    """How many small ones a figure may have."""
    shape = (min(inputs.shape[0], POINTS), *inputs.shape[1:]) if inputs.form == "points" else inputs.shape
    return max(1, BUDGETS[inputs.form] // max(1, torch.Size(shape).numel()))


def exhibit(x: Tensor, form: Form) -> dict[str, Any]:
    """Small ones, as data of a page.   n shape"""
    x = _finite(x)
    if form == "images":
        sheets = Sheets()
        sheets.laid_out(x.expand(-1, 3, -1, -1))
        return {"count": len(x), "sheet": sheets.found[0], "numbers": None}
    if form == "points":
        x = _thin(x, POINTS)
    return {"count": len(x), "sheet": None, "numbers": encode_arrays.floats(x)}


def exhibit_large(x: Tensor, form: Form) -> dict[str, Any]:
    """One of them, with all its pixels or points.   shape"""
    x = _finite(x)
    if form == "images":
        sheet = {"picture": as_png(x.expand(3, -1, -1)), "rows": 1, "columns": 1}
        return {"count": 1, "sheet": sheet, "numbers": None}
    if form == "points":
        x = _thin(x[None], LARGE_POINTS)[0]
    return {"count": 1, "sheet": None, "numbers": encode_arrays.floats(x[None])}


def _thin(x: Tensor, most: int) -> Tensor:
    """Some of the points of each cloud, evenly taken.   n m d"""
    m = x.shape[1]
    if m <= most:
        return x
    return x[:, torch.linspace(0, m - 1, most).round().long()]


def _finite(x: Tensor) -> Tensor:
    return x.detach().float().cpu().nan_to_num(nan=0.0).clamp(-FARTHEST, FARTHEST)
