"""Classes of images: bytes become numbers on the device, changed a little in training, seen in several ways
when judged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.batch import Batch
from regard.recipes.images.augment import AugmentConfig, augment, mixup
from regard.recipes.images.dataset import ImagesConfig, ImagesInfo
from regard.recipes.images.multi_view import Views, average_views
from regard.training.scores import Scores
from regard.training.tasks import Classify, Count, call


class ClassifyImages(Classify):
    """−Σ_c w_c t_c log softmax(logits)_c, where t is the label, smoothed, or that of two images that were
    mixed.

    mean, deviation  of each channel, where 1 is white: what bytes are scaled by
    weights          of the classes, 1 on average over the training images; None: all 1
    """

    def __init__(
        self,
        classes: int,
        mean: Sequence[float],
        deviation: Sequence[float],
        *,
        augment: AugmentConfig | None = None,
        smoothing: float = 0.0,
        weights: Sequence[float] | None = None,
        views: Views = "one",
    ) -> None:
        self.classes = classes
        self.mean, self.deviation = (torch.tensor(each).view(1, -1, 1, 1) for each in (mean, deviation))
        self.augment, self.smoothing, self.views = augment or AugmentConfig(), smoothing, views
        if weights is None:
            self.weights = None
        else:
            self.weights = torch.tensor(weights)

    def scaled(self, x: Tensor) -> Tensor:
        """Numbers from 0, black, to 1, white, as numbers around 0.   b c h w"""
        return (x - self.mean.to(x.device)) / self.deviation.to(x.device)

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Count]:
        x = self.scaled(augment(batch.tokens.float() / 255, self.augment))
        if not (self.augment.mixup or self.augment.cutmix):
            return self.against(call(model, replace(batch, tokens=x)), batch.target), len(x)
        x, shares = mixup(x, F.one_hot(batch.target, self.classes).to(x.dtype), self.augment)
        return self.against(call(model, replace(batch, tokens=x)), shares), len(x)

    def against(self, logits: Tensor, target: Tensor) -> Tensor:
        if self.weights is None:
            weights = None
        else:
            weights = self.weights.to(logits.device)
        total = F.cross_entropy(
            logits.float(), target, weights, label_smoothing=self.smoothing, reduction="sum"
        )
        return total / len(logits)

    def _measure(
        self, model: nn.Module, batches: Iterable[Batch], confusion: Tensor | None
    ) -> dict[str, float]:
        return super()._measure(_Seen(model, self), batches, confusion)

    def score(self, model: nn.Module, batches: Iterable[Batch]) -> Scores:
        return super().score(_Seen(model, self), batches)

    def _judged(self, logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Against smoothed labels, as they are learned. (Against sharp ones, weights from halfway, too sure
        by chance, would be taken for better than the last, which are as unsure as they were taught to be.)"""
        total = F.cross_entropy(logits, target, label_smoothing=self.smoothing, reduction="sum")
        return total, torch.full_like(total, len(target))

    def log_probabilities(self, model: nn.Module, pixels: Tensor) -> Tensor:
        """Log-probabilities of the classes, of all views together.   uint8 b c h w -> b classes"""
        return average_views(model, self.scaled(pixels.float() / 255), self.views)


class _Seen(nn.Module):
    """A model that is given bytes, and looks in several ways."""

    def __init__(self, model: nn.Module, task: ClassifyImages) -> None:
        super().__init__()
        self.model, self.task = model, task

    def forward(self, pixels: Tensor) -> Tensor:
        return self.task.log_probabilities(self.model, pixels)


def task_of(data: ImagesConfig, info: ImagesInfo, weights: Sequence[float] | None = None) -> ClassifyImages:
    """What is asked of images: their classes, by the scaling that was measured."""
    how: dict[str, Any] = {
        "augment": data.augment,
        "smoothing": data.smoothing,
        "weights": weights,
        "views": data.views,
    }
    return ClassifyImages(len(info.labels), info.mean, info.deviation, **how)
