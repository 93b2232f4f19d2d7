"""By which measure weights are kept."""

from __future__ import annotations

from typing import Any

from regard.errors import RegardError, did_you_mean


def find_measure(keep: str, task: Any) -> str:
    """The measure that --train.keep means, in capitals or not; auto: the one that the task is best judged by."""
    if keep == "auto":
        usual: str = getattr(task, "best_by", "loss")
        return usual
    known: tuple[str, ...] | None = getattr(task, "measures", None)
    if known is None:  # its first evaluation will show
        return keep
    by_word = {name.lower(): name for name in known}
    if keep.lower() in by_word:
        return by_word[keep.lower()]
    words = ("auto", *by_word)
    raise RegardError(
        f"weights cannot be kept by {keep!r}; {did_you_mean(keep.lower(), words)}known here: {', '.join(words)}"
    )
