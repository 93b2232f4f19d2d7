"""Everything registered exists, says what it is, and is found by its name."""

import inspect

import pytest

from regard import registry

EVERYTHING = [(kind, name) for kind in registry.kinds() for name in registry.entries(kind)]


@pytest.mark.parametrize("kind, name", EVERYTHING)
def test_every_entry_can_be_found_and_has_a_docstring(kind, name):
    thing = registry.find(kind, name)
    if kind in ("laws", "recipes"):  # objects, each with its name
        assert thing.name == name and type(thing).__doc__
        return
    assert callable(thing)
    own = vars(thing).get("__doc__") if inspect.isclass(thing) else thing.__doc__
    assert own, f"{kind} {name} has no docstring of its own"
    module, attribute = registry.entries(kind)[name].target.split(":")
    assert (thing.__module__, thing.__name__) == (module, attribute)


@pytest.mark.parametrize("kind, name", EVERYTHING)
def test_every_entry_is_one_short_sentence(kind, name):
    entry = registry.entries(kind)[name]
    assert name == name.lower()
    assert 10 < len(entry.sentence) <= 80
    assert "\n" not in entry.sentence
    assert not entry.sentence.endswith(".")
    assert entry.target.startswith("regard.")
    assert entry.target.count(":") == 1


def test_no_two_names_mean_the_same():
    targets = [registry.entries(kind)[name].target for kind, name in EVERYTHING]
    assert len(set(targets)) == len(targets)


def test_kinds_are_described():
    assert len(registry.kinds()) == len(set(registry.kinds())) >= 6
    assert all(len(registry.describe(kind)) > 10 and registry.entries(kind) for kind in registry.kinds())


def test_an_unknown_name_is_told_the_nearest():
    with pytest.raises(
        ValueError, match="^there is no 'casual' among the masks; did you mean 'causal'\\? known: full"
    ):
        registry.find("masks", "casual")
    with pytest.raises(ValueError, match="^there is no 'xyz' among the biases; known: alibi, .*, offsets$"):
        registry.find("biases", "xyz")


@pytest.mark.parametrize(
    "ask", [registry.describe, registry.entries, lambda kind: registry.find(kind, "causal")]
)
def test_an_unknown_kind_is_told_the_nearest(ask):
    with pytest.raises(
        ValueError, match="^there is no kind 'mask'; did you mean 'masks'\\? known: masks, positions"
    ):
        ask("mask")


def test_the_table_cannot_be_changed_by_those_who_read_it():
    registry.entries("masks").clear()
    assert "causal" in registry.entries("masks")


def test_a_planted_entry_that_does_not_exist_is_caught(monkeypatch):
    planted = registry.Kind(
        "planted",
        {
            "module": registry.Entry("regard.nowhere:Thing", "no such module"),
            "class": registry.Entry("regard.shapes:Thing", "no such class"),
        },
    )
    monkeypatch.setitem(registry._KINDS, "planted", planted)
    with pytest.raises(ModuleNotFoundError):
        registry.find("planted", "module")
    with pytest.raises(AttributeError):
        registry.find("planted", "class")
