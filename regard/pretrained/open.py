"""A path that holds weights of others: a Hugging Face directory, or a GGUF file."""

from __future__ import annotations

from pathlib import Path

from regard import files
from regard.errors import RegardError
from regard.pretrained.beside import add_what_is_beside
from regard.pretrained.gguf import is_gguf, read_gguf
from regard.pretrained.hugging_face import is_hugging_face, read_directory
from regard.pretrained.weights import Pretrained


def is_foreign(path: files.PathLike) -> bool:
    """Does a path hold weights of others, of a kind that may be imported?"""
    return is_hugging_face(path) or is_gguf(path)


def read_pretrained(path: files.PathLike) -> Pretrained:
    """The model at a path, as one of ours, with its tokenizer or its preprocessing."""
    path = Path(path)
    if is_hugging_face(path):
        return add_what_is_beside(read_directory(path), path)
    if is_gguf(path):
        return read_gguf(path)
    if not path.exists():
        raise RegardError(f"there is no {path}; give a Hugging Face directory or a GGUF file")
    raise RegardError(f"{path} is no Hugging Face directory (it has no config.json with a model_type) and no GGUF file")
