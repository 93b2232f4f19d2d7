"""regard serve: texts of a model for programs on this machine, by a server with the addresses of OpenAI's API."""

from __future__ import annotations

import json
import os
import shlex
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from regard.config import Count, Size, config
from regard.errors import RegardError
from regard.generation import Weights
from regard.generation.model_slots import make_slots
from regard.generation.scheduler import Scheduler
from regard.generation.writer import Writer
from regard.nn.linear import prepacked
from regard.recipes.base import problem_of_run
from regard.serving.guard import listen, new_token
from regard.serving.openai import make_text_server
from regard.targets.imported import open_run
from regard.verbs.console import Port
from regard.verbs.options import one_word, read_options

CONTEXT = 2048  # tokens of a slot, if nothing else is said
SLOTS = 8
KEY = "REGARD_KEY"  # the environment variable
EVERY = 1.0  # seconds between two words about what goes on
EXAMPLES = ("What is 3 + 4?", "Once upon a time", "def ", "the", "The")


@config
class ServeOptions:
    """TARGET is a model that writes text: the folder of a run, made by regard train, the folder of a downloaded
    Hugging Face model, or a GGUF file. It answers on 127.0.0.1 as OpenAI's API does: /v1/completions,
    /v1/chat/completions (if the model has a chat template) and /v1/models. Ctrl-C ends it.

    Every request needs a key, as a Bearer token: that in the environment variable REGARD_KEY, or else a new one,
    which is printed. (A key among the options of a command could be read by every user of the machine.)
    """

    port: Port | None = None  # port of the server; None: any free port
    slots: Count = 8  # texts that are written at once; others wait
    # most tokens of a prompt and its text together; None: what the model reads at once, but 2048 at most
    context: Size | None = None
    # numbers of the weights: fewer bits are faster and less exact (docs/generation.md); auto: those of a GGUF file,
    # int8 for other large models, float32 for small ones
    weights: Weights = "auto"


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
    return problem_of_run(run).open_writer(run, weights, note)


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


# ── the command


def run(words: list[str]) -> int:
    """regard serve TARGET"""
    if any(word == "--key" or word.startswith("--key=") for word in words):
        raise RegardError(f"every user of a machine can read the options of a command; set {KEY} instead of --key")
    options, words = read_options(ServeOptions, words, "regard serve")
    target = one_word(words, "serve", "target")
    given = os.environ.get(KEY) or None
    ending = threading.Event()
    found: list[Any] = []

    def ready(served: Any) -> None:
        found.append(served)
        print(introduce(served, from_environment=given is not None), flush=True)
        if sys.stderr.isatty():
            threading.Thread(target=_watch, args=(served.scheduler, ending), daemon=True).start()

    try:
        serve(
            target,
            port=options.port,
            slots=options.slots,
            context=options.context,
            weights=options.weights,
            key=given,
            ready=ready,
            note=lambda text: print(text, file=sys.stderr),
        )
    except KeyboardInterrupt:
        if not found:
            raise
    finally:
        ending.set()
    if not found:
        raise RegardError(f"serving {target} ended before it began")
    counts = found[0].scheduler.snapshot()
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K")
    texts = f"{counts.requests:,} text{'' if counts.requests == 1 else 's'}"
    print(f"ended: {texts}, {counts.written:,} tokens")
    return 0


def introduce(served: Any, *, from_environment: bool) -> str:
    """Where it answers, its key, and a line to paste that asks it something."""
    where = "/chat/completions" if "messages" in served.example else "/completions"
    body = {"model": served.model, **served.example, "max_tokens": 40}
    # a key of the environment is a secret that need not be shown
    key = f"${KEY}" if from_environment else served.key
    curl = f'curl {served.address}{where} -H "Authorization: Bearer {key}" -H "Content-Type: application/json"'
    return "\n".join(
        [
            f"{served.address}   model {served.model}, {served.slots} texts at once, {served.context:,} tokens each "
            "(Ctrl-C ends it)",
            f"key: {key}",
            f"{curl} -d {shlex.quote(json.dumps(body, allow_nan=False))}",
        ]
    )


def _watch(scheduler: Any, ending: threading.Event) -> None:
    """One line that lives on the terminal: what is being written, and how fast."""
    before, then = scheduler.snapshot(), time.monotonic()
    while not ending.wait(EVERY):
        counts, now = scheduler.snapshot(), time.monotonic()
        speed = (counts.written - before.written) / (now - then)
        line = (
            f"{counts.running} written now, {counts.waiting} waiting · {counts.requests:,} texts · "
            f"{counts.written:,} tokens · {speed:,.0f} tokens/s"
        )
        sys.stderr.write(f"\r\033[K{line}")
        sys.stderr.flush()
        before, then = counts, now
