"""Words of the command line: what is wrong with them is said in one plain line, with the nearest right one."""

import re
from functools import partial
from typing import Annotated, Literal, get_args

import pytest
from pydantic import Field

from regard import registry
from regard.config import UNSPLIT, Rare, Size, config, describe_type, hints_of, override, plain_type
from regard.generation.sampling import Sampling
from regard.models.attentions import AttentionConfig
from regard.recipes.base import get_recipe
from regard.recipes.request import TrainRequest
from regard.recipes.settings import settings_of_kind
from regard.recipes.text.config import TextConfig
from regard.recipes.text.generate import GenerateOptions
from regard.verbs import options
from regard.verbs.check import CheckOptions
from regard.verbs.evaluate import EvaluateOptions
from regard.verbs.look import LookOptions
from regard.verbs.predict import PredictOptions


@config
class Near:
    kind: Literal["near"] = "near"
    width: Size = 8  # how far it sees


@config
class Far:
    kind: Literal["far"] = "far"
    step: Size = 2  # how far apart


@config
class Inner:
    size: Size = 3  # of it
    share: float | None = None
    kind: Literal["plain", "fancy"] = "plain"
    quick_start: bool = False
    sizes: Rare[tuple[Size, ...]] = ()  # of others
    texts: Annotated[tuple[str, ...], UNSPLIT] = ()
    sees: Annotated[Near | Far, Field(discriminator="kind")] = Near()


@config
class Outer:
    part: Inner = Inner()


def parsed(*words):
    return override(Outer(), options.read_all_words(Outer, list(words), "program", more=["--data"])).part


def test_right_words():
    assert parsed() == Inner()
    assert parsed("--part.size", "7", "--part.share=0.5", "--part.kind", "fancy", "--part.quick-start") == Inner(
        size=7, share=0.5, kind="fancy", quick_start=True
    )
    assert parsed("--part.no-quick-start", "--part.share", "None", "--part.quick_start") == Inner(quick_start=True)
    assert parsed("--part.share", "-1e-3").share == -1e-3
    assert parsed("--part.quick-start", "False") == parsed("--part.quick-start=False") == Inner()


@pytest.mark.parametrize("words", [["3,4"], ["3", "4"], ["3,", "4"]])
def test_a_list_is_read_with_commas_and_without(words):
    assert parsed("--part.sizes", *words, "--part.size", "1") == Inner(sizes=(3, 4), size=1)


def test_a_list_or_a_word_is_told_apart():
    hint = Literal["auto"] | tuple[float, ...] | None
    cls = config(type("Weighs", (), {"__annotations__": {"weights": hint}, "weights": None}))
    for word, found in (("auto", "auto"), ("1,5", (1.0, 5.0)), ("None", None)):
        assert options.read_options(cls, ["--weights", word], "program")[0].weights == found


def test_texts_that_may_hold_commas_are_not_split():
    assert parsed("--part.texts", "a, b", "c") == Inner(texts=("a, b", "c"))


def test_a_part_is_chosen_by_its_kind_and_has_its_own_options():
    assert parsed("--part.sees.step=5", "--part.sees", "far") == Inner(sees=Far(step=5))
    assert parsed("--part.sees", "near", "--part.sees.width", "3") == Inner(sees=Near(width=3))
    with pytest.raises(ValueError, match=r"^part\.sees\.step.*part\.sees=far, got part\.sees=near; leave"):
        parsed("--part.sees.step", "5")
    with pytest.raises(ValueError, match=r"^part\.sees\.kind.*near, far.*'fra'.*'far'"):
        parsed("--part.sees", "fra")


def test_rare_options_are_behind_help_all():
    usual, every = (options.options_help(Outer, "program", every=each) for each in (False, True))
    assert "--part.sizes" in every and "--part.sizes" not in usual and "1 more options: program --help-all" in usual
    assert "--part.sees.width" in usual and "how far it sees" in usual


@pytest.mark.parametrize(
    "words, said",
    [
        (["--part.siez", "7"], r"--part\.siez.*--part\.size.*program --help"),
        (["--size=7"], r"--size.*--part\.size.*program --help"),
        (["--dta", "x"], "--dta.*--data.*program --help"),
        (["--zzz"], "--zzz.*program --help"),
        (["--part.no-size"], r"--part\.no-size.*--part\.size.*program --help"),
        (["--part.size"], r"part\.size.*program --help"),
        (["--part.size", "--part.quick-start"], r"part\.size.*program --help"),
        (["--part.size", "7.5"], r"part\.size.*whole number.*'7\.5'"),
        (["--part.share", "half"], r"part\.share.*None.*'half'"),
        (["--part.kind", "fanci"], r"part\.kind.*plain.*'fanci'.*'fancy'"),
        (["--part.size", "7", "8"], "'8'.*program --help"),
        (["--part.sizes", "3,x"], r"part\.sizes\.1.*whole number.*'x'"),
        (["--part.quick-start", "yes"], "'yes'.*program --help"),
        (["--part.size", "-2"], r"part\.size.*-2"),
    ],
)
def test_wrong_words(words, said):
    with pytest.raises(ValueError, match=said):
        parsed(*words)


def test_a_file_that_was_meant_as_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.txt").write_text("")
    with pytest.raises(ValueError, match="^'my.txt'.*--data my.txt."):
        parsed("my.txt")


@pytest.mark.parametrize("word", ["gone.txt", "texts/gone", "texts/*.txt", "photos.tar.gz"])
def test_a_word_that_is_written_like_a_path_was_meant_as_data(word):
    with pytest.raises(ValueError, match=re.escape(f"--data {word}?")):
        parsed(word)


@pytest.mark.parametrize("word", ["8", "7.5", "yes"])
def test_other_words_were_not(word):
    with pytest.raises(ValueError, match=f"'{word}'") as error:
        parsed(word)
    assert "--data" not in str(error.value)


def test_every_option_has_a_type_that_can_be_said():
    settings = settings_of_kind("decoder", TextConfig)
    hints = [*options.options_of(settings).values(), *options.options_of(Sampling).values()]
    unsaid = {hint for hint in hints if describe_type(hint) == "text"}
    assert {plain_type(hint) for hint in unsaid} <= {str}
    assert "--train.seed" in options.options_of(settings) and "--top-k" in options.options_of(Sampling)


def test_words_of_generate():
    words = ["run", "--prompt=--help me", "--top-k", "3", "--stop", "a", "b", "--seed=1"]
    chosen, rest = options.read_options(GenerateOptions, words, "regard generate")
    assert chosen == GenerateOptions(prompt="--help me", top_k=3, stop=("a", "b"), seed=1) and rest == ["run"]
    with pytest.raises(ValueError, match="^there.*--tempreture.*--temperature..*regard"):
        options.read_options(GenerateOptions, ["run", "--tempreture", "1"], "regard generate")


@pytest.mark.parametrize(
    "name, kind", [(name, kind) for name in registry.entries("recipes") for kind in get_recipe(name).models]
)
def test_every_option_is_explained(name, kind):
    """An option whose comment is lost has nothing in its help but the default."""
    text = options.help_text(get_recipe(name), None, kind, [], every=True) + "\n"
    shown = re.findall(r"^ *(--[a-z.-]+)[^\n]*\n?(?:\s+)([^\n]*)", text, re.MULTILINE)
    default = get_recipe(name).defaults(None, kind)
    derived = get_recipe(name).data_derived
    assert len(shown) > 20
    for option in options.options_of(type(default)):
        found = re.search(rf"^ *{re.escape(option)}[ ,]((?:[^\n]*\n)(?: {{5,}}[^\n]*\n)*)", text, re.MULTILINE)
        hidden = option[2:].replace("-", "_") in (*derived, "data.path")
        assert hidden or re.search(r"[a-z]{3}.*\(default", found[1].replace("\n", " ")), option


@pytest.mark.parametrize("attention", get_args(get_args(AttentionConfig)[0]))
def test_every_option_of_an_attention_can_be_given(attention):
    recipe, kind = get_recipe("text"), attention().kind
    names = hints_of(attention).keys() - {"kind"}
    words = [f"--model.attention={kind}", *(f"--model.attention.{name}=8" for name in names)]
    given = partial(options.read_settings_options, recipe, words, "regard train")
    found = TrainRequest(recipe=recipe, model="encoder", options=given).settings().model
    assert found.attention == attention(**dict.fromkeys(names, 8))


@pytest.mark.parametrize("cls", [PredictOptions, EvaluateOptions, CheckOptions, LookOptions, GenerateOptions])
def test_every_option_of_a_command_is_explained(cls):
    text = options.options_help(cls, "regard", every=True) + "\n"
    for option in options.options_of(cls):
        found = re.search(rf"^ *{re.escape(option)}[ ,]((?:[^\n]*\n)(?: {{5,}}[^\n]*\n)*)", text, re.MULTILINE)
        words = re.sub(r"\{[^}]*\}|--\S+|[A-Z]{3,}", "", found[1].replace("\n", " "))
        assert re.search(r"[a-z]{2}.*\(default", words), option
