"""In how many ways an image is seen when it is judged, and the one prediction of all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Views = Literal["one", "flip", "shifts", "turns"]
SHIFT = 16  # of the side: how far a shifted view is moved


def _shifted(x: Tensor) -> list[Tensor]:
    far = max(1, x.shape[-1] // SHIFT)
    padded = F.pad(x, (far, far, far, far), mode="replicate")
    h, w = x.shape[-2:]
    return [
        padded[..., i : i + h, j : j + w] for i, j in ((far, far), (0, far), (2 * far, far), (far, 0), (far, 2 * far))
    ]


VIEWS: dict[str, Callable[[Tensor], Sequence[Tensor]]] = {
    "one": lambda x: (x,),
    "flip": lambda x: (x, x.flip(-1)),
    "shifts": _shifted,
    "turns": lambda x: [torch.rot90(x, k, (-2, -1)) for k in range(4)],
}


def average_numbers(model: Callable[[Tensor], Tensor], x: Tensor, views: Views) -> Tensor:
    """The mean of what a model predicts for all views.   b c h w -> b 1"""
    return torch.stack([model(view).float() for view in VIEWS[views](x)]).mean(0)


def average_views(model: Callable[[Tensor], Tensor], x: Tensor, views: Views) -> Tensor:
    """Log-probabilities of the classes: the mean of the probabilities of all views.   b c h w -> b classes"""
    seen = [model(view).float().log_softmax(-1) for view in VIEWS[views](x)]
    if len(seen) > 1:
        return torch.stack(seen).logsumexp(0).log_softmax(-1)
    return seen[0]
