"""Do all processes train the same model on the same data by the same code? Asked before the first step."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.config import to_dict
from regard.data.batch import Batch, Source
from regard.data.slices import read_slice
from regard.errors import RegardError
from regard.training.config import TrainConfig
from regard.training.ranks import Ranks

NAMED = 3  # differences that are named
OWN = ("train.device", "train.threads")  # settings that each process may have of its own


def check_agreement(
    ranks: Ranks, model: nn.Module, source: Source, config: TrainConfig, facts: Mapping[str, Any]
) -> None:
    """Raise on all ranks if one differs from rank 0. facts: what else must be the same, as sections of JSON"""
    mine = _flat({**facts, "train": to_dict(config)})
    mine = {name: value for name, value in mine.items() if name not in OWN}
    mine |= {
        "torch": str(torch.__version__),
        "code of regard": _hash_code(),
        "model": _hash_shapes(model),
        "first batch": _hash_batch(read_slice(source, 0, 0, ranks.world).batch),
    }
    everyone = ranks.gather(mine)
    for rank, theirs in enumerate(everyone):
        other = [name for name in {**everyone[0], **theirs} if theirs.get(name) != everyone[0].get(name)]
        if other:
            raise RegardError(_say(rank, everyone[0], theirs, other))


def _say(rank: int, first: Mapping[str, Any], theirs: Mapping[str, Any], other: list[str]) -> str:
    told = [
        f"{name} is {theirs.get(name)!s:.60} there and {first.get(name)!s:.60} on rank 0" for name in other
    ]
    more = f"; and {len(other) - NAMED} more" if len(other) > NAMED else ""
    return (
        f"rank {rank} differs from rank 0: {'; '.join(told[:NAMED])}{more}; give all processes the same data, code "
        "and options"
    )


def _flat(sections: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"train": {"lr": 1}} as {"train.lr": 1}"""
    found: dict[str, Any] = {}
    for name, value in json.loads(json.dumps(sections, default=str)).items():
        if isinstance(value, dict):
            found |= _flat(value, f"{prefix}{name}.")
        else:
            found[prefix + name] = value
    return found


def _hash_code() -> str:
    """Of all modules of this package."""
    found = hashlib.sha256()
    folder = Path(__file__).parents[1]
    for path in sorted(folder.rglob("*.py")):
        found.update(str(path.relative_to(folder)).encode())
        found.update(path.read_bytes())
    return found.hexdigest()[:12]


def _hash_shapes(model: nn.Module) -> str:
    shapes = {name: [str(x.dtype), *x.shape] for name, x in model.state_dict().items()}
    return hashlib.sha256(json.dumps(shapes, allow_nan=False).encode()).hexdigest()[:12]


def _hash_batch(batch: Batch) -> str:
    found = hashlib.sha256()
    for x in (*batch.values(), batch.target):
        if isinstance(x, Tensor):
            dense = x.to_dense() if x.layout is not torch.strided else x
            found.update(str(tuple(dense.shape)).encode())
            found.update(dense.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()[:12]
