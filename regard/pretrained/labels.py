"""Names of classes in a config.json of Hugging Face."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.data.targets import MOST
from regard.errors import RegardError


def read_labels(plain: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of classes in their order: id2label of a config.json, which may leave out numbers for names."""
    named = plain.get("id2label")
    if not isinstance(named, dict) or not named:
        count = plain.get("num_labels", 2)
        if type(count) is not int or not 1 <= count <= MOST:
            raise RegardError(f"num_labels must be a whole number from 1 to {MOST:,}, got {count!r}")
        return tuple(f"LABEL_{i}" for i in range(count))
    try:
        found = {int(key): str(label) for key, label in named.items()}
    except ValueError as error:
        raise RegardError(f"id2label of a config.json has keys that are no numbers: {list(named)[:3]}") from error
    if sorted(found) != list(range(len(found))):
        raise RegardError(f"id2label of a config.json must have the keys 0 to {len(found) - 1}")
    return tuple(found[i] for i in range(len(found)))
