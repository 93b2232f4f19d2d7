"""A GGUF file with its matrices as they are stored: Q4_0, Q4_1 and Q8_0 are not made float32 first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard import files
from regard.errors import RegardError
from regard.nn.quantise import GROUP, Quantised
from regard.pretrained.families import FAMILIES
from regard.pretrained.family import translate
from regard.pretrained.foreign_config import ForeignConfig
from regard.pretrained.gguf import FREQUENCIES, PERMUTED, check_architecture, read_config, rename, unpermute
from regard.pretrained.gguf_file import GGUFFile, Stored

KEPT = {"Q8_0": "int8", "Q4_0": "int4", "Q4_1": "int4_min"}
SCALE, MINIMUM = 2, 2  # bytes


def read_quantised(path: files.PathLike) -> tuple[Any, dict[str, Tensor | Quantised], tuple[str, ...]]:
    """The config of a file, its tensors by our names, and notes: which types are not kept as they are.

    Tensors of other types come in float32.
    """
    file = GGUFFile(Path(path))
    architecture = check_architecture(file)
    theirs = ForeignConfig(read_config(file, architecture), str(path))
    config, names = translate(FAMILIES[architecture], theirs, "tokens")
    found: dict[str, Tensor | Quantised] = {}
    stand_ins: dict[str, Tensor] = {}
    for name, stored in file.tensors.items():
        if name == FREQUENCIES:
            continue
        tensor: Tensor | Quantised
        if stored.kind.name in KEPT and len(stored.shape) == 2:
            tensor = _quantised(file, stored)
        else:
            tensor = file.read(name)
        if architecture in PERMUTED and name.startswith("blk."):
            tensor = _in_halves(tensor, name, config, str(path))
        found[rename(name)] = tensor
        # the table of names moves tensors; one without numbers shows where to
        stand_ins[rename(name)] = torch.empty(stored.shape, device="meta")
    state, _ = names.read(stand_ins, str(path))
    origin = {id(tensor): name for name, tensor in stand_ins.items()}
    moved = {ours: found[origin[id(tensor)]] for ours, tensor in state.items() if id(tensor) in origin}
    if len(moved) != len(state):
        raise RegardError(f"{path}: tensors of {architecture} are laid out anew, and cannot stay quantised")
    _check_finite(moved, str(path))
    return config, moved, _notes(file)


def _notes(file: GGUFFile) -> tuple[str, ...]:
    """What becomes of matrices that are not kept as they are."""
    others = Counter(
        stored.kind.name
        for name, stored in file.tensors.items()
        if stored.kind.name not in KEPT and len(stored.shape) == 2
    )
    if not others:
        return ()
    told = ", ".join(f"{count} of {kind}" for kind, count in sorted(others.items()))
    return (f"matrices that are quantised anew: {told}; Q4_0, Q4_1 and Q8_0 stay as they are",)


def _quantised(file: GGUFFile, stored: Stored) -> Quantised:
    """The blocks of a matrix, taken apart."""
    rows, columns = stored.shape
    kind = KEPT[stored.kind.name]
    blocks = file.blocks(stored).reshape(rows, columns // GROUP, -1)
    scale = _halves(blocks[..., :SCALE])
    minimum = None
    begin = SCALE
    if kind == "int4_min":
        minimum = _halves(blocks[..., SCALE : SCALE + MINIMUM])
        begin += MINIMUM
    whole = blocks[..., begin:]
    if kind == "int8":
        q = whole ^ np.uint8(128)  # from −128 on becomes from 0 on
    else:
        q = np.concatenate((whole & np.uint8(15), whole >> np.uint8(4)), -1)
    return Quantised(kind, torch.from_numpy(q.reshape(rows, columns)), scale, columns, minimum)


def _halves(part: np.ndarray[Any, Any]) -> Tensor:
    """rows groups 2 bytes -> float16 rows groups"""
    return torch.from_numpy(np.ascontiguousarray(part).view("<f2")[..., 0].astype(np.float16))


def _in_halves(tensor: Tensor | Quantised, name: str, config: Any, where: str) -> Tensor | Quantised:
    """As `unpermute`, of whole rows."""
    if isinstance(tensor, Tensor):
        return unpermute(tensor, name, config, where)
    return tensor.take(unpermute(torch.arange(tensor.shape[0]), name, config, where))


def _check_finite(state: Mapping[str, Tensor | Quantised], where: str) -> None:
    for name, tensor in state.items():
        parts = [tensor] if isinstance(tensor, Tensor) else [tensor.scale, tensor.minimum]
        if not all(bool(part.isfinite().all()) for part in parts if part is not None):
            raise RegardError(f"the weights of {where} cannot be used: '{name}' holds NaN or infinity")
