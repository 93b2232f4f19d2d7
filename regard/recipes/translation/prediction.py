"""The translation of one sentence, as text and as JSON; and a file with a line for each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from regard.files import PathLike, write_text
from regard.recipes.prediction import Prediction
from regard.recipes.translation.search import Candidate
from regard.runs.number_format import say_number


@dataclass(frozen=True, kw_only=True)
class Translation(Prediction):
    """A sentence and its best translations, the best first. None of an empty line: it stays empty."""

    best: tuple[Candidate, ...] = ()

    @property
    def answer(self) -> str | float | None:
        """The best translation."""
        if self.error is not None:
            return None
        return self.best[0].text if self.best else ""

    @property
    def right(self) -> bool | None:
        return None if self.truth is None or self.error is not None else self.answer == self.truth

    def to_json(self) -> dict[str, Any]:
        found = super().to_json()
        if self.error is not None:
            return found
        return found | {"translation": self.answer, "best": [each._asdict() for each in self.best]}

    def format(self) -> str:
        """The translation; of several each in a line with its score."""
        if self.error is not None:
            return self.error
        if len(self.best) < 2:
            return str(self.answer)
        return "\n".join(f"{say_number(each.score)}  {each.text}" for each in self.best)


def write_lines(predictions: Iterator[Prediction], out: PathLike) -> Iterator[Prediction]:
    """Pass predictions on, and write a line for each after the last: the translation, or nothing. If there is no
    answer at all, nothing is written."""
    lines: list[str] = []
    answered = False
    for prediction in predictions:
        lines.append(f"{prediction.answer or ''}\n")
        answered |= prediction.error is None
        yield prediction
    if answered:
        write_text(out, "".join(lines))
