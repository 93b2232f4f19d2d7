"""What `regard predict` prints: each prediction; or, when they go into a table, how far it is, and a summary."""

from __future__ import annotations

import sys
import time

from regard.files import json_text
from regard.recipes.answers import is_answers_file, is_lines_file
from regard.recipes.prediction import Prediction
from regard.runs.number_format import say_percent

LISTED = 10  # files that are named one by one
NAMED = 5  # errors that are printed, when all of them are in a table
EVERY = {True: 0.5, False: 10.0}  # seconds between two words about how far it is: on a terminal, elsewhere


class AnswersPrinter:
    """Prints predictions as they come, and counts them."""

    def __init__(self, *, out: str | None, json: bool) -> None:
        self.out, self.json = out, json
        self.table = out is not None and (is_answers_file(out) or is_lines_file(out))
        self.drawn: dict[str, None] = {}
        self.shown = ""  # what the files drawn show
        self.answered = self.errors = self.judged = self.right = 0
        self.said, self.live = time.monotonic(), False  # when progress was told; is it on the screen?

    def show(self, prediction: Prediction) -> None:
        """One prediction, at once: each may have taken a while."""
        for part in prediction.each or (prediction,):
            self.answered += part.error is None
            self.errors += part.error is not None
            self.judged += part.right is not None
            self.right += bool(part.right)
        if prediction.notes or prediction.error is not None or not self.table:
            self._clear()
        for note in prediction.notes:
            print(f"regard: {note}", file=sys.stderr, flush=True)
        if self.json:
            print(json_text(prediction.to_json()), flush=True)
        elif prediction.error is not None:
            if not self.table or self.errors <= NAMED:
                print(f"regard: {prediction.error}", file=sys.stderr, flush=True)
        elif not self.table:
            print(prediction.format(), flush=True)
        if prediction.picture is not None:
            self.drawn[prediction.picture] = None
            self.shown = prediction.shows
        self._tell_progress()

    def finish(self) -> int:
        """A summary, and the exit code."""
        self._clear()
        if self.table and self.errors > NAMED and not self.json:
            print(f"regard: {self.errors - NAMED:,} more inputs have no answer", file=sys.stderr)
        if not self.json:
            self._summarise()
        if not self.errors:
            return 0
        if self.answered:
            return 1
        return 2

    def _summarise(self) -> None:
        if self.judged:
            print(f"right: {say_percent(self.right / self.judged)} of {self.judged:,} with a known label")
        if self.table and self.answered:
            without = f", {self.errors:,} of them without an answer" if self.errors else ""
            count = self.answered + self.errors
            print(f"{self.out}: {count:,} row{'s' if count > 1 else ''}{without}")
        elif self.table:
            print(f"regard: there are no answers, so {self.out} was not written", file=sys.stderr)
        if self.drawn:
            if len(self.drawn) <= LISTED:
                files = [*self.drawn]
            else:
                files = [f"{len(self.drawn):,} files in {self.out}"]
            print("\n".join([f"{self.shown}:", *(f"  {file}" for file in files)]))

    def _tell_progress(self) -> None:
        """How many answers a table has until now."""
        terminal = sys.stderr.isatty()
        if not self.table or time.monotonic() - self.said < EVERY[terminal]:
            return
        self.said = time.monotonic()
        words = f"{self.answered + self.errors:,} answers"
        sys.stderr.write(f"\r\033[K{words}" if terminal else f"regard: {words}\n")
        sys.stderr.flush()
        self.live = terminal

    def _clear(self) -> None:
        if self.live:
            sys.stderr.write("\r\033[K")
            self.live = False
