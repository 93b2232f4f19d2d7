"""The recipe for waves: everything that regard needs to know of this kind of data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from regard.config import Size, config
from regard.data.labels import sort_labels
from regard.data.tensor_source import TensorSource
from regard.look.model_input import ModelInput
from regard.look.reader import Control, Reader
from regard.look.view import View, web_files
from regard.recipes.base import Recipe
from regard.recipes.describe import describe_data, format_count
from regard.recipes.job import DataContext, Job, Split
from regard.recipes.prediction import Prediction, predict_each
from regard.recipes.settings import Settings, path_of, settings_class
from regard.runs.load import load_model
from regard.runs.run import Run
from regard.runs.run_config import RunConfig
from regard.training.config import TrainConfig
from regard.training.tasks import Classify, Task
from waves_kind.model import WaveNetConfig


@config
class WavesConfig:
    """Which waves."""

    path: str | None = None  # a file with a label and numbers in each line; None: made ones
    length: Size = 8  # numbers of a made wave
    loudness: float = 1.0  # what all numbers are multiplied by

    paths: ClassVar[tuple[str, ...]] = ("path",)


@config
class WavesInfo:
    """Waves in figures."""

    path: str | None
    waves: Size
    length: Size
    labels: tuple[str, ...]


WaveSettings = settings_class(
    "WaveSettings", "A small network for waves.", data=WavesConfig, model=WaveNetConfig
)


def read_waves(config: WavesConfig) -> tuple[Tensor, list[str]]:
    """All waves of a file, or made ones.   n length, n"""
    if config.path is None:
        draw = torch.Generator().manual_seed(0)
        rising = torch.linspace(-1, 1, config.length) + 0.1 * torch.randn(40, config.length, generator=draw)
        return config.loudness * torch.cat((rising, rising.flip(1))), ["rising"] * 40 + ["falling"] * 40
    rows = [line.split(",") for line in Path(config.path).read_text().splitlines()]
    return config.loudness * torch.tensor([[float(each) for each in row[1:]] for row in rows]), [
        row[0] for row in rows
    ]


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


class WaveReader(Reader):
    """Numbers with commas between."""

    views = (WaveView(),)
    controls = (Control(name="numbers", type="string", label="wave", placeholder="1, 2, 3"),)

    def __init__(self, info: WavesInfo) -> None:
        self.info = info

    def read(self, given: str | bytes | None = None, target: str | bytes | None = None) -> WaveInput:
        words = "0," * (self.info.length - 1) + "0"
        if given is not None:
            words = given.decode() if isinstance(given, bytes) else given
        x = torch.tensor([[float(each) for each in words.split(",")]])
        return WaveInput(inputs={"x": x}, answers="classes", called=self.info.labels.__getitem__)


class WavesRecipe(Recipe):
    """Waves."""

    name = "waves"
    title = "Waves: rows of numbers with a label each."
    help: ClassVar[Mapping[str, str]] = {
        "--data PATH": "a label and numbers in each line",
        "--model KIND": "wavenet",
    }
    examples = ("regard train waves --data waves.txt",)
    models = ("wavenet",)
    data_derived: ClassVar[Mapping[str, str]] = {"model.length": "give --data.length", "model.classes": ""}

    def defaults(
        self, data: Any = None, model: str | None = None, early: Mapping[str, Any] | None = None
    ) -> Settings:
        train = TrainConfig(steps=30, batch=16, lr=0.02, optimiser="adamw", precision="float32")
        data = WavesConfig(path=path_of(data, "waves"))
        return WaveSettings(data=data, model=WaveNetConfig(length=1, classes=1), train=train)

    def settings_class(self, config: RunConfig) -> type[Settings]:
        return WaveSettings

    def prepare(self, settings: Settings, context: DataContext) -> Job:
        x, words = read_waves(settings.data)
        labels = sort_labels(words)
        info = WavesInfo(path=settings.data.path, waves=len(x), length=x.shape[1], labels=labels)
        target = torch.tensor([labels.index(word) for word in words])
        source = TensorSource(
            (x, target), batch=settings.train.batch, seed=settings.train.seed, validation=0.25
        )
        model = replace(settings.model, length=x.shape[1], classes=len(labels))
        return Job(
            kind="wavenet",
            model=model,
            task=Classify(),
            source=source,
            info=info,
            labels=labels,
            unit="waves",
        )

    def describe(self, job: Job) -> str:
        return describe_data(job.info.path or "made waves", format_count(job.info.waves, "waves"))

    def next_command(self, run: Run) -> str:
        return f"regard predict {run.path} 1,2,3"

    @torch.no_grad()
    def predict(self, run: Run, inputs: Sequence[str]) -> Iterator[Prediction]:
        info, model = run.section(WavesInfo, "corpus"), load_model(run)

        def predict_one(words: str) -> list[Prediction]:
            x = torch.tensor([[float(each) for each in words.split(",")]])
            return [Prediction.of_classes(words, model(x)[0].softmax(-1), info.labels)]

        return predict_each(inputs, predict_one)

    def other_split(
        self, run: Run, data: str, context: DataContext
    ) -> tuple[Task, Split, tuple[str, ...] | None]:
        info = run.section(WavesInfo, "corpus")
        x, words = read_waves(replace(run.section(WavesConfig, "data"), path=data))
        target = torch.tensor([info.labels.index(word) for word in words])
        source = TensorSource((x, target), batch=16, validation=(x, target))
        return (
            Classify(),
            Split(name=data, count=len(x), unit="waves", batches=source.validation),
            info.labels,
        )

    def reader(self, run: Run, model: nn.Module) -> Reader:
        return WaveReader(run.section(WavesInfo, "corpus"))


RECIPE = WavesRecipe()
