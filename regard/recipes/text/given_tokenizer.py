"""The tokenizer that a user names: a tokenizer.json, or the folder of a run or of a model that holds one."""

from __future__ import annotations

from pathlib import Path

from regard.data.tokenizer import Tokenizer, load
from regard.runs.run import Run


def load_given_tokenizer(path: str) -> Tokenizer:
    """The tokenizer at this path; that of a run only if it is as it was written."""
    folder = Path(path)
    if folder.name == "tokenizer.json" and not folder.is_dir():
        folder = folder.parent
    if Run.exists(folder):
        return load(Run.open(folder).verify("tokenizer.json"))
    return load(path)
