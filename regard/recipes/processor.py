"""How a kind of data is read, and how it becomes tensors: one object for training, predict, evaluate and look."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, TypeVar

import numpy as np
from torch import Tensor, nn

from regard import config as configs
from regard.data.array import Array
from regard.data.batch import Batch
from regard.errors import RegardError
from regard.look.model_input import ModelInput
from regard.look.reader import find_ending
from regard.recipes.describe import singular
from regard.recipes.evidence import Evidence
from regard.recipes.example import Example, Examples
from regard.recipes.job import ShownExample
from regard.recipes.target import Target
from regard.training.tasks import call

if TYPE_CHECKING:
    from regard.runs.run import Run

C = TypeVar("C", bound=Any)  # the data section of the settings
F = TypeVar("F")  # what fitting found

Encoded = Mapping[str, Any]  # one example as arrays
Want = Literal["learn", "judge", "use"]
Take = Callable[[Array], Sequence[Encoded]]  # encoded examples by their numbers
SECTION = "processor"  # of config.json
NAMED = 5  # damaged files that are named one by one


@dataclass(frozen=True, eq=False)
class Processor(ABC, Generic[C, F]):
    """One class for each kind of data. `config` is what was asked for, `fitted` what the train split said, `target`
    what is predicted; the last two are stored in config.json. A kind overrides what it needs."""

    Fitted: ClassVar[type]  # the class of `fitted`; fields with metadata {"file": name} are files beside the weights
    # a field of one fixed shape, and its dtype: all examples are one array, and a batch is an index into it
    stacked: ClassVar[tuple[str, str] | None] = None
    # fields of `fitted` that `encode` reads: what is kept encoded on disk depends on them
    encodes_by: ClassVar[tuple[str, ...]] = ()
    shows: ClassVar[str | None] = None  # what a kept example has for `from_kept`: text, picture or elements
    takes_text: ClassVar[bool] = False  # is a string an input, and not a path?
    takes_bytes: ClassVar[bool] = False  # are bytes an input, and not a file?
    introduces_files: ClassVar[bool] = False  # does look say what is predicted for a file that is given?

    config: C
    fitted: F = None  # type: ignore[assignment]  # None: not fitted yet
    target: Target = None  # type: ignore[assignment]

    def with_target(self, target: Target | None, **changed: Any) -> Self:
        """The same for this target; None: nothing is predicted that the data says."""
        return replace(self, target=target, **changed)  # type: ignore[arg-type]

    # ── reading

    @abstractmethod
    def read(self, data: Any, *, want: Want) -> Examples:
        """What is in a path, a table in memory, arrays or objects; None: the built-in data. It draws no random numbers.

        learn: to train on, so what is wrong is an error; judge: with targets, as the model was trained; use: without
        targets, or with them as a column. What is wrong with one example is then in `errors`.
        """

    def is_one(self, given: Any) -> bool:
        """Is it one example, a list of which `read` takes? False: a path, a table or several examples."""
        return False

    def read_parts(self, data: Any) -> Iterator[Examples]:
        """What is read to predict, part by part if it may be larger than the memory."""
        yield self.read(data, want="use")

    def is_readable(self) -> bool:
        """Is there data of the config to show an example of? False: it was in memory."""
        return True

    def batches_of(self, examples: Examples) -> Literal["examples", "whole", "drawn"]:
        """What a batch is made of: examples with all their parts; all parts of the one example; or some parts of it,
        with what is around them."""
        return "examples"

    def most(self, examples: Examples) -> Mapping[str, int]:
        """How many of a split are judged at most, by its name."""
        return {}

    def draw_splits(self, examples: Examples, target: Target, codes: Array, seed: int) -> Array | None:
        """The split of what is asked. None: the usual shares, the same of each class."""
        return None

    # ── fitting, in this order: each returns a new processor

    def fit(self, examples: Examples, train: Array, model: Any, start: Self | None) -> Self:
        """What must be known before anything is encoded: sizes, vocabularies, scales.

        train: numbers of the examples to learn from; of endless data there are none. model: its config. start: of the
        run that this one starts from
        """
        return self

    def notes(self, examples: Examples, train: Array) -> tuple[str, ...]:
        """What the user should know of the data, once it is fitted."""
        return ()

    def describe(self) -> str | None:
        """What a line about the data says of its examples, such as their sizes."""
        return None

    def counts(self, examples: Examples) -> Mapping[str, int]:
        """What was counted of the data beside its examples, such as nodes."""
        return {}

    def leave_out(self, errors: Mapping[int, str]) -> tuple[str, ...]:
        """Examples that cannot be read are left out of their split: notes on them, or an error if none may be missing."""
        whys, damaged = list(errors.values()), getattr(self.config, "damaged", None)
        if damaged is None:
            raise RegardError(errors[min(errors)])
        if damaged == "stop":
            raise RegardError(f"{whys[0]}; repair it or take it away, or use --data.damaged skip")
        more = len(whys) - NAMED
        rest = (f"left out: {more:,} more {self.config.unit} that cannot be read",) if more > 0 else ()
        return (*(f"left out: {why}" for why in whys[:NAMED]), *rest)

    def keep(self, examples: Examples) -> Literal["memory", "disk", "none"]:
        """Where encoded examples are kept; none: each is encoded whenever it is asked for, several at once."""
        return "memory"

    def measure(self, take: Take, train: Array, codes: Array) -> tuple[Self, tuple[str, ...]]:
        """What is measured on encoded examples, because raw ones are dear to make, and notes on it. codes: of all that
        is asked"""
        return self, ()

    def model_config(self, model: Any) -> Any:
        """The config of the model with the sizes that the data decides. A ValueError: it cannot learn this."""
        return model

    def set_buffers(self, model: nn.Module, take: Take, train: Array) -> None:
        """Put what a new model must know of the data, beside its config, into its buffers."""

    # ── one batch

    @abstractmethod
    def encode(self, example: Example) -> Encoded:
        """Always the same of the same example, so it may be kept. "notes" are what a user should know of its prediction. A
        ValueError: it cannot be read."""

    def length_of(self, encoded: Encoded) -> int | None:
        """Those of like length come together in a batch. None: lengths do not matter."""
        return None

    def sample(self, encoded: Encoded, random: np.random.Generator | None, parts: Array | None = None) -> Encoded:
        """What of an example goes into this batch: some of its points, the neighbours of some nodes. If only some parts
        do, "kept" says which. random: None where it is judged or used, which gives always the same
        """
        return encoded

    @abstractmethod
    def collate(self, rows: Sequence[Encoded], random: np.random.Generator | None = None) -> Batch:
        """One batch, padded or side by side: inputs by the names of the model's forward. random: in training"""

    def place_targets(self, codes: Sequence[Array], batch: Batch, parts: Array | None = None) -> Array:
        """The targets of all rows, as the model answers them. codes: of each example, or of its parts in the batch;
        parts: those that are asked, if not all are"""
        return np.stack(codes) if self.target.each is None else np.concatenate(codes)

    def finish(self, batch: Batch, *, training: bool) -> Batch:
        """On the device: bytes become numbers, and training changes them at random, which may mix targets."""
        return batch

    def forward(self, model: nn.Module, batch: Batch) -> Tensor:
        """What the model says when it is judged or used: the mean of several views, perhaps."""
        return call(model, batch)

    def answers(self, out: Tensor, batch: Batch, rows: Sequence[Encoded]) -> Sequence[Tensor]:
        """The output for each example of a batch, or those for its parts.   outputs, or n outputs"""
        return list(out)

    def explain(self, model: nn.Module, encoded: Encoded) -> Evidence | None:
        """What each part of an example adds to its prediction, if the model is a sum of such parts."""
        return None

    # ── showing

    def typical(self, examples: Examples) -> int:
        """The example to look at if nobody asks for another."""
        return next(examples.readable())

    def find(self, examples: Examples, name: str) -> int:
        """The example of this name. A RegardError: there is none."""
        found = next((i for i in examples.readable() if examples.names(i) == name), None)
        if found is None:
            some = ", ".join(examples.names(i) for i in range(min(3, len(examples))))
            more = " …" * (len(examples) > 3)
            unit = self.config.unit
            raise RegardError(
                f"there is no file and no {singular(unit)} {name!r} in {examples.what}; {unit} are called {some}{more}"
            )
        return found

    def draw_example(self, name: str | None, seed: int) -> Examples | None:
        """One example of synthetic data, of this name; None: the data is read."""
        return None

    def introduce(self, examples: Examples, i: int) -> str:
        """An example of the run's data as the subject of a sentence."""
        return examples.names(i)

    def show(self, example: Example) -> ShownExample:
        """An example as a person reads it, for the report of a run."""
        return ShownExample(name=example.name)

    def ending_of(self, data: bytes) -> str:
        """The ending of a file that holds these bytes, for readers that go by it."""
        return find_ending(data)

    def from_kept(self, kept: Mapping[str, Any]) -> Example | None:
        """The example that a run kept, by its JSON; None: it does not fit the run."""
        return None

    def from_inputs(self, inputs: Mapping[str, Any]) -> Example | None:
        """Random inputs of a model as an example, to show when the data is gone; None: it cannot be shown as one."""
        return None

    def model_input(
        self, example: Example, encoded: Encoded, batch: Batch, model: nn.Module, file: str | None
    ) -> ModelInput:
        """For look: the same tensors, with what their tokens are called. encoded: what of the example is in the batch;
        file: the name of the file that was given"""
        return ModelInput(inputs=dict(batch), name=file)

    # ── config.json, and files beside the weights

    def store(self) -> dict[str, Any]:
        """What `restore` reads, without what is in files."""
        plain = replace(self.fitted, **dict.fromkeys(_files_of(self.Fitted)))  # type: ignore[type-var]
        stored = {"fitted": configs.to_dict(plain)}
        return stored if self.target is None else stored | {"target": configs.to_dict(self.target)}

    def save(self, run: Run) -> None:
        """Write the fields of `fitted` that are files."""

    def load(self, run: Run) -> Self:
        """With the fields of `fitted` that are files."""
        return self

    def restore(self, run: Run) -> Self:
        """The processor of a run."""
        stored = run.config.processor
        if stored is None:
            raise RegardError(f"{run.path / 'config.json'} has no section '{SECTION}'")
        try:
            fitted: Any = configs.from_dict(self.Fitted, stored.get("fitted"))
            target = stored.get("target")
            found = None if target is None else configs.from_dict(Target, target)
        except ValueError as error:
            raise RegardError(f"{run.path / 'config.json'}: section '{SECTION}': {error}") from error
        return self.with_target(found, fitted=fitted).load(run)


def _files_of(fitted: type) -> list[str]:
    return [each.name for each in fields(fitted) if "file" in each.metadata]
