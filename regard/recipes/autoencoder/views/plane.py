"""Where codes lie on a map: two numbers in the plane, three in space, more by their principal components."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

SPACE = 3  # numbers of a code that are still seen as they are
FARTHEST = 1e6  # from 0 that a number of a code may be
MOST = 2**21  # numbers of all codes by which principal components are found: of more, some codes are taken


@dataclass(frozen=True, eq=False, kw_only=True)
class Plane:
    """place = (code − middle) axes,  and back: code = middle + place axes^T."""

    middle: Tensor  # d
    axes: Tensor  # d k, orthonormal
    names: tuple[str, ...]  # of the axes, k
    explained: tuple[float, ...] = ()  # the share of the variance along each; empty: nothing is left out

    def place(self, codes: Tensor) -> Tensor:
        """n d -> n k"""
        return (codes.float() - self.middle) @ self.axes

    def code(self, places: Tensor) -> Tensor:
        """n k -> n d"""
        return self.middle + places.float() @ self.axes.T


def find_plane(codes: Tensor) -> Plane:
    """The map of codes.   n d"""
    d = codes.shape[1]
    if d <= SPACE:
        names = tuple(f"z{i + 1}" for i in range(d))
        return Plane(middle=torch.zeros(d), axes=torch.eye(d), names=names)
    exact = codes.double().nan_to_num().clamp(-FARTHEST, FARTHEST)
    middle = exact.mean(0) if len(exact) else exact.new_zeros(d)
    if len(exact) < 2:
        return Plane(middle=middle.float(), axes=torch.eye(d)[:, :2], names=("z1", "z2"))
    step = min(len(exact) // 2, exact.numel() // MOST)  # two codes at least
    _, sizes, directions = torch.linalg.svd(exact[:: max(1, step)] - middle, full_matrices=False)
    share = sizes.square() / sizes.square().sum().clamp_min(1e-30)
    return Plane(
        middle=middle.float(),
        axes=directions[:2].T.float(),
        names=("PC1", "PC2"),
        explained=tuple(float(each) for each in share[:2]),
    )
