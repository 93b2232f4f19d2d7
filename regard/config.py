"""Configurations: small frozen dataclasses, to plain JSON and back to an equal object.

A field may be a bool, int, float or str, None, a Literal, a union of these, a tuple, or another such
dataclass. Reading is strict: a wrong type, a missing key or a key nobody knows is a ValueError that names the
key by its dotted path.
"""

import json
import math
import types
from collections.abc import Iterable
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from regard.errors import RegardError, nearest

C = TypeVar("C")

# The largest value of each whole number in a config, by its name; a class can say otherwise in `largest`. They are
# far above what anybody trains, and below what hangs, overflows or fills the memory by itself: a number that is
# too large is refused here, before anything is made of it. (What is too much together, models/memory.py refuses.)
LARGEST: dict[str, int] = {
    **dict.fromkeys(("vocab", "vocabulary", "source_vocab", "source_vocabulary"), 2**24),
    **dict.fromkeys(("context", "rope_original", "window", "points", "sample", "memory"), 2**22),
    **dict.fromkeys(("batch_tokens", "pairs", "bleu_pairs"), 2**22),
    "classes": 2**16,
    "meshes": 2**20,
    **dict.fromkeys(("latent", "shape"), 2**20),  # numbers of a code, and the axes of an input
    **dict.fromkeys(("outputs", "features", "size", "sets", "places", "neighbours", "edge_features"), 2**20),
    **dict.fromkeys(
        ("dim", "head_dim", "rotary_channels", "hidden", "width", "widths", "stem", "growth", "turned"), 2**18
    ),
    **dict.fromkeys(("depth", "depths", "decoder_depth", "blocks", "residual", "halve"), 512),
    "orders": 16,  # of rotation
    **dict.fromkeys(("experts", "chosen", "side", "code"), 1024),
    "image": 2**12,  # channels, height and width
    **dict.fromkeys(
        ("heads", "kv_heads", "registers", "lora", "placed", "unused_places", "token_types"), 1024
    ),
    **dict.fromkeys(("colours", "channels", "patch", "after", "seeds", "spread", "farthest", "ratio"), 1024),
    **dict.fromkeys(("kernel", "last", "stride"), 64),
    **dict.fromkeys(("batch", "accumulate", "max_new", "trials", "length", "top_k", "usual"), 2**20),
    **dict.fromkeys(("samples", "beams", "n_best", "rounds"), 2**12),
    **dict.fromkeys(("folds", "fold"), 1000),
    "ngrams": 8,
    **dict.fromkeys(("block", "random_blocks", "buckets", "projected"), 2**16),
    **dict.fromkeys(("seed", "attention_seed"), 2**32 - 1),
    "port": 65_535,
    "threads": 4096,
    **dict.fromkeys(("observations", "observed", "actions"), 2**16),
    **dict.fromkeys(("ensemble", "frames", "environments", "processes", "epochs"), 256),
    **dict.fromkeys(("lags", "season"), 2**14),
    **dict.fromkeys(("imagined", "horizon", "minibatch", "episodes"), 2**20),
    **dict.fromkeys(
        ("real_steps", "world_steps", "first_steps", "round_steps", "code_steps", "random_steps"), 10**9
    ),
    **dict.fromkeys(
        ("steps", "warmup", "evaluate_every", "save_every", "patience", "train", "redraw"), 10**12
    ),
}
LONGEST = 1024  # numbers in a row, such as the widths of layers


def to_dict(config: Any) -> dict[str, Any]:
    """A config as dicts, lists and scalars, ready for JSON. Raises TypeError for what could not come back
    equal."""
    _be_dataclass(type(config))
    return {field.name: _plain(getattr(config, field.name), field.name) for field in _settable(type(config))}


def from_dict(cls: type[C], data: Any) -> C:
    """The config of class cls that `to_dict` made the data from; its own checks (`__post_init__`) run as
    always."""
    _be_dataclass(cls)
    return _read_dataclass(cls, data, "")


def to_json(config: Any) -> str:
    """A config as readable JSON text, one key a line. JSON has no nan or infinity, so they are refused."""
    return json.dumps(to_dict(config), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def from_json(cls: type[C], text: str) -> C:
    """The config of class cls from JSON text."""
    try:
        data = json.loads(text, object_pairs_hook=_without_repeats, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise RegardError(f"not JSON at line {error.lineno}, column {error.colno}: {error.msg}") from error
    except RegardError:
        raise
    except (ValueError, RecursionError) as error:  # a number of too many digits, too many brackets
        raise RegardError(f"not JSON that can be read: {error}") from error
    return from_dict(cls, data)


def differences(a: Any, b: Any) -> list[tuple[str, Any, Any]]:
    """Where two configs of one class differ, as (dotted key, value in a, value in b); empty exactly when a ==
    b."""
    _be_dataclass(type(a))
    if type(a) is not type(b):
        raise TypeError(
            f"can only compare two configs of one class, got {type(a).__name__} and {type(b).__name__}"
        )
    found: list[tuple[str, Any, Any]] = []
    for field in fields(a):
        left, right = getattr(a, field.name), getattr(b, field.name)
        if not field.compare or left == right:
            continue
        if is_dataclass(left) and type(left) is type(right):
            found += [(f"{field.name}.{key}", x, y) for key, x, y in differences(left, right)]
        else:
            found.append((field.name, left, right))
    return found


def check_positive(config: Any, *names: str) -> None:
    """For `__post_init__`: each named field must be a number above zero."""
    for name in names:
        value = getattr(config, name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise RegardError(f"{name} of {type(config).__name__} must be a number above zero, got {value!r}")


def check_sizes(config: Any) -> None:
    """For `__post_init__`, before all else: no whole number is above its largest value, and each number is
    finite."""
    for field in fields(config):
        value = getattr(config, field.name)
        if not isinstance(value, tuple):
            _check_size(config, field.name, value)
            continue
        if field.name in LARGEST and len(value) > LONGEST:
            raise RegardError(f"{field.name} may have {LONGEST:,} numbers at most, got {len(value):,}")
        for each in value:
            _check_size(config, field.name, each)


def _check_size(config: Any, name: str, value: Any) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise RegardError(f"{name} of {type(config).__name__} must be a finite number, got {value}")
    if type(value) is not int:
        return
    largest = getattr(type(config), "largest", {}).get(name, LARGEST.get(name))
    if largest is not None and abs(value) > largest:
        given = f"{value:,}" if abs(value) < 10**30 else f"one of {value.bit_length():,} bits"
        raise RegardError(f"{name} of {type(config).__name__} must be at most {largest:,}, got {given}")


# ── writing


def _plain(value: Any, key: str) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {
            each.name: _plain(getattr(value, each.name), f"{key}.{each.name}")
            for each in _settable(type(value))
        }
    if isinstance(value, tuple):
        return [_plain(each, f"{key}.{i}") for i, each in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        raise RegardError(f"key '{key}' is {value}, and JSON has no such number; use None for 'no limit'")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(
        f"key '{key}' holds a {type(value).__name__}, which would not come back from JSON equal; "
        "a config holds bool, int, float, str, None, tuples and frozen dataclasses"
    )


# ── reading


def _read(annotation: Any, value: Any, key: str) -> Any:
    """The value as its annotation wants it, or a ValueError."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Union or origin is types.UnionType:
        return _read_union(arguments, value, key)
    if origin is Literal:
        return _read_literal(arguments, value, key)
    if origin is tuple:
        return _read_tuple(annotation, arguments, value, key)
    if is_dataclass(annotation) and isinstance(annotation, type):
        return _read_dataclass(annotation, value, key)
    if annotation is float and type(value) is int:  # other programs write 1.0 as 1
        return float(value)
    if annotation is None or annotation is type(None):
        annotation = type(None)
    elif annotation not in (bool, int, float, str):
        raise TypeError(
            f"key '{key}' is annotated {_say(annotation)}, which a config cannot hold; "
            "use bool, int, float, str, None, Literal, a tuple or a frozen dataclass"
        )
    if type(value) is not annotation:
        raise _wrong(key, _say(annotation), value)
    return value


def _read_dataclass(cls: type[C], data: Any, key: str) -> C:
    known = {field.name: field for field in _settable(cls)}
    if not isinstance(data, dict):
        raise _wrong(key, f"an object with the keys of {cls.__name__}", data)
    for name in data:
        if name not in known:
            raise RegardError(_unknown_key(cls, name, known, key))
    hints = get_type_hints(cls)
    values = {name: _read(hints[name], value, _join(key, name)) for name, value in data.items()}
    missing = [name for name, field in known.items() if _required(field) and name not in values]
    if missing:
        raise RegardError(
            f"{cls.__name__} needs {_quoted(_join(key, name) for name in missing)}, "
            f"got {_quoted(data) or 'nothing'}"
        )
    try:
        return cls(**values)
    except ValueError as error:  # the class's own check; say which part of the file it means
        raise RegardError(f"{key}: {error}" if key else str(error)) from error


def _read_tuple(annotation: Any, arguments: tuple[Any, ...], value: Any, key: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise _wrong(key, f"a list for {_say(annotation)}", value)
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        arguments = (arguments[0],) * len(value)
    if len(value) != len(arguments):
        raise _wrong(key, f"a list of {len(arguments)} for {_say(annotation)}", value)
    return tuple(
        _read(each, part, f"{key}.{i}") for i, (each, part) in enumerate(zip(arguments, value, strict=True))
    )


def _read_literal(choices: tuple[Any, ...], value: Any, key: str) -> Any:
    for choice in choices:
        if type(choice) is type(value) and choice == value:
            return choice
    if isinstance(value, str):
        near = nearest(value, [choice for choice in choices if isinstance(choice, str)])
    else:
        near = None
    raise RegardError(
        f"key '{key}' must be one of {', '.join(map(repr, choices))}, got {value!r}"
        + (f"; did you mean '{near}'?" if near else "")
    )


def _read_union(options: tuple[Any, ...], value: Any, key: str) -> Any:
    """The first member that takes the value. With one member besides None, that member's own error says the
    most."""
    if value is None and type(None) in options:
        return None
    options = tuple(each for each in options if each is not type(None))
    if len(options) == 1:
        return _read(options[0], value, key)
    exact = [each for each in options if each is type(value)]
    for each in exact or options:
        try:
            return _read(each, value, key)
        except ValueError:
            continue
    raise _wrong(key, " or ".join(map(_say, options)), value)


# ── words and classes


def _unknown_key(cls: type, name: str, known: Iterable[str], key: str) -> str:
    known = list(known)
    near = nearest(name, known)
    return (
        f"unknown key '{_join(key, name)}' for {cls.__name__}; "
        + (f"did you mean '{_join(key, near)}'? " if near else "")
        + (f"known: {', '.join(known)}" if len(known) <= 16 else f"it has {len(known)} keys")
    ).rstrip()


def _wrong(key: str, expected: str, value: Any) -> ValueError:
    if len(repr(value)) <= 60:
        given = repr(value)
    else:
        given = repr(value)[:57] + "..."
    what = f"key '{key}'" if key else "a config"
    return RegardError(f"{what} must be {expected}, got {given} ({type(value).__name__})")


def _say(annotation: Any) -> str:
    plain = isinstance(annotation, type) and not get_args(annotation)
    if annotation is type(None):
        return "None"
    if plain:
        return annotation.__name__
    return str(annotation)


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def _join(key: str, name: str) -> str:
    if key:
        return f"{key}.{name}"
    return name


def _be_dataclass(cls: Any) -> None:
    if not (isinstance(cls, type) and is_dataclass(cls)):
        raise TypeError(f"a config is a frozen dataclass, got {getattr(cls, '__name__', cls)}")


def _settable(cls: Any) -> list["Field[Any]"]:
    return [field for field in fields(cls) if field.init]


def _required(field: "Field[Any]") -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        names = [name for name, _ in pairs]
        raise RegardError(f"key '{next(name for name in names if names.count(name) > 1)}' is there twice")
    return data


def _no_constant(text: str) -> Any:
    raise RegardError(f"{text} is not JSON, which has no such number")
