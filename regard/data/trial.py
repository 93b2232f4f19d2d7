"""What a file of others makes a library do is tried in a process of its own first, with little memory and little time:
nothing in this process could stop it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from regard.errors import RegardError

BOUNDED = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, ({memory}, {memory}))
except (ImportError, ValueError, OSError):
    pass
given = json.load(sys.stdin)
"""


def run_trial(program: str, given: Any, *, what: str, seconds: float, memory: int) -> None:
    """Run a program that knows `given`, and raise with the last line of its error unless it ends well and in time."""
    if not sys.executable:  # inside another program: there is no Python to start
        return
    # -P: no module is ever taken from the working folder, which may be full of somebody's data
    path = json.dumps([each for each in sys.path if each], allow_nan=False)
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", BOUNDED.format(memory=memory) + program, path],
            input=json.dumps(given, allow_nan=False).encode(),
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise RegardError(f"{what} did not end within {seconds:.0f} seconds") from error
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        last = " ".join(said[-1].split())[:300] if said else f"it ended with {done.returncode}"
        raise RegardError(last.partition("RegardError: ")[2] or f"{what} cannot be used: {last}")
