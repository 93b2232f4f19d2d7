"""Reading graphs for models that no recipe trained."""

from __future__ import annotations

from torch import Tensor

from regard.look.reader import Reader
from regard.recipes.graphs.reader import GraphExample, GraphReader
from regard.recipes.processors import ForeignModel
from regard.symmetry.roles import Roles, guess


def foreign_reader(foreign: ForeignModel) -> Reader | None:
    """The reader of graphs for a model that no recipe trained; None for a model of other inputs."""
    declared = foreign.roles or getattr(foreign.model, "roles", None)
    if isinstance(declared, Roles):
        known = declared
    else:
        known = guess(foreign.model, dict(foreign.inputs))
    if known.nodes is None or known.edges is None or not isinstance(foreign.inputs.get(known.nodes), Tensor):
        return None
    edges = foreign.inputs.get(known.edges)
    if isinstance(edges, Tensor) and edges.shape[0] != 2:  # triangles of a mesh, say
        return None
    return GraphReader(known, lambda name: GraphExample(foreign.inputs))
