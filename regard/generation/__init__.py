"""Text from a model: sampling and beam search over slots, and one step of a decoder in C++."""

from __future__ import annotations

from typing import Literal

# what the numbers of the weights are while a text is written (docs/generation.md)
Weights = Literal["auto", "float32", "bfloat16", "int8", "int4"]
