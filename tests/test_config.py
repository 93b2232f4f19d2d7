"""Configurations go to JSON and back to an equal object, and errors name the key."""

import json
import math
import re
from dataclasses import dataclass, field, make_dataclass, replace
from typing import Any, Literal, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.config import check_positive, differences, from_dict, from_json, nearest, to_dict, to_json


@dataclass(frozen=True, kw_only=True)
class Model:
    vocab: int
    dim: int = 256
    heads: int = 4
    norm: Literal["pre", "post", "deepnorm"] = "pre"
    dropout: float = 0.0
    window: int | None = None

    def __post_init__(self):
        check_positive(self, "vocab", "dim", "heads")
        if self.dim % self.heads:
            raise ValueError(f"dim must be a multiple of heads, got dim={self.dim} and heads={self.heads}")


@dataclass(frozen=True)
class Training:
    model: Model
    fallback: Optional[Model] = None  # noqa: UP045  (both ways of writing it)
    steps: int = 100
    name: str = "run"
    resume: bool = False
    shape: tuple[int, float] = (1, 1.0)
    sizes: tuple[int, ...] = ()
    models: tuple[Model, ...] = ()
    device: int | str = "cpu"
    stop: Literal[1, "never", None] = None
    computed: int = field(init=False, default=3)


positive = st.integers(1, 2**70)
numbers = st.floats(allow_nan=False, allow_infinity=False)
models = st.builds(
    lambda heads, width, **rest: Model(heads=heads, dim=heads * width, **rest),
    heads=positive,
    width=positive,
    vocab=positive,
    norm=st.sampled_from(["pre", "post", "deepnorm"]),
    dropout=numbers,
    window=st.none() | st.integers(),
)
trainings = st.builds(
    Training,
    model=models,
    fallback=st.none() | models,
    steps=st.integers(),
    name=st.text(),
    resume=st.booleans(),
    shape=st.tuples(st.integers(), numbers),
    sizes=st.lists(st.integers()).map(tuple),
    models=st.lists(models, max_size=2).map(tuple),
    device=st.integers() | st.text(),
    stop=st.sampled_from([1, "never", None]),
)


# ── there and back ──────────────────────────────────────────────────────────────────────────────────────────


@given(trainings)
def test_to_json_and_back_is_equal(config):
    assert from_json(Training, to_json(config)) == config
    assert from_dict(Training, to_dict(config)) == config
    assert json.loads(to_json(config)) == to_dict(config)


@given(trainings)
def test_types_come_back_too(config):
    back = from_json(Training, to_json(config))
    assert repr(back) == repr(config)


def test_plain_data_is_plain():
    data = to_dict(Training(Model(vocab=8), sizes=(1, 2)))
    assert data["model"] == {
        "vocab": 8,
        "dim": 256,
        "heads": 4,
        "norm": "pre",
        "dropout": 0.0,
        "window": None,
    }
    assert data["sizes"] == [1, 2]
    assert "computed" not in data


def test_defaults_fill_what_is_left_out():
    assert from_dict(Model, {"vocab": 8}) == Model(vocab=8)


def test_a_whole_number_may_stand_for_a_float_and_becomes_one():
    back = from_dict(Model, {"vocab": 8, "dropout": 0})
    assert type(back.dropout) is float


# ── what is refused, in which words ─────────────────────────────────────────────────────────────────────────

KNOWN = "known: vocab, dim, heads, norm, dropout, window"
NORMS = "one of 'pre', 'post', 'deepnorm'"


def exactly(words):
    return f"^{re.escape(words)}$"


@pytest.mark.parametrize(
    "data, words",
    [
        ({"vocab": 8, "haeds": 2}, f"unknown key 'haeds' for Model; did you mean 'heads'? {KNOWN}"),
        ({"vocab": 8, "zzz": 2}, f"unknown key 'zzz' for Model; {KNOWN}"),
        ({"vocab": 8, 3: 2}, f"unknown key '3' for Model; {KNOWN}"),
        ({"vocab": "8"}, "key 'vocab' must be int, got '8' (str)"),
        ({"vocab": 8.0}, "key 'vocab' must be int, got 8.0 (float)"),
        ({"vocab": True}, "key 'vocab' must be int, got True (bool)"),
        ({"vocab": None}, "key 'vocab' must be int, got None (NoneType)"),
        ({"vocab": 8, "dropout": False}, "key 'dropout' must be float, got False (bool)"),
        ({"vocab": 8, "window": "9"}, "key 'window' must be int, got '9' (str)"),
        ({"vocab": 8, "norm": "pst"}, f"key 'norm' must be {NORMS}, got 'pst'; did you mean 'post'?"),
        ({"vocab": 8, "norm": 1}, f"key 'norm' must be {NORMS}, got 1"),
        ({"dim": 8}, "Model needs 'vocab', got 'dim'"),
        ({}, "Model needs 'vocab', got nothing"),
        ([1], "a config must be an object with the keys of Model, got [1] (list)"),
        ({"vocab": 8, "dim": 7}, "dim must be a multiple of heads, got dim=7 and heads=4"),
        ({"vocab": 0}, "vocab of Model must be a number above zero, got 0"),
    ],
)
def test_a_wrong_model(data, words):
    with pytest.raises(ValueError, match=exactly(words)):
        from_dict(Model, data)


@pytest.mark.parametrize(
    "key, value, words",
    [
        (
            "model",
            {"vocab": 8, "haeds": 2},
            f"unknown key 'model.haeds' for Model; did you mean 'model.heads'? {KNOWN}",
        ),
        ("model", {"vocab": "x"}, "key 'model.vocab' must be int, got 'x' (str)"),
        ("model", {"dim": 4}, "Model needs 'model.vocab', got 'dim'"),
        ("model", {"vocab": 8, "dim": 7}, "model: dim must be a multiple of heads, got dim=7 and heads=4"),
        ("model", None, "key 'model' must be an object with the keys of Model, got None (NoneType)"),
        ("fallback", {"vocab": []}, "key 'fallback.vocab' must be int, got [] (list)"),
        ("models", [{"vocab": 1}, {"vocab": 1.5}], "key 'models.1.vocab' must be int, got 1.5 (float)"),
        ("resume", 1, "key 'resume' must be bool, got 1 (int)"),
        ("name", 3, "key 'name' must be str, got 3 (int)"),
        ("shape", [1], "key 'shape' must be a list of 2 for tuple[int, float], got [1] (list)"),
        ("shape", ["a", 1.0], "key 'shape.0' must be int, got 'a' (str)"),
        ("sizes", 3, "key 'sizes' must be a list for tuple[int, ...], got 3 (int)"),
        ("sizes", "12", "key 'sizes' must be a list for tuple[int, ...], got '12' (str)"),
        ("sizes", [1, None], "key 'sizes.1' must be int, got None (NoneType)"),
        ("device", 1.5, "key 'device' must be int or str, got 1.5 (float)"),
        ("stop", True, "key 'stop' must be one of 1, 'never', None, got True"),
        (
            "computed",
            4,
            "unknown key 'computed' for Training; known: model, fallback, steps, name, resume, shape, "
            "sizes, models, device, stop",
        ),
        ("name", ["x" * 99], "key 'name' must be str, got ['" + "x" * 55 + "... (list)"),
    ],
)
def test_a_wrong_part(key, value, words):
    with pytest.raises(ValueError, match=exactly(words)):
        from_dict(Training, {"model": {"vocab": 8}, key: value})


@pytest.mark.parametrize(
    "text, words",
    [
        ('{"vocab": 8,}', "not JSON at line 1, column 13: "),
        ('{"vocab": 8,\n"dim": }', "JSON.*2.*8: Expecting"),
        ('{"vocab": 8, "vocab": 9}', "key 'vocab' is there twice"),
        ('{"vocab": 8, "dropout": NaN}', "NaN is not JSON"),
    ],
)
def test_wrong_text(text, words):
    with pytest.raises(ValueError, match=words):
        from_json(Model, text)


@pytest.mark.parametrize(
    "value, error, words",
    [
        (math.inf, ValueError, "'model.dropout'.*JSON"),
        (math.nan, ValueError, "'model.dropout'.*JSON"),
        ([1], TypeError, "'model.dropout'.*back.*JSON"),
        ({}, TypeError, "'model.dropout'.*back"),
    ],
)
def test_what_would_not_come_back_is_not_written(value, error, words):
    with pytest.raises(error, match=words):
        to_json(Training(Model(vocab=8, dropout=value)))


def test_long_configs_do_not_list_every_key():
    many = make_dataclass("Many", [(f"option_{i}", int) for i in range(20)], frozen=True)
    with pytest.raises(ValueError, match=r"'option_x'.*'option_\d+'.*20 keys$"):
        from_dict(many, {"option_x": 1})


@pytest.mark.parametrize("kind", [list[int], dict[str, int], Any, complex])
def test_a_field_a_config_cannot_hold_is_named(kind):
    odd = make_dataclass("Odd", [("thing", kind)], frozen=True)
    with pytest.raises(TypeError, match="'thing'.*config"):
        from_dict(odd, {"thing": 1})


def test_only_dataclasses_are_configs():
    for wrong in ({"a": 1}, 3):
        with pytest.raises(TypeError, match=f"a config is a frozen dataclass, got {type(wrong).__name__}"):
            to_dict(wrong)
    with pytest.raises(TypeError, match="config.*dict"):
        from_dict(dict, {})


# ── differences, positive numbers, near names ───────────────────────────────────────────────────────────────


def test_differences_by_dotted_key():
    a = Training(Model(vocab=8), sizes=(1,), fallback=Model(vocab=1))
    b = Training(Model(vocab=8, heads=2, norm="post"), sizes=(1, 2))
    assert differences(a, b) == [
        ("model.heads", 4, 2),
        ("model.norm", "pre", "post"),
        ("fallback", Model(vocab=1), None),
        ("sizes", (1,), (1, 2)),
    ]


@given(trainings, trainings)
def test_no_differences_exactly_when_equal(a, b):
    assert (differences(a, b) == []) == (a == b)
    assert differences(a, replace(a)) == []


def test_differences_of_two_classes_make_no_sense():
    with pytest.raises(TypeError, match="Model.*Training"):
        differences(Model(vocab=1), Training(Model(vocab=1)))


@pytest.mark.parametrize("value", [0, -1, -0.5, math.nan, None, "3", True])
def test_check_positive_refuses(value):
    config = make_dataclass("Config", ["size"])(value)
    with pytest.raises(ValueError, match=f"^size of Config must be a number above zero, got {value!r}$"):
        check_positive(config, "size")


def test_check_positive_accepts():
    check_positive(make_dataclass("Config", ["a", "b"])(1, 1e-9), "a", "b")


def test_nearest():
    assert nearest("dpeth", ["dim", "depth", "heads"]) == "depth"
    assert nearest("zzz", ["dim", "depth", "heads"]) is None
    assert nearest("depth", []) is None


def test_the_last_part_of_a_dotted_name_must_be_alike_too():
    known = ["model.dropout", "model.depth", "data.batch"]
    assert nearest("model.dpeth", known) == "model.depth" and nearest("modle.depth", known) == "model.depth"
    assert nearest("model.bogus", known) is None and nearest("model.zzz", known) is None
