"""Text that a trained decoder generates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

import torch

from regard.config import config
from regard.data.chat_template import ChatTemplate
from regard.data.tokenizer import Tokenizer, unknown_words
from regard.errors import RegardError
from regard.generation import Weights
from regard.generation.generate import Stats, check_generates, generate, generate_texts
from regard.generation.native.model import NativeModel
from regard.generation.sampling import Sampling
from regard.machine import peak_memory


@config
class GenerateOptions(Sampling):
    """The prompt, and how to choose each next token from its probabilities."""

    prompt: str = ""  # the text to continue; empty: the beginning of a line
    # a question to a model of conversations, put into its chat template; only the answer is written
    chat: str = ""
    # a text file (UTF-8) with a prompt in each line: all of them are continued, many at once
    prompts: str | None = None
    # with --prompts: write a line of JSON for each text to this file (.jsonl): "prompt", "text" and "finish"
    out: str | None = None

    # numbers of the weights: fewer bits are faster and less exact (docs/generation.md says which to take); auto:
    # those of a GGUF file, int8 for other large models, float32 for small ones
    weights: Weights = "auto"
    stats: bool = False  # say how many tokens a second were read and written, and how much memory it took

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
            raise RegardError("--prompts samples many texts at once and takes no --beams; leave one of them out")
        if self.stats and self.beams > 1:
            raise RegardError(f"--stats measures sampling, and beams={self.beams} is a beam search; leave one out")
        if self.stats and self.prompts is not None:
            raise RegardError("--stats measures one text, and --prompts has many; leave one of them out")


def write(
    model: Any, options: GenerateOptions, note: Callable[[str], None], template: ChatTemplate | None = None
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
    unknown = unknown_words(tokenizer, prompt) if isinstance(tokenizer, Tokenizer) else None
    if unknown is not None:
        note(unknown)
    sampling = Sampling(**{field.name: getattr(options, field.name) for field in fields(Sampling)})
    sampling = replace(sampling, stop=stop)
    stats = Stats()
    if sampling.samples > 1:
        for number, text in enumerate(generate_texts(model, prompt, sampling=sampling, stats=stats), 1):
            yield f"── {number} ──\n{shown}{text}\n"
    else:
        pieces = generate(model, prompt, sampling=sampling, stats=stats)
        first = next(pieces, "")  # a prompt that cannot be encoded raises before anything is shown
        yield shown + first
        yield from pieces
        yield "\n"
    if options.stats:
        note(f"{stats}; {_describe_memory(model)}")


def _describe_memory(model: Any) -> str:
    """What weights take, how they are read, and what the process took at most."""
    if isinstance(model, NativeModel):
        kinds = sorted({stored.kind for stored in model.packed.table.values()} - {"vector"})
        how = f"weights: {model.bytes / 1e6:,.0f} MB ({', '.join(kinds)}), native {model.library.path}, {model.threads} threads"
    else:
        size = sum(each.numel() * each.element_size() for each in model.parameters())
        dtype = str(next(model.parameters()).dtype).removeprefix("torch.")
        how = f"weights: {size / 1e6:,.0f} MB ({dtype}), PyTorch, {torch.get_num_threads()} threads"
    return f"{how}; memory at most: {peak_memory() / 1e6:,.0f} MB"
