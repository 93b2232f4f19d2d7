"""Reading text for models that no recipe trained, with their own processor."""

from __future__ import annotations

from torch import Tensor

from regard.look.model_input import Tokens
from regard.recipes.processors import TextProcessor
from regard.recipes.text.model_input import TextInput
from regard.recipes.text.reader import FIRST_WORDS, ORDER, TARGET, TEXT, TextReader, as_text


class ForeignTextReader(TextReader):
    """The text reader of a model that no recipe trained."""

    def __init__(self, processor: TextProcessor) -> None:
        self.processor, self.longest = processor, processor.longest
        self.takes_target = processor.target is not None
        if self.takes_target:
            self.controls = (TEXT, TARGET, ORDER)

    def read(self, given: str | bytes | None = None, target: str | bytes | None = None) -> TextInput:
        processor = self.processor
        if given is None:
            text = processor.example or FIRST_WORDS
        else:
            text = as_text(given)
        inputs = processor.encode(text)
        ids: Tensor = inputs[processor.ids]
        self.check_length(ids.shape[1], "the text")
        streams = [self._stream("source" if self.takes_target else "tokens", ids)]
        main, along = processor.ids, processor.along
        asked = None
        if processor.target is not None:
            if target is None:
                written = processor.write_target(inputs)
            else:
                asked = as_text(target)
                written = processor.encode_target(asked)
            self.check_length(written.shape[1], "the target")
            inputs = inputs | {processor.target: written}
            streams.insert(0, self._stream("target", written))
            main, along = processor.target, ()
        return TextInput(
            inputs=inputs,
            streams=tuple(streams),
            ids=main,
            along=tuple(name for name in along if name in inputs),
            text=text,
            target=asked,
            answers=processor.answers,
            called=processor.label if processor.answers == "classes" else processor.called,
            notes=processor.notes,
        )

    def _stream(self, name: str, ids: Tensor) -> Tokens:
        return Tokens(name, tuple(map(self.processor.called, ids[0].tolist())))
