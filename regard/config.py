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
import os
import types
from collections.abc import Iterator, Mapping
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
from pydantic.dataclasses import dataclass, rebuild_dataclass
from pydantic.fields import FieldInfo
from pydantic_core import to_json as to_plain_json

from regard.errors import RegardError, nearest

C = TypeVar("C")
T = TypeVar("T")

# The bounds are far above what anybody trains, and below what hangs, overflows or fills the memory by itself: a number
# that is too large is refused before anything is made of it. (What is too much together, models/memory_estimate.py refuses.)
Positive = Annotated[int, Field(ge=1, le=10**12)]  # steps, and whatever is only counted
Natural = Annotated[int, Field(ge=0, le=10**12)]
Vocab = Annotated[int, Field(ge=1, le=2**24)]
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
Fraction = Annotated[float, Field(ge=0, le=1)]

BOUNDS = {
    "ge": "from {:,} on",
    "gt": "above {:,}",
    "le": "up to {:,}",
    "lt": "below {:,}",
    "multiple_of": "a multiple of {}",
    "min_length": "(at least {:,} long)",
    "max_length": "(at most {:,} long)",
}
RARE = "rare"
Rare = Annotated[T, RARE]  # an option that few need: --help-all shows it
UNSPLIT = "unsplit"  # of a list of texts that may hold commas: on the command line it is not split at them


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
    adapter: Any = _adapter(config.__class__)
    found: dict[str, Any] = adapter.dump_python(config, mode="json")
    return found


def from_dict(cls: type[C], data: Any) -> C:
    """The config of class cls that `to_dict` made the data from."""
    return from_json(cls, to_plain_json(data, inf_nan_mode="constants", fallback=_as_json))


def to_json(config: Any) -> str:
    """A config as readable JSON text, one key a line."""
    return json.dumps(to_dict(config), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def from_json(cls: type[C], text: str | bytes) -> C:
    """The config of class cls from JSON text."""
    try:
        adapter: Any = _adapter(cast(Any, cls))
        found: C = adapter.validate_json(text)
    except ValidationError as error:
        raise explain(cls, error) from None
    return found


def override(config: C, options: Mapping[str, Any]) -> C:
    """The config with dotted options set, checked as if it had been written so: {"model.dim": 256}. A part that has
    kinds is chosen by its name, with the defaults of that kind: {"model.attention": "window"}."""
    data = to_dict(config)
    for option in sorted(options, key=lambda each: each.count(".")):
        *above, last = option.split(".")
        place = data
        for name in above:
            if not isinstance(place.get(name), dict):
                place[name] = {}
            place = place[name]
        value, before = options[option], place.get(last)
        if isinstance(before, dict) and isinstance(value, str):
            value = before if before.get("kind") == value else {"kind": value}
        place[last] = value
    return from_dict(type(config), data)


def options_of(cls: Any) -> dict[str, Any]:
    """Each option of a config and of those in it, by dotted name, with its type: model.attention.width. Of a part that has
    kinds, the part itself is one, too, and the options of every kind are there."""
    found: dict[str, Any] = {}
    for name, hint in hints_of(cls).items():
        members = union_members(hint)
        inner = [each for each in members if dataclasses.is_dataclass(each)]
        if len(members) > 1 or not inner:
            found[name] = hint
        for each in inner:
            chosen = ("kind",) if len(inner) > 1 else ()
            own = {f"{name}.{key}": of for key, of in options_of(each).items() if key not in chosen}
            found |= {key: Annotated[of, RARE] if is_rare(hint) else of for key, of in own.items()}
    return found


def is_rare(hint: Any) -> bool:
    return RARE in getattr(hint, "__metadata__", ())


def is_unsplit(hint: Any) -> bool:
    return UNSPLIT in getattr(hint, "__metadata__", ())


def plain_type(hint: Any) -> Any:
    """The type of a field without its bounds and without None."""
    return next(
        (each for member in union_members(hint) if (each := without_bounds(member)) is not types.NoneType), None
    )


def differences(a: Any, b: Any) -> list[tuple[str, Any, Any]]:
    """Where two configs of one class differ, as (dotted key, value in a, value in b); empty exactly when a == b."""
    if type(a) is not type(b):
        raise TypeError(f"can only compare two configs of one class, got {type(a).__name__} and {type(b).__name__}")
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


def _as_json(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return to_dict(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):  # a number of NumPy
        return value.tolist()
    raise RegardError(f"a config holds numbers, texts and lists, got {type(value).__name__}: {value!r}")


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
    owner, names, hint, kinds = _locate(cls, first["loc"])
    option = ".".join(names) or None
    kind, value = first["type"], first["input"]
    if kind == "value_error":  # of a __post_init__
        cause = first["ctx"]["error"]
        inner = getattr(cause, "option", None)
        if inner is None:
            return RegardError(str(cause))
        return RegardError(cause.text, option=".".join(filter(None, (option, inner))))
    if kind == "unexpected_keyword_argument":
        return RegardError(_say_unknown(owner, names, kinds), option=option)
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
    return {int: "a whole number", float: "a number", bool: "True or False", str: "text", types.NoneType: "None"}.get(
        hint, str(hint)
    )


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


def without_bounds(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def kind_of(cls: Any) -> str | None:
    """The word by which a member of a union of configs is chosen; None: it has none."""
    field = getattr(cls, "__dataclass_fields__", {}).get("kind")
    return None if field is None else str(field.default)


def kinds_of(hint: Any) -> dict[str, Any]:
    """The members of a union of configs, by the word that chooses each."""
    return {kind: each for each in union_members(hint) if (kind := kind_of(each)) is not None}


def hints_of(cls: Any) -> dict[str, Any]:
    """The types of the fields of a config, with their bounds."""
    hints = get_type_hints(cls, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls) if field.init}


def _locate(cls: Any, place: tuple[str | int, ...]) -> tuple[Any, list[str], Any, list[Any]]:
    """Where pydantic found something: the config that it is in, the dotted name without the names of types that pydantic
    puts between, the type that is expected there, and the kinds that the config is one of."""
    owner, names, hint, kinds = cls, list[str](), cls, list[Any]()
    for part in place:
        members = [without_bounds(each) for each in union_members(hint)]
        inner = [each for each in members if dataclasses.is_dataclass(each)]
        if len(inner) > 1:  # the part is the kind that was chosen
            hint, kinds = next((each for each in inner if kind_of(each) == part), hint), inner
        elif inner:
            owner, hint = inner[0], hints_of(inner[0]).get(str(part))
            kinds = kinds if owner in kinds else []
            names.append(str(part))
        elif isinstance(part, int):
            names.append(str(part))
            of = next((get_args(each) for each in members if get_origin(each) is tuple), ())
            hint = of[part] if part < len(of) and of[part] is not Ellipsis else (*of, hint)[0]
    return owner, names, hint, kinds


def _say_bounds(field: FieldInfo) -> str:
    """from 1 to 1,024; above 0; from 0 on and below 1"""
    said = [BOUNDS[key].format(getattr(each, key)) for each in field.metadata for key in BOUNDS if hasattr(each, key)]
    return "".join([" ", " and ".join(said).replace(" on and up to ", " to ")] if said else [])


def _say_unknown(owner: Any, names: list[str], kinds: list[Any]) -> str:
    *above, name = names
    fits = [kind_of(each) for each in kinds if name in hints_of(each)]
    if fits:
        part = ".".join(above)
        return f"is an option of {part}={' or '.join(map(str, fits))}, got {part}={kind_of(owner)}; leave one out"
    known = list(hints_of(owner))
    near = nearest(name, known)
    hope = f"did you mean {'.'.join([*above, near])}? " if near else ""
    listed = f"known: {', '.join(known)}" if len(known) <= (16 if near else 40) else f"it has {len(known)} others"
    return f"is no option of {owner.__name__}; {hope}{listed}"


def _say_wrong(hint: Any, value: Any) -> str:
    if isinstance(value, int) and abs(value) > 10**30:
        given = f"a number of {value.bit_length():,} bits"
    else:
        given = repr(value)
    if len(given) > 60:
        given = given[:57] + "..."
    choices = list(choices_of(hint))
    near = nearest(value, choices) if isinstance(value, str) else None
    return f"must be {describe_type(hint)}, got {given}" + (f"; did you mean {near!r}?" if near else "")


def choices_of(hint: Any) -> Iterator[str]:
    """The words that a type allows, where it names them."""
    for each in union_members(hint):
        if get_origin(each) is Literal:
            yield from (choice for choice in get_args(each) if isinstance(choice, str))
        elif kind := kind_of(each):
            yield kind
