"""Reconstructions: what a model gives back of inputs, with the error and the code of each."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from regard import files
from regard.config import config
from regard.errors import RegardError
from regard.recipes.autoencoder.image_inputs import ImageInputs, write_pairs
from regard.recipes.autoencoder.processor import InputsProcessor, Output, check_not_lost, is_folder
from regard.recipes.prediction import Prediction
from regard.runs.number_format import say_number

PRINTED = 8  # numbers of a code that are printed


@config
class CodeOptions:
    """Options of predict and evaluate."""

    codes: str | None = None  # predict: also write the codes of all inputs, as .npz or .csv
    # evaluate: importance samples of each input, by which log p(x) is estimated
    samples: Annotated[int, Field(ge=1, le=10**6)] = 100

    def __post_init__(self) -> None:
        if self.codes is not None and Path(self.codes).suffix.lower() not in (".npz", ".csv"):
            raise RegardError(f"--codes must be an .npz or a .csv file, got {self.codes!r}")


@dataclass(frozen=True, kw_only=True)
class Reconstruction(Prediction):
    """An input given back."""

    shows: ClassVar[str] = "what came back"

    code: tuple[float, ...] = ()
    made: Tensor | None = None  # what the model gives back, as it gives it
    given: Tensor | None = None  # what it was given

    @property
    def answer(self) -> str | float | None:
        """The error."""
        return self.values.get("RMSE")

    def to_json(self) -> dict[str, Any]:
        found = super().to_json()
        if self.error is None:
            found["code"] = list(self.code)
        return found

    def format(self) -> str:
        if self.error is not None:
            return self.error
        numbers = "  ".join(f"{name} {say_number(value)}" for name, value in self.values.items())
        code = " ".join(say_number(each, 3) for each in self.code[:PRINTED])
        more = " …" if len(self.code) > PRINTED else ""
        return f"{numbers}   code {code}{more}   {self.input}"


# ── codes


def check_codes_file(out: str, inputs: Sequence[Any]) -> None:
    """Raise if codes cannot be written there; before any work."""
    parent = Path(out).absolute().parent
    if not parent.is_dir():
        raise RegardError(f"cannot write {out}: there is no folder {parent}; make it first")
    paths = [each for each in inputs if isinstance(each, str) and os.path.exists(each)]
    if os.path.exists(out) and any(os.path.samefile(each, out) for each in paths):
        raise RegardError(f"--codes {out} is one of the inputs, which would be lost; give another name")


def write_codes(predictions: Iterator[Prediction], out: Path) -> Iterator[Prediction]:
    """Pass predictions on, and write their codes with the names of the inputs after the last: arrays `codes` n d and
    `names` n, or a table."""
    names, codes = [], []
    for prediction in predictions:
        if isinstance(prediction, Reconstruction) and prediction.error is None:
            names.append(prediction.input)
            codes.append(prediction.code)
        yield prediction
    if not codes:
        return
    if out.suffix.lower() == ".npz":
        files.write_arrays(out, {"codes": np.array(codes, dtype=np.float32), "names": np.array(names)})
        return
    lines = [",".join(("input", *(f"z{i + 1}" for i in range(len(codes[0])))))]
    for name, code in zip(names, codes, strict=True):
        quoted = '"' + name.replace('"', '""') + '"'
        lines.append(",".join((quoted, *(f"{each:.7g}" for each in code))))
    files.write_text(out, "\n".join(lines) + "\n")


# ── pictures


def check_output(processor: InputsProcessor[Any], inputs: Sequence[Any], out: Output) -> None:
    """Raise for what cannot be drawn, or not there; before any work."""
    processor.check_place(out)
    given = [each for each in inputs if isinstance(each, str)]
    for each in inputs:
        with suppress(ValueError, OSError):
            found = processor.read(each, want="use")
            given += map(found.names, found.readable())
    check_not_lost(out, given)


def draw(processor: InputsProcessor[Any], predictions: Iterator[Prediction], out: Output) -> Iterator[Prediction]:
    """Write what the model gives back: one image as it is, several on a sheet below what was given, a file for
    each in a folder."""
    done: list[Reconstruction] = []
    for prediction in predictions:
        if isinstance(prediction, Reconstruction) and prediction.error is None:
            done.append(prediction)
            prediction = replace(prediction, picture=os.fspath(out))
        yield prediction
    if not done:
        return
    given = torch.stack([each.given for each in done if each.given is not None])
    made = torch.stack([each.made for each in done if each.made is not None])
    if is_folder(out):
        processor.write_folder(made, Path(out), _names_of_files([each.input for each in done]))
    elif isinstance(processor, ImageInputs) and Path(out).suffix.lower() == ".png":
        if len(made) == 1:
            processor.write_one(made[0], Path(out))
        else:
            write_pairs(given, made, out)
    else:
        processor.write(made, Path(out))


def _names_of_files(inputs: Sequence[str]) -> list[str]:
    """The names of the inputs without folders and endings; none if two are the same."""
    names = [Path(each).stem for each in inputs]
    different = {name.casefold() for name in names}
    return names if len(different) == len(names) else []
