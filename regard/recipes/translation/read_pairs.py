"""Pairs from a table, two files line by line, a folder with either for each split, or from memory; and sentences to
translate from a text, the lines of a file, or a column."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from regard.data import tables
from regard.data.splits import SPLITS
from regard.data.table_formats import IN_MEMORY, as_texts, is_table, unpack_lines, without_packed
from regard.data.tables import Table, is_missing, place_of
from regard.errors import RegardError
from regard.recipes.describe import format_count
from regard.recipes.example import Examples
from regard.recipes.text.read_texts import is_given_file, read_given_text
from regard.recipes.translation.config import PairsConfig
from regard.recipes.translation.pairs import Pair, join_words, make_examples, pair_of

Sides = tuple[str, str]  # what the sides are called, by their columns or languages
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
ADVICE = "name the columns with --data.source and --data.target"


def read_pairs(data: Any, config: PairsConfig, trained: Sides | None) -> Examples:
    """Both sides of all pairs. data: a path, a frame, rows as dicts, or pairs of texts; trained: the sides that a run has
    learned from, which are taken where they are there and no others are asked for"""
    if not isinstance(data, str):
        return _pairs_in_memory(data) or _read_table(data, config, trained)
    if config.beside is not None:
        for path, option in ((data, "--data"), (config.beside, "--data.beside")):
            _check_there(path, option)
        sides = (config.source or _language(data), config.target or _language(config.beside))
        if sides[0] == sides[1]:
            sides = (config.source or "source", config.target or "target")
        return _read_beside(data, config.beside, sides)
    if os.path.isdir(data):
        return _read_folder(data, config, trained)
    _check_there(data, "--data")
    if is_table(data):
        return _read_table(data, config, trained)
    raise RegardError(
        f"{data} is one side of the pairs; give the other with --data.beside FILE, line by line the translation "
        "of the first"
    )


def read_sources(data: Any, config: PairsConfig, trained: Sides) -> Examples:
    """What is to be translated: a text, the lines of a file, or a column, with translations where a table has them."""
    if isinstance(data, str) and not is_given_file(data):
        text, _ = read_given_text(data)
        if not text.strip():
            raise RegardError("the text is empty, so there is nothing to translate; give a text or a file")
        return replace(make_examples(data, [(join_words(text), None)], trained), places=lambda i: data)
    if isinstance(data, str) and not is_table(data):
        lines = [(join_words(line), None) for line in unpack_lines(data)]
        return make_examples(data, lines, trained, lines=range(1, len(lines) + 1), source=data)
    found = None if isinstance(data, str) else _pairs_in_memory(data)
    if found is not None:
        return found
    table = _flatten(tables.read_table(data, config))
    source, target = config.source or trained[0], config.target or trained[1]
    names = table.names
    if source not in names:
        usual = [name for name, _ in USUAL if name in names] or (names if len(names) == 1 else [])
        if not usual:
            advice = "the model was trained on this column; rename yours, or name it with --data.source"
            place_of(source, names, table.path, advice, (target,))
        source = usual[0]
    known = table.texts(target) if target in names else [None] * len(table)
    pairs = zip(table.texts(source), known, strict=True)
    return make_examples(
        table.path,
        [(join_words(one or ""), None if is_missing(other) else join_words(str(other))) for one, other in pairs],
        (source, target),
        lines=table.lines(range(len(table))),
        source=table.path,
        rows=table.data,
        notes=table.notes,
    )


def _check_there(path: str, option: str) -> None:
    if not os.path.exists(path):
        raise FileNotFoundError(f"there is no {path}, which {option} names; {GIVE}")


def _pairs_in_memory(data: Any) -> Examples | None:
    """A list of pairs of texts, or one such pair; None: it is something else."""
    several = [data] if isinstance(data, tuple) else data
    if not isinstance(several, Sequence) or not several:
        return None
    if not all(isinstance(pair, list | tuple) and [type(side) for side in pair] == [str, str] for pair in several):
        return None
    pairs = [(join_words(source), join_words(target)) for source, target in several]
    return make_examples(IN_MEMORY, pairs, ("source", "target"))


# ── tables


def _read_table(data: Any, config: PairsConfig, trained: Sides | None) -> Examples:
    """Two columns of a table."""
    table = _flatten(tables.read_table(data, config, least=2))
    if config.source is None and config.target is None and trained is not None and set(trained) <= set(table.names):
        sides = trained
    else:
        sides = _choose_columns(table.path, table.names, config.source, config.target)
    if not len(table):
        raise RegardError(f"{table.path} has no rows; give one for each pair")
    pairs = zip(*([join_words(text or "") for text in table.texts(name, ADVICE)] for name in sides), strict=True)
    lines = table.lines(range(len(table)))
    return make_examples(table.path, list(pairs), sides, lines=lines, notes=table.notes)


def _flatten(table: Table) -> Table:
    """{"translation": {"en": ..., "de": ...}} as two columns."""
    cells = table.cells(NESTED) if table.names.count(NESTED) == 1 else []
    objects = [cell if isinstance(cell, Mapping) else {} for cell in cells]
    names = dict.fromkeys(name for cell in objects for name in cell)
    if not names:
        return table
    columns = {name: each for name, each in table.columns.items() if name != NESTED}
    columns |= {name: as_texts(cell.get(name) for cell in objects) for name in names}
    return replace(table, columns=columns)


def _choose_columns(path: str, names: Sequence[str], source: str | None, target: str | None) -> Sides:
    if source is not None and target is not None:
        for name in (source, target):
            place_of(name, names, path, ADVICE)
        if source == target:
            raise RegardError(f"--data.source and --data.target are both '{source}'; {ADVICE}")
        return source, target
    for given, other in ((source, "target"), (target, "source")):
        if given is None:
            continue
        place_of(given, names, path, ADVICE)
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
        raise RegardError(f"{path} has {len(names)} columns: {', '.join(names)}; {ADVICE}")
    odd = next((name for name in names if len(name) > LONGEST_NAME or " " in name.strip()), None)
    if odd is not None:
        raise RegardError(
            f"the first line of {path} seems to be a pair, not the names of columns: '{odd}'; write a line such "
            f"as source and target before it, or {ADVICE}"
        )
    return names[0], names[1]


# ── line by line


def _read_beside(path: str, beside: str, sides: Sides) -> Examples:
    """Line i of one file is the translation of line i of the other."""
    texts = [[join_words(line) for line in unpack_lines(each)] for each in (path, beside)]
    if len(texts[0]) != len(texts[1]):
        first = format_count(len(texts[0]), "lines") or "no lines"
        raise RegardError(
            f"{path} has {first} and {beside} has {len(texts[1]):,}, so they are not line by line translations; "
            "give files with the same number of lines"
        )
    if not texts[0]:
        raise RegardError(f"{path} is empty; give a file with one sentence in each line")
    return make_examples(path, list(zip(*texts, strict=True)), sides, lines=range(1, len(texts[0]) + 1))


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


def _read_folder(folder: str, config: PairsConfig, trained: Sides | None) -> Examples:
    parts = list(_parts(folder))
    in_tables = [part for part in parts if is_table(part.path)]
    if any(part.split == SPLITS["train"] for part in in_tables):
        return _join(folder, [(part.split, _read_table(part.path, config, trained)) for part in in_tables])
    if not any(part.split == SPLITS["train"] for part in parts):
        raise RegardError(f"{folder} has no training file, {_list_files(folder)}; {GIVE}")
    there = {(part.split, part.stem, part.ending): part.path for part in parts}
    sides, notes = _choose_languages(folder, parts, config, trained)
    found: list[tuple[int, Examples]] = []
    for (split, stem, ending), path in sorted(there.items()):
        if ending != sides[0]:
            continue
        beside = there.get((split, stem, sides[1]))
        if beside is None:
            raise RegardError(
                f"{folder} has {os.path.basename(path)} and no {stem}.{sides[1]} beside it; add it, or take the "
                "first away"
            )
        found.append((split, _read_beside(path, beside, sides)))
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
    folder: str, parts: Sequence[_Part], config: PairsConfig, trained: Sides | None
) -> tuple[Sides, tuple[str, ...]]:
    there = sorted({part.ending for part in parts if part.split == SPLITS["train"]})
    source, target = config.source, config.target
    if source is None and target is None and trained is not None and set(trained) <= set(there):
        return trained, ()
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


def _join(folder: str, parts: Sequence[tuple[int, Examples]], notes: tuple[str, ...] = ()) -> Examples:
    """The pairs of several files, each of one split."""
    sides = {found.about["sides"] for _, found in parts}
    if len(sides) > 1:
        said = " and ".join(f"{source}, {target}" for source, target in sorted(sides))
        raise RegardError(f"the tables of {folder} have different columns: {said}; call them the same")
    splits = np.repeat([split for split, _ in parts], [len(found) for _, found in parts])
    pairs: list[Pair] = [pair_of(found, i) for _, found in parts for i in range(len(found))]
    lines = [found.about["lines"][i] for _, found in parts for i in range(len(found))]
    notes = (*notes, *(note for _, found in parts for note in found.notes))
    own = None if len(set(splits.tolist())) == 1 else splits.astype(np.uint8)
    return make_examples(folder, pairs, sides.pop(), lines=lines, splits=own, notes=notes)
