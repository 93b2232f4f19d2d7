"""Conversations in a file of JSON Lines: rows with `messages`, or with `prompt` and `answer`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from regard.data.chat_template import check_messages
from regard.data.table_formats import JSON_LINES
from regard.data.tables import names_of, open_table
from regard.data.text_files import find
from regard.data.tokenizer import half_a_character
from regard.errors import RegardError

MESSAGES, PROMPT, ANSWER = "messages", "prompt", "answer"
LABELLED = {"text", "label"}  # columns of a table with labels, which it is if it has both
ROWS = f"give .jsonl rows with '{MESSAGES}', or with '{PROMPT}' and '{ANSWER}'"


class Chat(NamedTuple):
    """A conversation, and its line in the file."""

    line: int
    messages: list[dict[str, str]]


def looks_like_chats(path: str | None) -> bool:
    """Does the first row of this file hold a conversation?"""
    if path is None or not path.lower().endswith(JSON_LINES):
        return False
    with suppress(ValueError, OSError):
        (file, *others) = find(path)
        names = set(names_of(file.path))
        return not others and not names >= LABELLED and (MESSAGES in names or names >= {PROMPT, ANSWER})
    return False


def read_chats(path: str) -> list[Chat]:
    """All conversations of a file; an error names the line."""
    (file, *others) = find(path)
    if others or not file.path.lower().endswith(JSON_LINES):
        raise RegardError(f"conversations are one file that ends in {' or '.join(JSON_LINES)}, got {path}")
    chats = []
    for line, row in open_table(file.path).records():
        try:
            chats.append(Chat(line, _read_messages(row)))
        except RegardError as error:
            raise RegardError(f"line {line} of {path}: {error}") from error
    if not chats:
        raise RegardError(f"{path} has no rows; {ROWS}")
    return chats


def _read_messages(row: Mapping[str, Any]) -> list[dict[str, str]]:
    """The messages of a row; there is an answer among them, and something before it."""
    if row.get(MESSAGES) is not None:
        messages = row[MESSAGES]
        if not isinstance(messages, list):
            raise RegardError(f"'{MESSAGES}' must be a list, got {str(messages)[:40]!r}")
        check_messages(messages)
    else:
        messages = [
            {"role": role, "content": _read_cell(row, name)} for name, role in ((PROMPT, "user"), (ANSWER, "assistant"))
        ]
    found = [{"role": each["role"], "content": each["content"]} for each in messages]
    answers = [number for number, each in enumerate(found) if each["role"] == "assistant"]
    if not answers:
        raise RegardError("it has no answer: no message has the role assistant")
    if answers[0] == 0:
        raise RegardError("its first message is an answer (role assistant), but nothing comes before it")
    if any(not found[number]["content"].strip() for number in answers):
        raise RegardError("it has an empty answer; fill it in, or remove the row")
    if half := half_a_character("".join(each["content"] for each in found)):
        raise RegardError(str(half))
    return found


def _read_cell(row: Mapping[str, Any], name: str) -> str:
    if name not in row or row[name] is None:
        raise RegardError(f"it has no '{name}'; {ROWS}")
    if not isinstance(row[name], str):
        raise RegardError(f"'{name}' must be a text, got {str(row[name])[:40]!r}")
    found: str = row[name]
    return found
