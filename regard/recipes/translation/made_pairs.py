"""Made pairs, which need no file: dates in several languages, and lists of numbers to reverse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.data.batch import generator
from regard.data.splits import TEST, TRAIN, VALIDATION, share_of_test
from regard.errors import RegardError
from regard.recipes.example import Examples
from regard.recipes.translation.pairs import Pair, make_examples

if TYPE_CHECKING:
    from regard.recipes.translation.config import PairsConfig

BUILT_IN = "dates"
# languages whose dates, written in full, long or medium form, mean one day only
LANGUAGES = ("en", "de", "fr", "es", "it", "pt", "nl", "pl", "tr", "fi", "hu", "ja")
FORMS = ("full", "long", "medium")
FIRST_YEAR, LAST_YEAR = 1900, 2099

# as the generator of JoeyNMT: numbers 0 to 49; sequences to be tested on may be longer than those to learn from
NUMBERS = 50
LONGEST = {TRAIN: 25, VALIDATION: 30, TEST: 30}


def read_made(name: str | None, config: PairsConfig) -> Examples:
    """Pairs of a made task, drawn when the seed is known. None: dates"""
    name = name or BUILT_IN
    held = (config.validation, share_of_test(config, config.pairs))

    def draw(seed: int) -> Examples:
        return _fill(config.pairs, held, MADE[name](seed), name)

    return Examples(what=name, count=0, inputs=lambda i: {}, names=str, draw=draw)


def draw_dates(seed: int) -> Callable[[int], Pair]:
    """mardi 17 novembre 2026 -> 2026-11-17"""
    format_date = _import_babel()
    random = generator(seed, 20)
    first = date(FIRST_YEAR, 1, 1).toordinal()
    days = date(LAST_YEAR, 12, 31).toordinal() - first + 1

    def draw(split: int) -> Pair:
        day = date.fromordinal(first + int(random.integers(days)))
        language = LANGUAGES[int(random.integers(len(LANGUAGES)))]
        form = FORMS[int(random.integers(len(FORMS)))]
        written = format_date(day, form, locale=language)
        return " ".join(written.split()), day.isoformat()

    return draw


def draw_lists(seed: int) -> Callable[[int], Pair]:
    """3 14 15 -> 15 14 3"""
    random = generator(seed, 21)

    def draw(split: int) -> Pair:
        length = int(random.integers(1, LONGEST[split] + 1))
        numbers = [str(number) for number in random.integers(NUMBERS, size=length)]
        return " ".join(numbers), " ".join(reversed(numbers))

    return draw


MADE: dict[str, Callable[[int], Callable[[int], Pair]]] = {"dates": draw_dates, "reverse": draw_lists}


def _fill(count: int, held: tuple[float, float], draw: Callable[[int], Pair], name: str) -> Examples:
    """So many pairs with different sources, if there are so many."""
    counts = [round(count * share) for share in held]
    if count <= sum(counts):
        raise RegardError(
            f"{count} made pairs leave none to learn from after {counts[0]} for validation and {counts[1]} for "
            "the test; give more with --data.pairs"
        )
    splits = np.repeat([TRAIN, VALIDATION, TEST], [count - sum(counts), *counts])
    seen: set[str] = set()
    pairs: list[Pair] = []
    for split in splits[::-1].tolist():  # short lists are few: those to be tested on come first
        pair = draw(split)
        for _ in range(100):
            if pair[0] not in seen:
                break
            pair = draw(split)
        seen.add(pair[0])
        pairs.append(pair)
    found = make_examples(name, pairs, ("source", "target"), splits=splits[::-1].astype(np.uint8))
    return replace(found, about={**found.about, "made": name})


def _import_babel() -> Any:
    try:
        from babel.dates import format_date  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError as error:
        raise ImportError(
            "dates in several languages are written by the package babel, which is not installed; use "
            "pip install 'regard[translate]', or --data reverse, or pairs of your own with --data PATH"
        ) from error
    return format_date
