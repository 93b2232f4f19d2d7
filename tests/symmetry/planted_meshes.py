"""Planted bugs of meshes: a network that depends on the frames of vertices, though nothing says where they point.

Frames are counted from the first edge of the first triangle of each vertex, so these also depend on the order of triangles.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.models.mesh_net import MeshNet
from regard.nn.mesh_conv import FieldLinear, MeshConv, NormGate, conjugate
from regard.nn.mesh_geometry import MeshGeometry
from tests.symmetry.planted import Case, planted

DIM = 8


def network(bug: bool, module: nn.Module, at: str) -> Case:
    """The tiny network, with one module in place of its own; the same weights."""
    model, inputs = MeshNet.tiny()
    if bug:
        module.load_state_dict(model.get_submodule(at).state_dict(), strict=False)
        parent, _, name = at.rpartition(".")
        setattr(model.get_submodule(parent), name, module)
    return model, inputs, {}


@planted("gauge", at="blocks.0.gate", also=("edge_order",))
def relu_on_components(bug: bool) -> Case:
    class Components(NormGate):
        def forward(self, x: Tensor) -> Tensor:
            return x.relu()

    return network(bug, Components(DIM), "blocks.0.gate")


@planted("gauge", at="blocks.1.conv", also=("edge_order",))
def angle_in_the_frame_of_the_neighbour(bug: bool) -> Case:
    class OtherFrame(MeshConv):
        def edge_frames(self, geometry: MeshGeometry) -> tuple[Tensor, Tensor]:
            here, there = super().edge_frames(geometry)
            return here[geometry.twin], there

    return network(bug, OtherFrame(DIM, DIM), "blocks.1.conv")


@planted("gauge", at="blocks.1.conv", also=("edge_order",))
def transport_forgotten(bug: bool) -> Case:
    class Untransported(MeshConv):
        def edge_frames(self, geometry: MeshGeometry) -> tuple[Tensor, Tensor]:
            here, _ = super().edge_frames(geometry)
            return here, conjugate(here)

    return network(bug, Untransported(DIM, DIM), "blocks.1.conv")


@planted("gauge", at="blocks.1.conv", also=("edge_order",))
def transport_with_the_wrong_sign(bug: bool) -> Case:
    class Backwards(MeshConv):
        def edge_frames(self, geometry: MeshGeometry) -> tuple[Tensor, Tensor]:
            here, there = super().edge_frames(geometry)
            return here, conjugate(there)

    return network(bug, Backwards(DIM, DIM), "blocks.1.conv")


@planted("gauge", at="blocks.0.mix", also=("edge_order",))
def an_offset_added_to_arrows(bug: bool) -> Case:
    class Offset(FieldLinear):
        def __init__(self) -> None:
            super().__init__(DIM, DIM)
            self.more = nn.Parameter(torch.randn(DIM))

        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) + self.more

    return network(bug, Offset(), "blocks.0.mix")
