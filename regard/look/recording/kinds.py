"""What an operation of PyTorch means to a listener."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import torch
from torch import Tensor

from regard.look.recording.operators import FUSED
from regard.look.recording.tapped import CODES

PRODUCTS = {"mm": 0, "bmm": 0, "mv": 0, "addmm": 1, "baddbmm": 1, "addbmm": 1}  # where the first factor is
NESTED_KEYS = ("CPU", "NestedTensorCPU", "NestedTensorCUDA", "CompositeImplicitAutogradNestedTensor")
CONVOLUTIONS = {"convolution", "_convolution", "conv1d", "conv2d", "mkldnn_convolution", "cudnn_convolution"}
SOFTMAXES = {"_softmax", "_safe_softmax"}
COPIES = {"clone", "_to_copy", "copy_", "contiguous", "alias", "lift_fresh"}
# each element stays in its place, though PyTorch does not say so
IN_PLACE = {
    "native_layer_norm",
    "_fused_rms_norm",
    "native_group_norm",
    "_log_softmax",
    "masked_fill",
    "tril",
    "triu",
    "index_fill",
}


@cache
def kind_of(operator: Any) -> str:
    """What an operation means to a listener."""
    name = operator._schema.name.rpartition("::")[2]
    for kinds, answer in (
        (FUSED, "fused"),
        (PRODUCTS, "product"),
        (CONVOLUTIONS, "convolution"),
        (SOFTMAXES, "softmax"),
    ):
        if name in kinds:
            return answer
    if name in COPIES:
        return "copy"
    if name in ("sum", "cat", "native_dropout"):
        return name
    if name.startswith("bernoulli"):
        return "noise"
    if name in IN_PLACE or torch.Tag.pointwise in operator.tags:
        if name == "mul":
            return "multiply"
        return "pointwise"
    if operator._schema.is_mutable:
        return "written"
    return "other"


@cache
def is_composite(operator: Any, *, nested: bool = False) -> bool:
    """Is it only a name for other operations? Inference mode hands over such names (matmul, softmax) as they
    are. Nested tensors have ways of their own for many of them."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    own = NESTED_KEYS if nested else ("CPU",)
    return has(operator.name(), "CompositeImplicitAutograd") and not any(
        has(operator.name(), key) for key in own
    )


def is_told_by_the_tap() -> bool:
    """Is our own `attend` or `mix` at work, which tell more than can be heard?"""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code in CODES:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def find_tensors(value: Any) -> list[Tensor]:
    """All tensors of a call, in order."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [x for each in value for x in find_tensors(each)]
    if isinstance(value, dict):
        return [x for each in value.values() for x in find_tensors(each)]
    return []
