"""What look shows of a run: a file that somebody gives, or an input that was held out."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from torch import nn

from regard.data.cache import cache_folder
from regard.look.model_input import ModelInput
from regard.look.reader import Control
from regard.look.view import View
from regard.recipes.autoencoder.processor import find_held_out, name_input
from regard.recipes.autoencoder.views.held_out import Codes
from regard.recipes.autoencoder.views.latent import LatentView
from regard.recipes.autoencoder.views.rate import RateView
from regard.recipes.autoencoder.views.reconstructions import ReconstructionsView
from regard.recipes.autoencoder.views.samples import PriorView
from regard.recipes.dataset import Dataset
from regard.recipes.images.reader import IMAGE
from regard.recipes.images.views.features import FeaturesView
from regard.recipes.images.views.image import ImageView
from regard.recipes.job import DataContext
from regard.recipes.settings import read_settings
from regard.recipes.supervised_reader import SupervisedReader
from regard.runs.run import Run

if TYPE_CHECKING:
    from regard.recipes.autoencoder.autoencode import Autoencode

HELD_OUT = "This input is from the data and was held out from training; --input shows one of yours."
FILE = Control(name="file", type="file", label="File", accept=".csv,.npy,.npz,.ply,.off")


class InputReader(SupervisedReader):
    """An input for a run of an autoencoder."""

    def __init__(self, problem: Autoencode, run: Run, model: nn.Module) -> None:
        self.problem, self.run, self.model, self.processor = problem, run, model, problem.open(run)
        config: Any = model.config
        codes = Codes(model, self.processor, lambda: self.dataset)
        own = (LatentView(codes), ReconstructionsView(codes), PriorView(codes), RateView(codes))
        of_body = {"conv": (FeaturesView(),), "vit": (ImageView(), FeaturesView())}.get(config.body, ())
        self.views: tuple[View, ...] = (*own, *of_body)
        self.controls = (IMAGE if self.processor.takes_bytes else FILE,)

    @cached_property
    def dataset(self) -> Dataset:
        """The data of the run, read again; raises if it is gone."""
        if self.run.config.given is not None:
            raise FileNotFoundError(f"the data of {self.run.path} was in memory")
        kind = str(self.run.config.kind)
        settings = read_settings(self.problem.settings_class(kind), self.run)
        found = self.problem.prepare(settings, kind, DataContext(cache=cache_folder())).source
        assert isinstance(found, Dataset)
        return found

    def _of_data(self, name: str | None) -> ModelInput:
        examples = self.dataset.examples
        row = int(find_held_out(self.dataset)[1][0]) if name is None else self.processor.find(examples, name)
        found = self._input_of(examples[row], None)
        return replace(found, name=name_input(examples, row), truth=examples.target_of(row), notes=(HELD_OUT,))
