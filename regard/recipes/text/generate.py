"""Text that a trained decoder generates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

from torch import nn

from regard.data.chat_template import ChatTemplate
from regard.data.tokenizer import Tokenizer, unknown_words
from regard.errors import RegardError
from regard.generation.generate import check_generates, generate, generate_texts
from regard.generation.sampling import Sampling


@dataclass(frozen=True, kw_only=True)
class GenerateOptions(Sampling):
    """The prompt, and how to choose each next token from its probabilities."""

    prompt: str = ""  # the text to continue; empty: the beginning of a line
    # a question to a model of conversations, put into its chat template; only the answer is written
    chat: str = ""
    # a text file (UTF-8) with a prompt in each line: all of them are continued, many at once
    prompts: str | None = None
    # with --prompts: write a line of JSON for each text to this file (.jsonl): "prompt", "text" and "finish"
    out: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        given = [name for name in ("chat", "prompt", "prompts") if getattr(self, name)]
        if len(given) > 1:
            raise RegardError(f"--{given[0]} and --{given[1]} are both given; leave one of them out")
        if self.out is not None and self.prompts is None:
            raise RegardError("--out is for the texts of --prompts FILE; without it, texts are printed")
        if self.out is not None and not self.out.lower().endswith(".jsonl"):
            raise RegardError(f"--out writes lines of JSON to a file that ends in .jsonl, got {self.out}")
        if self.prompts is not None and self.beams > 1:
            raise RegardError(
                "--prompts samples many texts at once and takes no --beams; leave one of them out"
            )


def write(
    model: nn.Module,
    options: GenerateOptions,
    note: Callable[[str], None],
    template: ChatTemplate | None = None,
) -> Iterator[str]:
    """The prompt and its continuation, piece by piece; several samples one after another, each with its
    number. template: of a chat, whose answer alone is written"""
    check_generates(model)
    prompt, shown, stop = options.prompt, options.prompt, options.stop
    if template is not None:
        messages = [{"role": "user", "content": options.chat}]
        prompt, shown = template.prompt(messages, getattr(model, "tokenizer", None)), ""
        stop = (*stop, template.end) if template.end else stop
    tokenizer: Any = getattr(model, "tokenizer", None)
    if isinstance(tokenizer, Tokenizer):
        unknown = unknown_words(tokenizer, prompt)
    else:
        unknown = None
    if unknown is not None:
        note(unknown)
    sampling = Sampling(**{field.name: getattr(options, field.name) for field in fields(Sampling)})
    sampling = replace(sampling, stop=stop)
    if sampling.samples > 1:
        for number, text in enumerate(generate_texts(model, prompt, sampling=sampling), 1):
            yield f"── {number} ──\n{shown}{text}\n"
        return
    pieces = generate(model, prompt, sampling=sampling)
    first = next(pieces, "")  # a prompt that cannot be encoded raises before anything is shown
    yield shown + first
    yield from pieces
    yield "\n"
