"""What an autoencoder learns: inputs are given back; where that is asked for, they are corrupted before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from regard.data.batch import Batch
from regard.models.elbo import ACTIVE, weighted_bound
from regard.recipes.autoencoder.processor import InputsProcessor
from regard.training.scores import Count, add_up, number_batches

SEED = 20_000  # of what is drawn in evaluations: the same every time


class Reconstruct:
    """−log p(x|z), plus β·KL of a variational one; in nats of an input.

    warmup: steps in which β rises from 0. Evaluations have the whole β, and draw the same numbers every time;
    `elbo` is at β = 1, whatever β is.
    """

    def __init__(self, processor: InputsProcessor[Any], warmup: int = 0) -> None:
        self.processor, self.warmup = processor, warmup
        self.warm = 1.0

    def begin_step(self, step: int) -> None:
        if self.warmup:
            self.warm = min(1.0, (step + 1) / self.warmup)

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Count]:
        x = self.processor.numbers(batch["x"])
        return model(x, warm=self.warm), len(x)

    @torch.no_grad()
    def measure(self, model: Any, batches: Iterable[Batch]) -> dict[str, float]:
        sums = BoundSums(model)
        for number, batch in number_batches(batches):
            draw = torch.Generator().manual_seed(SEED + number)
            sums.add(self.processor.numbers(batch["x"], draw), draw)
        sums.add_up()
        return sums.measures()


class BoundSums:
    """The ELBO and its parts, summed over batches."""

    def __init__(self, model: Any) -> None:
        self.model, self.config = model, model.config
        self.count = 0
        self.totals: dict[str, float] = {}
        self.codes = self.squares = self.kl = torch.zeros(())

    def add(self, x: Tensor, draw: torch.Generator) -> None:
        found = self.model.bound(x, generator=draw)
        self.count += len(x)
        back = self.model.decode_mean(found.mean)
        self._sum("squared error", self.model.likelihood.squared_error(x, back))
        self._sum("likelihood", found.log_likelihood)
        mean = found.mean.double()
        self.codes, self.squares = self.codes + mean.sum(0), self.squares + mean.square().sum(0)
        if found.kl is not None:
            self.kl = self.kl + found.kl.double().sum(0)
            self._sum("KL", found.kl.sum(-1))
            if self.config.samples > 1:
                weights = self.model.importance_weights(x, self.config.samples, generator=draw)
                self._sum("bound", weighted_bound(weights))

    def _sum(self, name: str, each: Tensor) -> None:
        self.totals[name] = self.totals.get(name, 0.0) + float(each.double().sum())

    def add_up(self) -> None:
        """Take in what other processes have of the same evaluation."""
        mine: dict[str, list[float]] = {name: [total] for name, total in self.totals.items()}
        mine |= {"/count": [float(self.count)]}
        for name in ("codes", "squares", "kl"):
            vector = getattr(self, name)
            if vector.dim():
                mine[f"/{name}"] = vector.tolist()
        whole = add_up(mine)
        self.count = int(whole.pop("/count")[0])
        for name in ("codes", "squares", "kl"):
            if f"/{name}" in whole:
                setattr(self, name, torch.tensor(whole.pop(f"/{name}"), dtype=torch.float64))
        self.totals = {name: total[0] for name, total in whole.items()}

    @property
    def active(self) -> int:
        """Dimensions whose mean differs between inputs."""
        variance = self.squares / self.count - (self.codes / self.count).square()
        return int((variance > ACTIVE).sum())

    @property
    def kl_each(self) -> list[float]:
        """The KL of each dimension, in nats."""
        found: list[float] = (self.kl / self.count).tolist()
        return found

    def measures(self) -> dict[str, float]:
        if not self.count:
            return {}
        mean = {name: total / self.count for name, total in self.totals.items()}
        rmse = mean["squared error"] ** 0.5
        if "KL" not in mean:
            return {"loss": -mean["likelihood"], "RMSE": rmse}
        elbo = mean["likelihood"] - mean["KL"]
        loss = self.config.beta * mean["KL"] - mean["likelihood"]
        if "bound" in mean:
            loss = -mean["bound"]
        return {"loss": loss, "elbo": elbo, "KL": mean["KL"], "active units": float(self.active), "RMSE": rmse}
