"""Texts of a model for programs on this machine: a server with the addresses of OpenAI's API."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from regard.errors import RegardError
from regard.generation.scheduler import Scheduler
from regard.generation.slots import make_slots
from regard.generation.writer import Writer
from regard.nn.linear import prepacked
from regard.recipes.base import recipe_of
from regard.serving.guard import listen, new_token
from regard.serving.openai import make_text_server
from regard.targets.imported import open_run

CONTEXT = 2048  # tokens of a slot, if nothing else is said
SLOTS = 8
EXAMPLES = ("What is 3 + 4?", "Once upon a time", "def ", "the", "The")


@dataclass(frozen=True)
class Served:
    """What a server says of itself once it answers."""

    address: str  # http://127.0.0.1:PORT/v1
    key: str
    model: str  # its name, as clients call it
    example: dict[str, Any]  # what may be asked: a body for /v1/chat/completions, or for /v1/completions
    slots: int
    context: int
    scheduler: Scheduler


def open_writer(
    target: str | os.PathLike[str], weights: str = "auto", note: Callable[[str], None] = lambda _: None
) -> Writer:
    """The model of a run, a Hugging Face directory or a GGUF file, ready to write."""
    run = open_run(target)
    return recipe_of(run).open_writer(run, weights, note)


def serve(
    target: str | os.PathLike[str],
    *,
    port: int | None = None,
    slots: int = SLOTS,
    context: int | None = None,
    weights: str = "auto",
    key: str | None = None,
    ready: Callable[[Served], None] | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve until Ctrl-C, then raise KeyboardInterrupt. `ready` is told where and how, once it answers.

    slots    texts that are written at once
    context  most tokens of a prompt and its text; None: what the model reads at once, but 2048 at most
    weights  float32, bfloat16, int8, int4 or auto, as docs/generation.md says
    key      what every request has to send as its Bearer token; None: a new one
    note     told what is not as usual, such as weights that are packed for the first time
    """
    key = new_token() if key is None else check_key(key)
    with ExitStack() as open_things:
        listening = open_things.enter_context(listen(port))  # (a port that is taken is said at once)
        writer = open_writer(target, weights, note)
        size = _context(writer, context)
        if isinstance(writer.model, nn.Module):
            open_things.enter_context(prepacked(writer.model))
        scheduler = Scheduler(make_slots(writer.model, slots, size), ids=writer.ids)
        name = Path(os.path.abspath(target)).name
        server = make_text_server(writer, scheduler, name, key)
        open_things.enter_context(scheduler)
        if ready is not None:
            address = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
            ready(Served(address, key, name, _example(writer), slots, size, scheduler))
        server.run(sockets=[listening])


def _example(writer: Writer) -> dict[str, Any]:
    """A question, or the beginning of a text, that the tokenizer of the model knows."""
    for words in EXAMPLES:
        messages = [{"role": "user", "content": words}]
        with suppress(ValueError):
            if writer.template is not None:
                writer.encode_chat(messages)
                return {"messages": messages}
            writer.encode(words)
            return {"prompt": words}
    return {"prompt": ""}


def check_key(key: str) -> str:
    """Raise unless it can travel in a header, and is no word that is soon guessed."""
    if len(key) < 8 or not key.isascii() or not key.isprintable() or " " in key:
        raise RegardError(
            "a key (REGARD_KEY) has 8 or more ASCII characters and no spaces; leave it out, and one is made"
        )
    return key


def _context(writer: Writer, wanted: int | None) -> int:
    limit = getattr(writer.model, "limit", None)
    if wanted is not None and limit is not None and wanted > limit:
        raise RegardError(f"--context {wanted} is more than the {limit} tokens that the model reads at once")
    if wanted is not None:
        return wanted
    return CONTEXT if limit is None else min(limit, CONTEXT)
