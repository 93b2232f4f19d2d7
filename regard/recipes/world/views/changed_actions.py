"""Actions that a reader of a served page changes: whole numbers in a request become actions of the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from regard.data.array import Array
from regard.errors import RegardError
from regard.look.reader import Control
from regard.recipes.world.spaces import Spaces

FINEST = 1000  # an action's number from −1 to 1 is asked for in thousandths
ACTIONS = Control(name="actions", type="numbers", label="changed actions")


def read_changes(asked: Sequence[int], spaces: Spaces, steps: int) -> dict[int, Array]:
    """Step after step, counted from 0, each with its kind of action, or with each of its numbers in thousandths
    from the middle of its limits to one of them."""
    wide = 1 if spaces.discrete else spaces.actions
    if len(asked) % (1 + wide):
        raise RegardError(
            f"actions must be groups of {1 + wide} whole numbers, a step and its action, got {len(asked)} numbers"
        )
    found: dict[int, Array] = {}
    for k in range(0, len(asked), 1 + wide):
        step, *action = asked[k : k + 1 + wide]
        if not 0 <= step < steps:
            raise RegardError(f"the steps of this episode are 0 … {steps - 1}, got {step}")
        found[step] = _read_action(action, spaces)
    return found


def _read_action(action: Sequence[int], spaces: Spaces) -> Array:
    if spaces.discrete:
        if not 0 <= action[0] < spaces.actions:
            raise RegardError(f"actions are 0 … {spaces.actions - 1}, got {action[0]}")
        kinds: Array = np.eye(spaces.actions, dtype=np.float32)
        return kinds[action[0]]
    if max(map(abs, action)) > FINEST:
        raise RegardError(f"numbers of an action are −{FINEST} … {FINEST}, got {max(action, key=abs)}")
    return np.array(action, dtype=np.float32) / FINEST


def write_changes(changes: Mapping[int, Array], spaces: Spaces) -> list[list[int]]:
    """The same again, for the page: a list for each change."""
    found = []
    for step, action in sorted(changes.items()):
        if spaces.discrete:
            found.append([step, int(action.argmax())])
        else:
            found.append([step, *(round(float(each) * FINEST) for each in action)])
    return found
