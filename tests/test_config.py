"""Configurations go to JSON and back to an equal object, and errors name the key."""

import json
import math
import re
from dataclasses import FrozenInstanceError, replace
from typing import Annotated, ClassVar, Literal, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from regard.config import (
    Count,
    Kernel,
    Rare,
    Share,
    Width,
    config,
    describe_type,
    differences,
    from_dict,
    from_json,
    hints_of,
    is_rare,
    options_of,
    override,
    to_dict,
    to_json,
)
from regard.errors import RegardError, nearest


@config
class Near:
    kind: Literal["near"] = "near"
    width: Width = 128


@config
class Far:
    kind: Literal["far"] = "far"
    step: Rare[Kernel] = 2


@config
class Model:
    vocab: Width
    dim: Width = 256
    heads: Count = 4
    norm: Literal["pre", "post", "deepnorm"] = "pre"
    dropout: Share = 0.0
    window: Width | None = None
    causal: ClassVar[bool] = False

    def __post_init__(self):
        if self.dim % self.heads:
            raise RegardError(f"must be a multiple of heads={self.heads}, got {self.dim}", option="dim")


@config
class Training:
    model: Model
    fallback: Optional[Model] = None  # noqa: UP045  (both ways of writing it)
    sees: Annotated[Near | Far, Field(discriminator="kind")] = Near()
    steps: int = 100
    name: str = "run"
    resume: bool = False
    shape: tuple[int, float] = (1, 1.0)
    sizes: tuple[int, ...] = ()
    models: tuple[Model, ...] = ()
    device: int | str = "cpu"
    stop: Literal[1, "never"] | None = None
    text: Annotated[str | None, Field(exclude=True)] = None  # kept in a file of its own


numbers = st.floats(allow_nan=False, allow_infinity=False)
sizes = st.integers(1, 2**18)
models = st.builds(
    lambda heads, width, **rest: Model(heads=heads, dim=heads * width, **rest),
    heads=st.integers(1, 512),
    width=st.integers(1, 512),
    vocab=sizes,
    norm=st.sampled_from(["pre", "post", "deepnorm"]),
    dropout=st.floats(0, 1, exclude_max=True),
    window=st.none() | sizes,
)
trainings = st.builds(
    Training,
    model=models,
    fallback=st.none() | models,
    sees=st.builds(Near, width=sizes) | st.builds(Far, step=st.integers(1, 64)),
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
    assert repr(from_dict(Training, to_dict(config))) == repr(config)
    assert json.loads(to_json(config)) == to_dict(config)


def test_plain_data_is_plain():
    data = to_dict(Training(model=Model(vocab=8), sizes=(1, 2), text="long"))
    assert data["model"] == {"vocab": 8, "dim": 256, "heads": 4, "norm": "pre", "dropout": 0.0, "window": None}
    assert data["sizes"] == [1, 2] and data["sees"] == {"kind": "near", "width": 128}
    assert "text" not in data


def test_defaults_fill_what_is_left_out():
    assert from_dict(Model, {"vocab": 8}) == Model(vocab=8)


def test_a_whole_number_may_stand_for_a_float_and_becomes_one():
    for made in (from_dict(Model, {"vocab": 8, "dropout": 0}), Model(vocab=8, dropout=0)):
        assert type(made.dropout) is float


def test_a_config_is_frozen_and_replacing_checks_again():
    model = Model(vocab=8)
    with pytest.raises(FrozenInstanceError):
        model.vocab = 9
    with pytest.raises(RegardError, match="^heads must be .* to 1,024, got 0$"):
        replace(model, heads=0)


def test_the_schema_of_one_config_may_be_built_as_part_of_another():
    """pydantic sets its own __init__ when it builds a schema."""

    @config
    class Inner:
        size: Width = 1

    @config
    class Outer:
        inner: Inner = Inner()

    from_dict(Outer, {"inner": {"size": 3}})
    for cls in (Inner, Outer, Inner):
        with pytest.raises(RegardError, match="sze is no option"):
            cls(sze=1)


# ── what is refused, in which words ─────────────────────────────────────────────────────────────────────────

KNOWN = "vocab, dim, heads, norm, dropout, window$"
NORMS = "pre, post, deepnorm"
WRONG = [
    ({"vocab": 8, "haeds": 2}, f"^haeds .*Model; did you mean heads.*{KNOWN}"),
    ({"haeds": 2}, "^haeds .*did you mean heads"),  # not that vocab is missing
    ({"vocab": 8, "zzz": 2}, f"^zzz is no option of Model; known: {KNOWN}"),
    ({"vocab": "8"}, "^vocab must be a whole number .*, got '8'$"),
    ({"vocab": 8.0}, r"^vocab .*whole number.* 8\.0$"),
    ({"vocab": True}, "^vocab .*whole number.* True$"),
    ({"vocab": None}, "^vocab .*whole number.* None$"),
    ({"vocab": 0}, "^vocab must be a whole number from 1 to 262,144, got 0$"),
    ({"vocab": 10**4000}, "^vocab .* 262,144, got a number of 13,288 bits$"),
    ({"vocab": 8, "dropout": False}, "^dropout must be a number from 0 on and below 1, got False$"),
    ({"vocab": 8, "dropout": 1.0}, "^dropout .*below 1, got 1.0$"),
    ({"vocab": 8, "dropout": math.nan}, "^dropout .*, got nan$"),
    ({"vocab": 8, "dropout": -math.inf}, "^dropout .*, got -inf$"),
    ({"vocab": 8, "window": "9"}, "^window .*whole number.*, or None, got '9'$"),
    ({"vocab": 8, "norm": "pst"}, f"^norm must be one of {NORMS}, got 'pst'; did you mean 'post'"),
    ({"vocab": 8, "norm": 1}, f"^norm .*{NORMS}, got 1$"),
    ({"dim": 8}, "^vocab is missing; Model"),
    ({"vocab": 8, "dim": 7}, "^dim must be a multiple of heads=4, got 7$"),
]


@pytest.mark.parametrize("data, words", WRONG)
def test_a_wrong_model(data, words):
    with pytest.raises(RegardError, match=words) as refused:
        from_dict(Model, data)
    assert refused.value.option == str(refused.value).split()[0]
    with pytest.raises(RegardError, match=words):
        Model(**data)


@pytest.mark.parametrize(
    "key, value, words",
    [
        ("model", {"vocab": 8, "haeds": 2}, f"^model.haeds .*Model.*model.heads.*{KNOWN}"),
        ("model", {"vocab": 8, "dim": 7}, "^model.dim must be a multiple of heads=4"),
        ("model", None, "^model must be an object with the keys of Model, got None$"),
        ("fallback", {"vocab": []}, r"^fallback.vocab .*whole number.* \[\]$"),
        ("models", [{"vocab": 1}, {"vocab": 1.5}], r"^models.1.vocab .* 1\.5$"),
        ("resume", 1, "^resume must be True or False, got 1$"),
        ("name", 3, "^name must be text, got 3$"),
        ("shape", [1], "^shape.1 is missing"),
        ("shape", ["a", 1.0], "^shape.0 must be a whole number, got 'a'$"),
        ("sizes", 3, "^sizes must be a list, each a whole number, got 3$"),
        ("sizes", "12", "^sizes .*list.* '12'$"),
        ("sizes", [1, None], "^sizes.1 .*whole number.* None$"),
        ("device", 1.5, r"^device must be a whole number or text, got 1\.5$"),
        ("stop", 2, "^stop must be one of 1, never, or None, got 2$"),
        ("sees", {"kind": "fra"}, "^sees.kind must be one of near, far, got 'fra'; did you mean 'far'"),
        ("sees", {"kind": "near", "step": 3}, "^sees.step is an option of sees=far, got sees=near"),
        ("sees", {"kind": "far", "step": 65}, "^sees.step .* to 64, got 65$"),
        ("sees", {"kind": "far", "stp": 65}, "^sees.stp is no option of Far; did you mean sees.step"),
        ("sees", {"width": 3}, "^sees.kind .*near, far, got None$"),
        ("sees", 3, "^sees must be one of near, far, got 3$"),
        ("name", ["x" * 99], r"^name must be text, got \['" + "x" * 55 + r"\.\.\.$"),
    ],
)
def test_a_wrong_part(key, value, words):
    with pytest.raises(RegardError, match=words):
        from_dict(Training, {"model": {"vocab": 8}, key: value})


def test_wrong_text():
    with pytest.raises(RegardError, match="^not JSON: .*line 1 column 13"):
        from_json(Model, '{"vocab": 8,}')


def test_only_an_object_is_a_config():
    with pytest.raises(RegardError, match="^Model must be an object with the keys of Model, got 3$"):
        from_dict(Model, 3)


def test_a_type_says_what_may_be_given():
    said = {name: describe_type(hint) for name, hint in hints_of(Training).items()}
    assert said["sees"] == "one of near, far" and said["stop"] == "one of 1, never, or None"
    assert describe_type(hints_of(Far)["step"]) == "a whole number from 1 to 64"
    assert describe_type(hints_of(Model)["window"]).endswith(" to 262,144, or None")


# ── differences, options of errors, near names ──────────────────────────────────────────────────────────────


def test_options_are_set_by_dotted_name():
    config = Training(model=Model(vocab=8), sees=Near(width=3))
    changed = override(config, {"sees.step": 5, "model.heads": 2, "sees": "far", "sizes": [1, 2]})
    assert changed == replace(config, sees=Far(step=5), model=Model(vocab=8, heads=2), sizes=(1, 2))
    assert override(config, {"sees": "near"}) == config == override(config, {"sees": Near(width=3)})
    for options in ({"model.zzz.a": 1}, {"zzz.a": 1}, {"model.heads.a": 1}):
        with pytest.raises(RegardError, match=re.escape(next(iter(options)).rpartition(".")[0])):
            override(config, options)


def test_every_option_has_a_dotted_name():
    names = options_of(Training)
    assert {"model.heads", "sees", "sees.width", "sees.step", "sizes"} <= names.keys()
    assert "sees.kind" not in names and "model" not in names and "fallback" in names
    assert is_rare(names["sees.step"]) and not is_rare(names["sees.width"])


def test_differences_by_dotted_key():
    a = Training(model=Model(vocab=8), sizes=(1,), fallback=Model(vocab=1))
    b = Training(model=Model(vocab=8, heads=2, norm="post"), sizes=(1, 2), sees=Far())
    assert differences(a, b) == [
        ("model.heads", 4, 2),
        ("model.norm", "pre", "post"),
        ("fallback", Model(vocab=1), None),
        ("sees", Near(), Far()),
        ("sizes", (1,), (1, 2)),
    ]


@given(trainings, trainings)
def test_no_differences_exactly_when_equal(a, b):
    assert (differences(a, b) == []) == (a == b)
    assert differences(a, replace(a)) == []


def test_differences_of_two_classes_make_no_sense():
    with pytest.raises(TypeError, match="Model.*Training"):
        differences(Model(vocab=1), Training(model=Model(vocab=1)))


def test_an_error_calls_its_option_as_the_door_does():
    error = RegardError("must be above 0, got -1", option="train.lr")
    assert str(error) == "train.lr must be above 0, got -1"
    assert error.about("--train.lr") == "--train.lr must be above 0, got -1"
    assert RegardError("no run is there").about(None) == "no run is there"


def test_nearest():
    assert nearest("dpeth", ["dim", "depth", "heads"]) == "depth"
    assert nearest("zzz", ["dim", "depth", "heads"]) is None
    assert nearest("depth", []) is None


def test_the_last_part_of_a_dotted_name_must_be_alike_too():
    known = ["model.dropout", "model.depth", "data.batch"]
    assert nearest("model.dpeth", known) == "model.depth" and nearest("modle.depth", known) == "model.depth"
    assert nearest("model.bogus", known) is None and nearest("model.zzz", known) is None
