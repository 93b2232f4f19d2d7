"""Classes or numbers of images: bytes become numbers on the device, changed a little in training, seen in several
ways when judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.batch import Batch
from regard.data.targets import Numbers
from regard.recipes.images.augment import AugmentConfig, augment, mixup
from regard.recipes.images.dataset import ImagesConfig, ImagesInfo
from regard.recipes.images.multi_view import Views, average_numbers, average_views
from regard.training.scores import Scores
from regard.training.sums import Count
from regard.training.tasks import Classify, Regress, Task, call


class Light:
    """The mean and the deviation of each channel, where 1 is white: what bytes are scaled by."""

    def __init__(self, mean: Sequence[float], deviation: Sequence[float]) -> None:
        self.mean, self.deviation = (torch.tensor(each).view(1, -1, 1, 1) for each in (mean, deviation))

    def scaled(self, x: Tensor) -> Tensor:
        """Numbers from 0, black, to 1, white, as numbers around 0.   b c h w"""
        return (x - self.mean.to(x.device)) / self.deviation.to(x.device)


class ClassifyImages(Light, Classify):
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
        super().__init__(mean, deviation)
        self.classes = classes
        self.augment, self.smoothing, self.views = augment or AugmentConfig(), smoothing, views
        if weights is None:
            self.weights = None
        else:
            self.weights = torch.tensor(weights)

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Count]:
        x = self.scaled(augment(batch["x"].float() / 255, self.augment))
        if not (self.augment.mixup or self.augment.cutmix):
            return self.against(call(model, batch.replace(x=x)), batch.target), len(x)
        x, shares = mixup(x, F.one_hot(batch.target, self.classes).to(x.dtype), self.augment)
        return self.against(call(model, batch.replace(x=x)), shares), len(x)

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
        return super()._measure(_Seen(model, self.log_probabilities), batches, confusion)

    def score(self, model: nn.Module, batches: Iterable[Batch]) -> Scores:
        return super().score(_Seen(model, self.log_probabilities), batches)

    def _judged(self, logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Against smoothed labels, as they are learned. (Against sharp ones, weights from halfway, too sure
        by chance, would be taken for better than the last, which are as unsure as they were taught to be.)"""
        total = F.cross_entropy(logits, target, label_smoothing=self.smoothing, reduction="sum")
        return total, torch.full_like(total, len(target))

    def log_probabilities(self, model: nn.Module, pixels: Tensor) -> Tensor:
        """Log-probabilities of the classes, of all views together.   uint8 b c h w -> b classes"""
        return average_views(model, self.scaled(pixels.float() / 255), self.views)


class RegressImages(Light, Regress):
    """(output − target)², where the target is the number of an image, or of two images that were mixed."""

    def __init__(
        self,
        numbers: Numbers,
        mean: Sequence[float],
        deviation: Sequence[float],
        *,
        augment: AugmentConfig | None = None,
        views: Views = "one",
    ) -> None:
        Light.__init__(self, mean, deviation)
        Regress.__init__(self, (numbers.scale,), (numbers.name,))
        self.augment, self.views = augment or AugmentConfig(), views

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Count]:
        x = self.scaled(augment(batch["x"].float() / 255, self.augment))
        x, target = mixup(x, batch.target[:, None], self.augment)
        return super().loss(model, batch.replace(target=target[:, 0], x=x))

    def measure(self, model: nn.Module, batches: Iterable[Batch]) -> dict[str, float]:
        return super().measure(_Seen(model, self.predicted), batches)

    def score(self, model: nn.Module, batches: Iterable[Batch]) -> Scores:
        return super().score(_Seen(model, self.predicted), batches)

    def predicted(self, model: nn.Module, pixels: Tensor) -> Tensor:
        """The standardised number, the mean of all views.   uint8 b c h w -> b 1"""
        return average_numbers(model, self.scaled(pixels.float() / 255), self.views)


class _Seen(nn.Module):
    """A model that is given bytes, and looks in several ways."""

    def __init__(self, model: nn.Module, look: Callable[[nn.Module, Tensor], Tensor]) -> None:
        super().__init__()
        self.model, self.look = model, look

    def forward(self, pixels: Tensor) -> Tensor:
        return self.look(self.model, pixels)


def task_of(data: ImagesConfig, info: ImagesInfo, weights: Sequence[float] | None = None) -> Task:
    """What is asked of images: their numbers or their classes, by the scaling that was measured."""
    if info.numbers is not None:
        return RegressImages(info.numbers, info.mean, info.deviation, augment=data.augment, views=data.views)
    return classes_task(data, info, weights)


def classes_task(
    data: ImagesConfig, info: ImagesInfo, weights: Sequence[float] | None = None
) -> ClassifyImages:
    """The task of a classifier."""
    how: dict[str, Any] = {
        "augment": data.augment,
        "smoothing": data.smoothing,
        "weights": weights,
        "views": data.views,
    }
    return ClassifyImages(len(info.labels), info.mean, info.deviation, **how)
