"""Configurations go to JSON and back to an equal object, and errors name the key."""

import json
import math
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

KNOWN = "vocab, dim, heads, norm, dropout, window$"
NORMS = "'pre', 'post', 'deepnorm'"


@pytest.mark.parametrize(
    "data, words",
    [
        ({"vocab": 8, "haeds": 2}, f"'haeds'.*Model.*'heads'.*{KNOWN}"),
        ({"vocab": 8, "zzz": 2}, f"'zzz'.*Model.*{KNOWN}"),
        ({"vocab": 8, 3: 2}, f"'3'.*Model.*{KNOWN}"),
        ({"vocab": "8"}, r"'vocab'.*int.*'8' \(str\)"),
        ({"vocab": 8.0}, r"'vocab'.*int.*8\.0 \(float\)"),
        ({"vocab": True}, r"'vocab'.*int.*True \(bool\)"),
        ({"vocab": None}, r"'vocab'.*int.*None \(NoneType\)"),
        ({"vocab": 8, "dropout": False}, r"'dropout'.*float.*False \(bool\)"),
        ({"vocab": 8, "window": "9"}, r"'window'.*int.*'9' \(str\)"),
        ({"vocab": 8, "norm": "pst"}, f"'norm'.*{NORMS}.*'pst'.*'post'"),
        ({"vocab": 8, "norm": 1}, f"'norm'.*{NORMS}.*1$"),
        ({"dim": 8}, "Model.*'vocab'.*'dim'"),
        ({}, "Model.*'vocab'.*nothing"),
        ([1], r"config.*Model.*\[1\] \(list\)"),
        ({"vocab": 8, "dim": 7}, "dim.*heads.*dim=7.*heads=4"),
        ({"vocab": 0}, "vocab.*Model.*0"),
    ],
)
def test_a_wrong_model(data, words):
    with pytest.raises(ValueError, match=words):
        from_dict(Model, data)


@pytest.mark.parametrize(
    "key, value, words",
    [
        (
            "model",
            {"vocab": 8, "haeds": 2},
            f"'model.haeds'.*Model.*'model.heads'.*{KNOWN}",
        ),
        ("model", {"vocab": "x"}, r"'model\.vocab'.*int.*'x' \(str\)"),
        ("model", {"dim": 4}, r"Model.*'model\.vocab'.*'dim'"),
        ("model", {"vocab": 8, "dim": 7}, "model: dim.*heads.*dim=7.*heads=4"),
        ("model", None, r"'model'.*Model.*None \(NoneType\)"),
        ("fallback", {"vocab": []}, r"'fallback\.vocab'.*int.*\[\] \(list\)"),
        ("models", [{"vocab": 1}, {"vocab": 1.5}], r"'models\.1\.vocab'.*int.*1\.5 \(float\)"),
        ("resume", 1, r"'resume'.*bool.*1 \(int\)"),
        ("name", 3, r"'name'.*str.*3 \(int\)"),
        ("shape", [1], r"'shape'.*2.*tuple\[int, float\].*\[1\] \(list\)"),
        ("shape", ["a", 1.0], r"'shape\.0'.*int.*'a' \(str\)"),
        ("sizes", 3, r"'sizes'.*tuple\[int.*3 \(int\)"),
        ("sizes", "12", r"'sizes'.*tuple\[int.*'12' \(str\)"),
        ("sizes", [1, None], r"'sizes\.1'.*int.*None \(NoneType\)"),
        ("device", 1.5, r"'device'.*int.*str.*1\.5 \(float\)"),
        ("stop", True, "'stop'.*1, 'never', None.*True"),
        (
            "computed",
            4,
            "'computed'.*Training.*model, fallback, steps, name, resume, shape, sizes, models, device, stop",
        ),
        ("name", ["x" * 99], r"'name'.*str.*\['" + "x" * 55 + r"\.\.\. \(list\)$"),
    ],
)
def test_a_wrong_part(key, value, words):
    with pytest.raises(ValueError, match=words):
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
    with pytest.raises(ValueError, match=f"size.*Config.*{value!r}$"):
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
