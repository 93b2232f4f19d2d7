"""Conversations as batches for a language model: only answers are predicted, and several conversations share a row
without seeing each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch

from regard.data.array import Array
from regard.data.batch import IGNORE, Batch, Epochs, Source, generator, pack_rows, pad_rows
from regard.data.chat_template import (
    FILE,
    PLAIN,
    ChatTemplate,
    check_messages,
    read_chat_template,
    try_template,
    without_prefix,
)
from regard.data.learn_tokenizer import learn
from regard.data.progress import Note
from regard.data.splits import TEST, TRAIN, VALIDATION, draw_splits
from regard.data.table_formats import JSON_LINES
from regard.data.tables import names_of, open_table
from regard.data.text_files import find
from regard.data.tokenizer import Tokenizer, half_a_character
from regard.errors import RegardError
from regard.recipes.text.config import ChatConfig
from regard.recipes.text.dataset import CHARACTERS_UP_TO
from regard.recipes.text.tokenizer import learn_subwords, load_given_tokenizer
from regard.runs.run import Run

OF_PACKING = 21  # the random numbers by which rows are packed
MESSAGES, PROMPT, ANSWER = "messages", "prompt", "answer"
LABELLED = {"text", "label"}  # columns of a table with labels, which it is if it has both
ROWS = f"give .jsonl rows with '{MESSAGES}', or with '{PROMPT}' and '{ANSWER}'"


# ── rows of a file


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


# ── the template


def choose_template(data: ChatConfig, old: Run | None) -> ChatTemplate:
    """The template that is asked for, that of the run that is resumed or started from, or the plain one."""
    own = None if old is None else (old.config.data or {}).get("template")
    if data.template is not None and data.template != own:
        return read_chat_template(data.template)
    if old is not None and (old.path / FILE).exists():
        return load_template(old)
    if data.template is not None:
        return read_chat_template(data.template)
    return PLAIN


def load_template(run: Run) -> ChatTemplate:
    """The template that a run keeps; one that is not ours is tried first."""
    found = run.read(FILE)
    if found is None:
        raise RegardError(
            f"{run.path} has no chat template, because it was not trained on conversations; use --prompt, or train it "
            f"on some: regard train text --from {run.quoted} --data chats.jsonl"
        )
    template = ChatTemplate.from_json(found)
    if template != PLAIN:
        try_template(template)
    return template


# ── one conversation


class Part(NamedTuple):
    """A piece of the text of a conversation: what the assistant says, or what it is told."""

    text: str
    answer: bool


class Encoded(NamedTuple):
    """The ids of a conversation, and which of them are of answers."""

    ids: Array  # n
    answer: Array  # bool n


def split_chat(messages: Sequence[dict[str, str]], template: ChatTemplate) -> list[Part]:
    """The text of a conversation up to its last answer, cut where answers begin and end."""
    parts: list[Part] = []
    written = ""
    for number, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        before = template.render(messages[:number])
        after = template.render(messages[: number + 1], reply=False)
        if not before.startswith(written) or not after.startswith(before):
            raise RegardError(
                "the chat template writes earlier messages in another way once an answer follows, so it is unknown "
                "where the answer begins; give another with --data.template"
            )
        parts.append(Part(before[len(written) :], False))
        parts.append(Part(after[len(before) :], True))
        written = after
    return parts


def encode_chat(parts: Sequence[Part], tokenizer: Tokenizer) -> Encoded:
    """Each part is encoded alone, so that no token is half of an answer."""
    ids: list[int] = [int(id) for id in tokenizer.prefix]
    answer = [False] * len(ids)
    for number, part in enumerate(parts):
        text = part.text if number else without_prefix(part.text, tokenizer)
        found = tokenizer.encode(text).tolist()
        ids += found
        answer += [part.answer] * len(found)
    return Encoded(np.array(ids, dtype=np.int64), np.array(answer, dtype=bool))


# ── all of them


@dataclass(frozen=True, eq=False)
class ChatCorpus:
    """Conversations as ids, none longer than the context and the token after it."""

    path: str
    tokenizer: Tokenizer
    chats: list[Encoded]
    splits: Array  # TRAIN, VALIDATION or TEST, of each
    context: int
    longest: int
    cut: int  # how many were cut
    dropped: int  # how many of them had no answer left
    question: list[dict[str, str]]  # the messages before an answer, of the validation split if there is one
    seed: int = 0

    @cached_property
    def packed(self) -> dict[int, list[list[int]]]:
        """For each split, the conversations of each row."""
        lengths = [len(chat.ids) - 1 for chat in self.chats]
        found = {}
        for split in (TRAIN, VALIDATION, TEST):
            order = generator(self.seed, OF_PACKING, split).permutation(np.flatnonzero(self.splits == split))
            found[split] = pack_rows(lengths, self.context, order.tolist())
        return found

    @property
    def counts(self) -> dict[str, int]:
        """What was counted, for people and for later commands. Splits are in conversations."""
        splits = np.bincount(self.splits, minlength=3).tolist()
        return {
            "conversations": len(self.chats),
            "train": splits[TRAIN],
            "validation": splits[VALIDATION],
            "test": splits[TEST],
            "tokens": sum(len(chat.ids) for chat in self.chats),
            "answers": sum(int(chat.answer[1:].sum()) for chat in self.chats),
            "cut": self.cut,
            "longest": self.longest,
        }

    @property
    def notes(self) -> tuple[str, ...]:
        if not self.cut:
            return ()
        gone = ""
        if self.dropped:
            gone = f", and {self.dropped:,} of them left out, because no answer remained"
        of = len(self.chats) + self.dropped
        return (
            f"{self.cut:,} of {of:,} conversations have more than {self.context:,} tokens and were cut off{gone}; the "
            f"longest has {self.longest - 1:,} (--data.context)",
        )

    def count_answers(self, split: int) -> int:
        """How many tokens of a split are predicted."""
        return sum(int(self.chats[each].answer[1:].sum()) for each in np.flatnonzero(self.splits == split))

    def take(self, rows: Sequence[Sequence[int]]) -> Batch:
        """Rows of conversations as a batch. Targets are IGNORE where no token of an answer follows.   b n"""
        chats = [[self.chats[each] for each in row] for row in rows]
        tokens, real = pad_rows([np.concatenate([chat.ids[:-1] for chat in row]) for row in chats])
        target = torch.full_like(tokens, IGNORE)
        documents = torch.zeros_like(tokens)
        for place, row in enumerate(chats):
            asked = [np.where(chat.answer[1:], chat.ids[1:], IGNORE) for chat in row]
            numbers = [np.full(len(chat.ids) - 1, number) for number, chat in enumerate(row)]
            end = sum(map(len, asked))
            target[place, :end] = torch.from_numpy(np.concatenate(asked))
            documents[place, :end] = torch.from_numpy(np.concatenate(numbers))
            documents[place, end:] = len(row)  # padding belongs to none of them
        inputs = {"tokens": tokens, "real": real, "documents": documents}
        return Batch(inputs, target, size=tokens.numel())

    def batches(self, split: int, batch: int) -> Iterator[Batch]:
        """All of one split, in the same order every time."""
        rows = self.packed[split]
        for start in range(0, len(rows), batch):
            yield self.take(rows[start : start + batch])


class ChatSource(Source):
    """Rows of packed conversations in shuffled batches. How they are packed depends on the seed, the rows of a step
    on (seed, step)."""

    def __init__(self, corpus: ChatCorpus, batch: int, seed: int) -> None:
        self.corpus, self.size = corpus, batch
        self._epochs = Epochs(np.arange(len(corpus.packed[TRAIN])), batch, seed)

    def batch(self, step: int) -> Batch:
        rows = self.corpus.packed[TRAIN]
        return self.corpus.take([rows[each] for each in self._epochs.rows(step)])

    def validation(self) -> Iterator[Batch]:
        return self.corpus.batches(VALIDATION, self.size)

    def test(self) -> Iterator[Batch]:
        return self.corpus.batches(TEST, self.size)


def prepare_chats(
    config: ChatConfig,
    template: ChatTemplate,
    *,
    seed: int,
    note: Note | None = None,
    tokenizer: Tokenizer | None = None,
    only: int | None = None,
) -> ChatCorpus:
    """All conversations as ids, with splits drawn by the seed. tokenizer: that of an earlier run, used instead of the
    config's; only: all are of this split"""
    tell: Note = note or (lambda what, share: None)
    tell("reading", None)
    chats = read_chats(config.path)
    parts = [_split(chat, template, config.path) for chat in chats]
    if only is None:
        splits = draw_splits(len(chats), config, seed, unit="conversations")
    else:
        splits = np.full(len(chats), only, dtype=np.uint8)
    if tokenizer is None:
        tokenizer = _make_tokenizer(config, parts, splits, seed, tell)
    encoded, longest, cut = [], 0, 0
    for number, (chat, some) in enumerate(zip(chats, parts, strict=True)):
        try:
            found = encode_chat(some, tokenizer)
        except ValueError as error:
            raise RegardError(f"line {chat.line} of {config.path}: {error}") from error
        longest = max(longest, len(found.ids))
        cut += len(found.ids) > config.context + 1
        encoded.append(Encoded(*(each[: config.context + 1] for each in found)))
        if number % 1000 == 0:
            tell("encoding", number / len(chats))
    tell("encoding", 1.0)
    kept = [number for number, each in enumerate(encoded) if each.answer[1:].any()]
    corpus = ChatCorpus(
        config.path,
        tokenizer,
        [encoded[number] for number in kept],
        splits[kept],
        config.context,
        longest,
        cut,
        dropped=len(encoded) - len(kept),
        question=_find_question([chats[number] for number in kept], splits[kept]),
        seed=seed,
    )
    if not (corpus.splits == (TRAIN if only is None else only)).any():
        raise RegardError(
            f"no conversation of {config.path} has an answer within {config.context:,} tokens, the context; use "
            f"--data.context {longest - 1:,}"
        )
    return corpus


def _find_question(chats: Sequence[Chat], splits: Array) -> list[dict[str, str]]:
    """What comes before the first answer of a conversation, of one that training does not see if there is one."""
    if not chats:
        return []
    messages = chats[int((splits != TRAIN).argmax())].messages
    first = next(number for number, each in enumerate(messages) if each["role"] == "assistant")
    return messages[:first]


def _split(chat: Chat, template: ChatTemplate, path: str) -> list[Part]:
    try:
        return split_chat(chat.messages, template)
    except RegardError as error:
        raise RegardError(f"line {chat.line} of {path}: {error}") from error


def _make_tokenizer(config: ChatConfig, parts: list[list[Part]], splits: Array, seed: int, note: Note) -> Tokenizer:
    """The tokenizer of the config, learned from the train split (characters: from all, so that none is unknown)."""
    if config.tokenizer is not None:
        return load_given_tokenizer(config.tokenizer)
    texts = ["".join(part.text for part in some) for some in parts]
    tokens: Any = config.tokens
    if tokens == "auto":
        tokens = "bytes" if sum(map(len, texts)) <= CHARACTERS_UP_TO else "bpe"
    taught = [text for text, split in zip(texts, splits, strict=True) if split == TRAIN]
    if tokens == "bpe":
        note("learning bpe", None)
        return learn_subwords(taught, config.vocabulary, config.sample, seed)
    return learn(tokens, texts if tokens == "characters" else taught, config.vocabulary)
