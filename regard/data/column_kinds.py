"""What the cells of a column of text are: numbers, dates, times, yes and no, or text; decided from all cells.

A column is what ALL its cells are, apart from missing ones. What has two readings, and what a few cells spoil, is a
doubt: a sentence with an example, its line and the option that settles it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from regard.data.array import Array
from regard.data.dialect import AFTER_DATE, DATES, TIME
from regard.errors import RegardError

# words of cells that hold nothing, where the other cells are numbers or dates
UNLABELLED = ("NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NAN", "null", "NULL", "Null", "?")  # no label either
WORDS = (*UNLABELLED, "n.a.", "NaT", "None", "none", "missing", "Missing", "-", "--", ".")
IN_TEXT = {"NA", "N/A", "#N/A", "<NA>", "NaN", "null", "NULL", "Null", "None", "none"}  # doubtful among texts
FLAGS = [{"yes", "no"}, {"true", "false"}, {"t", "f"}, {"y", "n"}, {"ja", "nein"}, {"oui", "non"}, {"on", "off"}]
TRUE = ("yes", "true", "t", "y", "ja", "oui", "on")
SENTINELS = ("-99", "-999", "-9999", "-99999", "-99.0", "-999.0", "-9999.0")
ORDERS = {"year": "ymd", "day": "dmy", "month": "mdy"}  # --data.dates
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def _number(point: str, groups: str) -> str:
    """A pattern of numbers with this decimal mark. groups: marks between thousands; a blank or ' may always be one"""
    grouped = "|".join(rf"[1-9]\d{{0,2}}(?:{mark}\d{{3}})+" for mark in (groups, "[ \u00a0\u202f]", "['’]"))
    return rf"^[+-]?(?:(?:(?:{grouped}|\d+)(?:{point}\d*)?|{point}\d+)(?:[eE][+-]?\d+)?|(?i:inf|infinity))$"


POINT, COMMA = _number(r"\.", ","), _number(",", r"\.")
ID = r"^[+-]?0\d+$|^[+-]?\d{16,}$|^\+\d{7,}$"  # leading zeros, too long for a float, a telephone number
ODD_STARTS = ("-0", "00", "01", "02", "03", "04", "05", "06", "07", "08", "09")
GROUP = r"^[+-]?[1-9]\d{0,2}([.,])\d{3}$"
AFFIX = r"[$€£¥%()]"
UNIT = r"^[+-]?\d[\d.,]*\s?([A-Za-z°µ]{1,5}|[dD][+-]?\d+)$"

COMPACT = next(reversed(DATES))


@dataclass(frozen=True)
class Kind:
    """How the cells of a column are read. `how`: what a reader of the file is told of it"""

    word: str = "text"  # number, date, time, flag, id, text; of values as stored: list, object
    how: str = ""
    decimal: str = "."
    pattern: str = ""  # of dates
    order: str = ""
    nulls: tuple[str, ...] = ()
    doubt: str = ""  # why it has no better kind
    spoiled: bool = False  # are most cells of this text numbers?


@dataclass(eq=False)
class Sight:
    """How many cells are of a sort, and the first of them."""

    count: int = 0
    cell: str = ""
    row: int = -1

    def add(self, cells: Any, rows: Array, mask: Any = None) -> None:
        picked = np.arange(len(cells)) if mask is None else np.flatnonzero(mask)
        if len(picked) and not self.count:
            self.cell, self.row = cells[int(picked[0])].as_py(), int(rows[picked[0]])
        self.count += len(picked)


@dataclass(eq=False)
class ColumnFinder:
    """Looks at a column, part by part, and decides what it is."""

    nulls: tuple[str, ...] | None = None  # the words that are missing; None: WORDS, if the others are no text
    seen: dict[str, Sight] = field(default_factory=dict)
    words: dict[str, Sight] = field(default_factory=dict)
    values: set[str] = field(default_factory=set)  # up to three different ones, in small letters
    affixes: set[str] = field(default_factory=set)
    units: set[str] | None = field(default_factory=set)
    filled: int = 0
    family: str | None = None  # the pattern of dates that most cells have
    differ: Sight = field(default_factory=Sight)  # dates that two orders read differently
    lowest: float = 0.0
    is_text: bool = False  # so many cells are no numbers that the others are not looked at

    def sight(self, sort: str) -> Sight:
        return self.seen.setdefault(sort, Sight())

    def add(self, column: Any, first: int) -> None:
        """column: texts; first: the row of the first of them"""
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        numbers = None if self.nulls else _as_numbers(column)  # -999 may be missing
        if numbers is not None and not self.sight("odd").count:  # the usual case, and the fastest
            self.filled += len(column)
            if len(self.values) < 3:
                self.values |= set(pc.unique(column).slice(0, 3).to_pylist())
            self._add_numbers(column, np.arange(first, first + len(column)), numbers)
            if self.family != "" and not self.sight("id").count:
                self._add_dates(column, np.arange(first, first + len(column)), (COMPACT,))
            return
        cells = pc.fill_null(pc.utf8_trim_whitespace(column), "")
        if isinstance(cells, pa.ChunkedArray):
            cells = cells.combine_chunks()
        rows = np.arange(first, first + len(cells))
        if (filled := _mask(pc.not_equal(cells, ""))).all() is not np.True_:
            cells, rows = cells.filter(pa.array(filled)), rows[filled]
        known = WORDS if self.nulls is None else self.nulls
        missing = _mask(pc.is_in(cells, pa.array(known, pa.string())))
        if missing.any():
            found = cells.filter(pa.array(missing))
            for word in pc.unique(found).to_pylist():
                here = _mask(pc.equal(found, word))
                self.words.setdefault(word, Sight()).add(found, rows[missing], here)
            cells, rows = cells.filter(pa.array(~missing)), rows[~missing]
        if not len(cells):
            return
        self.filled += len(cells)
        if len(self.values) < 3:
            self.values |= set(pc.unique(pc.utf8_lower(cells)).slice(0, 3).to_pylist())
        odd = self.sight("odd").count
        self.is_text |= odd > 20_000 and odd * 2 > self.filled - len(cells)
        if not self.is_text:
            self._add_numbers(cells, rows)
        if self.sight("odd").count:
            self._add_dates(cells, rows)
            self._add_units(cells)
        elif not self.sight("id").count and self.sight("date").count == self.filled - len(cells):
            self._add_dates(cells, rows, (COMPACT,))

    def _add_numbers(self, cells: Any, rows: Array, numbers: Array | None = None) -> None:
        plain, affixes = (cells, {""}) if numbers is not None else _without_affixes(cells)
        self.affixes |= affixes
        if numbers is None:
            numbers = _as_numbers(plain, missing=True)
        if numbers is not None:
            point = comma = np.ones(len(plain), dtype=bool)
            dotted = np.zeros(len(plain), dtype=bool)
            if not self.sight("point").count:  # not decided yet
                dotted = _mask(pc.match_substring(plain, "."))
        else:
            point = _mask(pc.match_substring_regex(plain, POINT))
            comma = _mask(pc.match_substring_regex(plain, COMMA))
            self.sight("odd").add(cells, rows, ~(point | comma))
            dotted = point | comma
        if dotted.any():
            some, where = plain.filter(pa.array(dotted)), rows[dotted]
            group = _mask(pc.match_substring_regex(some, GROUP))
            decimal = _mask(pc.match_substring_regex(some, COMMA))
            only = _mask(pc.match_substring_regex(some, POINT))
            self.sight("point").add(some, where, only & ~decimal)
            self.sight("comma").add(some, where, decimal & ~only)
            self.sight("dot3").add(some, where, group & _mask(pc.match_substring(some, ".")))
            self.sight("comma3").add(some, where, group & _mask(pc.match_substring(some, ",")))
        suspects = np.ones(len(plain), dtype=bool)
        if numbers is not None:  # an id has no fraction, and begins with 0 or +, or is large
            suspects = np.abs(numbers) >= 1e15
            small = (numbers == np.round(numbers)) & ~suspects
            if small.any():
                starts = pc.utf8_slice_codeunits(plain, 0, 2)
                doubtful = _mask(pc.is_in(starts, pa.array(ODD_STARTS))) | _mask(pc.starts_with(plain, "+"))
                suspects |= small & doubtful
        if suspects.any():
            some = plain.filter(pa.array(suspects))
            self.sight("id").add(some, rows[suspects], _mask(pc.match_substring_regex(some, ID)))
        if numbers is None:
            return
        endless = np.isinf(numbers)
        if endless.any():
            some = plain.filter(pa.array(endless))
            self.sight("id").add(some, rows[endless], _mask(pc.match_substring_regex(some, r"\d")))
        if not (numbers <= -99).any():
            return
        marked = _mask(pc.is_in(plain, pa.array(SENTINELS)))
        self.sight("sentinel").add(plain, rows, marked)
        self.lowest = min(self.lowest, float(np.nanmin(numbers[~marked], initial=0)))

    def _add_dates(self, cells: Any, rows: Array, families: tuple[str, ...] = tuple(DATES)) -> None:
        if self.family is None:
            some = cells.slice(0, 5000)
            counts = {each: _count(some, each + AFTER_DATE) for each in families}
            counts |= {TIME: _count(some, TIME)} if len(families) > 1 else {}
            self.family = max(counts, key=lambda each: counts[each])
            if counts[self.family] * 4 < len(some):
                self.family = ""
        if not self.family:
            return
        if self.family == TIME:
            parts = _parts(cells, TIME)
            self.sight("date").add(cells, rows, parts["fits"] & _clock(parts)[1])
            return
        first: Array | None = None
        any_fits = np.zeros(len(cells), dtype=bool)
        for order in DATES[self.family]:
            moments, fits = read_dates(cells, self.family, order)
            any_fits |= fits
            self.sight(f"no {order}").add(cells, rows, ~fits)
            if first is None:
                first = moments
            elif not self.differ.count:
                self.differ.add(cells, rows, (moments != first))
        self.sight("date").add(cells, rows, any_fits)
        self.sight("no date").add(cells, rows, ~any_fits)

    def _add_units(self, cells: Any) -> None:
        if self.units is None:
            return
        if _count(cells, UNIT) < len(cells):
            self.units = None
            return
        words = pc.struct_field(pc.extract_regex(cells, UNIT.replace("(", "(?P<unit>", 1)), 0)
        self.units |= set(pc.unique(pc.replace_substring_regex(words, r"[+-]?\d+$", "")).to_pylist())
        if len(self.units) > 1:
            self.units = None

    # ── the decision

    def decided_mark(self) -> str | None:
        """The decimal mark that this column decides."""
        point, comma = self.sight("point").count, self.sight("comma").count
        if self.sight("odd").count or bool(point) == bool(comma):
            return None
        return "." if point else ","

    def decide(
        self, name: str, place: Callable[[int], str], marks: set[str], decimal: str | None, dates: str | None
    ) -> tuple[Kind, list[str]]:
        """The kind of the column, and the doubts about it. marks: decimal marks of all columns that decide it; place:
        says where a row is"""
        called = f"column '{name}'"
        nulls = tuple(self.words) if self.nulls is None else self.nulls
        if not self.filled:
            return Kind("number" if self.words else "text", nulls=nulls), []
        odd, sure = self.sight("odd"), self.sight("id")
        if not odd.count and not sure.count:
            return self._number_kind(called, place, marks, decimal, dates, nulls)
        if self.values in FLAGS or self.values <= {"true", "false"}:
            return Kind("flag", nulls=nulls), []
        if odd.count and self.family and self.sight("date").count * 4 >= self.filled:
            return self._date_kind(called, place, dates, nulls)
        doubts = []
        if sure.count and not odd.count:
            how = "text, for leading zeros or 16 digits and more"
            if sure.cell.startswith("+"):
                doubts.append(
                    f"{called} has '{sure.cell}' ({place(sure.row)}), taken as text; as a number without the +"
                )
            elif sure.count * 2 <= self.filled and not re.match("[+-]?0", sure.cell):
                doubts.append(
                    f"{called} is text, because {sure.count:,} of {self.filled:,} cells {_are(sure.count)} too long for a "
                    f"number, first '{sure.cell}' ({place(sure.row)})"
                )
            return Kind("id", how, nulls=nulls, doubt=f"has ids such as '{sure.cell}'"), doubts
        if odd.count * 2 <= self.filled and not self.is_text:
            doubts.append(
                f"{called} is text, because {odd.count:,} of {self.filled:,} cells {_are(odd.count)} no number, first "
                f"'{odd.cell}' ({place(odd.row)}); if that is missing, --data.nulls '{odd.cell}' says so"
            )
        elif self.units:
            doubts.append(
                f"{called} is text, because all cells have '{next(iter(self.units))}' in them, such as '{odd.cell}' "
                f"({place(odd.row)}); without it they would be numbers"
            )
        elif self.nulls is None and (word := next((word for word in self.words if word in IN_TEXT), None)):
            doubts.append(
                f"{called} has '{word}' ({place(self.words[word].row)}), taken as a word; if it is missing, "
                f"--data.nulls {word} says so"
            )
        why = f"has texts such as '{odd.cell}' ({place(odd.row)})"
        spoiled = odd.count * 2 <= self.filled and not self.is_text
        return Kind(nulls=nulls, doubt=why, spoiled=spoiled), doubts

    def _number_kind(
        self,
        called: str,
        place: Callable[[int], str],
        marks: set[str],
        decimal: str | None,
        dates: str | None,
        nulls: tuple[str, ...],
    ) -> tuple[Kind, list[str]]:
        point, comma = self.sight("point"), self.sight("comma")
        dot3, comma3 = self.sight("dot3"), self.sight("comma3")
        doubts, how = [], []
        if (point.count and comma.count) or len(self.affixes) > 1:
            cells = (point.cell, comma.cell) if point.count and comma.count else tuple(sorted(self.affixes))
            words = f"{called} is text, because it has both '{cells[0]}' and '{cells[1]}'"
            if comma.count:
                words += f" ({place(point.row)} and {place(comma.row)})"
            return Kind(doubt=f"has both '{cells[0]}' and '{cells[1]}'"), [f"{words}; write them alike"]
        asked = None if decimal is None else {"point": ".", "comma": ","}[decimal]
        mark = "." if point.count else "," if comma.count else None
        if asked and mark and asked != mark:
            cell = point if mark == "." else comma
            doubts.append(
                f"{called} has '{cell.cell}' ({place(cell.row)}), which is no number with a decimal {decimal}, and was read "
                "otherwise"
            )
        elif mark and len(marks) > 1:
            cell = point if mark == "." else comma
            doubts.append(
                f"{called} has a decimal {'point' if mark == '.' else 'comma'}, as '{cell.cell}' ({place(cell.row)}) says, "
                "but other columns have the other mark; --data.decimal point or comma decides where a cell leaves it open"
            )
        group = dot3 if dot3.count else comma3
        if mark is None:
            mark = asked
        if mark is None and group.count:
            mark = next(iter(marks)) if len(marks) == 1 else "." if dot3.count else ","
            other = "thousands" if group.cell[-4] == mark else "decimals"
            if len(marks) != 1:
                doubts.append(
                    f"{called} has '{group.cell}' ({place(group.row)}), read as "
                    f"{'decimals' if other == 'thousands' else 'thousands'}; it may be {other}: --data.decimal point or comma "
                    "says which"
                )
        if self.sight("sentinel").count and self.lowest > -99:
            said = self.sight("sentinel")
            doubts.append(
                f"{called} has '{said.cell}' {said.count:,} times (first {place(said.row)}), taken as a number; if it means "
                f"missing, --data.nulls={said.cell} says so"
            )
        if self.family == COMPACT and self.sight("date").count == self.filled:
            if dates == "year":
                return Kind("date", "dates", pattern=COMPACT, order="ymd", nulls=nulls), []
            date = self.sight("date")
            doubts.append(
                f"{called} has numbers such as {date.cell} ({place(date.row)}), which may be dates, as which they are "
                "taken where times are wanted; --data.dates year takes them so everywhere"
            )
        if mark == ",":
            how.append("decimal comma")
        if affix := next(iter(self.affixes), ""):
            how.append(f"numbers with {affix}")
        compact = COMPACT if self.family == COMPACT and self.sight("date").count == self.filled else ""
        kind = Kind("number", ", ".join(how), decimal=mark or ".", nulls=nulls, pattern=compact, order="ymd")
        return kind, doubts

    def _date_kind(
        self, called: str, place: Callable[[int], str], dates: str | None, nulls: tuple[str, ...]
    ) -> tuple[Kind, list[str]]:
        assert self.family
        fitting = self.sight("date")
        if self.family == TIME:
            if fitting.count == self.filled:
                return Kind("time", "times", pattern=TIME, nulls=nulls), []
            return Kind(doubt=f"has texts such as '{self.sight('odd').cell}'"), []
        orders = DATES[self.family]
        good = [order for order in orders if not self.sight(f"no {order}").count]
        if fitting.count + self.sight("no date").count < self.filled:  # the first cells were numbers
            return Kind(doubt=f"has numbers and dates such as '{fitting.cell}' ({place(fitting.row)})"), []
        if dates is not None and ORDERS[dates] in good:
            good = [ORDERS[dates]]
        if not good:
            wrong = self.sight("no date")
            if not wrong.count:  # each is a date in some order, but not all in one
                wrong = self.sight(f"no {orders[0]}")
            count = max(1, self.sight("no date").count)
            words = (
                f"{called} is text, because {count:,} of {self.filled:,} cells {_are(count)} no date like the others, first "
                f"'{wrong.cell}' ({place(wrong.row)}); mend {'it' if count == 1 else 'them'}, or name missing ones by "
                "--data.nulls"
            )
            return Kind(doubt=f"has '{wrong.cell}' ({place(wrong.row)}), which is no date like the others"), [words]
        if len(good) > 1 and self.differ.count:
            names = " or ".join(each for each, order in ORDERS.items() if order in good)
            words = (
                f"{called} has dates with two readings, such as '{self.differ.cell}' ({place(self.differ.row)}), and "
                f"stays text; --data.dates {names} says what comes first"
            )
            return Kind(doubt=words.removeprefix(f"{called} ")), [words]
        how = {"ymd": "dates", "dmy": "dates, day first", "mdy": "dates, month first"}[good[0]]
        return Kind("date", how, pattern=self.family, order=good[0], nulls=nulls), []


# ── reading


def read_numbers(column: Any, kind: Kind) -> Array:
    """The cells of a column as numbers, NaN where missing.   n, float64"""
    cells = _filled_cells(column, kind)
    if kind.word == "flag":
        known = pc.is_in(pc.utf8_lower(cells), pa.array(TRUE))
        return _floats(pc.if_else(pc.is_null(cells), None, pc.cast(known, pa.float64())))
    if kind.word == "time":
        return _clock(_parts(cells, TIME))[0] / 1e6
    plain, _ = _without_affixes(cells)
    try:
        if kind.decimal == ".":
            return _floats(pc.cast(plain, pa.float64()))
    except pa.ArrowInvalid:  # it has marks between thousands
        pass
    plain = pc.replace_substring_regex(plain, "[., \u00a0\u202f'’]".replace(kind.decimal, "", 1), "")
    return _floats(pc.cast(pc.replace_substring(plain, ",", "."), pa.float64()))


def read_times(column: Any, kind: Kind) -> tuple[Any, bool]:
    """The cells of a column of dates as moments, and whether they had an offset from UTC.   n, timestamp"""
    cells = _filled_cells(column, kind)
    moments, fits = read_dates(cells, kind.pattern, kind.order)
    missing = _mask(pc.is_null(cells))
    if not (fits | missing).all():
        raise RegardError(f"'{cells[int(np.flatnonzero(~(fits | missing))[0])]}' is no date like the others")
    zones = pc.struct_field(pc.extract_regex(cells, kind.pattern + AFTER_DATE), "z")
    with_zone = _mask(pc.not_equal(zones, ""))
    if with_zone.any() and not (with_zone | missing).all():
        raise RegardError(
            f"'{cells[int(np.argmin(with_zone | missing))]}' has no offset from UTC, where others have one"
        )
    return pa.array(moments, pa.timestamp("us"), mask=missing), bool(with_zone.any())


def read_dates(cells: Any, family: str, order: str) -> tuple[Array, Array]:
    """Microseconds since 1970 of cells in one order, and which cells are dates in it.   n, n"""
    parts = _parts(cells, family + AFTER_DATE)
    fits = parts.pop("fits").astype(bool)
    named = dict(zip(order, (parts["a"], parts["b"], parts["c"]), strict=True))
    years, months, days = named["y"], named["m"], named["d"]
    years = np.where(years < 69, years + 2000, np.where(years < 100, years + 1900, years))
    leap = (years % 4 == 0) & ((years % 100 != 0) | (years % 400 == 0))
    lengths = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
    fits &= (months >= 1) & (months <= 12) & (days >= 1)
    fits &= days <= lengths[np.clip(months, 0, 12)] + (leap & (months == 2))
    clock, good = _clock(parts)
    fits &= good
    safe = np.where(fits, years - 1970, 0).astype("datetime64[Y]").astype("datetime64[M]")
    safe = (safe + np.where(fits, months - 1, 0)).astype("datetime64[D]") + np.where(fits, days - 1, 0)
    moments = safe.astype("datetime64[us]").astype(np.int64) + clock.astype(np.int64)
    return np.where(fits, moments, np.iinfo(np.int64).min), fits


def _parts(cells: Any, pattern: str) -> dict[str, Array]:
    """The named parts of cells as whole numbers, 0 where there are none; `fits`: has a cell this pattern?"""
    found = pc.extract_regex(cells, pattern)
    parts = {}
    for name in (each.name for each in found.type):
        texts = pc.fill_null(pc.struct_field(found, name), "")
        if name in "ab" and "[A-Za-z]" in pattern.partition(f"?P<{name}>")[2][:9]:
            months = pc.index_in(pc.utf8_lower(pc.utf8_slice_codeunits(texts, 0, 3)), pa.array(MONTHS))
            parts[name] = pc.fill_null(pc.add(months, 1), 0).to_numpy(zero_copy_only=False)
        elif name == "p":
            parts[name] = pc.index_in(pc.utf8_lower(texts), pa.array(["", "a", "p"])).to_numpy(zero_copy_only=False)
        elif name == "z":
            parts[name] = _offsets(texts)
        else:
            if name == "f":
                texts = pc.utf8_slice_codeunits(pc.utf8_rpad(texts, 6, "0"), 0, 6)
            texts = pc.if_else(pc.equal(texts, ""), "0", texts)
            parts[name] = pc.cast(texts, pa.int64()).to_numpy(zero_copy_only=False)
    parts["fits"] = _mask(pc.is_valid(found))
    return parts


def _offsets(texts: Any) -> Array:
    """Minutes of Z, +02:00, -0330."""
    digits = pc.replace_substring_regex(texts, "[^0-9]", "")
    digits = pc.cast(pc.if_else(pc.equal(digits, ""), "0", digits), pa.int64()).to_numpy(zero_copy_only=False)
    sign = np.where(_mask(pc.starts_with(texts, "-")), -1, 1)
    return sign * (digits // 100 * 60 + digits % 100)


def _clock(parts: dict[str, Array]) -> tuple[Array, Array]:
    """Microseconds since midnight, and which times there are."""
    hours, minutes, seconds, half = parts["H"], parts["M"], parts["S"], parts["p"]
    good = (hours < 24) & (minutes < 60) & (seconds < 60) & ((half == 0) | ((hours >= 1) & (hours <= 12)))
    hours = np.where(half > 0, hours % 12 + 12 * (half == 2), hours)
    clock = (hours * 3600 + (minutes - parts.get("z", 0)) * 60 + seconds) * 1_000_000 + parts["f"]
    if "fits" in parts:
        clock = np.where(parts["fits"], clock.astype(np.float64), np.nan)
    return clock, good


def _filled_cells(column: Any, kind: Kind) -> Any:
    cells = pc.utf8_trim_whitespace(column)
    if isinstance(cells, pa.ChunkedArray):
        cells = cells.combine_chunks()
    return pc.if_else(pc.is_in(cells, pa.array(("", *kind.nulls), pa.string())), None, cells)


def _without_affixes(cells: Any) -> tuple[Any, set[str]]:
    """Numbers without signs of money and percent, and which signs there were; (5) is -5."""
    marked = _mask(pc.match_substring_regex(cells, AFFIX))
    if not marked.any():
        return cells, {""}
    plain = pc.replace_substring_regex(cells, r"^\((.*\d.*)\)$", r"-\1")
    signs = pc.replace_substring_regex(plain, "[^$€£¥%]", "")
    found = set(pc.unique(signs).to_pylist()) - {None}
    plain = pc.replace_substring_regex(plain, r"^([+-]?)\s*[$€£¥]\s*", r"\1")
    return pc.replace_substring_regex(plain, r"\s*[$€£¥%]$", ""), found


def _as_numbers(cells: Any, *, missing: bool = False) -> Array | None:
    """Plain numbers, as a float is written; None: not all cells are, or some are missing unless that is allowed."""
    try:
        found = _floats(pc.cast(cells, pa.float64()))
    except pa.ArrowInvalid:
        return None
    return found if missing or not np.isnan(found).any() else None


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _count(cells: Any, pattern: str) -> int:
    return int(np.count_nonzero(_mask(pc.match_substring_regex(cells, pattern))))


def _mask(found: Any) -> Array:
    return np.array(pc.fill_null(found, False).to_numpy(zero_copy_only=False), dtype=bool)


def _floats(column: Any) -> Array:
    return np.array(column.to_numpy(zero_copy_only=False), dtype=np.float64)
