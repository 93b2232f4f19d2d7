"""Names for classes that are numbers in the data: given one by one, or in a file with one name a line."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

from regard.data.text_files import read_lines
from regard.errors import RegardError


def read_names(given: Sequence[str]) -> tuple[str, ...]:
    """The names in `cat,dog`, in a file, or as they are. Raise if one is empty or there twice."""
    names = [given] if isinstance(given, str) else list(given)
    if len(names) == 1 and os.path.isfile(os.path.expanduser(names[0])):
        lines = [line.strip() for line in read_lines(os.path.expanduser(names[0]))]
        while lines and not lines[-1]:
            lines.pop()
        names, where = lines, f"line {{}} of {names[0]}"
    else:
        if len(names) == 1 and "," not in names[0]:
            raise RegardError(
                f"names must be the names of at least two classes, as cat,dog, or a file with one name a line, "
                f"got {names[0]!r}, and there is no file of this name"
            )
        if len(names) == 1:
            names = names[0].split(",")
        names, where = [name.strip() for name in names], "name {}"
    for number, name in enumerate(names, start=1):
        if not name:
            raise RegardError(f"names must not be empty, got an empty one: {where.format(number)}")
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        number = [i for i, name in enumerate(names, start=1) if name == twice][1]
        raise RegardError(f"names must be different, got '{twice}' a second time: {where.format(number)}")
    return tuple(names)


def check_names(names: Sequence[str], labels: Sequence[str], what: str) -> None:
    """Raise unless there is one name for each class. labels: as the data has them, in order"""
    if len(names) != len(labels):
        classes = f"{len(labels):,} classes ({labels[0]} … {labels[-1]})" if labels else "no classes"
        raise RegardError(
            f"{what} has {classes}, and {len(names):,} names are given ({names[0]} … {names[-1]}); give one for "
            "each class, in the order of the numbers"
        )
