"""Numbers that are too large, too small or no numbers are refused before anything is made of them: every whole
number of every config, from Python, from config.json and from the command line."""

import importlib
import json
import math
import pkgutil
import sys
import time
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Annotated, Literal, get_args, get_origin, get_type_hints

import pytest
import torch
from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import is_pydantic_dataclass

import regard
from regard import config as configs
from regard import machine, registry
from regard.errors import RegardError
from regard.models.memory_estimate import TO_TRAIN, build_within_memory, check_fits, measure
from regard.recipes.base import get_recipe
from regard.recipes.graphs.features import Scaling
from regard.recipes.images.processor import ImagesFitted
from regard.recipes.prediction import Prediction, predict_each
from regard.recipes.request import TrainRequest
from regard.recipes.sets.processor import SetsFitted
from regard.recipes.target import Target
from regard.symmetry.output import main_tensor
from regard.verbs import main, memory
from regard.verbs.options import read_settings_options
from tests.verbs.test_cli import Planted

MODELS = tuple(registry.entries("models"))
RECIPES = tuple(registry.entries("recipes"))
# number -> the next one in a direction that a bound closes
BEYOND = {int: (lambda bound, sign: bound + sign), float: (lambda bound, sign: math.nextafter(bound, sign * math.inf))}
WRONG = {int: (1.5, "3", True, None), float: ("0.5", False, None), bool: (1, "True", None), str: (1, None)}  # types


def config_classes():
    """Every config of the package."""
    found = {}
    for module in pkgutil.walk_packages(regard.__path__, "regard."):
        if not module.name.endswith("__main__"):
            found |= vars(importlib.import_module(module.name))
    return sorted({each for each in found.values() if is_config(each)}, key=lambda each: each.__qualname__)


def is_config(value):
    return isinstance(value, type) and is_pydantic_dataclass(value) and value.__module__.startswith("regard.")


def scalars(hint):
    """The types of single values that a field can hold, with their bounds: (plain type, low, high)."""
    for each in configs.union_members(hint):
        plain, *more = get_args(each) if get_origin(each) is Annotated else (each,)
        bounds = [bound for field in more if hasattr(field, "metadata") for bound in field.metadata]
        ends = {key: getattr(bound, key) for bound in bounds for key in ("ge", "gt", "le", "lt") if hasattr(bound, key)}
        if get_origin(plain) is Literal:
            yield str, {}
        elif plain in WRONG:
            yield plain, ends


CLASSES = config_classes()
FIELDS = [(cls, name, hint) for cls in CLASSES for name, hint in configs.hints_of(cls).items()]


def errors_of(cls, name, value):
    """What pydantic has against one value of a field, whatever the others are."""
    try:
        TypeAdapter(cls).validate_json(json.dumps({name: value}))
    except ValidationError as error:
        return [each for each in error.errors() if each["loc"][:1] == (name,)]
    return []


def test_there_are_many_configs_and_fields():
    assert len(CLASSES) > 40 and len(FIELDS) > 500 and len(LISTS) > 20


LISTS = [
    (cls, name, get_args(configs.without_bounds(each))[0])
    for cls, name, hint in FIELDS
    for each in configs.union_members(hint)
    if get_args(configs.without_bounds(each))[1:] == (Ellipsis,) and len(configs.union_members(hint)) < 3
]


def check_bounds(members, refuses, *, optional):
    """At each bound a value is taken, and beyond it, and of another type, it is refused."""
    for kind, ends in members:
        for key, sign in (("ge", -1), ("gt", -1), ("le", 1), ("lt", 1)):
            if key not in ends or len(members) > 1:
                continue
            bound = kind(ends[key])
            inside, outside = bound, BEYOND[kind](bound, sign)
            if key in ("gt", "lt"):
                inside, outside = BEYOND[kind](bound, -sign), bound
            assert not refuses(inside)
            assert refuses(outside), f"{outside} is beyond {key}={bound}"
        if kind is int:
            assert {"ge", "le"} <= ends.keys(), "may be any whole number; give it bounds"
            assert refuses(10**30) and refuses(-(10**30))
        if kind is float:
            assert refuses(math.nan) and refuses(-math.inf)
        if len(members) == 1:
            for wrong in WRONG[kind]:
                assert (wrong is None and optional) or refuses(wrong), wrong


@pytest.mark.parametrize("cls, name, hint", FIELDS, ids=[f"{cls.__name__}-{name}" for cls, name, _ in FIELDS])
def test_each_bound_is_kept_and_each_type_is_asked_for(cls, name, hint):
    optional = type(None) in configs.union_members(hint)
    check_bounds(list(scalars(hint)), lambda value: errors_of(cls, name, value), optional=optional)


@pytest.mark.parametrize("cls, name, hint", LISTS, ids=[f"{cls.__name__}-{name}" for cls, name, _ in LISTS])
def test_each_bound_inside_a_list_is_kept(cls, name, hint):
    def refuses(value):
        return [each for each in errors_of(cls, name, [value]) if any(isinstance(part, int) for part in each["loc"])]

    check_bounds(list(scalars(hint)), refuses, optional=type(None) in configs.union_members(hint))


@pytest.mark.parametrize("cls, name, hint", FIELDS, ids=[f"{cls.__name__}-{name}" for cls, name, _ in FIELDS])
def test_what_is_wrong_is_one_line_that_names_the_field(cls, name, hint):
    with pytest.raises(RegardError) as refused:
        configs.from_dict(cls, {name: {"no": ["such", 10**400]}})
    said = str(refused.value)
    assert "\n" not in said and len(said) < 500
    assert said.startswith((name, *[f"{each} is missing" for each in configs.hints_of(cls)]))


def test_a_field_without_bounds_would_be_found():
    @configs.config
    class Open:
        rows: int = 1
        sizes: tuple[int, ...] = ()

    with pytest.raises(AssertionError, match="may be any whole number"):
        test_each_bound_is_kept_and_each_type_is_asked_for(Open, "rows", int)
    with pytest.raises(AssertionError, match="may be any whole number"):
        test_each_bound_inside_a_list_is_kept(Open, "sizes", int)


@pytest.mark.parametrize("name", MODELS)
def test_the_ends_of_a_bound_are_refused_or_cost_nothing(name):
    """Where a number may be as small or as large as it may be at all, making the config takes no time and no memory."""
    config = registry.find("models", name).tiny()[0].config
    for field, hint in configs.hints_of(type(config)).items():
        for kind, ends in scalars(hint):
            for value in (ends.get("ge"), ends.get("le")):
                if value is None:
                    continue
                began = time.monotonic()
                with suppress(RegardError):
                    assert is_dataclass(replace(config, **{field: kind(value)}))
                assert time.monotonic() - began < 1


IMAGES = {"size": 8, "channels": 1, "fit": "crop", "mean": [0.5], "deviation": [0.2]}
NUMBER = {"name": "x", "centre": 0.0, "scale": 1.0}
SETS = {"form": "table", "features": ["x"], "centre": [0.0], "scale": [1.0]}


@pytest.mark.parametrize(
    "cls, fine, change",
    [
        (ImagesFitted, IMAGES, {"size": -1}),
        (ImagesFitted, IMAGES, {"size": 0}),
        (ImagesFitted, IMAGES, {"channels": 3}),
        (ImagesFitted, IMAGES, {"deviation": [0.0]}),
        (ImagesFitted, IMAGES, {"mean": [1e999]}),
        (SetsFitted, SETS, {"fill": []}),
        (SetsFitted, SETS, {"scale": [0.0]}),
        (SetsFitted, SETS, {"centre": []}),
        (Target, {"numbers": [NUMBER]}, {"numbers": [NUMBER | {"scale": -1.0}]}),
        (Target, {"classes": ["a", "b"]}, {"classes": []}),
        (Scaling, {"how": "none", "width": 1}, {"deviation": [0.0]}),
    ],
)
def test_what_would_make_answers_that_are_not_finite_is_refused(cls, fine, change):
    configs.from_dict(cls, fine)
    with pytest.raises(RegardError):
        configs.from_dict(cls, fine | change)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_no_prediction_is_not_finite(bad):
    (told,) = predict_each(["x.csv"], lambda name: [Prediction(input=name, values={"a": bad})])
    assert "damaged" in told.error and json.loads(json.dumps(told.to_json(), allow_nan=False))
    with pytest.raises(RegardError, match="2 classes, and 3"):
        Prediction.of_classes("x", torch.tensor([0.5, 0.5]), ["a", "b", "c"])


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_command_line_refuses_them_too(recipe):
    found = get_recipe(recipe)
    default = found.defaults(None, None, {})
    for section in ("data", "model", "train"):
        config = getattr(default, section)
        hints = get_type_hints(type(config))
        for field in fields(config):
            option = f"{section}.{field.name}"
            if int not in (hints[field.name], *get_args(hints[field.name])) or option in found.data_derived:
                continue
            for value in ("10" * 9, "-1", "9" * 5000, "1e30", "nan", "٣" * 20):
                words = [f"--{option}", value]
                with pytest.raises(RegardError, match=field.name.replace("_", ".")) as refused:
                    TrainRequest(
                        recipe=found, options=partial(read_settings_options, found, words, "regard train")
                    ).settings()
                assert "\n" not in str(refused.value)
            break  # one of each section: the others go the same way


# ── memory


@pytest.mark.parametrize("name", MODELS)
def test_the_size_of_a_model_is_known_before_it_is_built(name):
    cls = registry.find("models", name)
    model, _ = cls.tiny()
    tensors = {id(each): each for each in (*model.parameters(), *model.buffers())}
    state = torch.random.get_rng_state()
    assert measure(lambda: cls(model.config)) == sum(each.nbytes for each in tensors.values())
    assert torch.equal(state, torch.random.get_rng_state())


@pytest.mark.parametrize("name", MODELS)
def test_measuring_a_model_leaves_nothing_behind(name):
    """Tables that are kept for all models of a size are real ones, although the first who asked had no memory."""
    cls = registry.find("models", name)
    config = cls.tiny()[0].config
    for module in list(sys.modules.values()):
        for kept in list(vars(module).values()) if getattr(module, "__name__", "").startswith("regard.") else ():
            if hasattr(kept, "cache_clear"):
                kept.cache_clear()
    measure(lambda: cls(config))
    model, inputs = cls.tiny()
    assert all(not each.is_meta for each in (*model.parameters(), *model.buffers()))
    with torch.no_grad():
        found = model(**inputs)
    assert main_tensor(found).isfinite().all()


@pytest.mark.parametrize("name", MODELS)
def test_a_model_that_does_not_fit_is_not_built(name, monkeypatch):
    cls = registry.find("models", name)
    config = cls.tiny()[0].config
    size = measure(lambda: cls(config))
    monkeypatch.setattr("regard.models.memory_estimate.memory_of_machine", lambda: 4 * size - 1)
    built = []
    monkeypatch.setattr(cls, "eval", lambda self: built.append(self))
    assert isinstance(build_within_memory(cls, config), torch.nn.Module)
    with pytest.raises(RegardError) as refused:
        build_within_memory(cls, config, copies=TO_TRAIN)
    assert f"{4 * size:,} bytes" in str(refused.value) and f"{4 * size - 1:,}" in str(refused.value)
    assert "--model." in str(refused.value)


def test_the_option_that_is_named_is_the_one_that_was_raised():
    cls = registry.find("models", "decoder")
    config = replace(cls.tiny()[0].config, depth=2)
    for field, value in (("dim", 2**18), ("vocab", 2**24), ("depth", 64), ("context", 2**22)):
        large = replace(config, **{field: value, "position": "learned"})
        with pytest.raises(RegardError, match=f"model.{field}"):
            build_within_memory(cls, large, copies=2**30)


def test_too_many_modules_are_not_counted_to_the_end(monkeypatch):
    monkeypatch.setattr("regard.models.memory_estimate.MOST_MODULES", 500)

    class Endless(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = torch.nn.ModuleList(torch.nn.Linear(1, 1) for _ in range(10**9))

    began = time.monotonic()
    with pytest.raises(RegardError, match="500 modules"):
        check_fits(Endless, "Endless", copies=1, lower="it")
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    "error, said",
    [
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 12345678 bytes."), "12,345,678 bytes"),
        (RuntimeError("CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has"), "2.50 GiB"),
        (MemoryError("Unable to allocate 7.28 TiB for an array with shape (1000000, 1000000)"), "7.28 TiB"),
        (MemoryError(), "not enough memory"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", ["train", "generate", "check", "predict", "look", "evaluate"])
def test_memory_that_is_not_there_is_one_line_with_what_to_lower(capsys, monkeypatch, error, said, command):
    def fail(words):
        raise error

    monkeypatch.setitem(main.COMMANDS, command, Planted("x", "x", (), fail))
    assert main.main([command, "x"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and said in err and "a bug" not in err
    assert "lower --" in err or "smaller" in err


def test_other_errors_are_not_taken_for_memory():
    for error in (RuntimeError("shapes differ"), ValueError("x"), OSError("no such file")):
        assert memory.out_of_memory(error, "train") is None


def test_a_panic_of_an_extension_is_one_line(capsys, monkeypatch):
    class PanicException(BaseException):
        """As extensions written in Rust raise it."""

    def fail(words):
        raise PanicException("called `Option::unwrap()` on a `None` value")

    monkeypatch.setitem(main.COMMANDS, "check", Planted("x", "x", (), fail))
    assert main.main(["check", "x"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems tell less")
def test_the_memory_of_the_machine_is_told():
    assert 2**26 < machine.free_memory() <= machine.memory_of_machine() < 2**50
