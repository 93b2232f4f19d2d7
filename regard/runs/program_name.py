"""How this program was called, so that a command it suggests can be typed as it stands."""

import os
import shlex
import shutil
import sys


def _program() -> str:
    """`regard` where that is found, else as it was called: .venv/bin/regard, or .venv/bin/python -m
    regard."""
    first = sys.argv[0]
    if shutil.which("regard") is None:
        if os.path.basename(first) == "regard" and os.path.isfile(first):
            return shlex.quote(first)
        if first.endswith(os.path.join("regard", "__main__.py")):
            return f"{shlex.quote(sys.orig_argv[0])} -m regard"
    return "regard"


def shell_command(command: str) -> str:
    """A command that begins with `regard`, as it has to be typed here."""
    return _program() + command.removeprefix("regard")
