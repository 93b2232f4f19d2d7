"""What the cells of a column of text are: numbers, dates, times, yes and no, or text; decided from all cells.

A reading makes values of cells. A column has the reading that fits ALL its cells, apart from missing ones. If two readings
fit and differ, or a few cells spoil one, that is a doubt: a sentence with an example, its line and the option that settles it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from regard.data.array import Array
from regard.data.dialect import DATES, TIME, TableConfig

# words of cells that hold nothing, where the other cells are numbers or dates
UNLABELLED = ("NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NAN", "null", "NULL", "Null", "?")  # no label either
WORDS = (*UNLABELLED, "n.a.", "NaT", "None", "none", "missing", "Missing", "-", "--", ".")
IN_TEXT = {"NA", "N/A", "#N/A", "<NA>", "NaN", "null", "NULL", "Null", "None", "none"}  # doubtful among texts
FLAGS = (("yes", "no"), ("true", "false"), ("t", "f"), ("y", "n"), ("ja", "nein"), ("oui", "non"), ("on", "off"))
SIGNS = ("", "%", "$", "€", "£", "¥")
SENTINELS = ("-99", "-999", "-9999", "-99999", "-99.0", "-999.0", "-9999.0")
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
ORDERS = {"year": "ymd", "day": "dmy", "month": "mdy"}  # --data.dates
ID = r"^[+-]?0\d+$|^[+-]?\d{16,}$|^\+\d{7,}$"  # leading zeros, too long for a float, a telephone number
WITH_UNIT = r"^[+-]?\d[\d.,]*\s?[A-DF-Za-df-z°µ][A-Za-z°µ]{0,4}(?:[+-]?\d+)?$"
TEXT = "text"  # the kind of a column that no reading fits
HOPELESS = 5_000  # cells that a reading does not fit, from which on it is given up if they are most

Parse = Callable[[Any], tuple[Array, Array]]  # cells → values, and which cells they fit


@dataclass(frozen=True)
class Reading:
    """One way to make values of cells."""

    word: str  # what they are then: number, flag, time, date; or a sort of text: id, unit
    parse: Parse
    choice: str = ""  # what --data.decimal or --data.dates says to have it
    how: str = ""  # what a reader of the file is told


@dataclass(frozen=True)
class Kind:
    """How the cells of a column are read."""

    word: str = TEXT  # number, date, time, flag, id, text; of values as stored: list, object
    reading: Reading | None = None
    dates: Reading | None = None  # as which they can be read
    nulls: tuple[str, ...] = ()
    doubt: str = ""  # why it has no better kind
    spoiled: bool = False  # are most cells of this text numbers or dates?

    @property
    def how(self) -> str:
        """What a reader of the file is told."""
        return self.reading.how if self.reading else ""

    def read(self, column: Any, reading: Reading | None = None) -> tuple[Array, Array]:
        """The values of a column of text, and which cells are missing.   n, n"""
        cells, missing = clean_cells(column, self.nulls)
        chosen = reading or self.reading or NUMBERS[0]
        values, _ = chosen.parse(cells.filter(pa.array(~missing)))
        found = np.full(len(cells), np.nan if values.dtype.kind == "f" else np.datetime64("NaT"), values.dtype)
        found[~missing] = values
        return found, missing


def clean_cells(column: Any, nulls: tuple[str, ...]) -> tuple[Any, Array]:
    """The cells without blanks around them, and which are missing."""
    cells = pc.fill_null(pc.utf8_trim_whitespace(column), "")
    if isinstance(cells, pa.ChunkedArray):
        cells = cells.combine_chunks()
    return cells, as_mask(pc.is_in(cells, pa.array(("", *nulls), pa.string())))


def as_mask(found: Any) -> Array:
    return np.array(pc.fill_null(found, False).to_numpy(zero_copy_only=False), dtype=bool)


# ── numbers


def _number_pattern(point: str, groups: str) -> str:
    """A pattern of numbers with this decimal mark. groups: marks between thousands; a blank or ' may always be one"""
    grouped = "|".join(rf"[1-9]\d{{0,2}}(?:{mark}\d{{3}})+" for mark in (groups, "[ \u00a0\u202f]", "['’]"))
    return rf"^[+-]?(?:(?:(?:{grouped}|\d+)(?:{point}\d*)?|{point}\d+)(?:[eE][+-]?\d+)?|(?i:inf|infinity))$"


PATTERN = {".": _number_pattern(r"\.", ","), ",": _number_pattern(",", r"\.")}


def _parse_numbers(cells: Any, mark: str, sign: str) -> tuple[Array, Array]:
    """Numbers with a decimal mark, perhaps with marks between thousands; (5) is -5. Ids do not fit. sign: of money or
    percent, in each cell"""
    marked = as_mask(pc.match_substring(cells, sign))
    if not marked.any():
        return np.full(len(cells), np.nan), marked
    if not sign and (mark == "." or not as_mask(pc.match_substring(cells, ".")).any()):
        numbers = _cast_numbers(pc.replace_substring(cells, ",", ".") if mark == "," else cells)
        if numbers is not None:  # the usual case, and the fastest
            return numbers, ~_find_ids(cells, numbers)
    plain = pc.replace_substring_regex(cells, r"^\((.*\d.*)\)$", r"-\1")
    if sign:
        plain = pc.replace_substring_regex(plain, r"^([+-]?)\s*X\s*|\s*X$".replace("X", re.escape(sign)), r"\1")
    fits = marked & as_mask(pc.match_substring_regex(plain, PATTERN[mark]))
    others = "[., \u00a0\u202f'’]".replace(mark, "", 1)
    plain = pc.replace_substring(pc.replace_substring_regex(plain, others, ""), ",", ".")
    numbers = _cast_numbers(pc.if_else(pa.array(fits), plain, "nan"))
    assert numbers is not None
    return numbers, fits & ~_find_ids(cells, numbers)


def _cast_numbers(cells: Any) -> Array | None:
    """Numbers as programs write them; None: some cells are none."""
    try:
        return np.array(pc.cast(cells, pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)
    except pa.ArrowInvalid:
        return None


def _find_ids(cells: Any, numbers: Array) -> Array:
    """Which numbers are rather ids: they begin with 0 or +, or are too long for a float."""
    found = numbers == np.round(numbers)
    if found.any():
        some, endless = cells.filter(pa.array(found)), np.isinf(numbers[found])
        found[found] = as_mask(pc.match_substring_regex(some, ID))
        if endless.any():
            found |= np.isinf(numbers) & as_mask(pc.match_substring_regex(cells, r"\d"))
    return found


def _parse_flags(cells: Any, yes: str, no: str) -> tuple[Array, Array]:
    found = pc.index_in(pc.utf8_lower(cells), pa.array([no, yes]))
    return pc.fill_null(found, 0).to_numpy().astype(np.float64), as_mask(pc.is_valid(found))


def _parse_matches(cells: Any, pattern: str) -> tuple[Array, Array]:
    """Texts of digits: as numbers only for who wants them so."""
    numbers = _cast_numbers(cells)
    found = np.full(len(cells), np.nan) if numbers is None else numbers
    return found, as_mask(pc.match_substring_regex(cells, pattern))


# ── dates and times


def _parse_dates(cells: Any, pattern: str, order: str) -> tuple[Array, Array]:
    """Dates with or without a time.   datetime64[us]; in UTC if they have an offset from it"""
    found = pc.extract_regex(cells, pattern)
    if found.null_count == len(cells):
        return np.full(len(cells), np.datetime64("NaT", "us")), np.zeros(len(cells), dtype=bool)
    part = dict(zip(order, ("a", "b", "c"), strict=True))
    years, days = (_whole_numbers(found, part[each]) for each in "yd")
    months = _month_numbers(found, part["m"])
    years = np.where(years < 69, years + 2000, np.where(years < 100, years + 1900, years))
    firsts = (years * 12 + np.clip(months, 1, 12) - 1 - 1970 * 12).astype("datetime64[M]")
    dates = firsts.astype("datetime64[D]") + (days - 1)
    clock, fits = _read_clock(found)
    fits &= (months >= 1) & (months <= 12) & (days >= 1) & (dates.astype("datetime64[M]") == firsts)
    return np.where(fits, dates.astype("datetime64[us]") + clock, np.datetime64("NaT")), fits


def _parse_times(cells: Any) -> tuple[Array, Array]:
    """Times of a day.   seconds since midnight"""
    clock, fits = _read_clock(pc.extract_regex(cells, TIME))
    return np.where(fits, clock / np.timedelta64(1, "s"), np.nan), fits


def _read_clock(found: Any) -> tuple[Array, Array]:
    """The time since midnight, less the offset from UTC, and which times there are.   timedelta64[us], n"""
    hours, minutes, seconds = (_whole_numbers(found, each) for each in "HMS")
    half = np.array(pc.index_in(pc.utf8_lower(_texts(found, "p")), pa.array(["", "a", "p"])))
    good = (hours < 24) & (minutes < 60) & (seconds < 60) & ((half == 0) | ((hours >= 1) & (hours <= 12)))
    hours = np.where(half > 0, hours % 12 + 12 * (half == 2), hours)
    micro = pc.utf8_slice_codeunits(pc.utf8_rpad(_texts(found, "f"), 6, "0"), 0, 6)
    micros = (hours * 3600 + minutes * 60 + seconds) * 1_000_000 + pc.cast(micro, pa.int64()).to_numpy()
    if any(each.name == "z" for each in found.type):
        zone = _whole_numbers(found, "z")
        sign = np.where(as_mask(pc.starts_with(_texts(found, "z"), "-")), -1, 1)
        micros = micros - sign * (zone // 100 * 60 + zone % 100) * 60_000_000
    return micros.astype("timedelta64[us]"), good & as_mask(pc.is_valid(found))


def have_zones(cells: Any, reading: Reading) -> Array:
    """Which cells have an offset from UTC."""
    pattern = reading.parse.keywords["pattern"]  # type: ignore[attr-defined]
    return as_mask(pc.not_equal(_texts(pc.extract_regex(cells, pattern), "z"), ""))


def _texts(found: Any, name: str) -> Any:
    return pc.fill_null(pc.struct_field(found, name), "")


def _whole_numbers(found: Any, name: str) -> Array:
    digits = pc.replace_substring_regex(_texts(found, name), "[^0-9]", "")
    numbers: Array = pc.cast(pc.utf8_lpad(digits, 1, "0"), pa.int64()).to_numpy()
    return numbers


def _month_numbers(found: Any, name: str) -> Array:
    starts = pc.utf8_lower(pc.utf8_slice_codeunits(_texts(found, name), 0, 3))
    named = pc.fill_null(pc.add(pc.index_in(starts, pa.array(MONTHS)), 1), 0).to_numpy()
    return named + _whole_numbers(found, name)


HOW = {"ymd": "", "dmy": "dates, day first", "mdy": "dates, month first"}
CHOICES = {".": "point", ",": "comma"}
NUMBERS = [
    Reading(
        "number",
        partial(_parse_numbers, mark=mark, sign=sign),
        CHOICES[mark],
        ", ".join(["decimal comma"] * (mark == ",") + [f"numbers with {sign}"] * (sign != "")),
    )
    for sign in SIGNS
    for mark in CHOICES
]
READ_DATES = [
    Reading("date", partial(_parse_dates, pattern=pattern, order=order), choice, HOW[order])
    for pattern, orders in DATES.items()
    for choice, order in ORDERS.items()
    if order in orders
]
COMPACT = READ_DATES[-1]  # 20240131
READINGS = (  # in the order in which they are preferred
    *NUMBERS,
    *(Reading("flag", partial(_parse_flags, yes=yes, no=no)) for yes, no in FLAGS),
    Reading("time", _parse_times, how="times"),
    *READ_DATES,
    Reading("id", partial(_parse_matches, pattern=r"^[+-]?\d+$"), how="text, for leading zeros or 16 digits and more"),
    Reading("unit", partial(_parse_matches, pattern=WITH_UNIT)),
)


# ── a column


@dataclass(eq=False)
class Sight:
    """How many cells are of a sort, and the first of them."""

    count: int = 0
    cell: str = ""
    row: int = -1

    def add(self, cells: Any, rows: Array, mask: Array) -> None:
        picked = np.flatnonzero(mask)
        if len(picked) and not self.count:
            self.cell, self.row = cells[int(picked[0])].as_py(), int(rows[picked[0]])
        self.count += len(picked)


@dataclass(eq=False)
class ColumnFinder:
    """Looks at a column, part by part, and decides what it is."""

    config: TableConfig
    odd: dict[Reading, Sight] = field(default_factory=lambda: {each: Sight() for each in READINGS})  # what does not fit
    given_up: set[Reading] = field(default_factory=set)  # which most cells do not fit
    words: dict[str, Sight] = field(default_factory=dict)  # that are missing
    differ: dict[str, Sight] = field(default_factory=dict)  # cells of which two readings make different values
    filled: Sight = field(default_factory=Sight)
    sentinels: Sight = field(default_factory=Sight)
    lowest: float = 0.0  # of the other numbers

    def add(self, column: Any, first: int) -> None:
        """column: texts; first: the row of the first of them"""
        if not self.given_up and len(column) > 2 * HOPELESS:  # some rows first, so that few readings see all
            self.add(column.slice(0, HOPELESS + 1), first)
            column, first = column.slice(HOPELESS + 1), first + HOPELESS + 1
        cells, missing = clean_cells(column, WORDS if self.config.nulls is None else self.config.nulls)
        rows = np.arange(first, first + len(cells))
        if missing.any():
            found = cells.filter(pa.array(missing))
            for word in filter(None, pc.unique(found).to_pylist()):
                self.words.setdefault(word, Sight()).add(found, rows[missing], as_mask(pc.equal(found, word)))
            cells, rows = cells.filter(pa.array(~missing)), rows[~missing]
        self.filled.add(cells, rows, rows >= 0)
        first_values: dict[str, Array] = {}  # of each word, by the first reading that fits until now
        for reading, odd in self.odd.items():
            if reading in self.given_up or not len(cells):
                continue
            values, fits = reading.parse(cells)
            odd.add(cells, rows, ~fits)
            if odd.count > HOPELESS and odd.count * 3 > self.filled.count * 2:
                self.given_up.add(reading)
            if odd.count:
                continue
            others = first_values.setdefault(reading.word, values)
            differs = (others != values) & (values == values)
            self.differ.setdefault(reading.word, Sight()).add(cells, rows, differs)
        numbers = first_values.get("number")
        if numbers is not None and (numbers <= -99).any():
            marked = as_mask(pc.is_in(cells, pa.array(SENTINELS)))
            self.sentinels.add(cells, rows, marked)
            self.lowest = min(self.lowest, float(np.nanmin(numbers[~marked], initial=0)))

    # ── the decision

    def fitting(self, word: str) -> list[Reading]:
        """The readings of a word that fit all cells."""
        return [each for each, odd in self.odd.items() if each.word == word and self.filled.count and not odd.count]

    def decided_mark(self) -> str | None:
        """The decimal mark that this column decides: point or comma."""
        chosen = self.fitting("number")
        return chosen[0].choice if len(chosen) == 1 else None

    def decide(self, place: Callable[[int], str], marks: set[str]) -> tuple[Kind, list[str]]:
        """The kind of the column, and the doubts about it. marks: decimal marks that the columns decide; place: says where
        a row is"""

        def example(sight: Sight) -> str:
            return f"'{sight.cell}' ({place(sight.row)})"

        nulls = tuple(self.words) if self.config.nulls is None else self.config.nulls
        if not self.filled.count:
            return Kind("number" if self.words else TEXT, nulls=nulls), []
        words = [each.word for each, odd in self.odd.items() if not odd.count]
        word = words[0] if words else TEXT
        chosen = self.fitting(word)
        if word == "number":
            return self._decide_number(example, marks, nulls)
        if word == "date":
            options = [each.choice for each in chosen]
            chosen = [each for each in chosen if each.choice == self.config.dates] or chosen
            if len(chosen) > 1 and self.differ["date"].count:
                doubt = f"has dates with two readings, such as {example(self.differ['date'])}"
                said = f"{doubt}, and stays text; --data.dates {' or '.join(options)} says what comes first"
                return Kind(nulls=nulls, doubt=doubt), [said]
        if word in ("flag", "time", "date"):
            return Kind(word, chosen[0], chosen[0] if word == "date" else None, nulls), []
        return self._decide_text(word, example, nulls)

    def _decide_number(
        self, example: Callable[[Sight], str], marks: set[str], nulls: tuple[str, ...]
    ) -> tuple[Kind, list[str]]:
        chosen, asked, differ = self.fitting("number"), self.config.decimal, self.differ["number"]
        doubts: list[str] = []
        if len(chosen) == 1:
            mark = chosen[0].choice
            said = next(odd for each, odd in self.odd.items() if each.word == "number" and each.choice != mark)
            if asked and asked != mark:
                doubts.append(f"has {example(said)}, which is no number with a decimal {asked}, and was read otherwise")
            elif len(marks) > 1:
                doubts.append(
                    f"has a decimal {mark}, as {example(said)} says, but other columns have the other mark; --data.decimal "
                    "point or comma decides where a cell leaves it open"
                )
        elif differ.count:
            usual = "comma" if "," in differ.cell else "point"
            likely = asked or (min(marks) if len(marks) == 1 else usual)
            chosen = [each for each in chosen if each.choice == likely]
            if asked is None and len(marks) != 1:
                doubts.append(
                    f"has {example(differ)}, read as decimals; it may be thousands: --data.decimal point or comma says which"
                )
        if self.sentinels.count and self.lowest > -99:
            doubts.append(
                f"has {example(self.sentinels)}, and {self.sentinels.count:,} of them, taken as a number; if it means "
                f"missing, --data.nulls={self.sentinels.cell} says so"
            )
        if COMPACT not in self.fitting("date"):
            return Kind("number", chosen[0], nulls=nulls), doubts
        if self.config.dates == "year":
            return Kind("date", COMPACT, COMPACT, nulls), []
        doubts.append(
            f"has numbers such as {example(self.filled)}, which may be dates, as which they are taken where times are "
            "wanted; --data.dates year takes them so everywhere"
        )
        return Kind("number", chosen[0], COMPACT, nulls), doubts

    def _decide_text(
        self, word: str, example: Callable[[Sight], str], nulls: tuple[str, ...]
    ) -> tuple[Kind, list[str]]:
        near = min(
            (each for each in READINGS if each.choice or each.word == "time"), key=lambda each: self.odd[each].count
        )
        odd, no_number = self.odd[near], self.odd[NUMBERS[0]]
        missing = next((word for word in self.words if word in IN_TEXT), "")
        spoiled = near not in self.given_up and odd.count * 3 <= self.filled.count * 2
        doubts = []
        if word == "id" and no_number.cell.startswith("+"):
            doubts = [f"has {example(no_number)}, taken as text; as a number without the +"]
        elif spoiled and not (word == "id" and re.match("-?0", odd.cell)):
            count = f"{odd.count:,} of {self.filled.count:,} cells"
            doubts = [f"is text, because {count} are no {near.word} like the others, first {example(odd)}"]
            if word != "id":
                doubts[0] += f"; if that is missing, --data.nulls '{odd.cell}' says so"
        elif word == "unit":
            doubts = [
                f"is text, because its cells have units, such as {example(no_number)}; without them they are numbers"
            ]
        elif word == TEXT and missing and self.config.nulls is None:
            first = example(self.words[missing])
            doubts = [f"has {first}, taken as a word; if it is missing, --data.nulls {missing} says so"]
        if word == "id":
            reading = self.fitting("id")[0]
            return Kind("id", reading, nulls=nulls, doubt=f"has ids such as {example(no_number)}"), doubts
        return Kind(
            nulls=nulls, doubt=f"has texts such as {example(odd if spoiled else no_number)}", spoiled=spoiled
        ), doubts
