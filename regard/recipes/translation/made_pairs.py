"""Made pairs, which need no file: dates in several languages, and lists of numbers to reverse."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import numpy as np

from regard.data.batch import generator
from regard.data.splits import TEST, TRAIN, VALIDATION
from regard.errors import RegardError
from regard.recipes.translation.pairs import Pair, Pairs

# languages whose dates, written in full, long or medium form, mean one day only
LANGUAGES = ("en", "de", "fr", "es", "it", "pt", "nl", "pl", "tr", "fi", "hu", "ja")
FORMS = ("full", "long", "medium")
Held = tuple[float, float]  # shares of the validation and of the test split
FIRST_YEAR, LAST_YEAR = 1900, 2099

# as the generator of JoeyNMT: numbers 0 to 49; sequences to be tested on may be longer than those to learn from
NUMBERS = 50
LONGEST = {TRAIN: 25, VALIDATION: 30, TEST: 30}


def make_date_pairs(count: int, held: Held, seed: int) -> Pairs:
    """mardi 17 novembre 2026 -> 2026-11-17. Each source comes once."""
    format_date = _import_babel()
    random = generator(seed, 20)
    first = date(FIRST_YEAR, 1, 1).toordinal()
    days = date(LAST_YEAR, 12, 31).toordinal() - first + 1

    def draw() -> Pair:
        day = date.fromordinal(first + int(random.integers(days)))
        language = LANGUAGES[int(random.integers(len(LANGUAGES)))]
        form = FORMS[int(random.integers(len(FORMS)))]
        written = format_date(day, form, locale=language)
        return Pair(" ".join(written.split()), day.isoformat())

    return _fill(count, held, lambda split: draw(), "dates")


def make_reverse_pairs(count: int, held: Held, seed: int) -> Pairs:
    """3 14 15 -> 15 14 3"""
    random = generator(seed, 21)

    def draw(split: int) -> Pair:
        length = int(random.integers(1, LONGEST[split] + 1))
        numbers = [str(number) for number in random.integers(NUMBERS, size=length)]
        return Pair(" ".join(numbers), " ".join(reversed(numbers)))

    return _fill(count, held, draw, "reverse")


def _fill(count: int, held: Held, draw: Callable[[int], Pair], name: str) -> Pairs:
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
            if pair.source not in seen:
                break
            pair = draw(split)
        seen.add(pair.source)
        pairs.append(pair)
    return Pairs(name=name, pairs=pairs, splits=splits[::-1].astype(np.uint8), source="source", target="target")


MADE: dict[str, Callable[[int, Held, int], Pairs]] = {"dates": make_date_pairs, "reverse": make_reverse_pairs}


def _import_babel() -> Any:
    try:
        from babel.dates import format_date  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError as error:
        raise ImportError(
            "dates in several languages are written by the package babel, which is not installed; use "
            "pip install 'regard[translate]', or --data reverse, or pairs of your own with --data PATH"
        ) from error
    return format_date
