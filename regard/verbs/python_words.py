"""Errors that name options of the command line, in the words of Python: resume=True for --resume."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from regard.errors import RegardError
from regard.files import say_again

P = ParamSpec("P")
T = TypeVar("T")
KEYWORDS = {"--resume": "resume=True", "--out": "out=", "--from": "start=", "--no-report": "report=False"}
OPTIONS = re.compile("|".join(rf"{option}(?![\w.-])" for option in KEYWORDS))
# with the run that it names: --from runs/mine
START = re.compile(r"--from (?!of\b)([^\s;,)]+)")


def speak_python(function: Callable[P, T]) -> Callable[P, T]:
    """Let what a function raises name its keyword arguments, not the options of a command."""

    @wraps(function)
    def translated(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except RegardError as error:
            if "." in (error.option or ""):
                raise RegardError(error.about(f'options={{"{error.option}": ...}}')) from error
            if OPTIONS.search(str(error)):
                raise RegardError(_translate(str(error))) from error
            raise
        except OSError as error:
            if OPTIONS.search(str(error)) and len(error.args) == 1:
                raise say_again(error, _translate(str(error))) from error
            raise

    return translated


def _translate(words: str) -> str:
    words = START.sub(lambda found: f"start={found[1]!r}", words)
    return OPTIONS.sub(lambda found: KEYWORDS[found[0]], words)
