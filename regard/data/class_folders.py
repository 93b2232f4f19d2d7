"""Folders of files of some kinds: one folder per class, or without classes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from regard.errors import RegardError


class ClassFile(NamedTuple):
    """A file and its class, the name of its folder; None: the file is in no class folder."""

    path: str
    label: str | None


def find_by_class(folder: str, endings: Iterable[str], what: str) -> list[ClassFile]:
    """All files with these endings in a folder. Hidden files do not count."""
    root = Path(folder).expanduser()
    found = sorted(path for path in root.rglob("*") if path.is_file() and not _hidden(path, root))
    files = [path for path in found if path.suffix.lower() in endings]
    if not files:
        others = f"; it has {len(found)} other files, the first is {found[0].name}" if found else ""
        raise RegardError(f"the folder {folder} holds no {what} ({', '.join(endings)}){others}")
    return [ClassFile(str(path), path.relative_to(root).parts[0] if path.parent != root else None) for path in files]


def _hidden(path: Path, root: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(root).parts)
