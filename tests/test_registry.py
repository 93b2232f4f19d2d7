"""Everything registered exists, says what it is, and is found by its name."""

import inspect

import pytest

from regard import registry

EVERYTHING = [(category, name) for category in registry.categories() for name in registry.entries(category)]


@pytest.mark.parametrize("category, name", EVERYTHING)
def test_every_entry_can_be_found_and_has_a_docstring(category, name):
    thing = registry.find(category, name)
    if category in ("laws", "recipes"):  # objects, each with its name
        assert thing.name == name and type(thing).__doc__
        return
    assert callable(thing)
    own = vars(thing).get("__doc__") if inspect.isclass(thing) else thing.__doc__
    assert own, f"{category} {name} has no docstring of its own"
    module, attribute = registry.entries(category)[name].target.split(":")
    assert (thing.__module__, thing.__name__) == (module, attribute)


@pytest.mark.parametrize("category, name", EVERYTHING)
def test_every_entry_is_one_short_sentence(category, name):
    entry = registry.entries(category)[name]
    assert name == name.lower()
    assert 10 < len(entry.sentence) <= 80
    assert "\n" not in entry.sentence
    assert not entry.sentence.endswith(".")
    assert entry.target.startswith("regard.")
    assert entry.target.count(":") == 1


def test_no_two_names_mean_the_same():
    targets = [registry.entries(category)[name].target for category, name in EVERYTHING]
    assert len(set(targets)) == len(targets)


def test_kinds_are_described():
    assert len(registry.categories()) == len(set(registry.categories())) >= 6
    assert all(
        len(registry.describe(category)) > 10 and registry.entries(category) for category in registry.categories()
    )


def test_an_unknown_name_is_told_the_nearest():
    with pytest.raises(ValueError, match="^there.*'casual' among.*'causal'.*full"):
        registry.find("masks", "casual")
    with pytest.raises(ValueError, match="^there.*'xyz' among.*alibi.*offsets$"):
        registry.find("biases", "xyz")


@pytest.mark.parametrize(
    "ask", [registry.describe, registry.entries, lambda category: registry.find(category, "causal")]
)
def test_an_unknown_kind_is_told_the_nearest(ask):
    with pytest.raises(ValueError, match="^there.*category 'mask'.*'masks'.*masks, positions"):
        ask("mask")


def test_the_table_cannot_be_changed_by_those_who_read_it():
    registry.entries("masks").clear()
    assert "causal" in registry.entries("masks")


def test_a_planted_entry_that_does_not_exist_is_caught(monkeypatch):
    planted = registry.Category(
        "planted",
        {
            "module": registry.Entry("regard.nowhere:Thing", "no such module"),
            "class": registry.Entry("regard.shapes:Thing", "no such class"),
        },
    )
    monkeypatch.setitem(registry._categories(), "planted", planted)
    with pytest.raises(ModuleNotFoundError):
        registry.find("planted", "module")
    with pytest.raises(AttributeError):
        registry.find("planted", "class")
