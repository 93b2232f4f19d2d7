"""The mesh in space, coloured by what each vertex says for the prediction, and by how the surface bends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from regard.look.contribution import tensor_of
from regard.look.draw_figure import draw_figure
from regard.look.figure import FIGURE_FILES, Figure, Groups, Measure
from regard.look.model_input import ModelInput
from regard.look.view import View
from regard.nn.mesh_geometry import HalfEdges, measure_mesh
from regard.recipes.meshes.model_input import MeshInput

if TYPE_CHECKING:
    from regard.look.scene import Scene

MOST_FACES = 60_000  # that are drawn

FOR_CLASS = (
    "what the surface says there for {}, against the mean of all classes; its mean over the area is the logit less the "
    "mean logit, exactly, but for the offset of the last layer"
)
FOR_NUMBER = "what the surface adds there to {}; its mean over the area is the prediction, but for a constant"
MEAN = (
    "mean curvature: above 0 where the surface bulges outward; what the model is given, with lengths in units of √area"
)
GAUSS = "Gauss curvature: above 0 like a sphere, below 0 like a saddle; what the model is given, 1 on a sphere"


class MeshView(View):
    """The mesh in space."""

    name, order, stands_alone = "mesh", 10, True
    files = FIGURE_FILES

    def applies(self, given: ModelInput) -> bool:
        return isinstance(given, MeshInput)

    def build(self, scene: Scene) -> dict[str, Any]:
        assert isinstance(scene.given, MeshInput)
        return {"view": self.name, **show_mesh(scene.model, scene.out, scene.given).to_json()}

    def still(self, scene: Scene, title: str) -> Any:
        return draw_figure(scene.view(self.name) or {}, title)


def show_mesh(model: nn.Module, out: Any, given: MeshInput) -> Figure:
    """The figure of the view."""
    faces = given.triangles
    count = faces.shape[1]
    note = None
    if count > MOST_FACES:
        faces = faces[:, torch.linspace(0, count - 1, MOST_FACES).round().long()]
        note = f"{MOST_FACES:,} of {count:,} triangles are drawn, evenly chosen, so the surface has gaps."
    return Figure(
        tab="Mesh",
        title="The mesh",
        kind="mesh",
        thing="vertex",
        facts=f"{len(given.places):,} vertices, {count:,} triangles",
        count=len(given.places),
        axes="xyz",
        places=given.places,
        columns="xyz",
        wide=3,
        measures=_measures(model, out, given),
        groups=_predicted_classes(out, given),
        faces=faces.T,
        note=note,
    )


def _measures(model: nn.Module, out: Any, given: MeshInput) -> list[Measure]:
    """Numbers of each vertex: what it says for the prediction, and both curvatures."""
    found = [*_evidence(model, out, given)]
    points = given.places
    try:
        mesh = HalfEdges.of(given.inputs[given.faces], len(points))
    except ValueError:  # the mesh of another model may be in any order
        return found
    of = torch.zeros(len(points), dtype=torch.long, device=points.device)
    geometry = measure_mesh(points, mesh, None, of, 1)
    mean = Measure("mean curvature", MEAN, geometry.mean_curvature)
    return [*found, mean, Measure("Gauss curvature", GAUSS, geometry.gauss_curvature)]


def _evidence(model: nn.Module, out: Any, given: MeshInput) -> list[Measure]:
    """What each vertex says for the prediction, by area, where the model can tell exactly."""
    contributions = getattr(model, "contributions", None)
    output = tensor_of(out)
    if contributions is None or output.dim() != 2 or output.shape[0] != 1 or given.answers is None:
        return []
    with torch.no_grad():
        each: Tensor = contributions(given.places, given.inputs[given.faces])  # n outputs
        points = given.places
        mesh = HalfEdges.of(given.inputs[given.faces], len(points))
        of = torch.zeros(len(points), dtype=torch.long, device=points.device)
        share = measure_mesh(points, mesh, None, of, 1).share
    each = each / share.clamp_min(1e-12)[:, None]  # by area, or large triangles would stand out
    if given.answers == "classes" and given.called is not None:
        best = int(output[0].argmax())
        label = given.called(best)
        values = each[:, best] - each.mean(1)
        return [Measure(f"for {label}", FOR_CLASS.format(label), values)]
    if given.number is None:
        return []
    values = each[:, 0] * given.number.scale
    name = given.number.name
    return [Measure(f"adds to {name}", FOR_NUMBER.format(name), values)]


def _predicted_classes(out: Any, given: MeshInput) -> list[Groups]:
    """The class of each vertex, where each has a prediction."""
    output = tensor_of(out)
    if given.called is None or output.dim() != 2 or len(output) != len(given.places):
        return []
    best = output.argmax(-1)
    names = [given.called(k) for k in range(output.shape[1])]
    return [Groups("predicted class", names, best)]
