"""Ctrl-C, SIGTERM, and SIGHUP of a terminal that is closed: training saves and stops at the next step. A
second signal stops at once."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any

HANGUP = getattr(signal, "SIGHUP", None)  # Windows has none


class Stopped(Exception):
    """An evaluation was stopped before its end."""


class Stop:
    """`with Stop() as stop:` then check `stop.wished` between steps."""

    def __init__(self) -> None:
        self.wished = False
        self.before: dict[int, Any] = {}
        self.terminals: list[int] = []

    def __enter__(self) -> Stop:
        if threading.current_thread() is threading.main_thread():  # others may not handle signals
            self.before = {each: signal.signal(each, self._heard) for each in _signals()}
            self.terminals = [each for each in (1, 2) if os.isatty(each)]
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        for each, handler in self.before.items():
            signal.signal(each, handler)

    def _heard(self, number: int, frame: FrameType | None) -> None:
        if number == HANGUP:
            self._leave_terminal()
        elif self.wished:
            raise KeyboardInterrupt
        self.wished = True

    def _leave_terminal(self) -> None:
        """What is printed from now on goes nowhere: a terminal that is gone would raise errors."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for each in self.terminals:
            os.dup2(nowhere, each)
        os.close(nowhere)


def _signals() -> list[int]:
    """The signals that stop a training. nohup asks that SIGHUP does nothing, and so does &disown of a
    shell."""
    found = [signal.SIGINT, signal.SIGTERM]
    if HANGUP is not None and signal.getsignal(HANGUP) != signal.SIG_IGN:
        found.append(HANGUP)
    return [int(each) for each in found]
