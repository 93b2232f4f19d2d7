"""A state of which each process writes its rows: torch.distributed.checkpoint, in files of safetensors.

Tensors only. (The writer would take numbers, too, and damage its file in silence; and the format of
torch.distributed.checkpoint itself has a pickle in it, which is never read here.)
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.errors import RegardError


def write_shards(folder: Path, tensors: Mapping[str, Tensor], group: Any = None) -> None:
    """All processes write, each its own file. group: of processes, that talk about it; None: that of all"""
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
    from torch.distributed.checkpoint.state_dict_saver import save

    seen: set[int] = set()
    state: dict[str, Any] = {}
    for name, x in tensors.items():
        if not isinstance(x, Tensor):
            raise RegardError(f"a checkpoint holds tensors, got {type(x).__name__} for '{name}'")
        own = getattr(x, "_local_tensor", x)
        place = own.data_ptr() if own.numel() else id(own)
        state[name] = x.clone() if place in seen else x  # two names of one tensor
        seen.add(place)
    writer = HuggingFaceStorageWriter(str(folder), save_distributed=True)
    try:
        save(state, storage_writer=writer, process_group=group)
    except CheckpointException as error:
        raise _first_cause(error) from error


def _first_cause(error: Any) -> BaseException:
    """What a process met, out of the errors of all: that of a disk first, then that of the network. (torch's
    own is no Exception, and a full disk would not be known as one.)"""
    causes = [cause for cause, _ in error.failures.values()]
    for kind in (OSError, RuntimeError):
        for cause in causes:
            if isinstance(cause, kind):
                return cause
    return RuntimeError(str(causes[0]) if causes else str(error))


def read_shards(folder: Path) -> dict[str, Tensor]:
    """The whole tensors, read by one process."""
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
    from torch.distributed.checkpoint.state_dict_loader import load

    known = HuggingFaceStorageReader(str(folder)).read_metadata().state_dict_metadata
    found: dict[str, Any] = {
        name: torch.empty(about.size, dtype=about.properties.dtype)  # type: ignore[union-attr]
        for name, about in known.items()
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # (that one process reads is meant)
        load(found, storage_reader=HuggingFaceStorageReader(str(folder)), no_dist=True)
    return found


def join_shards(folder: Path) -> bytes:
    """The same as one file of safetensors."""
    from safetensors.torch import save

    return save(read_shards(folder))
