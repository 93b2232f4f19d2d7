"""Configurations: small frozen dataclasses that pydantic checks, to plain JSON and back to an equal object.

    @config
    class PoolConfig:
        dim: Width  # a bound is part of the type of its field
        heads: Count = 4  # the comment behind a field is its help
        queries: Rare[Positive] = 1  # behind --help-all

Nothing is converted: "3" is no number, and an unknown key is an error that names the nearest known one. What two fields
must hold together is a `__post_init__`, which raises RegardError.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import types
import typing
from collections.abc import Iterable, Iterator
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass, is_pydantic_dataclass, rebuild_dataclass
from pydantic.fields import FieldInfo

from regard.errors import RegardError, nearest

C = TypeVar("C")
T = TypeVar("T")

# The bounds are far above what anybody trains, and below what hangs, overflows or fills the memory by itself: a number
# that is too large is refused before anything is made of it. (What is too much together, models/memory.py refuses.)
Positive = Annotated[int, Field(ge=1, le=10**12)]  # steps, and whatever is only counted
Natural = Annotated[int, Field(ge=0, le=10**12)]
Vocabulary = Annotated[int, Field(ge=1, le=2**24)]
Length = Annotated[int, Field(ge=1, le=2**22)]  # of a sequence
Size = Annotated[int, Field(ge=1, le=2**20)]  # of a batch, a set, an image's row, an input or an output
Width = Annotated[int, Field(ge=1, le=2**18)]  # channels
Classes = Annotated[int, Field(ge=1, le=2**16)]
Depth = Annotated[int, Field(ge=1, le=512)]
Count = Annotated[int, Field(ge=1, le=1024)]  # of heads, experts, colours, pixels of a patch
Extras = Annotated[int, Field(ge=0, le=1024)]  # registers, kinds of tokens: there may be none
Kernel = Annotated[int, Field(ge=1, le=64)]
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]
Amount = Annotated[float, Field(gt=0)]
Weight = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, lt=1)]  # not all of it
Part = Annotated[float, Field(ge=0, le=1)]

BOUNDS = {
    "ge": "from {:,} on",
    "gt": "above {:,}",
    "le": "to {:,}",
    "lt": "below {:,}",
    "multiple_of": "a multiple of {}",
    "min_length": "(at least {:,})",
    "max_length": "(at most {:,})",
}
RARE = "rare"
Rare = Annotated[T, RARE]  # an option that few need: --help-all shows it


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(dataclasses.field,))
def config(cls: type[C]) -> type[C]:
    """Make a class a config. Its schema is built when the first object is made."""
    settings = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, defer_build=True)
    made: Any = dataclass(frozen=True, kw_only=True, config=settings)(cls)
    checked = made.__init__

    @functools.wraps(checked)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        if not made.__pydantic_complete__:
            rebuild_dataclass(made)
            made.__init__ = init  # pydantic had set its own again
        try:
            checked(self, *args, **kwargs)
        except ValidationError as error:
            raise explain(type(self), error) from None

    made.__init__ = init
    return made


def to_dict(config: Any) -> dict[str, Any]:
    """A config as dicts, lists and scalars, ready for JSON, without fields that are kept in files of their own."""
    if not _is_config(type(config)):
        _be_dataclass(type(config))
        return {
            field.name: _plain(getattr(config, field.name), field.name) for field in _settable(type(config))
        }
    adapter: Any = _adapter(config.__class__)
    found: dict[str, Any] = adapter.dump_python(config, mode="json")
    return found


def from_dict(cls: type[C], data: Any) -> C:
    """The config of class cls that `to_dict` made the data from."""
    if not _is_config(cls):
        _be_dataclass(cls)
        return _read_dataclass(cls, data, "")
    return from_json(cls, json.dumps(data, default=repr))


def to_json(config: Any) -> str:
    """A config as readable JSON text, one key a line."""
    return json.dumps(to_dict(config), indent=2, ensure_ascii=False) + "\n"


def from_json(cls: type[C], text: str | bytes) -> C:
    """The config of class cls from JSON text."""
    if not _is_config(cls):
        return from_dict(cls, json.loads(text))
    try:
        adapter: Any = _adapter(cast(Any, cls))
        found: C = adapter.validate_json(text)
    except ValidationError as error:
        raise explain(cls, error) from None
    return found


def differences(a: Any, b: Any) -> list[tuple[str, Any, Any]]:
    """Where two configs of one class differ, as (dotted key, value in a, value in b); empty exactly when a == b."""
    if type(a) is not type(b):
        raise TypeError(
            f"can only compare two configs of one class, got {type(a).__name__} and {type(b).__name__}"
        )
    found: list[tuple[str, Any, Any]] = []
    for field in dataclasses.fields(a):
        left, right = getattr(a, field.name), getattr(b, field.name)
        if not field.compare or left == right:
            continue
        if dataclasses.is_dataclass(left) and type(left) is type(right):
            found += [(f"{field.name}.{key}", x, y) for key, x, y in differences(left, right)]
        else:
            found.append((field.name, left, right))
    return found


@functools.cache
def _adapter(cls: Any) -> TypeAdapter[Any]:
    return TypeAdapter(cls)


# ── what is wrong, in one line


def explain(cls: Any, error: ValidationError) -> RegardError:
    """The first thing that is wrong, with its dotted name; of a name that nobody knows before all else, because another
    may be missing for it."""
    found = error.errors(include_url=False)
    unknown = [each for each in found if each["type"] == "unexpected_keyword_argument"]
    first: Any = (unknown or found)[0]
    owner, names, hint = _locate(cls, first["loc"])
    option = ".".join(names) or None
    kind, value = first["type"], first["input"]
    if kind == "value_error":  # of a __post_init__
        cause = first["ctx"]["error"]
        inner = getattr(cause, "option", None)
        text = cause.text if inner else str(cause)
        if inner is None and option:
            text = f"has parts that do not go together: {text}"
        return RegardError(text, option=".".join(filter(None, (option, inner))) or None)
    if kind == "unexpected_keyword_argument":
        return RegardError(_say_unknown(owner, names), option=option)
    if kind == "json_invalid":
        return RegardError(f"not JSON: {first['ctx']['error']}")
    if kind == "missing":
        return RegardError(f"is missing; {owner.__name__} cannot be without it", option=option)
    if kind in ("union_tag_invalid", "union_tag_not_found") and isinstance(value, dict):
        names, value = [*names, "kind"], value.get("kind")
    return RegardError(_say_wrong(hint, value), option=".".join(names) or cls.__name__)


def describe_type(hint: Any) -> str:
    """What may be given: a whole number, at least 1 and at most 1,024; one of pre, post; None."""
    members = union_members(hint)
    if len(members) > 1:
        kinds = [kind for each in members if (kind := kind_of(each))]
        others = [describe_type(each) for each in members if not kind_of(each)]
        said = " or ".join([*([f"one of {', '.join(kinds)}"] if kinds else []), *others])
        return said.replace(" or None", ", or None")
    (hint,) = members
    if get_origin(hint) is Annotated:
        plain, *metadata = get_args(hint)
        bounds = [_say_bounds(each) for each in metadata if isinstance(each, FieldInfo)]
        return describe_type(plain) + "".join(bounds)
    if get_origin(hint) is Literal:
        return f"one of {', '.join(map(str, get_args(hint)))}"
    if get_origin(hint) is tuple:
        each, *more = get_args(hint)
        if more in ([], [Ellipsis]):
            return f"a list, each {describe_type(each)}"
        return f"a list of {1 + len(more)}"
    if dataclasses.is_dataclass(hint):
        return f"an object with the keys of {getattr(hint, '__name__', hint)}"
    return {
        int: "a whole number",
        float: "a number",
        bool: "True or False",
        str: "text",
        types.NoneType: "None",
    }.get(hint, str(hint))


def union_members(hint: Any) -> tuple[Any, ...]:
    """The members of a union, in or out of Annotated; of any other type, itself."""
    if get_origin(hint) is Annotated and get_origin(get_args(hint)[0]) in (Union, types.UnionType):
        return union_members(get_args(hint)[0])
    if get_origin(hint) is Annotated and RARE in hint.__metadata__:
        rest = [each for each in hint.__metadata__ if each != RARE]
        return union_members(Annotated[hint.__origin__, *rest] if rest else hint.__origin__)
    if get_origin(hint) in (Union, types.UnionType):
        return tuple(member for each in get_args(hint) for member in union_members(each))
    return (hint,)


def _without_bounds(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def kind_of(cls: Any) -> str | None:
    """The word by which a member of a union of configs is chosen; None: it has none."""
    field = getattr(cls, "__dataclass_fields__", {}).get("kind")
    return None if field is None else str(field.default)


def hints_of(cls: Any) -> dict[str, Any]:
    """The types of the fields of a config, with their bounds."""
    hints = get_type_hints(cls, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls) if field.init}


def _locate(cls: Any, place: tuple[str | int, ...]) -> tuple[Any, list[str], Any]:
    """Where pydantic found something: the config that it is in, the dotted name without the names of types that pydantic
    puts between, and the type that is expected there."""
    owner, names, hint = cls, list[str](), cls
    for part in place:
        members = [_without_bounds(each) for each in union_members(hint)]
        inner = [each for each in members if dataclasses.is_dataclass(each)]
        if len(inner) > 1:  # the part is the kind that was chosen
            hint = next((each for each in inner if kind_of(each) == part), hint)
        elif inner:
            owner, hint = inner[0], hints_of(inner[0]).get(str(part))
            names.append(str(part))
        elif isinstance(part, int):
            names.append(str(part))
            of = next((get_args(each) for each in members if get_origin(each) is tuple), ())
            hint = of[part] if part < len(of) and of[part] is not Ellipsis else (*of, hint)[0]
    return owner, names, hint


def _say_bounds(field: FieldInfo) -> str:
    """from 1 to 1,024; above 0; from 0 on and below 1"""
    said = [
        BOUNDS[key].format(getattr(each, key))
        for each in field.metadata
        for key in BOUNDS
        if hasattr(each, key)
    ]
    return "".join([" ", " and ".join(said).replace(" on and to ", " to ")] if said else [])


def _say_unknown(owner: Any, names: list[str]) -> str:
    *above, name = names
    known = list(hints_of(owner))
    near = nearest(name, known)
    hope = f"did you mean {'.'.join([*above, near])}? " if near else ""
    listed = f"known: {', '.join(known)}" if len(known) <= 16 else f"it has {len(known)} others"
    return f"is no option of {owner.__name__}; {hope}{listed}"


def _say_wrong(hint: Any, value: Any) -> str:
    if isinstance(value, int) and abs(value) > 10**30:
        given = f"a number of {value.bit_length():,} bits"
    else:
        given = repr(value)
    if len(given) > 60:
        given = given[:57] + "..."
    choices = list(_choices(hint))
    near = nearest(value, choices) if isinstance(value, str) else None
    return f"must be {describe_type(hint)}, got {given}" + (f"; did you mean {near!r}?" if near else "")


def _choices(hint: Any) -> Iterator[str]:
    """The words that a type allows, where it names them."""
    for each in union_members(hint):
        if get_origin(each) is Literal:
            yield from (choice for choice in get_args(each) if isinstance(choice, str))
        elif kind := kind_of(each):
            yield kind


# ── of classes that are not configs yet

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


def check_positive(config: Any, *names: str) -> None:
    """For `__post_init__`: each named field must be a number above zero."""
    for name in names:
        value = getattr(config, name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise RegardError(f"{name} of {type(config).__name__} must be a number above zero, got {value!r}")


def check_sizes(config: Any) -> None:
    """For `__post_init__`, before all else: no whole number is above its largest value, and each number is
    finite."""
    for field in dataclasses.fields(config):
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
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
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
    if dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
        return _read_dataclass(annotation, value, key)
    if annotation is float and type(value) is int:  # other programs write 1.0 as 1
        return float(value)
    if annotation is None or annotation is type(None):
        annotation = type(None)
    elif annotation not in (bool, int, float, str):
        raise TypeError(
            f"key '{key}' is annotated {_say_old(annotation)}, which a config cannot hold; "
            "use bool, int, float, str, None, Literal, a tuple or a frozen dataclass"
        )
    if type(value) is not annotation:
        raise _wrong(key, _say_old(annotation), value)
    return value


def _read_dataclass(cls: type[C], data: Any, key: str) -> C:
    known = {field.name: field for field in _settable(cls)}
    if not isinstance(data, dict):
        raise _wrong(key, f"an object with the keys of {cls.__name__}", data)
    for name in data:
        if name not in known:
            raise RegardError(_unknown_key(cls, name, known, key))
    hints = typing.get_type_hints(cls)
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
        raise _wrong(key, f"a list for {_say_old(annotation)}", value)
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        arguments = (arguments[0],) * len(value)
    if len(value) != len(arguments):
        raise _wrong(key, f"a list of {len(arguments)} for {_say_old(annotation)}", value)
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
    raise _wrong(key, " or ".join(map(_say_old, options)), value)


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


def _say_old(annotation: Any) -> str:
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
    if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
        raise TypeError(f"a config is a frozen dataclass, got {getattr(cls, '__name__', cls)}")


def _settable(cls: Any) -> list[Any]:
    return [field for field in dataclasses.fields(cls) if field.init]


def _required(field: Any) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _is_config(cls: Any) -> bool:
    return is_pydantic_dataclass(cls)
