"""Figures in words, the same wherever they are written."""

from __future__ import annotations


def say_loss(loss: float) -> str:
    """As it is written everywhere: four decimals, or as many as show three digits of a small one."""
    if loss == 0 or not abs(loss) < 0.01:
        return f"{loss:.4f}"
    return f"{loss:.3g}"
