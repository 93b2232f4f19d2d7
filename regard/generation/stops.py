"""Texts that end a generation."""

from __future__ import annotations


class Stops:
    """Lets text through up to a stop text, and holds back what might be the beginning of one."""

    def __init__(self, stop: tuple[str, ...]) -> None:
        self.stop, self.held, self.done = stop, "", False

    def add(self, text: str) -> str:
        """What may be written now."""
        if self.done:
            return ""
        self.held += text
        ends = [(self.held.find(stop) + len(stop), self.held.find(stop)) for stop in self.stop if stop in self.held]
        if ends:
            self.done = True
            return self.let(min(ends)[1])  # the one that was complete first
        return self.let(len(self.held) - max((_overlap(self.held, stop) for stop in self.stop), default=0))

    def rest(self) -> str:
        if self.done:
            return ""
        return self.let(len(self.held))

    def let(self, size: int) -> str:
        out, self.held = self.held[:size], self.held[size:]
        return out


def _overlap(text: str, stop: str) -> int:
    """How many characters at the end of the text are a beginning of the stop text."""
    return next((size for size in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:size])), 0)
