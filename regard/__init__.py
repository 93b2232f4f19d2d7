"""regard: attention models whose symmetries are declared, checked and visible.

The names below are imported when first used, so that `import regard` costs nothing. Everything else is in its
module.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.attention.attend import attend
    from regard.attention.biases import ALiBi
    from regard.attention.masks import Causal, Padding, Window
    from regard.attention.positions import Rotary
    from regard.look.record import record
    from regard.verbs.check import check
    from regard.verbs.evaluate import evaluate
    from regard.verbs.generate import generate
    from regard.verbs.load import load
    from regard.verbs.predict import predict
    from regard.verbs.train import train

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
    "check": "regard.verbs.check",
    "evaluate": "regard.verbs.evaluate",
    "train": "regard.verbs.train",
    "load": "regard.verbs.load",
    "record": "regard.look.record",
    "generate": "regard.verbs.generate",
    "predict": "regard.verbs.predict",
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
