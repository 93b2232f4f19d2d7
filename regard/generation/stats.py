"""How long a generation took, and of how many tokens."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Stats:
    """Tokens and seconds of a prompt and of what follows it. The first new token comes with the prompt."""

    prompt: int = 0
    prompt_seconds: float = 0.0
    written: int = 0  # in all samples together
    seconds: float = 0.0

    def __str__(self) -> str:
        """prompt: 12 tokens in 0.01 s, 1,200 tokens/s; decoding: ..."""
        parts = [_rate("prompt", self.prompt, self.prompt_seconds)]
        if self.written:
            parts.append(_rate("decoding", self.written, self.seconds))
        return "; ".join(parts)


def _rate(what: str, tokens: int, seconds: float) -> str:
    rate = tokens / seconds if seconds > 0 else 0.0
    return f"{what}: {tokens:,} tokens in {seconds:.3g} s, {rate:,.0f} tokens/s"
