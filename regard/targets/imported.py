"""Weights of others as a run: imported to a folder that is asked for, or to the cache when a command is pointed
at them."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from safetensors.torch import save

from regard import files, registry
from regard.config import to_dict
from regard.data.cache import cache_folder, drop_unused, make_private
from regard.data.chat_template import FILE as CHAT_TEMPLATE
from regard.data.tokenizer import FRAMED, from_json
from regard.errors import RegardError
from regard.pretrained.open import is_foreign, read_pretrained
from regard.pretrained.weights import Pretrained
from regard.recipes.base import get_recipe
from regard.runs.new_run import check_free
from regard.runs.run import Run

Place = str | os.PathLike[str]
NAMED = 40  # characters of a name in the cache
FORMAT = 4  # of an import; raised when the same files become another run


def open_run(path: Place) -> Run:
    """The run in a folder; weights of others are imported to the cache first, once."""
    if not is_foreign(path):
        return Run.open(path)
    folder = make_private(cache_folder() / "imported") / _name_of(Path(path))
    if not Run.exists(folder):
        try:
            import_weights(path, folder)
        except OSError:
            if not Run.exists(folder):  # else another process was sooner
                raise
        drop_unused(folder, stamp="config.json", content="model.safetensors")
    with suppress(OSError):
        os.utime(folder / "config.json")  # used now
    run = Run.open(folder)
    run.source = Path(path)
    return run


def import_weights(path: Place, out: Place) -> tuple[Run, Pretrained]:
    """A run with the weights at a path, in a new folder: whole, or not at all."""
    out = Path(out)
    check_free(out)
    found = read_pretrained(path)
    found.check()
    sections = {**_sections_of(found), "kind": found.kind, "model": to_dict(found.config), "imported": found.origin}
    files.make_folder(out.parent, parents=True)
    part = out.parent / f".{out.name}-{os.getpid()}.part"
    try:
        files.make_folder(part)
        run = Run.begin(part, sections)
        if found.tokenizer is not None:
            run.write("tokenizer.json", _checked_tokenizer(found))
            if found.chat is not None:
                run.write(CHAT_TEMPLATE, found.chat.to_json())
        run.publish(save({name: tensor.contiguous() for name, tensor in found.state.items()}))
        os.replace(part, out)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return Run.open(out), found


def _sections_of(found: Pretrained) -> Mapping[str, Any]:
    """Of the first recipe that reads such data; a model without one is still loaded, checked and started
    from."""
    for name in registry.entries("recipes"):
        sections = get_recipe(name).adopt(found)
        if sections is not None:
            return {"recipe": name, **sections}
    return {"module": registry.find("models", found.kind).__name__}


def _checked_tokenizer(found: Pretrained) -> dict[str, Any]:
    """The content of tokenizer.json, once it is sure that it can be used and that the model knows its ids."""
    assert found.tokenizer is not None
    try:
        tokenizer = from_json({**found.tokenizer, FRAMED: {"ends": []}})
        known = [id for id in found.ends if id < tokenizer.size]
        tokenizer = from_json({**found.tokenizer, FRAMED: {"ends": known}})
    except ValueError as error:
        raise RegardError(f"the tokenizer of {found.where} cannot be used: {error}") from error
    if tokenizer.size > found.config.vocab:
        raise RegardError(
            f"the tokenizer of {found.where} has {tokenizer.size} ids, but the model knows {found.config.vocab} only"
        )
    return tokenizer.to_json()


def _name_of(path: Path) -> str:
    """The name of an import in the cache: another one when a file of it has changed."""
    path = path.resolve()
    told = [str(path), str(FORMAT)]
    for file in sorted(path.iterdir()) if path.is_dir() else [path]:
        status = file.stat()
        told.append(f"{file.name} {status.st_size} {status.st_mtime_ns}")
    digest = hashlib.sha256("\n".join(told).encode("utf-8", "surrogateescape")).hexdigest()
    return f"{path.name[:NAMED]}-{digest[:16]}"
