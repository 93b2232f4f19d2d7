"""Text that a trained decoder generates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any

from torch import nn

from regard.data.tokenizer import Tokenizer, unknown_words
from regard.generation.generate import check_generates, generate, generate_texts
from regard.generation.sampling import Sampling


@dataclass(frozen=True, kw_only=True)
class GenerateOptions(Sampling):
    """The prompt, and how to choose each next token from its probabilities."""

    prompt: str = ""  # the text to continue; empty: the beginning of a line


def write(model: nn.Module, options: GenerateOptions, note: Callable[[str], None]) -> Iterator[str]:
    """The prompt and its continuation, piece by piece; several samples one after another, each with its
    number."""
    check_generates(model)
    tokenizer: Any = getattr(model, "tokenizer", None)
    if isinstance(tokenizer, Tokenizer):
        unknown = unknown_words(tokenizer, options.prompt)
    else:
        unknown = None
    if unknown is not None:
        note(unknown)
    sampling = Sampling(**{field.name: getattr(options, field.name) for field in fields(Sampling)})
    if sampling.samples > 1:
        for number, text in enumerate(generate_texts(model, options.prompt, sampling=sampling), 1):
            yield f"── {number} ──\n{options.prompt}{text}\n"
        return
    pieces = generate(model, options.prompt, sampling=sampling)
    first = next(pieces, "")  # a prompt that cannot be encoded raises before anything is shown
    yield options.prompt + first
    yield from pieces
    yield "\n"
