"""Tasks on graphs: classification, or regression where only some targets are known."""

from __future__ import annotations

from torch import Tensor, nn

from regard.data.batch import Batch
from regard.recipes.graphs.info import GraphsInfo
from regard.training.tasks import Classify, Regress, Task


class RegressKnown(Regress):
    """(output − target)² where the target is known, that is, not NaN: only some nodes of a graph have one."""

    def _all_pairs(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor, Tensor | None]:
        out, target, _ = super()._all_pairs(model, batch)
        return out, target, ~target.isnan()


def task_of(info: GraphsInfo) -> Task:
    """Classification, or regression with errors in the units of the data."""
    if info.labels is not None:
        return Classify()
    assert info.size is not None
    return RegressKnown((info.size[1],))
