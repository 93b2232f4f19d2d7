"""regard: attention models whose symmetries are declared, checked and visible.

The names below are imported when first used, so that `import regard` costs nothing. Everything else is in its
module.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.api.check import check
    from regard.api.evaluate import evaluate
    from regard.api.generate import generate
    from regard.api.load import load
    from regard.api.predict import predict
    from regard.api.train import train
    from regard.attention.attend import attend
    from regard.attention.biases import ALiBi
    from regard.attention.masks import Causal, Padding, Window
    from regard.attention.positions import Rotary
    from regard.look.record import record

__version__ = "0.1.0"

__all__ = [
    "ALiBi",
    "Causal",
    "Padding",
    "Rotary",
    "Window",
    "attend",
    "check",
    "evaluate",
    "generate",
    "load",
    "predict",
    "record",
    "train",
]

_HOME = {
    "attend": "regard.attention.attend",
    "check": "regard.api.check",
    "evaluate": "regard.api.evaluate",
    "train": "regard.api.train",
    "load": "regard.api.load",
    "record": "regard.look.record",
    "generate": "regard.api.generate",
    "predict": "regard.api.predict",
    "Causal": "regard.attention.masks",
    "Window": "regard.attention.masks",
    "Padding": "regard.attention.masks",
    "Rotary": "regard.attention.positions",
    "ALiBi": "regard.attention.biases",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'regard' has no attribute '{name}'")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME} - {"Any", "TYPE_CHECKING"})
