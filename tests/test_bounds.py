"""Numbers that are too large, too small or no numbers are refused before anything is made of them: every whole
number of every config, from Python, from config.json and from the command line."""

import json
import sys
import time
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from functools import cache
from types import NoneType
from typing import get_args, get_type_hints

import pytest
import torch

from regard import config as configs
from regard import machine, registry
from regard.cli import main, memory
from regard.cli.command_options import CheckOptions, LookOptions
from regard.cli.options import read_settings
from regard.errors import RegardError
from regard.generation.sampling import Sampling
from regard.models.memory import TO_TRAIN, build_within_memory, check_fits, measure
from regard.recipes.base import get_recipe
from regard.recipes.graphs.info import GraphsInfo, Scaling
from regard.recipes.images.dataset import ImagesInfo
from regard.recipes.prediction import Prediction, predict_each
from regard.recipes.request import TrainRequest
from regard.recipes.sets.processor import SetsFitted
from regard.recipes.target import Target
from regard.recipes.text.dataset import TextInfo
from regard.recipes.text.labelled import LabelledInfo
from regard.symmetry.output import main_tensor
from regard.training.config import TrainConfig

# counts of the data, of which nothing is made
ONLY_TOLD = {"files", "bytes", "characters", "tokens", "validation", "test", "rows", "longest", "graphs", "nodes",
             "edges", "pictures", "elements", "counts"}  # fmt: skip
NEVER = (10**18, 2**63, 10**4000, -1, -(10**18))
MODELS = tuple(registry.entries("models"))
RECIPES = tuple(registry.entries("recipes"))


@cache
def configs_of_everything():
    """A config of each class that is made of what somebody wrote, by its name."""
    found = {name: registry.find("models", name).tiny()[0].config for name in MODELS}
    for name in RECIPES:
        for kind in get_recipe(name).models:
            settings = get_recipe(name).defaults(None, kind, {})
            found[f"{name} {kind}: data"] = settings.data
            found[f"{name} {kind}: train"] = settings.train
            found[f"{name} {kind}: model"] = settings.model
    found |= {each.__name__: each() for each in (TrainConfig, Sampling, CheckOptions, LookOptions)}
    return found


def whole_numbers():
    """(name of a config, name of a field, in a tuple?) for each whole number there is."""
    for name, config in configs_of_everything().items():
        hints = get_type_hints(type(config))
        for field in fields(config):
            hint = hints[field.name]
            kinds = (hint, *get_args(hint))
            if int in kinds:
                yield name, field.name, isinstance(getattr(config, field.name), tuple)


NUMBERS = sorted(set(whole_numbers()))


def test_there_are_many_numbers_and_each_is_declared():
    assert len(NUMBERS) > 150
    undeclared = {name for _, name, _ in NUMBERS} - configs.LARGEST.keys()
    assert undeclared == set(), "give it a largest value in regard.config.LARGEST"


@pytest.mark.parametrize("name, field, several", NUMBERS)
def test_every_whole_number_has_bounds(name, field, several):
    config = configs_of_everything()[name]
    for value in NEVER:
        if (name, field, value) == ("Sampling", "seed", -1):  # any other seed is as good
            continue
        began = time.monotonic()
        with pytest.raises(RegardError) as refused:
            replace(config, **{field: (value,) if several else value})
        assert (
            field in str(refused.value) and "\n" not in str(refused.value) and len(str(refused.value)) < 400
        )
        assert time.monotonic() - began < 1
        if configs_are_written(config):
            data = json.loads(json.dumps(configs.to_dict(config)))
            data[field] = [value] if several else value
            with pytest.raises(RegardError, match=field):
                configs.from_dict(type(config), data)


def configs_are_written(config):
    return not isinstance(config, CheckOptions | LookOptions | Sampling)


@pytest.mark.parametrize("name, field, several", NUMBERS)
def test_zero_and_the_largest_are_refused_or_cost_nothing(name, field, several):
    """Where a number may be 0, or as large as it may be at all, making the config takes no time and no memory."""
    config = configs_of_everything()[name]
    for value in (0, configs.LARGEST[field]):
        began = time.monotonic()
        with suppress(RegardError):
            assert is_dataclass(replace(config, **{field: (value,) if several else value}))
        assert time.monotonic() - began < 1


def test_rounds_of_hashing_and_of_acting_have_bounds_of_their_own():
    hashing = configs_of_everything()["text decoder: model"]
    acting = replace(configs_of_everything()["world gruworld: data"], real_steps=2**21)
    assert replace(acting, rounds=2**20).rounds == 2**20
    for config, most in ((hashing, 2**12), (acting, 2**20)):
        with pytest.raises(RegardError, match=f"rounds .* at most {most:,}"):
            replace(config, rounds=most + 1)


@pytest.mark.parametrize("cls", [TextInfo, LabelledInfo, ImagesInfo, SetsFitted, GraphsInfo])
def test_sizes_that_a_run_keeps_of_its_data_have_bounds(cls):
    hints = get_type_hints(cls)
    for field in fields(cls):
        if int not in (hints[field.name], *get_args(hints[field.name])) or field.name in ONLY_TOLD:
            continue
        for value in (10**18, 2**63, 10**4000):
            with pytest.raises(RegardError, match=f"{field.name} .*(at most|to) "):
                configs.check_sizes(planted(cls, hints, {field.name: value}))


IMAGES = {"path": "x", "pictures": 1, "train": 1, "validation": 0, "test": 0, "labels": ["a"], "counts": [1],
          "size": 8, "channels": 1, "mean": [0.5], "deviation": [0.2], "skipped": []}  # fmt: skip
NUMBER = {"name": "x", "centre": 0.0, "scale": 1.0}
SETS = {"form": "table", "features": ["x"], "centre": [0.0], "scale": [1.0]}


@pytest.mark.parametrize(
    "cls, fine, change",
    [
        (ImagesInfo, IMAGES, {"size": -1}),
        (ImagesInfo, IMAGES, {"size": 0}),
        (ImagesInfo, IMAGES, {"labels": []}),
        (ImagesInfo, IMAGES, {"channels": 3}),
        (ImagesInfo, IMAGES, {"deviation": [0.0]}),
        (ImagesInfo, IMAGES, {"mean": [1e999]}),
        (SetsFitted, SETS, {"scale": [0.0]}),
        (SetsFitted, SETS, {"centre": []}),
        (SetsFitted, SETS, {"fill": []}),
        (Target, {"numbers": [NUMBER]}, {"numbers": [NUMBER | {"scale": -1.0}]}),
        (Target, {"classes": ["a", "b"]}, {"classes": []}),
        (Scaling, {"how": "x"}, {"deviation": [0.0]}),
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


def planted(cls, hints, values):
    """An object of a class with these values and none else, as it would be read from a file."""
    made = object.__new__(cls)
    for field in fields(cls):
        object.__setattr__(made, field.name, values.get(field.name))
    return made


@pytest.mark.parametrize("name", [*MODELS, "TrainConfig", "Sampling"])
def test_numbers_that_are_not_finite_are_refused(name):
    config = configs_of_everything()[name]
    hints = get_type_hints(type(config))
    for field in fields(config):
        kinds = {hints[field.name], *get_args(hints[field.name])} - {NoneType}
        if float not in kinds:
            continue
        for value in (float("nan"), float("inf"), -float("inf")):
            with pytest.raises(RegardError, match=field.name):
                replace(config, **{field.name: value})


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
                    read_settings(TrainRequest(recipe=found), words, f"regard train {recipe}")
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
        for kept in (
            list(vars(module).values()) if getattr(module, "__name__", "").startswith("regard.") else ()
        ):
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
    monkeypatch.setattr("regard.models.memory.memory_of_machine", lambda: 4 * size - 1)
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
        with pytest.raises(RegardError, match=f"--model.{field}"):
            build_within_memory(cls, large, copies=2**30)


def test_too_many_modules_are_not_counted_to_the_end(monkeypatch):
    monkeypatch.setattr("regard.models.memory.MOST_MODULES", 500)

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

    monkeypatch.setitem(main.COMMANDS, command, main.COMMANDS[command]._replace(run=fail))
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

    monkeypatch.setitem(main.COMMANDS, "check", main.COMMANDS["check"]._replace(run=fail))
    assert main.main(["check", "x"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems tell less")
def test_the_memory_of_the_machine_is_told():
    assert 2**26 < machine.free_memory() <= machine.memory_of_machine() < 2**50
