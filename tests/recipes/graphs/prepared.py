"""Graphs made ready for training, as a command does it, and what became of them."""

from functools import cached_property
from pathlib import Path

import numpy as np
import torch

from regard.data.splits import SPLITS as NUMBERS
from regard.recipes.graphs.parts import SPLITS
from regard.recipes.graphs.recipe import RECIPE
from regard.recipes.job import DataContext
from regard.recipes.request import TrainRequest


def prepared(data=None, seed=0, batch=8, model=None, **options):
    """The job for this data, these options of it, and options of the model."""
    known = {f"data.{name}": value for name, value in options.items()}
    known |= {f"model.{name}": value for name, value in (model or {}).items()}
    known |= {"train.seed": seed, "train.batch": batch}
    request = TrainRequest(recipe=RECIPE, data=data, options=known)
    settings = request.settings()
    return RECIPE.prepare(settings, DataContext(cache=Path("unused"), examples=request.examples))


class Read:
    """Graphs as they were prepared."""

    def __init__(self, data=None, **how):
        self.job = prepared(data, **how)
        self.source, self.labels = self.job.source, self.job.labels
        self.examples, self.processor = self.source.examples, self.source.processor
        self.parts, self.level = self.examples.about["graphs"], self.examples.part
        self.fitted, self.target = self.processor.fitted, torch.from_numpy(self.source.codes)
        self.edges = self.parts.links
        self.split = {
            name: np.flatnonzero(self.source.splits == number).tolist()
            for name, number in NUMBERS.items()
            if name in SPLITS
        }

    @cached_property
    def encoded(self):
        return self.source.encodings(range(len(self.examples)))

    @property
    def x(self):
        found = [each["x"] for each in self.encoded]
        return found[0] if len(found) == 1 else torch.cat(found)

    @property
    def edge_x(self):
        found = [each["edge_features"] for each in self.encoded]
        return None if found[0] is None else torch.cat(found)

    def some(self, which):
        """These graphs as one batch."""
        return self.source.take(np.asarray(which))
