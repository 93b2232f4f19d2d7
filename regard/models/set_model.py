"""The base of set models: elements b n features and `real`, bool b n, False for padding, which may hold
anything.

They return b outputs for the whole set, or with `each=True` b n outputs, one row for each element. A set may
be empty.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from regard.config import Depth, Size, Width, config
from regard.models.registered_model import RegisteredModel
from regard.models.sample_inputs import sample_sets
from regard.nn.padding import zero_padding
from regard.shapes import expect
from regard.symmetry.groups import Group, Permutations
from regard.symmetry.roles import Roles, Stream


@config
class SetConfig:
    """Settings of all set models."""

    features: Size  # numbers of each element
    outputs: Size  # numbers in the output
    hidden: Width = 128  # width of the hidden layers
    depth: Depth = 2  # layers before the pool
    each: bool = False  # one row of outputs for each element, not one for the set


class SetModel(RegisteredModel):
    """The base of set models."""

    config: Any  # with the field features

    def sample_inputs(self, seed: int = 0, tokens: int | None = None, rows: int | None = None) -> dict[str, Any]:
        return sample_sets(self.config, seed)

    @property
    def symmetry(self) -> Group:
        """Any order of the elements: the output stays the same, or with `each` moves along."""
        return Permutations()

    @property
    def roles(self) -> Roles:
        """What each input is, for `check`."""
        return Roles(streams=(Stream("x", mask="real"),))

    def checked_elements(self, x: Tensor, real: Tensor | None) -> Tensor:
        b, n, _ = expect(x, "b n d", name="x", d=self.config.features)
        if real is not None:
            expect(real, "b n", name="real", b=b, n=n)
        return zero_padding(x, real)


def perceptron(dim: int, hidden: int, out: int) -> nn.Sequential:
    """Two layers that see one element at a time."""
    return nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, out))
