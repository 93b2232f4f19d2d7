"""Ctrl-C and SIGTERM: training saves and stops at the next step. A second signal stops at once."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class Stop:
    """`with Stop() as stop:` then check `stop.wished` between steps."""

    def __init__(self) -> None:
        self.wished = False
        self.before: dict[int, Any] = {}

    def __enter__(self) -> Stop:
        if threading.current_thread() is threading.main_thread():  # others may not handle signals
            self.before = {each: signal.signal(each, self._heard) for each in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        for each, handler in self.before.items():
            signal.signal(each, handler)

    def _heard(self, number: int, frame: FrameType | None) -> None:
        if self.wished:
            raise KeyboardInterrupt
        self.wished = True
