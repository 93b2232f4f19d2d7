"""What a family of models is: its classes, its configuration in both directions, its names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from regard.pretrained.foreign_config import ForeignConfig
from regard.pretrained.names import Names


@dataclass(frozen=True)
class Family:
    """One model_type of Hugging Face.

    kind     of our model, by its name in the registry
    classes  their classes -> what each predicts, such as "tokens" or "classes"
    read     their configuration and what the class predicts -> our config
    write    our config -> the class and the configuration that say the same, as far as they can
    names    the names of their tensors, for a config of ours
    """

    model_type: str
    kind: str
    classes: Mapping[str, str]
    read: Callable[[ForeignConfig, str], Any]
    write: Callable[[Any], tuple[str, dict[str, Any]]]
    names: Callable[[Any], Names]
