"""Tasks of graphs: classes, or numbers where only some targets are known."""

from __future__ import annotations

from torch import Tensor, nn

from regard.data.batch import Batch
from regard.recipes.graphs.info import GraphsInfo
from regard.training.tasks import Classify, Regress, Task


class RegressKnown(Regress):
    """(output − target)² where the target is known, that is, no NaN: of the nodes of a graph only some are
    asked."""

    def _apart(self, model: nn.Module, batch: Batch) -> Tensor:
        apart = super()._apart(model, batch)
        return apart[~apart.isnan()]


def task_of(info: GraphsInfo) -> Task:
    """Classes, or numbers in their own units."""
    if info.labels is not None:
        return Classify()
    assert info.size is not None
    return RegressKnown((info.size[1],))
