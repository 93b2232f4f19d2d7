"""Exceptions that a check swallows, because a model may refuse what is tried with it. `regard check --debug`
shows them all."""

from __future__ import annotations

import logging

LOG = logging.getLogger("regard.check")


def note_swallowed(error: BaseException, doing: str) -> None:
    """Say what was being done, with the traceback, to whoever listens at the level of debug."""
    LOG.debug("swallowed while %s: %s: %s", doing, type(error).__name__, error, exc_info=error)
