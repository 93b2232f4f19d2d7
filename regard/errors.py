"""What a user can mend, and the name that was probably meant. Anything else that is raised is a bug.

A message names an option as it is typed: --data.label. The functions of `regard` say it as Python gives it.
"""

import re
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

LIKE = 0.5  # of the letters of a name, for one to be meant by another
LONGEST = 1000  # characters of a message; what it quotes may be as long as a file
OPTION = re.compile(r"--([a-z][a-z._-]*[a-z])(?: ((?:\d[\d.]*\d|\d|[A-Z]+)\b))?")  # --data.folds 5, --data FILE
START = re.compile(r"--from (?!(?:of|if|to|and)\b)([^\s;,)]+)")  # with the run that it names
KEYWORDS = {"resume": "resume=True", "no_report": "report=False", "from": "start="}
CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")  # what a terminal would obey, or could not show


class RegardError(ValueError):
    """Something that a user can mend: the message says what was given, what was expected and what to do.

    It is one line, whatever it quotes: controls are written out, and what is very long is cut in the middle.
    Where it is about an option, the message is what comes after the option's name: "must be above 0, got -1".
    """

    def __init__(self, message: str = "", *, option: str | None = None) -> None:
        self.option, self.text = option, str(message)
        super().__init__(self.about(option))

    @property
    def is_dotted(self) -> bool:
        """Is it about an option of a command, such as train.lr? (Others are about a field of one config.)"""
        return "." in (self.option or "")

    def about(self, option: str | None) -> str:
        """The message with another name of its option, such as --train.lr for train.lr."""
        return _in_one_line(f"{option} {self.text}" if option else self.text)

    def as_typed(self) -> str:
        """The message with its option as it is typed: --train.save-minutes for train.save_minutes."""
        return self.about(f"--{self.option.replace('_', '-')}" if self.option and self.is_dotted else self.option)


def name_keywords(function: Callable[P, T]) -> Callable[P, T]:
    """Let the errors of a function name options as its caller gives them: resume=True for --resume, and
    options={"train.lr": ...} for the one that is wrong. `typed` of the error is what a command says."""
    code: Any = getattr(function, "__code__", None)
    known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]

    def in_python(found: re.Match[str]) -> str:
        option, value = found[1].replace("-", "_"), found[2]
        if option in KEYWORDS or option in known:
            return KEYWORDS.get(option, f"{option}=") + (value or "")
        if "." not in option:
            return found[0]
        return f"{option}={value}" if value else option

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except (RegardError, OSError) as error:
            about = vars(error)
            if len(error.args) == 1 and "typed" not in about:
                message, about["typed"] = str(error), str(error)
                if isinstance(error, RegardError):
                    about["typed"] = error.as_typed()
                    message = error.about(f'options={{"{error.option}": ...}}') if error.is_dotted else message
                named = START.sub(lambda found: f"start={found[1]!r}", message)
                error.args = (OPTION.sub(in_python, named),)
            raise

    return call


def _in_one_line(message: str) -> str:
    if CONTROLS.search(message):
        message = CONTROLS.sub(lambda found: _written_out(found[0]), message)
    if len(message) > LONGEST:
        message = f"{message[: LONGEST * 2 // 3]} … {message[-LONGEST // 4 :]}"
    return message


def _written_out(sign: str) -> str:
    return " " if sign in "\n\r\t" else f"\\x{ord(sign):02x}"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like this one, or None if none is like it. Of dotted names, the last parts must be
    alike, too."""
    from difflib import get_close_matches  # here: it is needed only when something is wrong

    def last(each: str) -> str:
        return each.rpartition(".")[2]

    close = get_close_matches(str(name), list(known), n=3, cutoff=LIKE)
    return next((each for each in close if get_close_matches(last(str(name)), [last(each)], cutoff=LIKE)), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """ "did you mean 'x'? ", to go before what else is said; nothing if no known name is like this one."""
    near = nearest(name, known)
    if near:
        return f"did you mean '{near}'? "
    return ""
