"""Token shards: a text of any size as ids on disk, made once by `regard tokenize`, then mapped into memory.

A folder of shards holds `tokenizer.json`, `plan.json` (which text, cut into which pieces), and for each shard
`00000.ids` with `00000.json` beside it (tokens, characters, checksum), which is written last. So a killed command goes on
with the shards that are not there yet. `tokens.json` at the end makes the folder complete.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from regard import files
from regard.config import Amount, Seed, Vocab, config
from regard.data import cache as store
from regard.data.array import Array
from regard.data.learn_tokenizer import encode
from regard.data.progress import Note
from regard.data.text_files import Piece, TextFile, check_unchanged, find, fingerprint, pieces
from regard.data.tokenizer import Tokenizer, load, save
from regard.errors import RegardError
from regard.machine import cores

PIECE = 2 << 20  # bytes encoded at once
INDEX, PLAN, TOKENIZER = "tokens.json", "plan.json", "tokenizer.json"


@config
class ShardOptions:
    """Which text becomes token shards, and how."""

    data: str = ""  # a file, a folder or a glob of texts
    out: str = ""  # a new folder for the shards; one that was begun is finished
    tokens: str = "auto"  # auto, characters, bytes, words or bpe, as regard train text has them
    tokenizer: str | None = None  # a tokenizer.json (ours or Hugging Face's) to use instead
    vocabulary: Vocab = 8192  # largest vocabulary of words and bpe
    sample: Amount = 100.0  # megabytes of text, drawn by the seed, from which words and bpe are learned
    seed: Seed = 0
    megabytes: Annotated[int, Field(ge=1, le=2**16)] = 256  # of text in a shard
    # threads that encode; None: one for each processor
    workers: Annotated[int, Field(ge=1, le=4096)] | None = None


class ShardedIds:
    """The ids of all shards as one long row that is never whole in memory: a stretch of it, or those at some
    places."""

    def __init__(self, parts: list[Array], first: int = 0, last: int | None = None) -> None:
        self.parts = parts
        self.starts = np.concatenate([[0], np.cumsum([len(each) for each in parts])]).astype(np.int64)
        self.first = first
        self.last = int(self.starts[-1]) if last is None else last
        self.dtype = parts[0].dtype

    def __len__(self) -> int:
        return max(0, self.last - self.first)

    def __getitem__(self, what: Any) -> Any:
        if isinstance(what, slice):
            start, stop, step = what.indices(len(self))
            if step != 1:
                raise RegardError(f"a stretch of token shards has steps of 1, got {step}")
            return ShardedIds(self.parts, self.first + start, self.first + max(start, stop))
        places = np.asarray(what, dtype=np.int64) + self.first
        out = np.empty(places.shape, dtype=self.dtype)
        of = np.searchsorted(self.starts, places, side="right") - 1
        for part in np.unique(of):
            here = of == part
            out[here] = self.parts[part][places[here] - self.starts[part]]
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self[np.arange(len(self))], dtype=dtype)

    def tolist(self) -> list[int]:
        return [int(each) for each in np.asarray(self)]


def is_shards(path: str | None) -> bool:
    """Is this a folder that `regard tokenize` made, or began?"""
    return path is not None and os.path.isdir(path) and os.path.exists(os.path.join(path, PLAN))


def open_shards(path: str) -> tuple[ShardedIds, Tokenizer, dict[str, Any]]:
    """All ids, mapped from the disk, their tokenizer, and facts about the text."""
    folder = Path(path)
    if not (folder / INDEX).exists():
        raise RegardError(
            f"the token shards in {path} are not finished; go on with the command that began them: regard tokenize "
            f"--data TEXT --out {path}"
        )
    about = files.read_sealed(folder / INDEX)
    tokenizer = load(folder / TOKENIZER)
    parts = [_map(folder, number, facts, tokenizer.dtype) for number, facts in enumerate(about["shards"])]
    return ShardedIds([part for part in parts if len(part)]), tokenizer, about


def write_shards(
    options: ShardOptions, tokenizer: Callable[[list[TextFile], str], Tokenizer], note: Note
) -> dict[str, Any]:
    """Tokenise a text into shards; those that an earlier command finished stay. Returns facts about all of them.
    tokenizer: makes one of the files that were found and of their fingerprint"""
    if options.megabytes < 1:
        raise RegardError(f"megabytes must be 1 or more, got {options.megabytes}")
    folder = Path(options.out)
    found = find(options.data)
    text = fingerprint(found, note)
    plan = {"text": text, "files": len(found)}
    plan |= {name: getattr(options, name) for name in ("megabytes", "tokens", "tokenizer", "vocabulary")}
    _check_plan(folder, plan, options)
    files.make_folder(folder, parents=True)
    if not (folder / PLAN).exists():
        save(tokenizer(found, text), folder / TOKENIZER)
        files.write_sealed(folder / PLAN, plan)
    chosen = load(folder / TOKENIZER)
    parts = pieces(found, PIECE)
    groups = _group(parts, options.megabytes * 10**6)
    shards: list[dict[str, Any]] = []
    for number, group in enumerate(groups):
        note(f"shard {number + 1} of {len(groups)}", number / len(groups))
        shards.append(_write_shard(folder, number, group, chosen, options.workers or min(cores(), 8)))
    check_unchanged(found)
    note("shards", 1.0)
    total = sum(each["tokens"] for each in shards)
    if not total:
        raise RegardError(f"{options.data} holds no text; give files with text in them")
    about = {
        "path": options.data,
        "files": len(found),
        "bytes": sum(file.size for file in found),
        "characters": sum(each["characters"] for each in shards),
        "tokens": total,
        "shards": shards,
    }
    files.write_sealed(folder / INDEX, about)
    return about


def _group(parts: list[Piece], most: int) -> list[list[Piece]]:
    """Consecutive pieces, of so many bytes at most in each group, or one piece."""
    groups: list[list[Piece]] = []
    size = 0
    for part in parts:
        length = part.stop - part.start
        if not groups or size + length > most:
            groups.append([])
            size = 0
        groups[-1].append(part)
        size += length
    return groups


def _check_plan(folder: Path, plan: dict[str, Any], options: ShardOptions) -> None:
    """Raise if the folder holds something else."""
    if not (folder / PLAN).exists():
        if folder.exists() and any(folder.iterdir()):
            raise RegardError(f"{folder} is not empty and holds no token shards; choose a new folder with --out")
        return
    before = files.read_sealed(folder / PLAN)
    changed = [name for name in plan if before.get(name) != plan[name]]
    if changed:
        raise RegardError(
            f"{folder} holds token shards of other data or settings: {', '.join(changed)} differ for {options.data}; "
            "choose a new folder with --out, or give what was given then"
        )


def _write_shard(folder: Path, number: int, group: list[Piece], tokenizer: Tokenizer, workers: int) -> dict[str, Any]:
    ids, sealed = folder / f"{number:05}.ids", folder / f"{number:05}.json"
    if sealed.exists():
        done: dict[str, Any] = files.read_sealed(sealed)
        if ids.exists() and ids.stat().st_size == done["tokens"] * tokenizer.dtype.itemsize:
            return done
    part = ids.with_suffix(".part")
    with open(part, "wb") as out:
        tokens, characters = encode(group, tokenizer, out, workers, lambda what, share: None)
        out.flush()
        os.fsync(out.fileno())
    os.replace(part, ids)
    facts = {"tokens": tokens, "characters": characters, "checksum": files.checksum(ids)}
    files.write_sealed(sealed, facts)
    return facts


def _map(folder: Path, number: int, facts: dict[str, Any], dtype: np.dtype[Any]) -> store.Mapped | Array:
    path = folder / f"{number:05}.ids"
    if not path.exists() or path.stat().st_size != facts["tokens"] * dtype.itemsize:
        raise RegardError(
            f"{path} is damaged or missing; delete {path.with_suffix('.json')} and {folder / INDEX}, then go on with "
            "regard tokenize"
        )
    if not facts["tokens"]:
        return np.zeros(0, dtype=dtype)
    return np.asarray(np.memmap(path, dtype=dtype, mode="r", shape=(facts["tokens"],)))
