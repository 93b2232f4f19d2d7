"""The base of all text readers, and text from the user or from a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.data.text_files import decode_text
from regard.look.model_input import ModelInput
from regard.look.reader import Control, Reader
from regard.look.view import View
from regard.recipes.text.given_text import read_given_text
from regard.recipes.text.model_input import TextInput
from regard.recipes.text.view import NextTokenView

FIRST_WORDS = "The animal didn't cross the street because it was too tired."
TEXT = Control(name="text", type="string", label="text", placeholder="Type something to look at")
TARGET = Control(name="target", type="string", label="target text", placeholder="What it becomes")
ORDER = Control(name="order", type="numbers")


class TextReader(Reader):
    """The base of all text readers: the user can type a text and move its tokens."""

    views: tuple[View, ...] = (NextTokenView(),)
    controls: tuple[Control, ...] = (TEXT, ORDER)

    def change(self, given: ModelInput, values: Mapping[str, Any]) -> ModelInput:
        return move_tokens(given, values)


def move_tokens(given: ModelInput, values: Mapping[str, Any]) -> ModelInput:
    """The text with its tokens in the order that the controls say."""
    assert isinstance(given, TextInput)
    if "order" not in values:
        return given
    return given.move(values["order"])


def as_text(given: str | bytes) -> str:
    """A text, or the text of a file; bytes are what somebody typed on the page."""
    if isinstance(given, bytes):
        return decode_text(given, "the text")
    return read_given_text(given)[0]
