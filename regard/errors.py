"""What a user can mend, and the name that was probably meant. Anything else that is raised is a bug."""

import re
from collections.abc import Iterable

LIKE = 0.5  # of the letters of a name, for one to be meant by another
LONGEST = 1000  # characters of a message; what it quotes may be as long as a file
CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")  # what a terminal would obey, or could not show


class RegardError(ValueError):
    """Something that a user can mend: the message says what was given, what was expected and what to do.

    It is one line, whatever it quotes: controls are written out, and what is very long is cut in the middle.
    Where it is about an option, the message is what comes after the option's name: "must be above 0, got -1".
    """

    def __init__(self, message: str = "", *, option: str | None = None) -> None:
        self.option, self.text = option, str(message)
        super().__init__(self.about(option))

    def about(self, option: str | None) -> str:
        """The message with another name of its option, such as --train.lr for train.lr."""
        return _in_one_line(f"{option} {self.text}" if option else self.text)


def _in_one_line(message: str) -> str:
    if CONTROLS.search(message):
        message = CONTROLS.sub(lambda found: _written_out(found[0]), message)
    if len(message) > LONGEST:
        message = f"{message[: LONGEST * 2 // 3]} … {message[-LONGEST // 4 :]}"
    return message


def _written_out(sign: str) -> str:
    if sign in "\n\r\t":
        return " "
    return f"\\x{ord(sign):02x}"


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
