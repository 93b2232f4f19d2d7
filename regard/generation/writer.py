"""A model that writes texts, with the tokenizer and the template by which it reads and writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from regard.data.chat_template import ChatTemplate
from regard.errors import RegardError


class Stream(Protocol):
    """Turns ids into text as they come; holds back what is not yet a whole character."""

    def add(self, token: int, /) -> str: ...
    def rest(self) -> str: ...


@dataclass(frozen=True)
class Writer:
    """A model that predicts next tokens, its tokenizer, and its chat template where it has one."""

    model: Any
    tokenizer: Any
    template: ChatTemplate | None = None

    @property
    def ids(self) -> int | None:
        """Ids that the tokenizer knows: 0 to this. A model's table may have rows to spare."""
        return getattr(self.tokenizer, "size", None)

    @property
    def ends(self) -> tuple[str, ...]:
        """Texts that end every text."""
        return tuple(getattr(self.tokenizer, "ends", ()))

    def room(self, longest: int) -> int:
        """Tokens of a slot for texts of this length: no more than the model reads at once."""
        limit = getattr(self.model, "limit", None)
        return longest if limit is None else min(longest, limit)

    def encode(self, prompt: str) -> list[int]:
        """The ids of a prompt, at least one: an empty prompt is the beginning of a line, or else the first id."""
        before = [int(i) for i in getattr(self.tokenizer, "prefix", ())]  # a model of others expects it
        ids = [*before, *(int(i) for i in self.tokenizer.encode(prompt))]
        if not ids and not prompt:
            try:
                ids = [int(i) for i in self.tokenizer.encode("\n")]
            except ValueError:  # a text without lines
                ids = []
        return ids or [0]

    def encode_chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """The ids after which the assistant answers."""
        return self.encode(self._need_template().prompt(messages, self.tokenizer))

    @property
    def chat_ends(self) -> tuple[str, ...]:
        """Texts that end an answer."""
        end = self._need_template().end
        return (*self.ends, end) if end else self.ends

    def stream(self, last: int | None) -> Stream:
        """Of what follows a prompt that ends with this id: between its last word and the next there may be a
        space. None: the text begins."""
        made: Stream = self.tokenizer.stream()
        if last is not None and hasattr(made, "follow"):
            made.follow(last)
        return made

    def _need_template(self) -> ChatTemplate:
        if self.template is None:
            raise RegardError(
                "this model has no chat template, because it was not trained on conversations; ask /v1/completions"
            )
        return self.template
