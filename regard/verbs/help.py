"""What --help lists: each option of a config with its type, the comment of its field and its default."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import shutil
import textwrap
from collections.abc import Collection, Hashable, Iterator
from functools import cache, reduce
from typing import Any, Literal, cast, get_args, get_origin

from regard.config import is_rare, kind_of, kinds_of, options_of, plain_type, union_members, without_bounds

WIDEST = 118  # characters of a line
COLUMN = 28  # where explanations begin
NAMES = {int: "INT", float: "FLOAT", str: "TEXT"}


def list_options(default: Any, program: str, *, every: bool = False, hidden: Collection[str] = ()) -> str:
    """The options of a config with the values that this one has: the usual ones, or every one. Sections have titles."""
    lines, left_out = [], 0
    known = options_of(type(default))
    for section in dict.fromkeys(name.partition(".")[0] if "." in name else "" for name in known):
        names = [name for name in known if (name.partition(".")[0] if "." in name else "") == section]
        names = [name for name in names if name not in hidden]
        shown = [name for name in names if every or not is_rare(known[name])]
        left_out += len(names) - len(shown)
        if section:
            about = " ".join(inspect.cleandoc(getattr(default, section).__doc__ or "").split("\n\n")[0].split())
            lines += ["", *_wrap(f"{section}: {about}", "  ")]
        for name in shown:
            lines += _lines_of(default, name, known[name], every)
    if left_out:
        lines.append(f"{left_out} more options: {program} --help-all")
    return "\n".join(lines).strip("\n")


def describe(cls: Any) -> str:
    """The docstring of a config, in lines as wide as the terminal."""
    paragraphs = inspect.cleandoc(cls.__doc__ or "").split("\n\n")
    return "\n\n".join("\n".join(_wrap(" ".join(each.split()))) for each in paragraphs)


def _lines_of(default: Any, name: str, hint: Any, every: bool) -> list[str]:
    """An option: of a part that has kinds, the one that is chosen, its options, and with `every` those of all kinds."""
    part, _, last = name.rpartition(".")
    owner: Any = reduce(getattr, part.split("."), default) if part else default
    chosen = hasattr(owner, last)
    if not chosen and not every:
        return []
    if not chosen:
        owner = next(cls() for cls in kinds_of(options_of(type(default))[part]).values() if last in options_of(cls))
    comment, value = _comments_of(cast(Hashable, type(owner))).get(last, ""), getattr(owner, last)
    if not chosen and not comment.startswith(f"{kind_of(owner)}: "):
        comment = f"{kind_of(owner)}: {comment}"
    option = f"--{name.replace('_', '-')}"
    kinds = kinds_of(hint)
    if kinds:
        head, shown = f"{option} {{{','.join(kinds)}}}", kind_of(type(value))
    elif plain_type(hint) is bool:
        head, shown = f"{option}, {option.removesuffix(last.replace('_', '-'))}no-{last.replace('_', '-')}", str(value)
    else:
        several = isinstance(value, tuple)
        head, shown = f"{option} {_type_name(hint)}", ",".join(map(str, value)) or "none" if several else str(value)
    text = _wrap(f"{comment} (default: {shown})", " " * COLUMN)
    if len(head) + 4 > COLUMN:
        return [f"  {head}", *text]
    return [f"  {head:<{COLUMN - 2}}{text[0].strip()}", *text[1:]]


def _type_name(hint: Any) -> str:
    """INT; {pre,post}; INT,INT,... of a list."""
    plain = plain_type(hint)
    if get_origin(plain) is tuple:
        each = _type_name(get_args(plain)[0])
        return f"{each},{each},..."
    words = [str(word) for each in union_members(hint) if get_origin(each) is Literal for word in get_args(each)]
    if words:
        return f"{{{','.join(words)}}}"
    kinds = [without_bounds(each) for each in union_members(hint)]
    return "|".join(dict.fromkeys(NAMES[each] for each in kinds if each in NAMES)) or "VALUE"


def _wrap(text: str, indent: str = "") -> list[str]:
    width = min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns)
    return textwrap.wrap(
        text,
        max(width, COLUMN + 30),
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    )


# ── comments


@cache
def _comments_of(cls: Hashable) -> dict[str, str]:
    """What the source of a config says about each field: behind it, in the lines above it, or in a text below it."""
    found: dict[str, str] = {}
    for owner in reversed(inspect.getmro(cast(type, cls))):
        if dataclasses.is_dataclass(owner) and "__annotations__" in vars(owner):
            found |= dict(_comments_in(owner))
    return found


def _comments_in(cls: Any) -> Iterator[tuple[str, str]]:
    try:
        source = textwrap.dedent(inspect.getsource(cls))
    except (OSError, TypeError):  # made by `make_dataclass`: its sections have comments of their own
        return
    lines = source.splitlines()
    (tree,) = ast.parse(source).body
    assert isinstance(tree, ast.ClassDef)
    for node, after in zip(tree.body, [*tree.body[1:], None], strict=True):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        below = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and after.value.value
        behind = lines[(node.end_lineno or 0) - 1].encode()[node.end_col_offset or 0 :].decode().strip()
        above: list[str] = []
        for line in reversed(lines[: node.lineno - 1]):
            if not line.strip().startswith("#"):
                break
            above.insert(0, line.strip().removeprefix("#").strip())
        text = below if isinstance(below, str) else behind.removeprefix("#").strip() or " ".join(above)
        yield node.target.id, " ".join(text.split())
