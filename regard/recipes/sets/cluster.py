"""Clusters of a set, found by one look at it: the mixture of Gaussians that its points are from. Nothing is labelled; the
likelihood of the points teaches the model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.array import Array
from regard.data.batch import Batch
from regard.errors import RegardError
from regard.models.additive import AdditiveConfig
from regard.models.deep_sets import DeepSetsConfig
from regard.models.mlp import MLPConfig
from regard.models.set_transformer import SetTransformerConfig
from regard.recipes.describe import describe_data, format_splits
from regard.recipes.evidence import Evidence
from regard.recipes.example import Examples
from regard.recipes.job import Job
from regard.recipes.prediction import Prediction
from regard.recipes.processor import Encoded, Processor
from regard.recipes.sets.made_sets import CLUSTERS
from regard.recipes.sets.processor import SetsProcessor
from regard.recipes.supervised import Supervised, SupervisedConfig
from regard.recipes.target import Target
from regard.training.scores import Count, ScoreList, Scores, Sums
from regard.training.tasks import Task, call

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


# ── the problem


@dataclass(frozen=True, eq=False)
class ClusterProcessor(SetsProcessor):
    """Sets of points that have no target."""

    def model_config(self, model: Any) -> Any:
        features = len(self.fitted.features)
        found: dict[str, Any] = {"features": features, "outputs": CLUSTERS * (1 + 2 * features)}
        if isinstance(model, MLPConfig):
            return replace(model, size=self.fitted.size, **found)
        if isinstance(model, AdditiveConfig):
            raise RegardError(
                "an additive model sums the evidence of all elements for one prediction, but here clusters are asked; "
                "choose another --model"
            )
        if isinstance(model, SetTransformerConfig):  # a seed for each cluster; they must agree which takes which
            found |= {"outputs": 1 + 2 * features, "seeds": CLUSTERS, "after": max(1, model.after)}
            return replace(model, each=False, **found)
        if isinstance(model, DeepSetsConfig):
            found["usual"] = self.fitted.usual
        return replace(model, each=False, **found)

    def explain(self, model: nn.Module, encoded: Encoded) -> Evidence | None:
        return None


@dataclass(frozen=True, kw_only=True)
class Cluster(Supervised):
    """The pipeline of supervised learning, with points in place of a target."""

    def find_target(self, examples: Examples, config: SupervisedConfig) -> Target | None:
        return None

    def make_task(self, processor: Processor[Any, Any], codes: Array) -> Task:
        return Mixture(CLUSTERS)

    def describe(self, job: Job) -> str:
        counts = {name: job.counts.get(name) for name in ("train", "validation", "test")}
        return describe_data(job.source_name, format_splits(**counts))

    def decode(self, processor: Processor[Any, Any], name: str, out: Tensor, cell: Any) -> Prediction:
        features = len(processor.fitted.features)
        return Prediction(input=name, each=tuple(_clusters(out, features)))


def _clusters(out: Tensor, d: int) -> Iterator[Prediction]:
    """Each cluster with its share, its middle and its deviations, the largest first."""
    found = read_mixture(out[None], CLUSTERS, d)
    for i in found.share[0].argsort(descending=True).tolist():
        places = {f"middle {axis + 1}": found.middle[0, i, axis].item() for axis in range(d)}
        widths = {f"deviation {axis + 1}": found.deviation[0, i, axis].item() for axis in range(d)}
        share = {"share": found.share[0, i].exp().item()}
        yield Prediction(input=f"cluster {i + 1}", values={**share, **places, **widths})
