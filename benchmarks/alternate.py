"""Fair timing on a noisy machine: contestants take turns, and medians are compared."""

from __future__ import annotations

import ctypes
import gc
import random
import statistics
import time
from collections.abc import Callable, Iterable
from pathlib import Path

Work = Callable[[], object]


def take_turns(
    work: dict[str, Work], *, seconds: float = 2.0, least: int = 3, timer: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Median seconds of each contestant. They alternate until `seconds` have passed and each had `least` turns.

    In each round in another order: what one leaves in caches and in the heap is there for the next.

    timer: time.process_time counts what the processor does for us, and not what it does for others meanwhile.
    """
    times: dict[str, list[float]] = {name: [] for name in work}
    for run in work.values():
        run()  # the first run pays for allocations and caches
    repeat = {name: max(1, int(0.002 / max(clock(run), 1e-9))) for name, run in work.items()}  # short work in bundles
    order, draw, started = list(work), random.Random(0), time.perf_counter()
    while time.perf_counter() - started < seconds or min(len(t) for t in times.values()) < least:
        draw.shuffle(order)
        for name in order:
            begin = timer()
            for _ in range(repeat[name]):
                work[name]()
            times[name].append((timer() - begin) / repeat[name])
    return {name: statistics.median(t) for name, t in times.items()}


def clock(run: Work) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def extra_memory(run: Work) -> float:
    """Megabytes that a call needs at its peak beyond what was in use before it (Linux)."""
    run()  # what is built once and kept is not counted
    gc.collect()
    # what was freed goes back to the system, or it would hide what is needed
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak
    before = memory_line("VmRSS")
    run()
    return max(0.0, memory_line("VmHWM") - before)


def memory_line(name: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"/proc/self/status has no line {name}")


def table(headers: list[str], rows: Iterable[list[str]]) -> str:
    """Markdown, so that it can be kept as it was seen."""
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def keep(path: Path, title: str, text: str) -> None:
    """Put a result under its title in a file of results, in place of the one that was there."""
    old = (
        path.read_text()
        if path.exists()
        else "# Results\n\nAs they were seen; ratios count, seconds are one machine's.\n"
    )
    parts = old.split("\n## ")
    kept = [part for part in parts if not part.startswith(title + "\n")]
    path.write_text("\n## ".join([part.rstrip() + "\n" for part in kept] + [f"{title}\n\n{text.rstrip()}\n"]))
