"""On what a process computes: all that the last bit of a loss may depend on. Who ran it, where and with which
command is nobody's business, and is told only if asked for."""

from __future__ import annotations

import getpass
import os
import platform
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any


def environment(provenance: bool = False) -> dict[str, Any]:
    """On what this process computes; with provenance also the command, the folder, the user and the
    machine."""
    import torch  # here: words about commands need no torch

    found = {
        "regard": version(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "platform": platform.platform(),
        "processor": _processor(),
        "threads": torch.get_num_threads(),
    }
    if provenance:
        found |= {"command": sys.argv, "folder": os.getcwd(), "user": _user(), "machine": platform.node()}
    return found


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a number that no name belongs to
        return str(os.getuid())


def start_folder(run: Path) -> str:
    """Where a run is started, seen from its own folder: "../.." of runs/mine, which tells no names; the whole
    path only of a run that lies elsewhere."""
    here = Path.cwd()
    inside = run.resolve()
    if here not in inside.parents:
        return str(here)
    return "/".join([".."] * len(inside.relative_to(here).parts))


def _processor() -> str:
    """The name of the processor, as Linux tells it, or what Python knows."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def version() -> str:
    return str(sys.modules["regard"].__version__)


# ── how this program was called, so that a command it suggests can be typed as it stands


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
