"""Everything registered exists, says what it is, and is found by its name."""

import inspect

import pytest

from regard import names

EVERYTHING = [(kind, name) for kind in names.kinds() for name in names.entries(kind)]


@pytest.mark.parametrize("kind, name", EVERYTHING)
def test_every_entry_can_be_found_and_has_a_docstring(kind, name):
    thing = names.find(kind, name)
    if kind == "laws":  # objects, each with its name
        assert thing.name == name and type(thing).__doc__
        return
    assert callable(thing)
    own = vars(thing).get("__doc__") if inspect.isclass(thing) else thing.__doc__
    assert own, f"{kind} {name} has no docstring of its own"
    module, attribute = names.entries(kind)[name].target.split(":")
    assert (thing.__module__, thing.__name__) == (module, attribute)


@pytest.mark.parametrize("kind, name", EVERYTHING)
def test_every_entry_is_one_short_sentence(kind, name):
    entry = names.entries(kind)[name]
    assert name == name.lower()
    assert 10 < len(entry.sentence) <= 80
    assert "\n" not in entry.sentence
    assert not entry.sentence.endswith(".")
    assert entry.target.startswith("regard.")
    assert entry.target.count(":") == 1


def test_no_two_names_mean_the_same():
    targets = [names.entries(kind)[name].target for kind, name in EVERYTHING]
    assert len(set(targets)) == len(targets)


def test_kinds_are_described():
    assert len(names.kinds()) == len(set(names.kinds())) >= 6
    assert all(len(names.describe(kind)) > 10 and names.entries(kind) for kind in names.kinds())


def test_an_unknown_name_is_told_the_nearest():
    with pytest.raises(
        ValueError, match="^there is no 'casual' among the masks; did you mean 'causal'\\? known: full"
    ):
        names.find("masks", "casual")
    with pytest.raises(ValueError, match="^there is no 'xyz' among the biases; known: alibi, .*, offsets$"):
        names.find("biases", "xyz")


@pytest.mark.parametrize("ask", [names.describe, names.entries, lambda kind: names.find(kind, "causal")])
def test_an_unknown_kind_is_told_the_nearest(ask):
    with pytest.raises(
        ValueError, match="^there is no kind 'mask'; did you mean 'masks'\\? known: masks, positions"
    ):
        ask("mask")


def test_the_table_cannot_be_changed_by_those_who_read_it():
    names.entries("masks").clear()
    assert "causal" in names.entries("masks")


def test_a_planted_entry_that_does_not_exist_is_caught(monkeypatch):
    planted = names.Kind(
        "planted",
        {
            "module": names.Entry("regard.nowhere:Thing", "no such module"),
            "class": names.Entry("regard.shapes:Thing", "no such class"),
        },
    )
    monkeypatch.setitem(names._KINDS, "planted", planted)
    with pytest.raises(ModuleNotFoundError):
        names.find("planted", "module")
    with pytest.raises(AttributeError):
        names.find("planted", "class")
