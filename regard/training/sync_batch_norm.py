"""Batch norm over the whole batch, where several processes have a slice of it each.

torch.nn.SyncBatchNorm does this between GPUs only; here it is two sums over all ranks, on any device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


class SumOverRanks(torch.autograd.Function):
    """Σ over ranks of x. Each rank's loss depends on the sum, so the gradient is the sum of theirs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        whole = x.detach().clone()
        dist.all_reduce(whole)
        return whole

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        whole = grads[0].contiguous().clone()
        dist.all_reduce(whole)
        return whole


class SyncedNorms:
    """The batch norms of a model, which from now on use the mean and the variance of all ranks in training.
    counts: False for a rank that works on no row of its own"""

    def __init__(self, model: nn.Module) -> None:
        self.counts = True
        self.found = [each for each in model.modules() if isinstance(each, _BatchNorm)]
        for each in self.found:
            each.__dict__["forward"] = self._over_ranks(each, each.forward)

    def _over_ranks(self, norm: _BatchNorm, alone: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        def forward(x: Tensor) -> Tensor:
            if not norm.training or norm.momentum is None:
                return alone(x)
            return self._normalise(norm, x)

        return forward

    def _normalise(self, norm: _BatchNorm, x: Tensor) -> Tensor:
        """(x − mean)/√(variance + ε)·weight + bias, over all but the channels.   b c ..."""
        axes = [axis for axis in range(x.dim()) if axis != 1]
        shape = [1, -1, *(1 for _ in x.shape[2:])]
        exact = x.float() if x.dtype != torch.float64 else x
        own = float(self.counts)
        count = exact.new_full((1,), own * x.numel() / x.shape[1])
        both = SumOverRanks.apply(torch.cat((own * exact.sum(axes), count)))
        mean, total = both[:-1] / both[-1], both[-1].detach()
        apart = exact - mean.view(shape)
        variance = SumOverRanks.apply(own * apart.square().sum(axes)) / total
        out = apart * (variance + norm.eps).rsqrt().view(shape)
        if norm.weight is not None:
            out = out * norm.weight.view(shape) + norm.bias.view(shape)
        self._remember(norm, mean.detach(), variance.detach() * total / (total - 1).clamp(min=1))
        return out.to(x.dtype)

    def _remember(self, norm: _BatchNorm, mean: Tensor, variance: Tensor) -> None:
        """Running means, as torch keeps them."""
        if not norm.track_running_stats or norm.running_mean is None or norm.running_var is None:
            return
        assert norm.momentum is not None
        norm.running_mean.lerp_(mean.to(norm.running_mean), norm.momentum)
        norm.running_var.lerp_(variance.to(norm.running_var), norm.momentum)
        if norm.num_batches_tracked is not None:
            norm.num_batches_tracked.add_(1)
