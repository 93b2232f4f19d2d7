"""What this machine has: its memory, and what of it this process took."""

import os
import sys
from pathlib import Path

OF_A_CGROUP = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
UNKNOWN = 2**63 - 1  # of a system that does not tell


def memory_of_machine() -> int:
    """Bytes that all processes here can have together."""
    try:
        found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    except (AttributeError, ValueError, OSError):
        return UNKNOWN
    for path in OF_A_CGROUP:
        try:
            found.append(int(Path(path).read_text("ascii")))
        except (OSError, ValueError):  # there is none, or it says "max"
            continue
    return min(found)


def free_memory() -> int:
    """Bytes that this process could have now, as Linux estimates it; else all that there are."""
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
        found = next(line.split()[1] for line in lines if line.startswith("MemAvailable:"))
        return min(memory_of_machine(), 1024 * int(found))
    except (OSError, StopIteration, ValueError):
        return memory_of_machine()


def peak_memory() -> int:
    """Bytes that this process had at most so far; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    found = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return found if sys.platform == "darwin" else 1024 * found


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
