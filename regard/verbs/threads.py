"""What must be said before torch is loaded: how threads wait for each other, and what several processes print."""

import os

SPINS = "1000"  # about as long as it takes to wake a thread


def wait_passively() -> None:
    """Threads that wait for others soon sleep. By default they keep their core busy for milliseconds, and on a
    machine with other work to do a step may then take fifty times as long. What the user has set stays.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)


def speak_once() -> None:
    """Of several processes, each would print torch's advice to programmers. What the user has set stays."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
