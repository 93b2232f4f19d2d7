"""Regression where only some targets are known."""

from __future__ import annotations

from torch import Tensor, nn

from regard.data.batch import Batch
from regard.training.tasks import Regress


class RegressKnown(Regress):
    """(output − target)² where the target is known, that is, no NaN: of the nodes of a graph only some are asked."""

    def _apart(self, model: nn.Module, batch: Batch) -> Tensor:
        apart = super()._apart(model, batch)
        return apart[~apart.isnan()]
