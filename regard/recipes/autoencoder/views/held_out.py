"""Inputs that were not learned from, with their codes, reconstructions and errors: what all views show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.models.elbo import ACTIVE
from regard.nn.eval_mode import eval_mode
from regard.recipes.autoencoder.processor import InputsProcessor, find_held_out, number_labels, take_batches
from regard.recipes.autoencoder.task import SEED
from regard.recipes.autoencoder.views.plane import Plane, find_plane
from regard.recipes.dataset import Dataset

MOST = 1_000  # inputs that are looked at
NUMBERS = 2**24  # that all of them have together, at most
AT_ONCE = 128


@dataclass(frozen=True, eq=False, kw_only=True)
class HeldOut:
    """Some inputs of one split, all tensors in the order of `rows`."""

    split: str
    of: int  # inputs that the split has
    rows: Any  # n: their numbers in the data
    classes: Any  # n: the places of their labels among all
    x: Tensor  # n shape: clean
    given: Tensor | None  # n shape: corrupted, as a denoising model gets them; None: as they are
    back: Tensor  # n shape: reconstructions
    codes: Tensor  # n latent: means, of clean inputs
    kl: Tensor | None  # n latent
    distortion: Tensor  # n: −log p(x|z)
    error: Tensor  # n: mean squared error

    @property
    def worst_first(self) -> Tensor:
        """Their places by the error of reconstructions, the largest first.   n"""
        return self.error.nan_to_num(nan=torch.inf).argsort(descending=True, stable=True)


class Codes:
    """What is known of the codes of a run. Everything is computed once, when a view asks first.

    read  reads the data of the run again; raises if they are gone
    """

    def __init__(self, model: nn.Module, processor: InputsProcessor[Any], read: Callable[[], Dataset]) -> None:
        self.model: Any = model
        self.processor, self.read = processor, read

    @property
    def variational(self) -> bool:
        return bool(self.model.variational)

    @property
    def latent(self) -> int:
        return int(self.model.config.latent)

    @cached_property
    def dataset(self) -> Dataset | None:
        """The data; None if they cannot be read any more."""
        try:
            found = self.read()
        except (ValueError, OSError):
            return None
        now = found.processor
        return found if isinstance(now, InputsProcessor) and now.shape == self.processor.shape else None

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The labels of the data, each once; none: there are no labels."""
        return () if self.dataset is None else number_labels(self.dataset.examples)[0]

    @cached_property
    def held_out(self) -> HeldOut | None:
        """Inputs of the test split, if there are any, else of the validation split, else of the training split."""
        if self.dataset is None:
            return None
        name, rows = find_held_out(self.dataset)
        return self._look_at(self.dataset, rows, name) if len(rows) else None

    @torch.no_grad()
    def _look_at(self, dataset: Dataset, rows: Any, name: str) -> HeldOut:
        """(batches are those of evaluations: the same numbers are drawn, and measures of a whole split are equal)"""
        most = max(1, min(MOST, NUMBERS // torch.Size(self.processor.shape).numel()))
        chosen = rows[np.linspace(0, len(rows) - 1, min(most, len(rows))).round().astype(np.int64)]
        found: dict[str, list[Tensor]] = {}
        with eval_mode(self.model):
            for number, batch in enumerate(take_batches(dataset, chosen, dataset.size)):
                draw = torch.Generator().manual_seed(SEED + number)
                for key, value in self._measure(self.processor.numbers(batch, draw), draw).items():
                    found.setdefault(key, []).append(value)
        joined = {key: torch.cat(values) for key, values in found.items()}
        _, classes = number_labels(dataset.examples)
        return HeldOut(
            split=name,
            of=len(rows),
            rows=chosen,
            classes=classes[chosen],
            given=joined.pop("given", None),
            kl=joined.pop("kl", None),
            **joined,
        )

    def _measure(self, x: Tensor, draw: torch.Generator) -> dict[str, Tensor]:
        model = self.model
        same = torch.Generator().set_state(draw.get_state())
        bound = model.bound(x, generator=draw)
        given = model.corrupt(x, same)  # what the bound was computed from
        back = model.decode_mean(bound.mean)
        found = {"x": x, "back": back, "codes": bound.mean, "distortion": -bound.log_likelihood}
        found["error"] = model.likelihood.squared_error(x, back)
        if bound.kl is not None:
            found["kl"] = bound.kl
        if given is not x:
            found |= {"given": given, "codes": model.encode(x)[0]}
        return found

    # ---- the latent space

    @cached_property
    def plane(self) -> Plane:
        """The map: of held-out codes, or through 0 if there are none."""
        if self.held_out is None:
            return find_plane(torch.zeros(0, self.latent))
        return find_plane(self.held_out.codes)

    @cached_property
    def spread(self) -> tuple[Tensor, Tensor]:
        """The middle and σ of codes in each dimension: of the prior, or without one of the codes themselves.
        latent, latent"""
        if self.variational or self.held_out is None or len(self.held_out.codes) < 2:
            return torch.zeros(self.latent), torch.ones(self.latent)
        codes = self.held_out.codes.nan_to_num()
        return codes.mean(0), codes.std(0).clamp_min(1e-6)

    @cached_property
    def variance(self) -> Tensor:
        """How much the mean of a code differs between inputs, in each dimension.   latent"""
        if self.held_out is None:
            return torch.zeros(self.latent)
        return self.held_out.codes.double().var(0, unbiased=False).float()

    @cached_property
    def kl(self) -> Tensor | None:
        """The KL of each dimension, the mean over inputs.   latent"""
        if self.held_out is None or self.held_out.kl is None:
            return None
        return self.held_out.kl.double().mean(0).float()

    @property
    def active(self) -> Tensor:
        """Dimensions that say something of inputs.   bool latent"""
        return self.variance > ACTIVE

    @cached_property
    def order(self) -> list[int]:
        """Dimensions, those that say most of inputs first."""
        says = self.variance if self.kl is None else self.kl
        order: list[int] = says.nan_to_num().argsort(descending=True, stable=True).tolist()
        return order

    @torch.no_grad()
    def decode(self, codes: Tensor) -> Tensor:
        """The expected inputs, some at once.   n latent -> n shape"""
        with eval_mode(self.model):
            return torch.cat([self.model.decode_mean(part) for part in codes.split(AT_ONCE)])

    @cached_property
    def reach(self) -> float:
        """How far from 0 nearly all numbers of inputs are."""
        if self.held_out is not None:
            seen = self.held_out.x
        else:
            seen = self.decode(torch.zeros(1, self.latent))
        sizes = seen.flatten().abs().nan_to_num()
        return float(sizes[:: max(1, len(sizes) // 100_000)].quantile(0.999)) or 1.0
