"""Are minutes minutes? `regard train` with a budget, on a quiet machine, with other work on every core, and with other work
that comes and goes; each a process of its own.

python benchmarks/minutes.py                                every kind of data, half a minute each; writes results.md
python benchmarks/minutes.py --minutes 0.3 --recipes text   sooner; writes nothing
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from alternate import keep, table

from regard import registry
from regard.runs.run import Run

RESULTS = Path(__file__).with_name("results.md")
MINUTES = 0.5
RECIPES = tuple(registry.entries("recipes"))
COMES, GOES = 20.0, 15.0  # seconds of quiet before other work begins, and of that work, again and again


def burn(comes: float, goes: float) -> None:
    """Keep a core busy for `goes` seconds after each `comes` of quiet."""
    while True:
        time.sleep(comes)
        until = time.perf_counter() + goes
        while time.perf_counter() < until:
            sum(range(10_000))


@contextmanager
def other_work(comes: float, goes: float) -> Iterator[None]:
    """One busy process for each core; none if `goes` is 0."""
    count = len(os.sched_getaffinity(0)) if goes else 0
    workers = [multiprocessing.Process(target=burn, args=(comes, goes), daemon=True) for _ in range(count)]
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        for worker in workers:
            worker.kill()


MACHINES: dict[str, Callable[[], object]] = {
    "quiet": lambda: other_work(0.0, 0.0),
    "busy": lambda: other_work(0.0, 3600.0),
    "busy now and then": lambda: other_work(COMES, GOES),
}


def train(recipe: str, minutes: float, folder: Path) -> list[object]:
    """One run: the seconds of training and of the whole command as shares of the budget, steps, evaluations, threads."""
    command = [sys.executable, "-m", "regard", "train", recipe, "--train.minutes", str(minutes), "--out", str(folder)]
    began = time.perf_counter()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    whole = time.perf_counter() - began
    run = Run.open(folder)
    events = list(run.metrics())
    evaluations = [event for event in events if event["event"] == "validation"]
    trained = max(event["seconds"] for event in events if "seconds" in event)
    threads = next((line for line in done.stdout.splitlines() if "a step (" in line), "")
    shares = [f"{seconds / 60 / minutes:.2f}" for seconds in (trained, whole)]
    return [*shares, run.config.steps, len(evaluations), threads.removeprefix("note: ").partition(";")[0]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=MINUTES)
    parser.add_argument("--recipes", nargs="+", default=list(RECIPES))
    parser.add_argument("--machines", nargs="+", default=list(MACHINES), choices=list(MACHINES))
    given = parser.parse_args()
    rows = []
    for machine in given.machines:
        for recipe in given.recipes:
            with tempfile.TemporaryDirectory() as folder, MACHINES[machine]():
                rows.append([machine, recipe, *map(str, train(recipe, given.minutes, Path(folder) / "run"))])
            print(*rows[-1], sep="  ", flush=True)
    names = ["machine", "recipe", "training", "whole command", "steps", "evaluations", "threads"]
    text = (
        f"`python benchmarks/minutes.py`: `regard train RECIPE --train.minutes {given.minutes:g}` with its defaults; training "
        "and the whole command (imports, data, laws, report) as shares of the budget. Busy: one process on each core that does "
        f"nothing but count; now and then: {GOES:g} s of that after each {COMES:g} s without.\n\n{table(names, rows)}"
    )
    print(text)
    if (given.minutes, given.recipes, given.machines) == (MINUTES, list(RECIPES), list(MACHINES)):
        keep(RESULTS, "Minutes are minutes", text)


if __name__ == "__main__":
    main()
