"""How a text becomes a table: its encoding, the mark between cells, quotes, comments and the header; found from the
whole file, and said in one line."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from regard.config import Rare, config
from regard.errors import RegardError

SAMPLE = 1 << 18  # characters that decide about marks and quotes
LINES = 1000  # of them
AROUND = 1 << 13  # bytes around the first quote that comes later
LONGEST = 1 << 26  # characters of a line
WIDEST = 1 << 14  # columns
COMMON, RARE = (",", ";", "\t", "|"), ("^", "~", ":")
NAMES = {"\t": "tab", " ": "spaces", "": "one column"}
REFUSED = (  # what a file begins with, and what then to do
    (b"PK\x03\x04", "a zip archive; take the table out of it first"),
    (b"%PDF", "a PDF; take the table out of it first"),
    (b"\xfd7zXZ", "packed by xz; unpack it first (unxz)"),
    (b"\x89HDF", "an HDF5 file; save the table as CSV first"),
    (b"SQLite format", "a database; save the table as CSV first"),
    (b"<!DOCTYPE", "a web page; download the file itself"),
    (b"<!doctype", "a web page; download the file itself"),
    (b"<html", "a web page; download the file itself"),
    (b"<?xml", "XML; save the table as CSV first"),
    (b"version https://git-lfs", "a pointer to a file of Git LFS; get the file itself with git lfs pull"),
    (b"{\\rtf", "a document; save the table as CSV first"),
)
_CLOCK = r"(?P<H>\d{1,2}):(?P<M>\d{2})(?::(?P<S>\d{2})(?:[.,](?P<f>\d{1,9}))?)?(?: ?(?P<p>[AaPp])\.?[Mm]\.?)?"
AFTER_DATE = rf"(?:(?:T| +){_CLOCK}(?: ?(?P<z>Z|[+-]\d{{2}}:?\d{{2}}))?)?$"
DATES = {  # the parts of a date, and the orders that they may have
    r"^(?P<a>\d{4})[-/.](?P<b>\d{1,2})[-/.](?P<c>\d{1,2})": ("ymd",),
    r"^(?P<a>\d{1,2})[-/. ](?P<b>\d{1,2})[-/. ](?P<c>\d{4})": ("dmy", "mdy"),
    r"^(?P<a>\d{1,2})[-/. ](?P<b>\d{1,2})[-/. ](?P<c>\d{2})": ("dmy", "mdy", "ymd"),
    r"^(?P<a>\d{1,2})(?:st|nd|rd|th|\.)?[-/. ]*(?P<b>[A-Za-z]{3,9})\.?,?[-/. ]*(?P<c>\d{4}|\d{2})": ("dmy",),
    r"^(?P<a>[A-Za-z]{3,9})\.? +(?P<b>\d{1,2})(?:st|nd|rd|th)?,? +(?P<c>\d{4})": ("mdy",),
    r"^(?P<a>(?:19|20)\d{2})(?P<b>\d{2})(?P<c>\d{2})": ("ymd",),
}
TIME = f"^{_CLOCK}$"

NUMBER = re.compile(r"[+-]?[$€£]?(?:\d[\d.,'\u00a0 ]*|\.\d+)(?:[eE][+-]?\d+)?\s?[%€$£]?")
DATE = [re.compile(each) for each in DATES]
ODD = re.compile(r"(?i)(?<=[a-zß-ÿ])[¡-©«-´¶-¿×÷†‡‰‹›€£¥]|[¡-©«-¬®-´¶-º¼-¿×÷†‡‰‹›]+(?=[a-zß-ÿ])|[À-ÿŠŒŽšœžŸ]{3}")


@config
class TableConfig:
    """How tables are read: the part of the data settings that all kinds with tables share. None: found from the file"""

    # the mark between the cells of a table: , ; | tab or space; None: found from the file
    separator: Rare[str | None] = None
    # the mark around cells that hold the separator: ", ' or none; None: found from the file
    quote: Rare[str | None] = None
    # does the first line of a table hold the names of its columns? None: found from the file
    header: Rare[bool | None] = None
    # of a table, such as utf-8 or windows-1252; None: found from the file
    encoding: Rare[str | None] = None
    # the decimal mark of numbers in a table; None: found from each column
    decimal: Rare[Literal["point", "comma"] | None] = None
    # what comes first in dates such as 01/02/2024; None: found from each column
    dates: Rare[Literal["day", "month", "year"] | None] = None
    # words of cells that are missing in any column of a table, such as NA,-999; None: NA, ? and the like among numbers
    nulls: Rare[tuple[str, ...] | None] = None


DEFAULTS = TableConfig()


class Scan(NamedTuple):
    """What a look at all bytes of a text found."""

    encoding: str
    sample: str  # whole lines
    whole: bool  # is the sample all there is?
    later: str  # lines around the first quote after the sample
    quotes: int
    blanks: bool  # are there lines without anything?
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Dialect:
    """How lines become cells."""

    names: tuple[str, ...]
    encoding: str = "utf-8"
    separator: str = ","  # " ": any blanks; "": one column
    quote: str = '"'  # "": none
    escape: str = ""  # "\\" before quotes, where they are not doubled
    header: int = 1  # lines before the first row
    width: int = 0  # cells of a row, of which an empty last one is left out
    blanks: bool = False  # before quotes
    comments: bool = False  # lines from # on
    repeated: tuple[str, ...] = ()  # names that several columns have
    said: tuple[str, ...] = ()  # what is not the usual
    doubts: tuple[str, ...] = ()


# ── the bytes


def scan(stream: Any, path: str, config: TableConfig = DEFAULTS) -> Scan:
    """Look at all bytes of a text: which encoding they have, and where quotes are."""
    head = stream.read(1 << 20)
    for start, words in REFUSED:
        if head.lstrip().startswith(start):
            raise RegardError(f"{path} is {words}")
    encoding = config.encoding or _marked_encoding(head)
    given = encoding is not None
    encoding = encoding or "utf-8"
    try:
        decode = codecs.getincrementaldecoder(encoding)().decode
    except LookupError as error:
        raise RegardError(f"there is no encoding '{encoding}'; give one such as utf-8 or windows-1252") from error
    wide = encoding.startswith(("utf-16", "utf-32"))
    sample, later, before = "", "", b""
    quotes = lines = 0
    blanks = False
    accents = western = False
    notes: list[str] = []
    chunk, size = head, 0
    while chunk:
        if not wide and (nul := chunk.find(b"\0")) >= 0:
            line = lines + chunk[:nul].count(b"\n") + 1
            raise RegardError(f"{path} is binary, not text: there is a NUL in line {line}; give a table as text")
        try:
            text = _decode_western(chunk, path) if western else decode(chunk)
        except UnicodeDecodeError as error:
            at = lines + error.object[: error.start].count(b"\n") + 1
            if given or accents or not error.object[: error.start].isascii():
                raise RegardError(
                    f"line {at} of {path} is not text in {encoding.upper()}: byte {error.object[error.start]:#04x}; save "
                    "the file anew, or give its encoding with --data.encoding"
                ) from error
            encoding, western = "windows-1252", True
            text = _decode_western(chunk, path)
        if western and not notes and (odd := ODD.search(text)):
            line = lines + text[: odd.start()].count("\n") + 1
            notes.append(
                f"line {line} of {path} has '{text[max(0, odd.start() - 5) : odd.end() + 5]}', which windows-1252 may not "
                "mean; if it is wrong, give --data.encoding"
            )
        accents |= not text.isascii()
        if len(sample) < SAMPLE:
            sample += text[: SAMPLE * 4]
        elif not later and b'"' in chunk:
            at = chunk.find(b'"')
            window = (before + chunk)[max(0, len(before) + at - AROUND) : len(before) + at + AROUND]
            later = window.decode(encoding, "replace").partition("\n")[2].rpartition("\n")[0]
        joined = before[-2:] + chunk
        blanks |= any(mark in joined for mark in (b"\n\n", b"\n\r\n", b"\r\r")) or wide
        before = chunk[-AROUND:]
        quotes += text.count('"')
        lines += text.count("\n") or text.count("\r")
        size += len(chunk)
        chunk = stream.read(1 << 20)
    if not western:
        decode(b"", True)
    whole = len(sample) < SAMPLE * 4 and size <= len(head) and sample.count("\n") < LINES
    sample = sample.removeprefix("\ufeff")
    if not whole:
        sample = _first_lines(sample)
    return Scan(encoding, sample, whole, later, quotes, blanks, tuple(notes))


def _marked_encoding(head: bytes) -> str | None:
    for mark, encoding in (
        (codecs.BOM_UTF8, "utf-8-sig"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if head.startswith(mark):
            return encoding
    even, odd = head[:4000:2].count(0), head[1:4000:2].count(0)
    half = len(head[:4000]) // 2
    if odd > half * 0.4 and even < half * 0.05:
        return "utf-16-le"
    if even > half * 0.4 and odd < half * 0.05:
        return "utf-16-be"
    return None


def _decode_western(chunk: bytes, path: str) -> str:
    try:
        return chunk.decode("windows-1252")
    except UnicodeDecodeError as error:
        raise RegardError(
            f"{path} is text neither in UTF-8 nor in windows-1252; name its encoding with --data.encoding"
        ) from error


def _first_lines(text: str) -> str:
    """At most LINES lines or SAMPLE characters, but three lines at least."""
    lines = re.split("(?<=\n)|(?<=\r)(?!\n)", text)[:-1] or [text]
    size = 0
    for count, line in enumerate(lines):
        size += len(line)
        if count >= LINES or (count >= 3 and size > SAMPLE):
            return "".join(lines[:count])
    return "".join(lines)


# ── the cells of lines


@contextmanager
def any_length() -> Iterator[None]:
    """Lift the global size limit of the csv module while reading."""
    before = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def split_lines(lines: Iterator[str], dialect: Dialect, *, strict: bool = True) -> Iterator[tuple[int, list[str]]]:
    """The cells of each row with the line in which it begins; lines without anything are no rows, unless there is only
    one column. A csv.Error says what is wrong in which line."""
    if dialect.separator in (" ", ""):
        for number, text in enumerate(lines, 1):
            cells = text.split() if dialect.separator else [text.rstrip("\r\n")]
            if cells:
                yield number, cells
        return
    reader = csv.reader(
        lines,
        delimiter=dialect.separator,
        quotechar=dialect.quote or None,
        quoting=csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
        escapechar=dialect.escape or None,
        doublequote=not dialect.escape,
        skipinitialspace=dialect.blanks,
        strict=strict,
    )
    line = 1
    while True:
        try:
            with any_length():
                row = next(reader, None)
        except csv.Error as error:
            raise csv.Error(str(error), line) from error
        if row is None:
            return
        if row or dialect.width == 1:
            yield line, row or [""]
        line = reader.line_num + 1


def _rows(text: str, dialect: Dialect, *, strict: bool = False) -> list[tuple[int, list[str]]] | None:
    """The rows of a sample; None: they are not what the dialect says."""
    found = []
    try:
        for row in split_lines(iter(io.StringIO(text, newline="")), dialect, strict=strict):
            found.append(row)
    except csv.Error as error:
        if strict and "unexpected end" not in str(error):
            return None
    return found


def wrong_quotes(path: str, line: int, words: str) -> RegardError:
    return RegardError(
        f"line {line} of {path} is not CSV: {words}; a text with quotes in it needs quotes around it and two for "
        "each inside, or --data.quote none if quotes mean nothing"
    )


# ── which dialect


def find_dialect(found: Scan, path: str, config: TableConfig = DEFAULTS, least: int = 1) -> Dialect:
    """The dialect of a text. least: columns that it must have"""
    sample = found.sample
    if not sample.strip():
        raise RegardError(f"{path} is empty; a table has the names of its columns in its first line")
    skip, asked = 0, config.separator
    if match := re.match(r"sep=(.)\r?\n", sample):  # a line for Excel
        skip, asked, sample = 1, asked or match[1], sample[match.end() :]
    text = sample + found.later
    separators = {"tab": "\t", "space": " ", "comma": ","}
    asked = separators.get(asked or "", asked)
    if asked is not None and len(asked) != 1:
        raise RegardError(f"the separator is one mark, tab or space, got '{asked}'")
    tries = [_best_quotes(text, mark, config.quote) for mark in ((asked,) if asked else COMMON)]
    best, score = max(((each, _score(_rows(text, each) or [])) for each in tries), key=lambda pair: pair[1])
    rare = None
    if asked is None and (score == 0 or len({len(cells) for _, cells in _rows(text, best) or ()}) > 1):
        rare = _rare(text, least)
    if rare is not None:
        best = rare
    elif asked is None and score == 0:
        best = replace(best, separator="")
        if not best.separator and '"' in text and config.quote != "none" and _agree(_rows(text, tries[0])):
            best = tries[0]  # quoted cells in one column
    try:
        for _ in split_lines(iter(io.StringIO(sample, newline="")), best):
            pass
    except csv.Error as error:
        words, line = error.args
        if found.whole or "unexpected end" not in words:
            raise wrong_quotes(path, line + skip, words) from error
    rows = _rows(sample, best) or []
    dialect = _with_structure(best, rows, config, skip, sample, path, least)
    said = []
    if dialect.separator not in (",", "\t"):
        said.append(
            f"separated by {NAMES.get(dialect.separator, dialect.separator)}" if dialect.separator else "one column"
        )
    if dialect.quote not in ('"', ""):
        said.append(f"quote {dialect.quote}")
    if dialect.escape:
        said.append("\\ before quotes")
    if found.encoding not in ("utf-8", "utf-8-sig"):
        said.append(found.encoding)
    return replace(
        dialect, encoding=found.encoding, said=(*said, *dialect.said), doubts=(*found.notes, *dialect.doubts)
    )


def _best_quotes(text: str, mark: str, quote: str | None) -> Dialect:
    """Which quotes a text has with this separator."""
    plain = Dialect((), separator=mark, quote="")
    if quote is not None:
        return replace(plain, quote="" if quote == "none" else quote)
    double = replace(plain, quote='"')
    if mark == " ":
        return plain
    rows = _rows(text, plain) or []
    if re.search(f'{re.escape(mark)} +"', text):
        double = replace(double, blanks=True)
    began = [cell.strip() for _, cells in rows for cell in cells if cell.lstrip().startswith('"')]
    if began and '\\"' in text:
        escaped = replace(double, escape="\\")
        if not _agree(_rows(text, double, strict=True)) and _agree(_rows(text, escaped, strict=True)):
            return escaped
    if began:
        if mark != "\t" or _are_closed(began, '"') or _agree(_rows(text, double, strict=True)) > _agree(rows):
            return double
        return plain
    began = [cell.strip() for _, cells in rows for cell in cells if cell.lstrip().startswith("'")]
    single = replace(plain, quote="'")
    agree = _agree(_rows(text, single, strict=True))
    if began and agree and (_are_closed(began, "'") or agree > _agree(rows)):
        return single
    return double


def _are_closed(cells: Sequence[str], quote: str) -> bool:
    return all(len(cell) > 1 and cell.endswith(quote) and _is_doubled(cell[1:-1], quote) for cell in cells)


def _is_doubled(inside: str, quote: str) -> bool:
    return quote not in inside.replace(quote * 2, "")


def _width(rows: Sequence[tuple[int, list[str]]] | None) -> int:
    widths = Counter(len(cells) for _, cells in rows or ())
    return max(widths, key=lambda width: widths[width], default=0)


def _agree(rows: Sequence[tuple[int, list[str]]] | None) -> int:
    """Have all rows the same number of cells, apart from comments (2), or all after the first that has it (1)?"""
    if not rows:
        return 0
    width = _width(rows)
    odd = [i for i, (_, cells) in enumerate(rows) if len(cells) != width and not cells[0].startswith("#")]
    first = next(i for i, (_, cells) in enumerate(rows) if len(cells) == width)
    return 2 * (not odd) or int(max(odd) < first)


def _score(rows: Sequence[tuple[int, list[str]]]) -> float:
    """How well rows are those of a table of several columns: which share of them has the commonest width, and how
    clean their cells are."""
    width = _width(rows)
    if width < 2:
        return 0.0
    good = [cells for _, cells in rows if len(cells) == width]
    cells = [cell.strip() for row in good[:200] for cell in row[:200]]
    clean = sum(_clean(cell) for cell in cells) / max(1, len(cells))
    return len(good) / len(rows) * clean


def _clean(cell: str) -> float:
    if not cell or is_value(cell):
        return 1.0
    if any(mark in cell for mark in ",;\t|") or cell.count('"') % 2:
        return 0.4
    return 0.9


def is_value(cell: str) -> bool:
    """Is a cell a number or a date, rather than a word?"""
    return bool(NUMBER.fullmatch(cell.strip())) or any(each.match(cell.strip()) for each in DATE)


def _rare(text: str, least: int) -> Dialect | None:
    """Blanks or a rare mark, if all lines agree about it."""
    for mark in (" ", *RARE):
        dialect = Dialect((), separator=mark, quote="")
        rows = [(line, cells) for line, cells in _rows(text, dialect) or () if not cells[0].startswith("#")]
        width = _width(rows)
        if width < 2 or any(len(cells) != width for _, cells in rows):
            continue
        values = [is_value(cell) for _, cells in rows for cell in cells]
        if least > 1 or (len(rows) > 1 and sum(values) * 3 > len(values)):
            return dialect
    return None


def _with_structure(
    dialect: Dialect,
    rows: Sequence[tuple[int, list[str]]],
    config: TableConfig,
    skip: int,
    sample: str,
    path: str,
    least: int,
) -> Dialect:
    """The dialect with what the rows tell: lines before the table, comments, its width and its header."""
    said, doubts = [], []
    width = _width(rows[1:] or rows) if dialect.separator else 1
    if width > WIDEST:
        raise RegardError(f"{path} has {width:,} columns, more than the {WIDEST:,} that are read here")
    if not dialect.separator:
        rows = [(line, cells) for line, cells in rows if cells[0].strip()] if rows else rows
        if any(mark in cell for mark in COMMON for _, cells in rows for cell in cells):
            line = next(line for line, cells in rows if any(mark in cells[0] for mark in COMMON))
            doubts.append(f"{path} was read as one column; if line {line + skip} has several, give --data.separator")
    if width == 1 and re.search(r"\S[ \t]*\r?\n[ \t]*\r?\n\s*\S", sample):
        doubts.append(
            f"{path} has one column and lines without anything, which are missing cells; remove them if they are none"
        )
    start = next((i for i, (_, cells) in enumerate(rows) if len(cells) in (width, width - 1)), 0)
    while start + 1 < len(rows) and rows[start][1][0].startswith("#") and len(rows[start][1]) != width:
        start += 1
    if start + 1 < len(rows) and len(rows[start][1]) == width - 1 and len(rows[start + 1][1]) != width:
        start = next((i for i, (_, cells) in enumerate(rows) if len(cells) == width), start)
    wide = next(((line, len(cells)) for line, cells in rows[:start] if len(cells) > width), None)
    if wide is not None:
        raise RegardError(
            f"line {wide[0] + skip} of {path} has {wide[1]} values, but there are {width} columns; write as many in each line"
        )
    if any(not cells[0].startswith("#") for _, cells in rows[:start]):
        said.append(f"table from line {rows[start][0] + skip} on")
    comments = any(cells[0].startswith("#") and len(cells) != width for _, cells in rows[start:])
    body = [(line, cells) for line, cells in rows[start:] if len(cells) == width or not comments]
    line, first = body[0]
    data = [cells for _, cells in body[1:] if len(cells) == width]
    kept = width
    if data and width > 1 and (len(first) < width or not first[-1].strip()):
        kept -= all(not cells[-1].strip() for cells in data[:500])  # each line ends with a separator
    head = [name.strip() for name in first]
    if width > 1 and len(head) == 1:
        raise RegardError(
            f"{path} has one name in line {line + skip}, but {width} values in the lines below it; if these are decimals of "
            "one column, give --data.separator tab, or write the other names"
        )
    if len(head) == width - 1 == kept - 1 and not _are_row_names([cells[0] for cells in data], sample):
        width = kept = len(head)  # the rows are too long, which is said when they are read
    if len(head) == width - 1 == kept - 1:
        head = ["", *head]  # as R writes names of rows
        said.append("a first column without a name")
        header, doubt = True, ""
    else:
        header, doubt = _is_header(head[:kept], data, config.header)
    if doubt:
        doubts.append(f"line {line + skip} of {path} {doubt}")
    repeated = tuple(name for name, count in Counter(head[:kept]).items() if count > 1 and header)
    if header:
        names = _different(head[:kept])
        doubts += [f"{path} has several columns called '{name}', numbered from {name}_2 on" for name in repeated[:5]]
        after = line + 1 + "".join(first).count("\n")
        if len(body) > 1 and width > 1:
            after = body[1][0]
        before = after - 1 + skip
    else:
        names = [str(number + 1) for number in range(kept)]
        before = line - 1 + skip
        said.append(f"no header: its columns are 1 … {kept}")
    return replace(
        dialect,
        names=tuple(names),
        repeated=repeated,
        header=before,
        width=width,
        comments=comments or any(cells[0].startswith("#") for _, cells in rows[:start]),
        said=tuple(said),
        doubts=tuple(doubts),
    )


def _are_row_names(cells: Sequence[str], sample: str) -> bool:
    """Are these names of rows, as R writes them: quoted, or numbered?"""
    different = len(cells) > 1 and len(set(cells)) == len(cells)
    return different and (all(f'"{cell}"' in sample for cell in cells) or all(cell.isdecimal() for cell in cells))


def _is_header(head: Sequence[str], rows: Sequence[Sequence[str]], asked: bool | None) -> tuple[bool, str]:
    """Does the first line hold names? And what is doubtful about that."""
    if asked is not None:
        return asked, ""
    names = values = 0
    for place, name in enumerate(head):
        column = [cells[place].strip() for cells in rows if place < len(cells) and cells[place].strip()]
        if not column or not name:
            continue
        if sum(map(is_value, column)) * 10 < len(column) * 9:
            continue
        values += is_value(name)
        names += not is_value(name)
    if not rows or (names and not values):
        return True, ""
    numbers = [int(name) for name in head if name.isascii() and name.isdigit()]
    run = len(numbers) > 1 and all(b - a == 1 for a, b in pairwise(numbers))
    if values and run and len(numbers) == values and (names or len(numbers) < len(head) or numbers[0] in (0, 1)):
        return (True, f"has {numbers[0]}, {numbers[1]} … as names of columns; --data.header false if it is a row")
    if values:
        return bool(names), "has numbers and words over numbers, read as names; --data.header says" if names else ""
    recurring = next(
        (name for i, name in enumerate(head) if name and any(row[i] == name for row in rows if i < len(row))), None
    )
    if recurring is not None:
        return (
            True,
            f"has '{recurring}' as the name of a column, which is in a row, too; --data.header false if it is a row",
        )
    return True, ""


def _different(names: Sequence[str]) -> list[str]:
    """The names, with a number at a second one of the same name."""
    found: dict[str, None] = {}
    numbers: dict[str, int] = {}  # the last number that a name got, so that thousands alike take no time
    given = set(names)
    for name in names:
        new = name
        while new in found or (new != name and new in given):
            numbers[name] = numbers.get(name, 1) + 1
            new = f"{name}_{numbers[name]}"
        found[new] = None
    return list(found)
