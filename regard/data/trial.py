"""What a file of others makes a library do is tried in a process of its own first, with little memory and little time:
nothing in this process could stop it.

The package `tokenizers` does what a tokenizer.json says: it may panic, follow a regular expression for hours, or make a
million tokens of a word.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from regard.errors import RegardError

BOUNDED = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, ({memory}, {memory}))
except (ImportError, ValueError, OSError):
    pass
given = json.load(sys.stdin)
"""


def run_trial(program: str, given: Any, *, what: str, seconds: float, memory: int) -> None:
    """Run a program that knows `given`, and raise with the last line of its error unless it ends well and in time."""
    if not sys.executable:  # inside another program: there is no Python to start
        return
    # -P: no module is ever taken from the working folder, which may be full of somebody's data
    path = json.dumps([each for each in sys.path if each], allow_nan=False)
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", BOUNDED.format(memory=memory) + program, path],
            input=json.dumps(given, allow_nan=False).encode(),
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise RegardError(f"{what} did not end within {seconds:.0f} seconds") from error
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        last = " ".join(said[-1].split())[:300] if said else f"it ended with {done.returncode}"
        raise RegardError(last.partition("RegardError: ")[2] or f"{what} cannot be used: {last}")


# ── a tokenizer.json of somebody else

MOST_IDS = 2**24
SECONDS = 10.0  # for all that is tried
MEMORY = 2 * 2**30  # bytes
MOST_OF_A_CHARACTER = 64  # ids
TRIED: set[str] = set()  # what is known to be harmless, by its hash

# words, one letter again and again, spaces, digits, other scripts, parts of characters
PROBE = f"""
import os
os.environ |= {{"TOKENIZERS_PARALLELISM": "false", "RUST_BACKTRACE": "0"}}
from tokenizers import Tokenizer
made = Tokenizer.from_str(json.dumps(given))
made.no_truncation()
made.no_padding()
texts = ["The quick brown fox, 1234.5!", "a" * 2000, "ab" * 1000 + "!", " " * 2000, "\\n\\t " * 500, "0" * 2000,
         "\\u00e9\\u4e2d\\u0645\\U0001f600" * 300, "x y" * 700, "\\u0301" * 500, "-" * 2000, ""]
for text in texts:
    found = made.encode(text, add_special_tokens=False).ids
    if len(found) > {MOST_OF_A_CHARACTER} * len(text) + 1000:
        sys.exit("it makes %d ids of %d characters" % (len(found), len(text)))
    made.decode(found, skip_special_tokens=False)
"""


def check_tokenizer(data: Any) -> None:
    """Raise unless the content of a tokenizer.json can be used: its ids are bounded, and it does its work in time."""
    _check_ids(data)
    if _made_here(data):
        return
    with calm("read it"):  # brackets may be nested too deeply
        known = hashlib.sha256(json.dumps(data, allow_nan=False).encode()).hexdigest()
    if known not in TRIED:
        run_trial(PROBE, data, what="the tokenizer", seconds=SECONDS, memory=MEMORY)
        TRIED.add(known)


@contextmanager
def calm(what: str) -> Iterator[None]:
    """Whatever the package raises, a panic too, which is no Exception, in one line."""
    try:
        yield
    except (RegardError, UnicodeEncodeError, TypeError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        raise RegardError(f"tokenizers cannot {what}: {_words(str(error)) or type(error).__name__}") from error


def check_count(ids: int, characters: int) -> None:
    """Raise for a text that becomes far more ids than it has characters."""
    if ids > MOST_OF_A_CHARACTER * characters + 1000:
        raise RegardError(f"the tokenizer makes {ids:,} ids of {characters:,} characters; it is damaged")


def _check_ids(data: Any) -> None:
    """Ids are numbers below a bound: a list of all of them is made."""
    model = data.get("model")
    if not isinstance(model, dict):
        raise RegardError("its 'model' must be an object")
    vocab, added = model.get("vocab"), data.get("added_tokens") or []
    ids = list(vocab.values()) if isinstance(vocab, dict) else [len(vocab or ())]
    if not isinstance(added, list) or not all(isinstance(each, dict) for each in added):
        raise RegardError("its 'added_tokens' must be a list of objects")
    ids += [each.get("id") for each in added]
    wrong = next((each for each in ids if type(each) is not int or not 0 <= each < MOST_IDS), None)
    if wrong is not None:
        raise RegardError(f"ids must be whole numbers below {MOST_IDS:,}, got {str(wrong)[:40]}")


def _made_here(data: Any) -> bool:
    """Is it of the form that is learned here: bytes, GPT-2's way to split, pairs?"""
    split, decoder = data.get("pre_tokenizer") or {}, data.get("decoder") or {}
    empty = all(data.get(name) is None for name in ("normalizer", "post_processor", "truncation", "padding"))
    forms = (split, decoder, data["model"])
    plain = all(isinstance(each, dict) for each in forms)
    wanted = ["ByteLevel", "ByteLevel", "BPE"]
    return empty and plain and [each.get("type") for each in forms] == wanted and not data.get("added_tokens")


def _words(text: str) -> str:
    return " ".join(text.split())[:300]
