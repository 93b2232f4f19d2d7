"""How a text becomes a table: its encoding, the mark between cells, quotes, comments and the header; found from the
whole file, and said in one line."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from regard.config import Rare, config
from regard.data.text_files import NO_TEXT, find_format
from regard.errors import RegardError

SAMPLE = 1 << 18  # characters that decide about marks and quotes
LINES = 1000  # of them
AROUND = 1 << 13  # characters around the first quote that comes later
LONGEST = 1 << 26  # characters of a line
WIDEST = 1 << 14  # columns
COMMON, RARE = (",", ";", "\t", "|"), (" ", "^", "~", ":")
LINE_END = b"\n"
NO_TABLE = {  # what a text that is no table begins with, and what then to do
    b"<!DOCTYPE": "a web page; download the file itself",
    b"<!doctype": "a web page; download the file itself",
    b"<html": "a web page; download the file itself",
    b"<?xml": "XML; save the table as CSV first",
    b"version https://git-lfs": "a pointer to a file of Git LFS; get the file itself with git lfs pull",
    b"{\\rtf": "a document; save the table as CSV first",
}
NAMES = {"\t": "tab", " ": "blanks"}
_CLOCK = r"(?P<H>\d{1,2}):(?P<M>\d{2})(?::(?P<S>\d{2})(?:[.,](?P<f>\d{1,9}))?)?(?: ?(?P<p>[AaPp])\.?[Mm]\.?)?"
_AFTER_DATE = rf"(?:(?:T| +){_CLOCK}(?: ?(?P<z>Z|[+-]\d{{2}}:?\d{{2}}))?)?$"
TIME = f"^{_CLOCK}$"
DATES = {  # the parts of a date, and the orders that they may have
    rf"^(?P<a>\d{{4}})[-/.](?P<b>\d{{1,2}})[-/.](?P<c>\d{{1,2}}){_AFTER_DATE}": ("ymd",),
    rf"^(?P<a>\d{{1,2}})[-/. ](?P<b>\d{{1,2}})[-/. ](?P<c>\d{{4}}){_AFTER_DATE}": ("dmy", "mdy"),
    rf"^(?P<a>\d{{1,2}})[-/. ](?P<b>\d{{1,2}})[-/. ](?P<c>\d{{2}}){_AFTER_DATE}": ("dmy", "mdy", "ymd"),
    r"^(?P<a>\d{1,2})(?:st|nd|rd|th|\.)?[-/. ]*(?P<b>[A-Za-z]{3,9})\.?,?[-/. ]*(?P<c>\d{4}|\d{2})" + _AFTER_DATE: (
        "dmy",
    ),
    r"^(?P<a>[A-Za-z]{3,9})\.? +(?P<b>\d{1,2})(?:st|nd|rd|th)?,? +(?P<c>\d{4})" + _AFTER_DATE: ("mdy",),
    rf"^(?P<a>(?:19|20)\d{{2}})(?P<b>\d{{2}})(?P<c>\d{{2}}){_AFTER_DATE}": ("ymd",),
}

# cells that begin as a number or a date does, rather than a word
VALUE = re.compile(
    r"[+-]?[$€£]?(?:\d[\d.,'\u00a0 ]*|\.\d+)(?:[eE][+-]?\d+)?\s?[%€$£]?$"
    r"|\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/. ]\d{1,2}[-/. ]\d{2}"
    r"|\d{1,2}(?:st|nd|rd|th|\.)?[-/. ]*[A-Za-z]{3,9}\.?,?[-/. ]*\d{2}"
    r"|[A-Za-z]{3,9}\.? +\d{1,2}(?:st|nd|rd|th)?,? +\d{4}"
)
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


@dataclass(frozen=True)
class Dialect:
    """How lines become cells."""

    encoding: str = "utf-8"
    separator: str = ","  # " ": any blanks; "": one column
    quote: str = '"'  # "": none
    escape: str = ""  # "\\" before quotes, where they are not doubled
    blanks: bool = False  # before quotes
    names: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()  # names that several columns have
    header: int = 1  # lines before the first row
    width: int = 0  # cells of a row, of which an empty last one is left out
    comments: bool = False  # lines from # on
    said: tuple[str, ...] = ()  # what is not the usual
    doubts: tuple[str, ...] = ()


# ── the bytes


class Scan(NamedTuple):
    """What a look at all bytes of a text found."""

    encoding: str
    sample: str  # whole lines
    whole: bool  # is the sample all there is?
    later: str = ""  # lines around the first quote after the sample
    quotes: bool = False
    doubts: tuple[str, ...] = ()


def scan(stream: Any, path: str, config: TableConfig = DEFAULTS) -> Scan:
    """Look at all bytes of a text: which encoding they have, and where quotes are."""
    chunk = stream.read(1 << 20)
    if (words := find_format(chunk.lstrip(), NO_TEXT | NO_TABLE)) is not None:
        raise RegardError(f"{path} is {words}")
    marked = config.encoding or _marked_encoding(chunk)
    encoding = marked or "utf-8"
    try:
        decode = codecs.getincrementaldecoder(encoding)().decode
    except LookupError as error:
        raise RegardError(f"there is no encoding '{encoding}'; give one such as utf-8 or windows-1252") from error
    sample, later, before = "", "", ""
    doubts: list[str] = []
    size = lines = 0
    quotes = accents = False
    while True:
        if b"\0" in chunk and not encoding.startswith(("utf-16", "utf-32")):
            line = lines + chunk[: chunk.index(b"\0")].count(LINE_END) + 1
            raise RegardError(f"{path} is binary, not text: there is a NUL in line {line}; give a table as text")
        try:
            text = decode(chunk, not chunk)
        except UnicodeDecodeError as error:
            head = error.object[: error.start]
            if marked or accents or not head.isascii() or encoding == "windows-1252":
                raise RegardError(
                    f"line {lines + head.count(LINE_END) + 1} of {path} is not text in {encoding.upper()}: byte "
                    f"{error.object[error.start]:#04x}; save the file anew, or give its encoding with --data.encoding"
                ) from error
            encoding = "windows-1252"
            decode = codecs.getincrementaldecoder(encoding)().decode
            continue
        if encoding == "windows-1252" and not marked and not doubts and (odd := ODD.search(text)):
            line = lines + text[: odd.start()].count("\n") + 1
            doubts.append(
                f"line {line} of {path} has '{text[max(0, odd.start() - 5) : odd.end() + 5]}', which windows-1252 may not "
                "mean; if it is wrong, give --data.encoding"
            )
        if len(sample) < SAMPLE:
            sample += text
        elif not later and '"' in text:
            at = text.index('"') + len(before)
            window = (before + text)[max(0, at - AROUND) : at + AROUND]
            later = window.partition("\n")[2].rpartition("\n")[0]
        accents |= not text.isascii()
        quotes |= '"' in text
        size += len(text)
        lines += text.count("\n") or text.count("\r")
        if not chunk:
            break
        before, chunk = text[-AROUND:], stream.read(1 << 20)
    whole = len(sample) == size and sample.count("\n") < LINES
    sample = sample.removeprefix("\ufeff")
    return Scan(encoding, sample if whole else _first_lines(sample), whole, later, quotes, tuple(doubts))


def _marked_encoding(head: bytes) -> str | None:
    """The encoding that the first bytes say: by a mark, or by the NULs that UTF-16 has beside ASCII."""
    if head.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    even, odd = head[:4000:2].count(0), head[1:4000:2].count(0)
    few, many = len(head[:4000]) * 0.025, len(head[:4000]) * 0.2
    if odd > many and even < few:
        return "utf-16-le"
    if even > many and odd < few:
        return "utf-16-be"
    return None


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

Rows = Sequence[tuple[int, list[str]]]  # the line in which each begins, and its cells


def split_lines(lines: Iterable[str], dialect: Dialect, *, strict: bool = True) -> Iterator[tuple[int, list[str]]]:
    """The cells of each row with the line in which it begins; lines without anything are no rows, unless there is only
    one column. A csv.Error says what is wrong in which line."""
    if dialect.separator in (" ", ""):
        for number, text in enumerate(lines, 1):
            cells = text.split() if dialect.separator else [text.rstrip("\r\n")]
            if cells:
                yield number, cells
        return
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST))  # the limit is one of the whole process
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
    try:
        for row in reader:
            if row or dialect.width == 1:
                yield line, row or [""]
            line = reader.line_num + 1
    except csv.Error as error:
        raise csv.Error(str(error), line) from error


def _rows(text: str, dialect: Dialect, *, strict: bool = False) -> Rows:
    """The rows of a sample; none if they are not what the dialect says."""
    found = []
    try:
        for row in split_lines(io.StringIO(text, newline=""), dialect, strict=strict):
            found.append(row)
    except csv.Error as error:
        if strict and "unexpected end" not in str(error):  # the sample ends somewhere
            return []
    return found


def wrong_quotes(path: str, line: int, words: str) -> RegardError:
    return RegardError(
        f"line {line} of {path} is not CSV: {words}; a text with quotes in it needs quotes around it and two for "
        "each inside, or --data.quote none if quotes mean nothing"
    )


# ── which dialect


def find_dialect(found: Scan, path: str, config: TableConfig = DEFAULTS, least: int = 1) -> Dialect:
    """The dialect of a text. least: columns that it must have"""
    sample, skip, asked = found.sample, 0, config.separator
    if not sample.strip():
        raise RegardError(f"{path} is empty; a table has the names of its columns in its first line")
    if match := re.match(r"sep=(.)\r?\n", sample):  # a line for Excel
        skip, asked, sample = 1, asked or match[1], sample[match.end() :]
    asked = {"tab": "\t", "space": " ", "comma": ","}.get(asked or "", asked)
    if asked is not None and len(asked) != 1:
        raise RegardError(f"the separator is one mark, tab or space, got '{asked}'")
    text = sample + found.later
    best = _best_separator(text, asked, config.quote, least)
    try:
        for _ in split_lines(io.StringIO(sample, newline=""), best):
            pass
    except csv.Error as error:
        words, line = error.args
        if found.whole or "unexpected end" not in words:
            raise wrong_quotes(path, line + skip, words) from error
    said = []
    if best.separator not in (",", "\t"):
        said.append(f"separated by {NAMES.get(best.separator, best.separator)}" if best.separator else "one column")
    if best.quote not in ('"', ""):
        said.append(f"quote {best.quote}")
    if best.escape:
        said.append("\\ before quotes")
    if found.encoding not in ("utf-8", "utf-8-sig"):
        said.append(found.encoding)
    best = replace(best, encoding=found.encoding, said=tuple(said), doubts=found.doubts)
    return _with_structure(best, [(line + skip, cells) for line, cells in _rows(sample, best)], config, sample, path)


def _best_separator(text: str, asked: str | None, quote: str | None, least: int) -> Dialect:
    """The common mark whose rows are most alike; else blanks or a rare mark, if all lines agree about it; else one column."""
    tries = [_best_quotes(text, mark, quote) for mark in ((asked,) if asked else COMMON)]
    scores = [_score(_rows(text, each)) for each in tries]
    best = tries[scores.index(max(scores))]
    if asked or (max(scores) and len({len(cells) for _, cells in _rows(text, best)}) == 1):
        return best
    for mark in RARE:
        dialect = Dialect(separator=mark, quote="")
        rows = [cells for _, cells in _rows(text, dialect) if not cells[0].startswith("#")]
        if len({len(cells) for cells in rows}) == 1 and len(rows[0]) > 1:
            values = [is_value(cell) for cells in rows for cell in cells]
            if least > 1 or (len(rows) > 1 and sum(values) * 3 > len(values)):
                return dialect
    if max(scores) or ('"' in text and quote != "none" and _agree(_rows(text, best))):
        return best  # of several columns, or quoted cells in one
    return replace(best, separator="")


def _best_quotes(text: str, mark: str, asked: str | None) -> Dialect:
    """The quotes with which most rows are alike; of these the first, quotes before none. Where a cell begins with ", it is
    a quote, but for tabs: a text between tabs may have any."""
    plain = Dialect(separator=mark, quote="")
    if asked is not None:
        return replace(plain, quote="" if asked == "none" else asked)
    if mark == " ":
        return plain
    double = replace(plain, quote='"', blanks=re.search(f'{re.escape(mark)} +"', text) is not None)
    starts = {cell.lstrip()[:1] for _, cells in _rows(text, plain) for cell in cells}
    if '"' in starts:
        tries = [double, replace(double, escape="\\")] if '\\"' in text else [double]
        tries += [plain] if mark == "\t" else []
    elif "'" in starts:
        tries = [replace(plain, quote="'"), plain]
    else:
        return double
    rows = {each: _rows(text, each, strict=each.quote != "") for each in tries}
    best = max(tries, key=lambda each: (_agree(rows[each]), len(rows[each])))
    return best if best.quote or mark == "\t" else double


def _width(rows: Rows) -> int:
    widths = Counter(len(cells) for _, cells in rows)
    return max(widths, key=lambda width: widths[width], default=0)


def _agree(rows: Rows) -> int:
    """Have all rows the same number of cells, apart from comments (2), or all after the first that has it (1)?"""
    if not rows:
        return 0
    width = _width(rows)
    odd = [i for i, (_, cells) in enumerate(rows) if len(cells) != width and not cells[0].startswith("#")]
    first = next(i for i, (_, cells) in enumerate(rows) if len(cells) == width)
    return 2 * (not odd) or int(max(odd) < first)


def _score(rows: Rows) -> float:
    """How well rows are those of a table of several columns: which share of them has the commonest width, and how
    clean their cells are."""
    width = _width(rows)
    if width < 2:
        return 0.0
    good = [cells for _, cells in rows if len(cells) == width]
    cells = [cell.strip() for row in good[:200] for cell in row[:200]]
    clean = 0.0
    for cell in cells:
        odd = any(mark in cell for mark in COMMON) or cell.count('"') % 2
        clean += 1.0 if not cell or is_value(cell) else 0.4 if odd else 0.9
    return len(good) / len(rows) * clean / max(1, len(cells))


def is_value(cell: str) -> bool:
    """Is a cell a number or a date, rather than a word?"""
    return VALUE.match(cell.strip()) is not None


# ── lines before the table, comments, and the header


def _with_structure(dialect: Dialect, rows: Rows, config: TableConfig, sample: str, path: str) -> Dialect:
    """The dialect with what the rows tell: lines before the table, comments, its width and its header."""
    said, doubts = list(dialect.said), list(dialect.doubts)
    width = _width(rows[1:] or rows) if dialect.separator else 1
    if width > WIDEST:
        raise RegardError(f"{path} has {width:,} columns, more than the {WIDEST:,} that are read here")
    if not dialect.separator:
        rows = [(line, cells) for line, cells in rows if cells[0].strip()]
        if marked := [line for line, cells in rows if any(mark in cells[0] for mark in COMMON)]:
            doubts.append(f"{path} was read as one column; if line {marked[0]} has several, give --data.separator")
    if width == 1 and re.search(r"\S[ \t]*\r?\n[ \t]*\r?\n\s*\S", sample):
        doubts.append(
            f"{path} has one column and lines without anything, which are missing cells; remove them if they are none"
        )
    comments = any(cells[0].startswith("#") and len(cells) != width for _, cells in rows)
    rows = [(line, cells) for line, cells in rows if len(cells) == width or not cells[0].startswith("#")]
    # the header may have a name less: where the first column has none, or each line ends with a separator
    start = next((i for i, (_, cells) in enumerate(rows) if len(cells) in (width, width - 1)), 0)
    if len(rows[start][1]) == width - 1 and len(rows[min(start + 1, len(rows) - 1)][1]) != width:
        start = next((i for i, (_, cells) in enumerate(rows) if len(cells) == width), start)
    for line, cells in rows[:start]:
        if len(cells) > width:
            raise RegardError(
                f"line {line} of {path} has {len(cells)} values, but there are {width} columns; write as many in each line"
            )
    if start:
        said.append(f"table from line {rows[start][0]} on")
    line, first = rows[start]
    below = rows[start + 1 :]
    data = [cells for _, cells in below if len(cells) == width]
    head, kept = [name.strip() for name in first], width
    if width > 1 and len(head) == 1:
        raise RegardError(
            f"{path} has one name in line {line}, but {width} values in the lines below it; if these are decimals of "
            "one column, give --data.separator tab, or write the other names"
        )
    if data and width > 1 and not (head[width - 1 :] or [""])[0] and not any(cells[-1].strip() for cells in data[:500]):
        kept -= 1  # each line ends with a separator
    header, doubt = True, ""
    if len(head) == kept - 1:
        if _are_row_names([cells[0] for cells in data], sample):
            head = ["", *head]  # as R writes names of rows
            said.append("a first column without a name")
        else:
            width = kept = len(head)  # the rows are too long, which is said when they are read
    else:
        head = head[:kept]
        header, doubt = _is_header(head, data, config.header)
    if doubt:
        doubts.append(f"line {line} of {path} {doubt}")
    repeated = tuple(name for name, count in Counter(head).items() if count > 1 and header)
    doubts += [f"{path} has several columns called '{name}', numbered from {name}_2 on" for name in repeated[:5]]
    before = line - 1
    if header:
        before = below[0][0] - 1 if below and width > 1 else line + "".join(first).count("\n")
    else:
        head = [str(number + 1) for number in range(kept)]
        said.append(f"no header: its columns are 1 … {kept}")
    return replace(
        dialect,
        names=_number_repeated(head),
        repeated=repeated,
        header=before,
        width=width,
        comments=comments,
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
    over = []  # is it a value, of each name over a column of numbers or dates?
    for place, name in enumerate(head):
        column = [cells[place] for cells in rows if cells[place].strip()]
        if name and column and sum(map(is_value, column)) * 10 >= len(column) * 9:
            over.append(is_value(name))
    if not rows or (over and not any(over)):
        return True, ""
    numbers = [int(name) for name in head if name.isascii() and name.isdigit()]
    run = len(numbers) > 1 and all(b - a == 1 for a, b in pairwise(numbers))
    if any(over) and run and len(numbers) == sum(over) and (len(numbers) < len(head) or numbers[0] in (0, 1)):
        return True, f"has {numbers[0]}, {numbers[1]} … as names of columns; --data.header false if it is a row"
    if any(over):
        words = "" if all(over) else "has numbers and words over numbers, read as names; --data.header says"
        return not all(over), words
    for place, name in enumerate(head):
        if name and any(cells[place] == name for cells in rows):
            return True, f"has the name '{name}', which is in a row, too; --data.header false if it is a row"
    return True, ""


def _number_repeated(names: Sequence[str]) -> tuple[str, ...]:
    """The names, with a number at a second one of the same name."""
    found: dict[str, None] = {}
    given, counts = set(names), Counter[str]()
    for name in names:
        new = name
        while new in found or (new != name and new in given):
            counts[name] += 1
            new = f"{name}_{counts[name] + 1}"
        found[new] = None
    return tuple(found)
