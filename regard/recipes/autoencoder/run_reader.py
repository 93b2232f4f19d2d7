"""Inputs for runs of ours, to be looked at: a file that somebody gives, or one that was held out."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn

from regard.data.cache import cache_folder
from regard.data.splits import TEST, VALIDATION
from regard.look.model_input import ModelInput
from regard.look.reader import GONE, Control, Reader, at_path
from regard.look.view import View
from regard.recipes.autoencoder.dataset import Inputs, InputsConfig, InputsInfo
from regard.recipes.autoencoder.given_inputs import read_one
from regard.recipes.autoencoder.read_inputs import read_inputs
from regard.recipes.autoencoder.task import SEED, to_numbers
from regard.recipes.autoencoder.views.held_out import Codes
from regard.recipes.autoencoder.views.latent import LatentView
from regard.recipes.autoencoder.views.rate import RateView
from regard.recipes.autoencoder.views.reconstructions import ReconstructionsView
from regard.recipes.autoencoder.views.samples import PriorView
from regard.recipes.images.model_input import ImageInput, patch_grid
from regard.recipes.images.reader import IMAGE
from regard.recipes.images.views.features import FeaturesView
from regard.recipes.images.views.image import ImageView
from regard.runs.run import Run
from regard.training.config import TrainConfig

HELD_OUT = "This input is from the data and was held out from training; --input shows one of yours."
FILE = Control(name="file", type="file", label="File", accept=".csv,.npy,.npz,.ply,.off")


class RunInputReader(Reader):
    """An input for a run of an autoencoder."""

    def __init__(self, run: Run, model: nn.Module) -> None:
        self.run, self.model = run, model
        self.data, self.info = run.section(InputsConfig, "data"), run.section(InputsInfo, "corpus")
        config: Any = model.config
        self.patch: int | None = config.patch if config.body == "vit" else None
        batch = run.section(TrainConfig, "train").batch
        codes = Codes(model, self.info, self.data.binarise, self.inputs, batch)
        own = (LatentView(codes), ReconstructionsView(codes), PriorView(codes), RateView(codes))
        of_body = {"conv": (FeaturesView(),), "vit": (ImageView(), FeaturesView())}.get(config.body, ())
        self.views: tuple[View, ...] = (*own, *of_body)
        self.controls: tuple[Control, ...] = (IMAGE,) if self.info.form == "images" else (FILE,)
        self._inputs: Inputs | None = None

    def inputs(self) -> Inputs:
        """The data of the run, read again; raises if it is gone."""
        if self._inputs is None:
            seed = self.data.seed_of(self.run.section(TrainConfig, "train").seed)
            self._inputs = read_inputs(self.data, seed=seed, cache=cache_folder())
        return self._inputs

    def numbers(self, tokens: Tensor) -> Tensor:
        """What the model takes.   b shape -> b shape"""
        return to_numbers(tokens, self.data.binarise, torch.Generator().manual_seed(SEED))

    def read(self, given: str | bytes | None = None, target: str | bytes | None = None) -> ModelInput:
        if given is None:
            return self._example()
        if self.info.form == "images":
            tokens = read_one(given, self.data, self.info)
        else:
            with at_path(given) as path:
                tokens = read_one(str(path), self.data, self.info)
        return self._as_input(tokens, os.path.basename(given) if isinstance(given, str) else None)

    def _example(self) -> ModelInput:
        with suppress(ValueError, OSError):
            inputs = self.inputs()
            rows = next((r for r in (inputs.rows(TEST), inputs.rows(VALIDATION)) if len(r)), inputs.rows(0))
            row = int(rows[0])
            batch = inputs.take(rows[:1])
            truth = inputs.labels[int(batch.target[0])] if inputs.labels else None
            return self._as_input(batch["x"][0], inputs.name_of(row), truth, (HELD_OUT,))
        draw = torch.Generator().manual_seed(0)
        return self._as_input(torch.rand(self.info.shape, generator=draw), None, None, (GONE,))

    def _as_input(
        self, tokens: Tensor, name: str | None, truth: str | None = None, notes: tuple[str, ...] = ()
    ) -> ModelInput:
        x = self.numbers(tokens[None])
        if self.info.form != "images":
            return ModelInput(inputs={"x": x}, name=name, truth=truth, notes=notes)
        return ImageInput(
            inputs={"x": x},
            pixels="x",
            image=x[0].expand(3, -1, -1) if x.shape[1] == 1 else x[0],
            grid=patch_grid(x.shape[-2], x.shape[-1], self.patch),
            patch=self.patch,
            piece="part" if self.patch is None else "patch",
            reads="mean" if self.patch is not None else None,
            name=name,
            truth=truth,
            notes=notes,
        )
