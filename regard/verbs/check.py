"""regard check: does a model keep the laws that it declares?"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor

from regard import registry
from regard.config import Seed, Size, config
from regard.errors import RegardError, name_keywords
from regard.files import json_text
from regard.look.terminal import laws_table
from regard.runs.run import Run
from regard.symmetry import check as measure
from regard.symmetry.hygiene import HYGIENE
from regard.symmetry.report import Report
from regard.targets.open import Target, open_target
from regard.training.step import open_device
from regard.verbs.options import one_word, read_options


@config
class CheckOptions:
    """TARGET is one of these: the folder of a run, made by regard train; the folder of a downloaded Hugging Face model
    (config.json and safetensors; without safetensors the weights are random); or package.module:function, your own
    function that returns (model, inputs[, symmetry[, roles]]).

    exit code: 0 all laws are as declared, 1 a declared law is broken, 2 the check could not run, 3 a law that was
    named or declared, or a law of hygiene that applies, could not be measured
    """

    # check only these, such as padding,causality; none: all that apply (see: regard list laws)
    laws: tuple[str, ...] = ()
    json: bool = False  # print the report as JSON
    seed: Seed = 0  # seed of the random trials
    trials: Size = 8  # random trials for each law
    length: Size | None = None  # try so many tokens; None: as many as the target gives
    # dtype of the check; None: that of the model
    dtype: Literal["float64", "float32", "bfloat16", "float16"] | None = None
    device: str | None = None  # cpu, cuda or mps; None: that of the model


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


# ── the command


def run(words: list[str]) -> int:
    """regard check TARGET"""
    options, words = read_options(CheckOptions, words, "regard check")
    target = one_word(words, "check", "target")
    for law in options.laws:
        registry.find("laws", law)  # or say which there are

    how: dict[str, Any] = {
        "seed": options.seed,
        "trials": options.trials,
        "laws": options.laws or None,
        "length": options.length,
    }
    if options.dtype is not None:
        how["dtype"] = getattr(torch, options.dtype)
    if options.device is not None:
        how["device"] = open_device(options.device, advice="try --device cpu")
    report = check(target, **how)
    if options.json:
        print(json_text(report.to_json(), indent=2))
    else:
        laws_table(report)
    return _exit_code(report)


def _exit_code(report: Report) -> int:
    """0: as declared, 1: a law is broken, 3: one that was named or declared, or a law of hygiene, could not be measured."""
    if any(each.measured != "unknown" for each in report.wrong):
        return 1
    hygiene = {law.name for law in HYGIENE if law.counts}
    unknown = [each for each in report if each.measured == "unknown"]
    asked = [
        each for each in unknown if each.named or each.law in hygiene or each.declared not in (None, "not promised")
    ]
    return 3 if asked or len(unknown) == len(report) else 0
