"""A tokenizer.json of somebody else, tried out before it is trusted.

The package `tokenizers` does what such a file says: it may panic, follow a regular expression for hours, or
make a million tokens of a word. Nothing in this process could stop it. So a file that was not made here is
first tried in a process of its own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from regard.data.trial import run_trial
from regard.errors import RegardError

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
