"""The recipe for waves: everything that regard needs to know of this kind of data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from regard.data.batch import Batch
from regard.errors import RegardError
from regard.look.model_input import ModelInput
from regard.look.reader import Control
from regard.look.view import View, web_files
from regard.recipes.base import Recipe
from regard.recipes.example import Example, Examples
from regard.recipes.problem import Problem
from regard.recipes.processor import Processor, Want
from regard.recipes.settings import Settings, settings_of_kind
from regard.recipes.supervised import Supervised, SupervisedConfig
from regard.training.config import TrainConfig
from waves_kind.model import WaveNetConfig


@dataclass(frozen=True, kw_only=True)
class WavesConfig(SupervisedConfig):
    """Which waves."""

    unit: ClassVar[str] = "waves"

    path: str | None = None  # a file with a label and numbers in each line; None: made ones
    length: int = 8  # numbers of a made wave
    loudness: float = 1.0  # what all numbers are multiplied by


@dataclass(frozen=True, kw_only=True)
class WavesFitted:
    """What the model needs to know of them."""

    length: int


class WaveInput(ModelInput):
    """One wave."""

    kind: ClassVar[str] = "wave"


class WaveView(View):
    """The wave itself."""

    name, order, stands_alone = "wave", 10, True
    files = web_files(Path(__file__).parent, "80-wave.js")

    def applies(self, given: ModelInput) -> bool:
        return isinstance(given, WaveInput)

    def build(self, scene: Any) -> dict[str, Any]:
        return {"view": "wave", "values": scene.given.inputs["x"][0].tolist()}


class WavesProcessor(Processor[WavesConfig, WavesFitted]):
    """A file or a text with a wave in each line becomes rows of numbers."""

    Fitted = WavesFitted
    takes_text = True

    def read(self, data: Any, *, want: Want) -> Examples:
        if data is None:
            draw = np.random.default_rng(0)
            rising = np.linspace(-1, 1, self.config.length) + 0.1 * draw.normal(size=(40, self.config.length))
            return self._examples("made waves", [*rising, *rising[:, ::-1]], ["rising"] * 40 + ["falling"] * 40)
        text = data.decode() if isinstance(data, bytes) else data
        if want == "use":
            return self._examples(text, [np.array([float(word) for word in text.split(",")])])
        rows = [line.split(",") for line in Path(text).read_text().splitlines()]
        return self._examples(text, [np.array(row[1:], dtype=float) for row in rows], [row[0] for row in rows])

    def _examples(self, what: str, waves: Sequence[Any], labels: Sequence[str] | None = None) -> Examples:
        return Examples(
            what=what,
            count=len(waves),
            inputs=lambda i: {"wave": self.config.loudness * waves[i]},
            names=lambda i: what if labels is None else f"wave {i + 1}",
            cells=None if labels is None else np.array(labels),
        )

    def fit(self, examples: Examples, train: Any, model: Any, start: Any) -> WavesProcessor:
        return replace(self, fitted=WavesFitted(length=len(examples.inputs(0)["wave"])))

    def model_config(self, model: Any) -> Any:
        return replace(model, length=self.fitted.length, classes=self.target.outputs)

    def encode(self, example: Example) -> Mapping[str, Any]:
        if len(example.inputs["wave"]) != self.fitted.length:
            raise RegardError(f"a wave has {self.fitted.length} numbers, got {len(example.inputs['wave'])}")
        return {"x": example.inputs["wave"].astype(np.float32)}

    def collate(self, rows: Sequence[Mapping[str, Any]], random: Any = None) -> Batch:
        return Batch({"x": torch.from_numpy(np.stack([row["x"] for row in rows]))})

    def model_input(self, example: Example, encoded: Any, batch: Batch, model: Any, file: Any) -> WaveInput:
        return WaveInput(inputs=dict(batch))


class WavesRecipe(Recipe):
    """Waves."""

    name = "waves"
    title = "Waves: rows of numbers with a label each."
    help: ClassVar[Mapping[str, str]] = {"--data PATH": "a label and numbers in each line", "--model KIND": "wavenet"}
    examples = ("regard train waves --data waves.txt",)
    models = ("wavenet",)
    data_derived: ClassVar[Mapping[str, str]] = {"model.length": "give --data.length", "model.classes": ""}
    supervised = Supervised(
        processor=WavesProcessor,
        config=WavesConfig,
        unit="waves",
        speed="waves",
        views=(WaveView(),),
        controls=(Control(name="numbers", type="string", label="wave", placeholder="1, 2, 3"),),
    )
    problems: ClassVar[Mapping[str, Problem]] = {supervised.name: supervised}

    def choose_defaults(self, data: Any, examples: Examples | None, kind: str | None) -> Settings:
        train = TrainConfig(steps=30, batch=16, lr=0.02, optimiser="adamw", precision="float32")
        model = WaveNetConfig(length=1, classes=1)
        return settings_of_kind("wavenet", WavesConfig)(data=data, model=model, train=train)


RECIPE = WavesRecipe()
