"""The registry: every part that has a name, where it lives, and one sentence about it.

They stand in registry.toml, so listing them imports nothing; `find` imports the one that is asked for. To add a part, add
a line there. Another package offers parts by entry points of the group `regard.CATEGORY`. A test imports every entry.
"""

import tomllib
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from regard.errors import RegardError, did_you_mean


class Entry(NamedTuple):
    """One part: `target` is "module:attribute"; of a model, also the `symmetry` that its tiny() declares, in
    words."""

    target: str
    sentence: str
    symmetry: str = ""


class Category(NamedTuple):
    """Parts that can stand in for each other, and what they are for."""

    sentence: str
    entries: dict[str, Entry]


def categories() -> tuple[str, ...]:
    """The names of all categories, in reading order."""
    return tuple(_categories())


def describe(category: str) -> str:
    """What the parts of this category are for."""
    return _category(category).sentence


def entries(category: str) -> dict[str, Entry]:
    """All parts of one category by name, in reading order: our own, then those of other packages under names
    of their own."""
    own = _category(category).entries
    return own | {name: entry for name, entry in _offered_by_others().get(category, {}).items() if name not in own}


def find(category: str, name: str) -> Any:
    """The class or function itself: find("masks", "causal") is regard.attention.masks.Causal."""
    entry = _category(category).entries.get(name) or entries(category).get(name)
    if entry is None:
        raise RegardError(f"there is no '{name}' among the {category}; {_advice(name, entries(category))}")
    module, attribute = entry.target.split(":")
    return getattr(import_module(module), attribute)


@cache
def _offered_by_others() -> dict[str, dict[str, Entry]]:
    """Parts that other installed packages offer, by category: entry points of the group `regard.CATEGORY`."""
    from importlib.metadata import entry_points

    found: dict[str, dict[str, Entry]] = {}
    points = entry_points()
    for group in (each for each in points.groups if each.startswith("regard.")):
        for point in points.select(group=group):
            about = None if point.dist is None else point.dist.metadata["Summary"]
            entry = Entry(point.value, about or f"from {point.value.partition('.')[0]}")
            found.setdefault(group.removeprefix("regard."), {})[point.name] = entry
    return found


@cache
def _categories() -> dict[str, Category]:
    """Our own parts, in reading order."""
    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    return {
        name: Category(
            each["about"],
            {part: Entry(f"{each['package']}.{target}", *more) for part, (target, *more) in each["parts"].items()},
        )
        for name, each in table.items()
    }


def _category(category: str) -> Category:
    known = _categories()
    if category not in known:
        raise RegardError(f"there is no category '{category}'; {_advice(category, known)}")
    return known[category]


def _advice(name: str, known: dict[str, Any]) -> str:
    return f"{did_you_mean(name, known)}known: {', '.join(known)}"
