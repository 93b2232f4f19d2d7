"""The command that serves the texts of a model."""

import json
import os
import shlex
import sys
import threading
import time
from typing import Any

from regard.errors import RegardError
from regard.verbs.commands import command, command_options, one_word

KEY = "REGARD_KEY"  # the environment variable
EVERY = 1.0  # seconds between two words about what goes on


@command(
    "serve TARGET [--port N] ...",
    "answer programs on this machine, as OpenAI's API does",
    "regard serve runs/chat",
    "regard serve path/to/model.gguf --port 8000 --slots 16 --weights int4",
)
def serve(words: list[str]) -> int:
    if any(word == "--key" or word.startswith("--key=") for word in words):
        raise RegardError(f"every user of a machine can read the options of a command; set {KEY} instead of --key")
    options = command_options("serve", "ServeOptions", words)
    if options is None:
        return 0
    chosen, words = options
    target = one_word(words, "serve", "target")

    from regard.verbs.serve import serve as answer

    given = os.environ.get(KEY) or None
    ending = threading.Event()
    found: list[Any] = []

    def ready(served: Any) -> None:
        found.append(served)
        print(introduce(served, from_environment=given is not None), flush=True)
        if sys.stderr.isatty():
            threading.Thread(target=_watch, args=(served.scheduler, ending), daemon=True).start()

    try:
        answer(
            target,
            port=chosen.port,
            slots=chosen.slots,
            context=chosen.context,
            weights=chosen.weights,
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
