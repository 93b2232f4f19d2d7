"""In which dtype a processor should really work.

A processor without units for half precision multiplies it tens of times slower than float32, so kernels then
work in float32 and round once at the end: faster, and more exact.
"""

from __future__ import annotations

import platform

import torch
from torch import Tensor

HALF = (torch.bfloat16, torch.float16)


def _has_bfloat16_units() -> bool:
    if platform.machine().lower() in ("x86_64", "amd64"):
        return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


CPU_MULTIPLIES = {torch.bfloat16: _has_bfloat16_units(), torch.float16: False}


def native(x: Tensor) -> bool:
    """Does the processor that holds x multiply its dtype at full speed?"""
    return CPU_MULTIPLIES.get(x.dtype, True) or x.device.type != "cpu"
