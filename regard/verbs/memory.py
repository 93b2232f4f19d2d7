"""Memory that the machine does not have: asked for in vain, it is one line; taken for granted, it is the end
of the process, or of another one. So a command may have as much as there is, and hears of it when it asks for
more.
"""

from __future__ import annotations

import os
import re

from regard.machine import UNKNOWN, free_memory

# what PyTorch, numpy and Python say of memory that they did not get
ASKED = (
    re.compile(r"tried to allocate (\d+) bytes"),
    re.compile(r"[Tt]ried to allocate ([\d.]+ [KMGTPE]iB)"),
    re.compile(r"Unable to allocate ([\d.]+ [KMGTPE]?i?B|[\d.]+ bytes)"),
)
LOWER = {
    "train": "lower --train.batch, --data.context, --data.size or --model.dim, or set --train.recompute True",
    "generate": "lower --samples, --beams or --max-new",
    "check": "check a smaller model, or one with shorter inputs",
}
ACCELERATORS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dri/renderD128")
SHARE = 0.95  # of the free memory: the system needs some itself
OTHERS = "give a smaller input"


def limit_memory() -> None:
    """No more than the machine has left, for this process. Systems promise more than that, and then end
    whoever takes it. (The drivers of graphics cards map more than there is, so there everything stays as it
    was.)"""
    try:
        import resource
    except ImportError:  # not a Unix
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    there = int(SHARE * free_memory())
    free = soft == resource.RLIM_INFINITY and not any(map(os.path.exists, ACCELERATORS))
    if free and there < SHARE * UNKNOWN and (hard == resource.RLIM_INFINITY or there < hard):
        resource.setrlimit(resource.RLIMIT_DATA, (there, hard))


def out_of_memory(error: BaseException, command: str) -> str | None:
    """One line that says how much was asked for and what lowers it; None for an error of another kind."""
    text = " ".join(str(error).split())
    found = next((each.search(text) for each in ASKED if each.search(text)), None)
    vague = isinstance(error, MemoryError) or "can't allocate memory" in text or "out of memory" in text.lower()
    if found is None and not vague:
        return None
    lower = LOWER.get(command, OTHERS)
    if found is None:
        return f"there is not enough memory; {lower}"
    number = found[1]
    asked = f"{int(number):,} bytes" if number.isdecimal() else number
    return f"there is not enough memory: {asked} were asked for at once; {lower}"
