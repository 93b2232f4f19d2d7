"""Does a model keep the laws that it declares? For a module with inputs, or a target by its name."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from torch import Tensor

from regard.errors import RegardError, name_keywords
from regard.runs.run import Run
from regard.symmetry import check as measure
from regard.symmetry.report import Report
from regard.targets.open import Target, open_target


@name_keywords
def check(model: Any, inputs: Any = None, **how: Any) -> Report:
    """Does a model keep the laws that it declares? For a module with inputs, or a target by its name.

        assert check(model, x, laws=["permutation", "causality"]).ok
        check("runs/mine")                                # or a Hugging Face directory, or
        "package.module:function"

    how: symmetry, laws, roles, seed, trials, dtype (see regard.symmetry.check); device for a target.
    """
    if not isinstance(model, str | os.PathLike):
        if inputs is None:
            raise RegardError(
                "check needs inputs beside the model: a tensor, a tuple, or a dict by the names of its forward"
            )
        return measure.check(model, inputs, **how)
    if inputs is not None:
        raise RegardError("a target brings its own inputs; to check a module on yours, give the module itself")
    return check_target(open_target(model, seed=how.get("seed", 0)), **how)


def check_target(target: Target, *, device: Any = None, **how: Any) -> Report:
    """The same for a target that is open already."""
    inputs = target.inputs
    if device is not None:
        target.model.to(device)
        inputs = {name: x.to(device) if isinstance(x, Tensor) else x for name, x in inputs.items()}
    known: dict[str, Any] = {"symmetry": target.symmetry, "roles": target.roles, "name": target.name}
    given = {key: value for key, value in known.items() if value is not None} | how
    report = measure.check(target.model, inputs, **given)
    return replace(report, notes=(*target.notes, *report.notes))


def write_laws(run: Run, target: Target) -> None:
    """laws.json of a finished run: what it promises, measured. A run is not lost over it."""
    try:
        found = check_target(target).to_json()  # as `regard check` measures it, so that both say the same
    except (ImportError, ValueError, OSError, RuntimeError) as error:
        found = {"ok": None, "laws": [], "error": " ".join(str(error).split())}
    run.write("laws.json", found)
