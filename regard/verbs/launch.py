"""--train.processes N: the same command in N processes on this machine, which torchrun starts and watches."""

import os
import sys
from typing import Any

from regard.errors import RegardError

OPTION = "--train.processes"
MOST_PER_CORE = 8
RESTARTS = 3  # a process that dies is started again so often


def wanted_processes(words: list[str], resume: bool, out: str | None, recipe: str) -> int:
    """How many processes a command asks for: by its option, or, when a run goes on, by that of its start."""
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name == OPTION:
            given = value if equals else (words[place + 1] if place + 1 < len(words) else "")
            return _read_count(given)
    if not resume:
        return 1
    from regard.runs.new_run import latest_run_path
    from regard.runs.run import Run

    place_of_run = out or latest_run_path(recipe)
    if not Run.exists(place_of_run):
        return 1
    return (Run.open(place_of_run).config.train or {}).get("processes") or 1


def is_worker() -> bool:
    """Was this process started by torchrun?"""
    return "TORCHELASTIC_RUN_ID" in os.environ or int(os.environ.get("WORLD_SIZE", "1")) > 1


def launch(count: int, words: list[str]) -> int:
    """Run `regard train` with these words in so many processes; returns the exit code."""
    from regard.machine import cores

    here = cores()
    if count > MOST_PER_CORE * here:
        raise RegardError(
            f"{count} processes are too many for {here} cores; use {OPTION} {here}, or torchrun on several machines"
        )
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, here // count)))
    import logging

    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    logging.getLogger("torch.distributed").setLevel(logging.CRITICAL)  # the processes tell what went wrong
    config: dict[str, Any] = {
        "min_nodes": 1,
        "max_nodes": 1,
        "nproc_per_node": count,
        "rdzv_backend": "c10d",
        "rdzv_endpoint": "localhost:0",  # a free port
        "run_id": f"regard-{os.getpid()}",
        "max_restarts": RESTARTS,
        "monitor_interval": 0.1,
    }
    program, *start = _this_program()
    try:
        elastic_launch(LaunchConfig(**config), program)(*start, "train", *words)
    except ChildFailedError as error:
        codes = {rank: each.exitcode for rank, each in error.failures.items()}
        if 2 not in codes.values() and 130 not in codes.values():
            first = min(codes)
            raise RegardError(
                f"rank {first} was ended by signal {-codes[first]} and started again {RESTARTS} times at most; go on "
                "with --resume"
            ) from error
        return 130 if 130 in codes.values() else 2
    except SignalException:
        return 130
    return 0


def _this_program() -> list[str]:
    """How this process was started: the script regard, or python -m regard."""
    script = sys.argv[0]
    if os.path.basename(script).startswith("regard") and os.access(script, os.X_OK):
        return [script]
    return [sys.executable, "-m", "regard"]


def _read_count(given: str) -> int:
    if given.isdecimal() and int(given) > 0:
        return int(given)
    if given in ("None", "none"):
        return 1
    raise RegardError(f"{OPTION} must be a whole number above 0, got {given!r}")
