"""Pairs from files: a table, two files line by line, or a folder with either for each split."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from regard.data.dialect import DEFAULTS, TableConfig
from regard.data.splits import SPLITS
from regard.data.table_formats import is_table, unpack_lines, without_packed
from regard.data.tables import is_empty, open_table, place_of
from regard.errors import RegardError
from regard.recipes.describe import format_count
from regard.recipes.translation.pairs import Pair, Pairs, join_words

# names of the two columns, where nobody says them
USUAL = (("source", "target"), ("src", "tgt"), ("src", "trg"), ("input", "output"), ("question", "answer"))
NESTED = "translation"  # a column of objects such as {"en": "...", "de": "..."}
SPLIT_NAMES = {**SPLITS, "dev": SPLITS["validation"]}
SPLIT = re.compile(rf"({'|'.join(sorted(SPLIT_NAMES, key=len, reverse=True))})[\w-]*", re.IGNORECASE)
LONGEST_NAME = 40  # characters of the name of a column; what is longer is a sentence
NAMED = 5  # files of a folder that are named
GIVE = (
    "give a table (.tsv, .csv, .jsonl, .parquet), a folder with train.tsv or with train.en and train.de, or two "
    "files: --data FILE --data.beside FILE"
)


def read_pairs(
    path: str, beside: str | None, source: str | None, target: str | None, config: TableConfig = DEFAULTS
) -> Pairs:
    """Pairs by the path of a table, of a folder, or of a file with another beside it.

    source, target: names of columns of a table, or languages of files in a folder; None: guess
    """
    if beside is not None:
        _check_there(path, "--data")
        _check_there(beside, "--data.beside")
        names = (source or _language(path), target or _language(beside))
        if names[0] == names[1]:
            names = (source or "source", target or "target")
        return Pairs(name=path, pairs=_read_beside(path, beside), source=names[0], target=names[1])
    if os.path.isdir(path):
        return _read_folder(path, source, target, config)
    _check_there(path, "--data")
    if is_table(path):
        return read_table(path, source, target, config)
    raise RegardError(
        f"{path} is one side of the pairs; give the other with --data.beside FILE, line by line the translation "
        "of the first"
    )


def _check_there(path: str, option: str) -> None:
    if not os.path.exists(path):
        raise FileNotFoundError(f"there is no {path}, which {option} names; {GIVE}")


# ── tables


def read_table(path: str, source: str | None, target: str | None, config: TableConfig) -> Pairs:
    """Two columns of a table."""
    table = open_table(path, config, least=2)
    rows = [(line, flatten_row(cells)) for line, cells in table.records()]
    names = table.names
    if names.count(NESTED) == 1 and rows and NESTED not in rows[0][1]:
        names = list(rows[0][1])
    columns = _choose_columns(path, names, source, target)
    pairs = [Pair(_text(cells.get(columns[0])), _text(cells.get(columns[1])), line) for line, cells in rows]
    if not pairs:
        raise RegardError(f"{path} has no rows; give one for each pair")
    return Pairs(name=path, pairs=pairs, source=columns[0], target=columns[1], notes=table.notes)


def source_column(path: str, names: Sequence[str], source: str, target: str) -> str:
    """The column of the sources in a table that may have no translations: that of the training, one that is
    usually called so, or the only one."""
    if source in names:
        return source
    usual = [name for name, _ in USUAL if name in names]
    if usual or len(names) == 1:
        return usual[0] if usual else names[0]
    advice = "the model was trained on this column; rename yours, or name it with --data.source"
    place_of(source, names, path, advice, (target,))
    return source


def flatten_row(cells: Mapping[str, Any]) -> dict[str, Any]:
    """{"translation": {"en": ..., "de": ...}} as two columns."""
    inner = cells.get(NESTED)
    if isinstance(inner, dict):
        return {**{name: cell for name, cell in cells.items() if name != NESTED}, **inner}
    return dict(cells)


def _choose_columns(path: str, names: Sequence[str], source: str | None, target: str | None) -> tuple[str, str]:
    advice = "name the columns with --data.source and --data.target"
    if source is not None and target is not None:
        for name in (source, target):
            place_of(name, names, path, advice)
        if source == target:
            raise RegardError(f"--data.source and --data.target are both '{source}'; {advice}")
        return source, target
    for given, other in ((source, "target"), (target, "source")):
        if given is None:
            continue
        place_of(given, names, path, advice)
        rest = [name for name in names if name != given]
        if len(rest) != 1:
            raise RegardError(f"{path} has the columns {', '.join(names)}; name the other one with --data.{other}")
        return (given, rest[0]) if other == "target" else (rest[0], given)
    for pair in USUAL:
        if set(pair) <= set(names):
            return pair
    if len(names) == 1:
        raise RegardError(
            f"{path} has only the column '{names[0]}', and a pair needs two; a tab separates the cells of a .tsv file, "
            "a comma those of a .csv file"
        )
    if len(names) != 2:
        raise RegardError(f"{path} has {len(names)} columns: {', '.join(names)}; {advice}")
    odd = next((name for name in names if len(name) > LONGEST_NAME or " " in name.strip()), None)
    if odd is not None:
        raise RegardError(
            f"the first line of {path} seems to be a pair, not the names of columns: '{odd}'; write a line such "
            f"as source and target before it, or {advice}"
        )
    return names[0], names[1]


def _text(cell: Any) -> str:
    if is_empty(cell):
        return ""
    return join_words(str(cell))


# ── line by line


def _read_beside(path: str, beside: str) -> list[Pair]:
    """Line i of one file is the translation of line i of the other."""
    sides = [[join_words(line) for line in unpack_lines(each)] for each in (path, beside)]
    if len(sides[0]) != len(sides[1]):
        first = format_count(len(sides[0]), "lines") or "no lines"
        raise RegardError(
            f"{path} has {first} and {beside} has {len(sides[1]):,}, so they are not line by line translations; "
            "give files with the same number of lines"
        )
    if not sides[0]:
        raise RegardError(f"{path} is empty; give a file with one sentence in each line")
    both = zip(*sides, strict=True)
    return [Pair(source, target, line) for line, (source, target) in enumerate(both, start=1)]


def _language(path: str) -> str:
    """en of train.en.gz"""
    return without_packed(os.path.basename(path)).rpartition(".")[2]


# ── folders


class _Part(NamedTuple):
    """A file of a folder: its split, the name without its ending, and the ending (a language, or of a table)."""

    split: int
    stem: str
    ending: str
    path: str


def _read_folder(folder: str, source: str | None, target: str | None, config: TableConfig) -> Pairs:
    parts = list(_parts(folder))
    tables = [part for part in parts if is_table(part.path)]
    if any(part.split == SPLITS["train"] for part in tables):
        return _join(folder, [(part.split, read_table(part.path, source, target, config)) for part in tables])
    if not any(part.split == SPLITS["train"] for part in parts):
        raise RegardError(f"{folder} has no training file, {_list_files(folder)}; {GIVE}")
    there = {(part.split, part.stem, part.ending): part.path for part in parts}
    names, notes = _choose_languages(folder, parts, source, target)
    found: list[tuple[int, Pairs]] = []
    for (split, stem, ending), path in sorted(there.items()):
        if ending != names[0]:
            continue
        beside = there.get((split, stem, names[1]))
        if beside is None:
            raise RegardError(
                f"{folder} has {os.path.basename(path)} and no {stem}.{names[1]} beside it; add it, or take the "
                "first away"
            )
        pairs = _read_beside(path, beside)
        found.append((split, Pairs(name=path, pairs=pairs, source=names[0], target=names[1])))
    return _join(folder, found, notes)


def _list_files(folder: str) -> str:
    """What a folder holds, in a few words."""
    names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    if not names:
        return "it is empty"
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return f"it holds {', '.join(names[:NAMED])}{more}"


def _parts(folder: str) -> Iterator[_Part]:
    for name in sorted(os.listdir(folder)):
        stem, dot, ending = without_packed(name).rpartition(".")
        split = SPLIT.fullmatch(stem)
        if dot and split is not None and ending:
            yield _Part(SPLIT_NAMES[split[1].lower()], stem, ending, os.path.join(folder, name))


def _choose_languages(
    folder: str, parts: Sequence[_Part], source: str | None, target: str | None
) -> tuple[tuple[str, str], tuple[str, ...]]:
    there = sorted({part.ending for part in parts if part.split == SPLITS["train"]})
    for name in (source, target):
        if name is not None and name not in there:
            raise RegardError(f"{folder} has no train.{name}; it has languages: {', '.join(there) or 'none'}; {GIVE}")
    if source is not None and target is not None and source != target:
        return (source, target), ()
    rest = [name for name in there if name not in (source, target)]
    wanted = 2 - (source is not None) - (target is not None)
    if len(rest) != wanted or (source is not None and source == target):
        raise RegardError(
            f"{folder} has these languages with a training file: {', '.join(there) or 'none'}; name two of them "
            "with --data.source en --data.target de, for files called train.en and train.de"
        )
    first = source if source is not None else rest.pop(0)
    second = target if target is not None else rest.pop(0)
    note = f"{folder}: from {first} to {second}; --data.source {second} --data.target {first} goes back"
    return (first, second), (note,) if wanted == 2 else ()


def _join(folder: str, parts: Sequence[tuple[int, Pairs]], notes: tuple[str, ...] = ()) -> Pairs:
    """The pairs of several files, each of one split."""
    names = {(found.source, found.target) for _, found in parts}
    if len(names) > 1:
        said = " and ".join(f"{source}, {target}" for source, target in sorted(names))
        raise RegardError(f"the tables of {folder} have different columns: {said}; call them the same")
    splits = np.repeat([split for split, _ in parts], [len(found) for _, found in parts])
    pairs = [pair for _, found in parts for pair in found.pairs]
    source, target = names.pop()
    notes = (*notes, *(note for _, found in parts for note in found.notes))
    own = None if len(set(splits.tolist())) == 1 else splits.astype(np.uint8)
    return Pairs(name=folder, pairs=pairs, splits=own, source=source, target=target, notes=notes)
