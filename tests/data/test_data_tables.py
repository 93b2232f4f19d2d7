"""Tables as others write them: drawn at random with their truth, and each oddness by itself."""

from __future__ import annotations

import bz2
import datetime as dt
import gzip
import math
import random
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest

from regard.data.dialect import TableConfig
from regard.data.table_formats import is_table
from regard.data.tables import open_table, read_table, table_of, write_table
from regard.errors import RegardError

# ── tables at random


@dataclass
class Column:
    """A column as it is written, and what it means."""

    cells: list[str]
    kind: str
    values: list = field(default_factory=list)


WORDS = ("Bonn", "Ulm am Fluss", "Kiel", "naïve", "Zürich", "x1", "-", "don't", "3 apples", "A-12")
STYLES = {  # dates as they are written, and the words that their notes have
    "iso": "%Y-%m-%d",
    "day first": "%d.%m.%Y",
    "month first": "%m/%d/%Y",
    "with time": "%Y-%m-%d %H:%M:%S",
    "named": "%d %b %Y",
}


def numbers(draw, count, comma):
    values = [round(draw.uniform(-5000, 5000), draw.choice((1, 2, 4))) for _ in range(count)]
    values[0] = 0.25  # decides the decimal mark
    cells = [f"{value:.4f}".rstrip("0").rstrip(".") for value in values]
    if comma:
        cells = [cell.replace(".", ",") for cell in cells]
    return Column(cells, "number", values)


def amounts(draw, count, comma):
    """Numbers with marks between thousands."""
    values = [round(draw.uniform(-3e6, 3e6), 2) for _ in range(count)]
    values[0] = 1234567.5
    cells = [f"{value:,.2f}" for value in values]
    if comma:
        cells = [cell.translate(str.maketrans(",.", ".,")) for cell in cells]
    return Column(cells, "number", values)


def dates(draw, count, _):
    style = draw.choice(list(STYLES.values()))
    start = dt.datetime(1999, 12, 31, 23, 59, 59)
    values = [start + dt.timedelta(days=draw.randrange(9000), seconds=draw.randrange(86400)) for _ in range(count)]
    values[0], values[1] = dt.datetime(2024, 2, 29), dt.datetime(2023, 12, 31)
    cells = [value.strftime(style) for value in values]
    return Column(cells, "date", [dt.datetime.strptime(cell, style) for cell in cells])


def flags(draw, count, _):
    yes, no = draw.choice((("yes", "no"), ("TRUE", "FALSE"), ("ja", "nein"), ("T", "F")))
    values = [1.0, 0.0, *(float(draw.random() < 0.5) for _ in range(count - 2))]
    return Column([yes if value else no for value in values], "flag", values)


def words(draw, count, _):
    return Column([draw.choice(WORDS) for _ in range(count)], "text")


def codes(draw, count, _):
    return Column([f"{draw.randrange(99999):05}" for _ in range(count - 1)] + ["01067"], "id")


def long_ids(draw, count, _):
    return Column([str(9007199254740993 + 2 * draw.randrange(9**9)) for _ in range(count)], "id")


SORTS = (numbers, amounts, dates, flags, words, codes, long_ids)


def draw_table(seed):
    """A table with its truth: columns by name, its bytes, and its name."""
    draw = random.Random(seed)
    separator = draw.choice(",;\t|")
    comma = draw.random() < 0.5
    count = draw.choice((3, 12, 300))
    columns = {f"c{i} {sort.__name__}": sort(draw, count, comma) for i, sort in enumerate(draw.choices(SORTS, k=5))}
    columns["n"] = numbers(draw, count, comma)  # so that a header can be told from rows
    for column in columns.values():
        if column.kind != "text" and count > 3 and draw.random() < 0.3:
            place, word = (draw.randrange(2, count), draw.choice(("", "NA", "?", "null") if column.values else ("",)))
            column.cells[place] = word
            if column.values:
                column.values[place] = None
    every = draw.random() < 0.3

    def cell(text):
        quoted = every or separator in text or '"' in text or "\n" in text
        return '"' + text.replace('"', '""') + '"' if quoted else text

    end = draw.choice(("\n", "\r\n"))
    lines = [separator.join(map(cell, columns))]
    lines += [separator.join(map(cell, row)) for row in zip(*(c.cells for c in columns.values()), strict=True)]
    if draw.random() < 0.2:
        lines = [line + separator for line in lines]
    if draw.random() < 0.2:
        lines.insert(0, draw.choice(("# made by a program", "Report of the year")))
    if draw.random() < 0.2:
        lines.insert(draw.randrange(2, len(lines)), "# a note")
    text = end.join(lines) + draw.choice((end, ""))
    data = text.encode(draw.choice(("utf-8", "utf-8-sig", "utf-16", "utf-8", "windows-1252")))
    pack = draw.choice((None, None, gzip.compress, bz2.compress, zstd))
    return columns, pack(data) if pack else data, draw.choice(("t.csv", "t.tsv", "t.txt"))


def zstd(data):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


def differences(table, columns):
    """What a table has that is not the truth."""
    if table.names != list(columns):
        return [f"names {table.names}"]
    found = []
    for name, column in columns.items():
        if table.kinds[name].word != column.kind and any(column.cells):
            found.append(f"{name} is {table.kinds[name].word}, not {column.kind}")
        elif column.kind == "date":
            moments = [value and value.replace(tzinfo=None) for value in table.times(name)[0].to_pylist()]
            found += [name] if moments != column.values else []
        elif column.values:
            truth = [math.nan if value is None else value for value in column.values]
            if not np.allclose(table.numbers([name])[:, 0], truth, rtol=1e-12, atol=0, equal_nan=True):
                found.append(name)
        elif table.data.column(name).to_pylist() != column.cells:
            found.append(name)
    return found


@pytest.mark.parametrize("seed", range(80))
def test_a_table_is_found_as_it_was_written(tmp_path, seed):
    columns, data, name = draw_table(seed)
    (tmp_path / name).write_bytes(data)
    table = read_table(tmp_path / name)
    assert not differences(table, columns), table.notes
    parts = [part.data for part in open_table(tmp_path / name).batches()]
    assert pa.concat_tables(parts).combine_chunks().equals(table.data.combine_chunks())


@pytest.mark.parametrize("wrong", [{"separator": ":"}, {"separator": " "}, {"header": False}, {"encoding": "utf-16"}])
def test_a_wrong_dialect_is_caught(tmp_path, wrong):
    """The comparison above is seen to fail."""
    for seed in range(12):
        columns, data, name = draw_table(seed)
        (tmp_path / name).write_bytes(data)
        try:
            found = differences(read_table(tmp_path / name, TableConfig(**wrong)), columns)
        except (RegardError, ValueError):
            continue
        assert found, (seed, wrong)


# ── each oddness


def read(tmp_path, content, name="t.csv", **options):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_table(path, TableConfig(**options))


@pytest.mark.parametrize(
    "content, words, options, kind",
    [
        ("a;b\n1;1.234\n2;5.678\n", ["'b'", "1.234", "line 2", "--data.decimal"], {"decimal": "comma"}, "number"),
        ("a,b\n1,03/04/2024\n2,05/06/2024\n", ["'b'", "03/04/2024", "--data.dates"], {"dates": "day"}, "date"),
        ("a,b\n1,5\n2,-999\n3,7\n", ["'b'", "-999", "line 3", "--data.nulls"], {"nulls": ("-999",)}, "number"),
        ("a,b\n" + "1,5\n" * 30 + "2,broken\n", ["'b'", "broken", "line 32"], {"nulls": ("broken",)}, "number"),
        ("a,b\n1,DE\n2,NA\n3,FR\n", ["'b'", "'NA'", "line 3", "--data.nulls"], {"nulls": ("NA",)}, "text"),
        ("a,b\n1,20240131\n2,20240201\n", ["'b'", "20240131", "--data.dates"], {"dates": "year"}, "date"),
        ("a,b\n1,12 kg\n2,3 kg\n", ["'b'", "kg", "line 2"], None, "text"),
        ("a,b\n1,+4930123456\n2,+4940123456\n", ["'b'", "+4930123456"], None, "id"),
        ("a,b\n1,2024-01-31\n2,2024-02-30\n3,2024-03-01\n", ["'b'", "2024-02-30", "line 3"], None, "text"),
        ("a;b\n1,5;2.5\n2,5;3.5\n", ["'a'", "1,5", "--data.decimal"], None, "number"),
    ],
)
def test_two_readings_are_said_and_an_option_settles_them(tmp_path, content, words, options, kind):
    table = read(tmp_path, content)
    notes = " ".join(table.notes)
    assert all(word in notes for word in words), notes
    settled = read(tmp_path, content, **options or {})
    assert settled.kinds["b"].word == kind
    if options:
        assert not any(words[0] in note and "--data" in note for note in settled.notes), settled.notes


@pytest.mark.parametrize(
    "content, words",
    [
        ("a,b\n1,2\n1,2,3\n4,5\n", ["line 3", "3 values", "2 columns"]),
        ("a,b\n" + "1,2\n" * 40_000 + "1\n", ["line 40002", "1 value"]),
        ('a,b\n1,"open\n2,x\n3,y\n', ["line 2"]),
        ("a,b\n" + '1,"x"\n' * 3000 + '2,"y\n3,z\n', ["line 3002"]),
        ("a,b\n1,x\0y\n", ["line 2", "NUL"]),
        ("a,b\nä,1\n".encode() * 3 + b"\xff\xfe,2\n", ["line 7", "UTF-8"]),
        (b"PK\x03\x04" + bytes(99), ["zip"]),
        ("<!DOCTYPE html>\n<p>, no</p>\n", ["web page"]),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:1\n", ["Git LFS"]),
        (gzip.compress(b"a,b\n" + b"1,2\n" * 999, mtime=0)[:-9], ["gzip", "cut off"]),
        ("", ["empty"]),
        ("x\n1,5\n2,7\n", ["line 1", "2 values"]),
    ],
)
def test_what_is_no_table_is_refused_with_its_line(tmp_path, content, words):
    with pytest.raises(RegardError) as caught:
        read(tmp_path, content)
    assert all(word in str(caught.value) for word in words), caught.value


@pytest.mark.parametrize(
    "content, names, rows",
    [
        ('a,b\n1,"x\ny"\n2,"say ""hi"", you"\n', ["a", "b"], [["1", "x\ny"], ["2", 'say "hi", you']]),
        ("id,t\n1,'tis\n2,dogs'\n", ["id", "t"], [["1", "'tis"], ["2", "dogs'"]]),
        ("a,b\n1,'x, y'\n2,'z, w'\n", ["a", "b"], [["1", "x, y"], ["2", "z, w"]]),
        ('a\tb\n1\t"open only\n2\tend"\n', ["a", "b"], [["1", '"open only'], ["2", 'end"']]),
        ('a\tb\n1\t"x\ty"\n2\tz\n', ["a", "b"], [["1", "x\ty"], ["2", "z"]]),
        ('a,b\n1,"say \\"hi\\", you"\n2,"x"\n', ["a", "b"], [["1", 'say "hi", you'], ["2", "x"]]),
        ("1,2.5\n3,4.5\n", ["1", "2"], [["1", "2.5"], ["3", "4.5"]]),
        ('"a","b"\n"r1",5,6\n"r2",7,8\n', ["", "a", "b"], [["r1", "5", "6"], ["r2", "7", "8"]]),
        ('"a\nb",c\n\n1,2\n', ["a\nb", "c"], [["1", "2"]]),
        ("sep=;\na;b\n1;2\n", ["a", "b"], [["1", "2"]]),
        ("x  y\n1.5  2\n10   3\n", ["x", "y"], [["1.5", "2"], ["10", "3"]]),
        ("x\n1.5\n2.5\n\n", ["x"], [["1.5"], ["2.5"]]),
        ("a,b,a\n1,2,3\n", ["a", "b", "a_2"], [["1", "2", "3"]]),
    ],
)
def test_marks_quotes_and_headers(tmp_path, content, names, rows):
    table = read(tmp_path, content, "t.txt")
    assert table.names == names, table.notes
    assert [list(row.values()) for row in table.data.to_pylist()] == rows


def test_lines_are_those_of_the_file(tmp_path):
    table = read(tmp_path, '# made\na,b\n\n1,"x\ny"\n# note\n2,z\n')
    assert table.lines([0, 1]) == [4, 7]
    assert table.take([1]).where(0).startswith("line 7 of ")
    rows = read(tmp_path, '{"a": 1}\n\n{"a": 2, "late": "x"}\n', "t.jsonl")
    assert rows.lines([1, 0]) == [3, 1] and rows.cells("late") == [None, "x"]


def test_one_error_names_all_columns_that_are_no_numbers(tmp_path):
    table = read(tmp_path, "a,b,c,d\n1,x,01067,2024-01-31\n2,y,10115,2024-02-01\n")
    with pytest.raises(RegardError, match=r"'b' has texts such as 'x' \(line 2\).*'d' has dates"):
        table.numbers(["a", "b", "d"], "choose columns")
    assert table.numbers(["a", "c"]).tolist() == [[1, 1067], [2, 10115]]


def test_json_lines_keep_their_values(tmp_path):
    rows = '{"a": 1, "m": 1, "l": [1, "x"], "o": {"k": 1}}\n{"a": 2.5, "m": "one", "l": [2.5], "o": {"j": 2}}\n'
    table = read(tmp_path, rows, "t.jsonl")
    assert table.cells("a") == [1, 2.5] and table.cells("m") == [1, "one"]
    assert table.cells("l") == [[1, "x"], [2.5]] and table.cells("o") == [{"k": 1}, {"j": 2}]
    assert any("'m' has both numbers" in note for note in table.notes)
    with pytest.raises(RegardError, match="line 2.*key 'a' is there twice"):
        read(tmp_path, '{"a": 1}\n{"a": 1, "a": 2}\n', "t.jsonl")


# ── memory, and back to files


class Frame:
    """What other libraries call a frame: it hands over columns of Arrow."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def test_frames_dicts_and_rows_are_tables():
    columns = {"a": [1, 2], "b": ["x", None]}
    rows = [{"a": 1, "b": "x"}, {"a": 2}]
    for given in (Frame(pa.table(columns)), pa.table(columns), columns, rows):
        table = table_of(given)
        assert table.names == ["a", "b"] and table.cells("a") == [1, 2] and table.cells("b") == ["x", None]
    marker = object()
    table = table_of([{"image": marker, "label": 1}, {"image": marker, "label": 2}])
    assert table.cells("image") == [marker, marker] and table.kinds["image"].word == "object"
    assert table_of("t.csv") is None and table_of([]) is None and table_of([[1, 2]]) is None
    with pytest.raises(RegardError, match="not named by text"):
        table_of([{1: 2}])


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_what_is_written_is_read_again(tmp_path, suffix):
    data = pa.table({"n": [1.5, None, 1e-9], "t": ["x,\ty", 'say "hi"\n', "ü"], "l": [[1], [], None]})
    path = tmp_path / f"t{suffix}"
    write_table(path, iter([data, data]))
    assert is_table(path)
    table = read_table(path)
    assert len(table) == 6 and table.texts("t") == ["x,\ty", 'say "hi"', "ü"] * 2
    np.testing.assert_array_equal(table.numbers(["n"])[:, 0], [1.5, np.nan, 1e-9] * 2)
    if suffix not in (".csv", ".tsv"):
        assert table.cells("l") == [[1], [], None] * 2


def test_one_error_says_all_that_is_wrong_with_columns(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b,c,d,e,f\n1,7,x,,01067,\n2,7,y,5,10115,k\n3,7,z,5,04103,k\n")
    with pytest.raises(RegardError) as error:
        read_table(path).numbers(["a", "b", "c", "d", "e"], "name the columns", "fill them in", filled=["f"])
    words = ("'c' has texts", "'d' has a missing cell in line 2", "'f' has a missing", "and b with", "and e with ids")
    assert all(each in str(error.value) for each in words), error.value


def test_frames_of_other_libraries_keep_their_objects():
    """What polars offers, by the names of its that are used here."""
    marker = object()

    class Series(list):
        name, dtype = "o", "Object"

        def to_list(self):
            return list(self)

    class Frame:
        __module__ = "polars.dataframe"
        columns = ("n", "o")

        def __getitem__(self, name):
            numbers = Series([1, 2])
            numbers.name, numbers.dtype, numbers.to_arrow = "n", "Int64", lambda: pa.array([1, 2])
            return numbers if name == "n" else Series([marker, None])

    table = table_of(Frame())
    assert table.cells("n") == [1, 2] and table.cells("o") == [marker, None]
    assert table_of({"image": b"GIF8"}).cells("image") == [b"GIF8"]
