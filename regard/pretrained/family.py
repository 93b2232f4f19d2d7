"""What a family of models is: its classes, its configuration in both directions, its names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from regard.errors import RegardError
from regard.pretrained.foreign_config import ForeignConfig
from regard.pretrained.names import Names


def translate(family: Family, theirs: ForeignConfig, predicts: str) -> tuple[Any, Names]:
    """Our config of theirs, and the table of names for it. A value of a kind that nobody expects is one line."""
    try:
        config = family.read(theirs, predicts)
        theirs.finish()
        return config, family.names(config)
    except RegardError as error:
        words = str(error)
        if theirs.where in words:
            raise
        raise RegardError(f"{theirs.where}: {words}") from error
    except (TypeError, KeyError, ValueError, OverflowError, ZeroDivisionError) as error:
        what = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        raise RegardError(f"{theirs.where} cannot be read as that of a {family.model_type} model ({what})") from error


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
