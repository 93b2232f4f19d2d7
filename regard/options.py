"""Words of the command line as settings: read by tyro for one concrete dataclass, with errors of one line."""

from __future__ import annotations

import contextlib
import io
import sys
import time
from collections.abc import Callable
from typing import Any

import tyro

from regard import config as configs
from regard.decode import Sampling
from regard.recipes import UNKNOWN, find_recipe

PATIENCE = 3.0  # seconds without a word that a log can bear
FOLLOWS = ("model.vocab", "model.context", "model.classes")  # what the data decides


def read(recipe: str, path: str | None, kind: str | None, words: list[str]) -> dict[str, Any]:
    """The settings that differ from the recipe's defaults, by dotted name."""
    default = find_recipe(recipe, path, kind)
    chosen = parse(type(default), words, default, f"regard train {recipe}")
    changed = {key: value for key, _, value in configs.differences(default, chosen)}
    for key in FOLLOWS:
        if key in changed:
            instead = "; give --data.context" if key == "model.context" else ""
            raise ValueError(f"--{key} follows from the data, so it cannot be set{instead}")
    return changed


def help_text(recipe: str, path: str | None, kind: str | None) -> str:
    """Every option of a recipe with its default."""
    default = find_recipe(recipe, path, kind)
    shown = io.StringIO()
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(shown):
        tyro.cli(type(default), args=["--help"], default=default, prog=f"regard train {recipe}")
    return (
        f"{type(default).__doc__}\n\n"
        "Besides: --data PATH  --model KIND  --from RUN  --out DIR  --resume. --data and --model choose the defaults below.\n"
        f"A default of {UNKNOWN} for model.vocab and model.context means that they follow from the data.\n\n{shown.getvalue()}"
    )


def read_sampling(words: list[str]) -> tuple[dict[str, Any], list[str]]:
    """Settings of `generate` that differ from the defaults, and the words that are none."""
    own, rest = [], []
    names = {"--" + name.replace("_", "-") for name in configs.to_dict(Sampling())}
    words = list(words)
    while words:
        word = words.pop(0)
        if word.partition("=")[0].replace("_", "-") not in names:
            rest.append(word)
            continue
        own.append(word)
        while "=" not in word and words and not words[0].startswith("--"):
            own.append(words.pop(0))
            if word != "--stop":
                break
    chosen = parse(Sampling, own, Sampling(), "regard generate")
    return {key: value for key, _, value in configs.differences(Sampling(), chosen)}, rest


def sampling_help() -> str:
    """Every option of `generate` with its default."""
    shown = io.StringIO()
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(shown):
        tyro.cli(Sampling, args=["--help"], prog="regard generate")
    return shown.getvalue().partition("\n\n")[2]  # the usage is said already


def parse(cls: type[Any], words: list[str], default: Any, program: str) -> Any:
    """tyro, but what is wrong is a ValueError of one line."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return tyro.cli(cls, args=words, default=default, prog=program)
    except SystemExit:
        lines = [line.strip() for line in said.getvalue().splitlines()]
        lines = [line for line in lines if line.strip("─-╭╮╰╯│ ") and not line.startswith("For full helptext")]
        message = " ".join(lines[1:] or lines) or "the options could not be read"
        raise ValueError(f"{message}; see: {program} --help") from None


def note() -> Callable[[str, float | None], None]:
    """Tells on stderr what is being prepared: one line that lives on a terminal; elsewhere a line for what takes long."""
    last, began = "", time.monotonic()

    def tell(what: str, share: float | None) -> None:
        nonlocal last
        if sys.stderr.isatty():
            done = "" if share is None else f" {share:.0%}"
            sys.stderr.write("\r\033[K" if share == 1 else f"\r\033[K{what}{done}")
        elif what != last and time.monotonic() - began > PATIENCE:
            sys.stderr.write(f"{what}\n")
            last = what
        sys.stderr.flush()

    return tell
