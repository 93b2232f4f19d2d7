"""Rows of TSV: tabs alone separate, stray quotes are characters, and what csv wrote with quotes is read back."""

import csv
import random

import pytest

from regard.data.table_rows import stream_rows


def read(path, content):
    path.write_text(content, newline="")
    return [(line, *row.values()) for line, row in stream_rows(str(path)).rows]


@pytest.mark.parametrize(
    "content, rows",
    [
        (
            'en\tde\n"A horse.\tEin Pferd.\nTwo."\tZwei.\n',
            [(2, '"A horse.', "Ein Pferd."), (3, 'Two."', "Zwei.")],
        ),
        ('en\tde\n"Yes" he said\tJa\na\tb\n', [(2, '"Yes" he said', "Ja"), (3, "a", "b")]),
        ('en\tde\n"a\tb"\n', [(2, '"a', 'b"')]),
        ('en\tde\nx\t"never closed\ny\tz\n', [(2, "x", '"never closed'), (3, "y", "z")]),
        ("a;b,c\td\r\n1;2\t3,4\r\n\r\n5\t6", [(2, "1;2", "3,4"), (4, "5", "6")]),
        ('en\tde\n"one\nline"\t"and\nanother"\nx\ty\n', [(2, "one\nline", "and\nanother"), (5, "x", "y")]),
        ('text\n"a ""b"""\n5" wide\n"two\nlines"\n', [(2, 'a "b"'), (3, '5" wide'), (4, "two\nlines")]),
    ],
)
def test_quotes_count_only_where_they_make_a_row(tmp_path, content, rows):
    assert read(tmp_path / "a.tsv", content) == rows


def test_commas_do_not_separate_whatever_the_header_says(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("a,b,c\n1,2,3\n")
    assert stream_rows(str(path)).names == ["a,b,c"]


def test_what_csv_writes_is_read_back(tmp_path):
    """Texts with quotes and with tabs or line ends, quoted where csv quotes them."""
    draw = random.Random(0)
    for width in (1, 2, 3):
        for special in ('"\t', '"\n'):
            rows = [
                ["x" + "".join(draw.choice("ab " + special) for _ in range(5)) for _ in range(width)]
                for _ in range(60)
            ]
            path = tmp_path / f"{width}.tsv"
            with open(path, "w", newline="") as file:
                csv.writer(file, delimiter="\t").writerows([[f"c{i}" for i in range(width)], *rows])
            assert [list(row.values()) for _, row in stream_rows(str(path)).rows] == rows
