"""What look shows of a supervised run, for every kind of data: the processor reads, encodes and collates it as in
training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import torch
from torch import Tensor, nn

from regard.look.model_input import ModelInput, unlabelled_input
from regard.look.reader import GONE, Reader, at_path
from regard.recipes.example import Example, Examples
from regard.recipes.target import Target
from regard.runs.number_format import say_percent
from regard.runs.report_examples import first_example
from regard.runs.run import Run
from regard.training.config import TrainConfig

if TYPE_CHECKING:
    from regard.recipes.supervised import Supervised

M = TypeVar("M", bound=ModelInput)


class SupervisedReader(Reader):
    """given: None, an example of the run's data; the name of one; a path; the bytes of a file; an object in memory."""

    takes_objects = True

    def __init__(self, problem: Supervised, run: Run, model: nn.Module) -> None:
        self.run, self.model, self.processor = run, model, problem.open(run)
        self.seed = self.processor.config.seed_of(run.section(TrainConfig, "train").seed)
        self.views, self.controls = problem.views, problem.controls

    def read(self, given: Any = None, target: str | bytes | None = None) -> ModelInput:
        processor = self.processor
        if given is None:
            return self._of_the_run()
        if not isinstance(given, str | bytes):
            return self._given(processor.read(given, want="use"), None)
        if isinstance(given, str) and not processor.takes_text and not Path(given).exists():
            return self._of_data(given)
        if (processor.takes_bytes and isinstance(given, bytes)) or processor.takes_text:
            return self._given(processor.read(given, want="use"), None)
        with at_path(given, processor.ending_of) as path:
            examples = processor.read(str(path), want="use")
            return self._given(examples, path.name if isinstance(given, str) else None)

    def _given(self, examples: Examples, file: str | None) -> ModelInput:
        """The first example of what was given."""
        example = examples[next(examples.readable())]
        whole = self.processor.target is not None and self.processor.target.each is None
        if file is not None and whole and self.processor.introduces_files:
            return self._introduced(example, file, None, file)
        return self._meaning(self._input_of(example, file))

    # ── the data of the run

    @cached_property
    def _examples(self) -> Examples:
        return self.processor.read(self.processor.config.path, want="judge")

    def _of_the_run(self) -> ModelInput:
        """An example that the run kept, or one of its data; random inputs if that is gone."""
        kept = self._kept()
        if kept is not None:
            example, truth = kept
            return self._introduced(example, example.name, truth)
        try:
            return self._of_data(None)
        except (OSError, ValueError):
            inputs: Mapping[str, Any] = self.model.sample_inputs()  # type: ignore[operator]
            found = self.processor.from_inputs(inputs)
            if found is None:
                return replace(unlabelled_input(inputs), notes=(GONE,))
            return replace(self._meaning(self._input_of(found, None)), notes=(GONE,))

    def _kept(self) -> tuple[Example, str] | None:
        """An example that the run kept, and what is true of it."""
        if self.processor.shows is None:
            return None
        found = first_example(self.run, self.processor.shows)
        example = None if found is None else self.processor.from_kept(found)
        if found is None or example is None:
            return None
        return example, str(found["truth"])

    def _of_data(self, name: str | None) -> ModelInput:
        """The example of this name, or a typical one."""
        examples, i = self.processor.draw_example(name, self.seed), 0
        if examples is None:
            if not self.processor.is_readable():
                raise FileNotFoundError(f"the data of {self.run.path} was in memory")
            examples = self._examples
            i = self.processor.typical(examples) if name is None else self.processor.find(examples, name)
        example, target = examples[i], self.processor.target
        truth = None
        if target is not None and target.each is None:
            truth = target.say_truth(example.target)
        return self._introduced(example, self.processor.introduce(examples, i), truth)

    def _introduced(self, example: Example, name: str, truth: str | None, file: str | None = None) -> ModelInput:
        """With a sentence: Set 17 of baskets.csv: prediction total 35.2; target total 34.9."""
        target = self.processor.target
        found = self._meaning(self._input_of(example, file))
        said = f"{name}."
        if target is not None and target.each is None:
            says = self._say(found)
            said = f"{name}: prediction {says}{'' if truth is None else f'; target {truth}'}."
        shown = truth if target is not None and target.labels is not None else None
        return replace(found, name=name, truth=shown, notes=(said, *found.notes))

    @torch.no_grad()
    def _say(self, given: ModelInput) -> str:
        """What the model predicts for it."""
        target = self.processor.target
        out: Tensor = self.model(**given.inputs)[0]
        if target.labels is None:
            return target.say(out) if target.numbers else str(target.decode("", out).answer)
        share, best = out.softmax(-1).max(-1)
        return f"{target.classes[int(best)]} ({say_percent(float(share))})"

    # ── one example

    def _input_of(self, example: Example, file: str | None) -> ModelInput:
        """As the model takes it."""
        processor = self.processor
        row = processor.sample(processor.encode(example), None)
        batch = processor.finish(processor.collate([row]), training=False)
        return processor.model_input(example, row, batch, self.model, file)

    def _meaning(self, found: ModelInput) -> ModelInput:
        """With what the output means."""
        return explain_output(found, self.processor.target)


def explain_output(found: M, target: Target | None) -> M:
    """An input with what the output for it means. target: what is predicted; None: nothing that the data says"""
    if target is None:
        return found
    if target.labels is not None:
        return replace(found, answers="classes", called=target.classes.__getitem__)
    if not target.numbers:
        return found
    one = target.numbers[0] if target.each is None else None

    def read_numbers(out: Tensor) -> list[tuple[str, float]]:
        values = out.double().reshape(-1).tolist()
        pairs = zip(target.numbers, values, strict=True)
        return [(each.name, each.restore(value)) for each, value in pairs]

    answers: Literal["numbers"] | None = None if one is None else "numbers"
    return replace(found, number=one, answers=answers, read_numbers=read_numbers)
