"""Sets for models that no recipe made."""

from __future__ import annotations

from torch import Tensor

from regard.look.reader import Reader
from regard.recipes.processors import ForeignModel
from regard.recipes.sets.reader import SetReader
from regard.symmetry.roles import Roles, guess


def foreign_reader(foreign: ForeignModel) -> Reader | None:
    """What reads sets for a model that no recipe made; None for a model of other inputs.

    It is one of sets if it says that its tokens are vectors without places, or if nothing is said and they
    have two or three numbers each.
    """
    declared = foreign.roles or getattr(foreign.model, "roles", None)
    if isinstance(declared, Roles):
        known = declared
    else:
        known = guess(foreign.model, dict(foreign.inputs))
    stream = known.stream
    if stream is None:
        x = None
    else:
        x = foreign.inputs.get(stream.tokens)
    if (
        stream is None
        or known.nodes is not None
        or not isinstance(x, Tensor)
        or x.dim() != 3
        or not x.is_floating_point()
    ):
        return None
    if stream.axis != 1 or (known.points is None if known is not declared else stream.places is not None):
        return None
    return SetReader(known, foreign.inputs)
