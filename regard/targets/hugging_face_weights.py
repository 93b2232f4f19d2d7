"""The weights of a Hugging Face directory: all that the model has, and nothing that it has no place for."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.errors import RegardError

SHOWN = 3  # names of each kind that an error lists
# constants that older versions of the library saved among the weights
CONSTANTS = ("masked_bias", "position_ids", "inv_freq", "relative_position_index")


def load_weights(cls: Any, path: Path, config: Any) -> tuple[nn.Module, tuple[str, ...]]:
    """The model of a directory with its weights from safetensors, and what a reader should know of them.

    The library fills what is missing with random numbers; here that is an error, with the names.
    """
    model, info = cls.from_pretrained(
        path,
        config=config,
        dtype=torch.float32,
        use_safetensors=True,
        trust_remote_code=False,
        local_files_only=True,
        ignore_mismatched_sizes=True,  # so that all that is wrong is told at once
        output_loading_info=True,
    )
    found: dict[str, list[str]] = {kind: _names(names) for kind, names in info.items()}
    unexpected = found.pop("unexpected_keys", [])
    other = [name for name in unexpected if _is_of_another_part(model, name)]
    wrong = {"missing": found.pop("missing_keys", []), "mismatched": found.pop("mismatched_keys", [])}
    wrong["unexpected"] = [name for name in unexpected if name not in other]
    wrong["unreadable"] = [name for names in found.values() for name in names]
    if any(wrong.values()):
        wrong["unexpected"] += other
        raise RegardError(
            f"the weights in {path} do not fit {cls.__name__} as its config.json describes it: "
            f"{'; '.join(_list(kind, names) for kind, names in wrong.items() if names)}"
        )
    for name, tensor in model.named_parameters():
        if not bool(tensor.isfinite().all()):
            raise RegardError(f"the weights in {path} cannot be used: '{name}' holds NaN or infinity")
    if not other:
        return model, ()
    return model, (f"{cls.__name__} has no part for some weights of the file, which are left out: {_list('', other)}",)


def _names(names: Iterable[Any]) -> list[str]:
    """Names of tensors; of those with another shape, both shapes too."""
    found = []
    for each in names:
        if isinstance(each, tuple | list) and len(each) == 3:
            found.append(f"{each[0]} {tuple(each[1])} in the file, {tuple(each[2])} in the model")
        else:
            found.append(str(each[0] if isinstance(each, tuple | list) else each))
    return sorted(found)


def _is_of_another_part(model: nn.Module, name: str) -> bool:
    """Does a tensor belong to a part that this class leaves out, such as another head? Then the model is
    whole without it. A layer beyond the last one, or a bias where the model has none, is no such part: then
    the model computes something else than the one that was trained."""
    if name.rpartition(".")[2] in CONSTANTS:
        return True
    at: nn.Module = model
    parts = name.split(".")
    inside = dict(model.named_children()).get(getattr(model, "base_model_prefix", ""))
    if parts[0] not in dict(at.named_children()) and inside is not None:
        at = inside  # names of the body alone, without its prefix
    for i, part in enumerate(parts):
        children = dict(at.named_children())
        if part in children:
            at = children[part]
        else:
            rest = len(parts) - i
            numbered = part.isdecimal() and isinstance(at, nn.ModuleList | nn.Sequential)
            return rest > 1 and not numbered
    return False


def _list(kind: str, names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{kind} {', '.join(names[:SHOWN])}{more}".strip()
