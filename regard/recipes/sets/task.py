"""Tasks on sets: classification, regression, or clusters as the mixture of Gaussians that the points are
from."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.batch import Batch
from regard.data.targets import Numbers
from regard.errors import RegardError
from regard.recipes.sets.dataset import SetsForm
from regard.recipes.sets.made_sets import CLUSTERS
from regard.training.scores import ScoreList, Scores
from regard.training.sums import Count, Sums
from regard.training.tasks import Classify, Regress, Task, call

LEAST = 1e-3  # smallest standard deviation: it keeps the likelihood of a single point bounded


class Gaussians(NamedTuple):
    """k Gaussians with diagonal covariance, for each of b sets."""

    share: Tensor  # b k, log weights: their exponentials sum to 1
    middle: Tensor  # b k d
    deviation: Tensor  # b k d

    def log_likelihood(self, points: Tensor) -> Tensor:
        """log Σ_k share_k N(x; middle_k, deviation_k²) of each point.   b n d -> b n"""
        apart = (points[:, :, None] - self.middle[:, None]) / self.deviation[:, None]  # b n k d
        each = -0.5 * (apart.square() + math.log(2 * math.pi)).sum(-1) - self.deviation.log().sum(-1)[:, None]
        return torch.logsumexp(each + self.share[:, None], -1)


def read_mixture(out: Tensor, k: int, d: int) -> Gaussians:
    """The outputs of a model as k Gaussians: for each a logit of its share, a middle and a deviation.
    b k·(1+2d)"""
    if out.dim() != 2 or out.shape[1] != k * (1 + 2 * d):
        wanted = f"a mixture of {k} Gaussians in {d} dimensions needs {k * (1 + 2 * d)} outputs for each set"
        raise RegardError(f"{wanted}, got {tuple(out.shape)}")
    share, middle, wide = out.float().unflatten(1, (k, 1 + 2 * d)).split((1, d, d), -1)
    return Gaussians(share[..., 0].log_softmax(-1), middle, F.softplus(wide) + LEAST)


class Mixture:
    """−log likelihood of the points under the mixture that the model predicts, the mean over points.
    out: b k·(1+2d)"""

    def __init__(self, clusters: int) -> None:
        self.clusters = clusters

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Count]:
        total, count = self._total(model, batch)
        return -total / max(count, 1), count

    def measure(self, model: nn.Module, batches: Iterable[Batch]) -> dict[str, float]:
        sums = Sums()
        for batch in batches:
            total, points = self._total(model, batch)
            sums.add(points, likelihood=total)
        means = sums.means()
        if means:
            return {"loss": -means["likelihood"], "log-likelihood": means["likelihood"]}
        return {}

    def score(self, model: nn.Module, batches: Iterable[Batch]) -> Scores:
        """The numbers of each set."""
        found = ScoreList("loss")
        for batch in batches:
            each, real = self._likelihoods(model, batch)
            points = batch["x"].float().sum(-1)
            found.add_numbers({"loss": -each}, real, points, points)
        return found.scores()

    def _total(self, model: nn.Module, batch: Batch) -> tuple[Tensor, int]:
        each, real = self._likelihoods(model, batch)
        return each.masked_fill(~real, 0).sum(), int(real.sum())

    def _likelihoods(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
        """The log likelihood of each point, and which points are real.   b n, bool b n"""
        points = batch["x"].float()
        each = read_mixture(call(model, batch), self.clusters, points.shape[-1]).log_likelihood(points)
        if "real" not in batch:
            return each, torch.ones_like(each, dtype=torch.bool)
        return each, batch["real"]


def labels_of(form: SetsForm) -> tuple[str, ...] | None:
    """The classes of a classification task; None for other tasks."""
    if form.asks == "classes":
        return form.answers
    return None


def numbers_of(form: SetsForm) -> tuple[Numbers, ...]:
    """What is predicted if the targets are numbers, with their scales."""
    if form.asks != "numbers":
        return ()
    scales = zip(form.answers, form.target_centre, form.target_scale, strict=True)
    return tuple(Numbers(name=name, centre=centre, scale=scale) for name, centre, scale in scales)


def task_of(form: SetsForm) -> Task:
    if form.asks == "clusters":
        return Mixture(CLUSTERS)
    if form.asks == "classes":
        return Classify()
    return Regress(form.target_scale, form.answers)
