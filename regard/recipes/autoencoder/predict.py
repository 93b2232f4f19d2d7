"""Reconstructions: what a model gives back of inputs, with the error and the code of each."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from regard import files
from regard.config import config
from regard.errors import RegardError
from regard.recipes.autoencoder.dataset import InputsConfig, InputsInfo
from regard.recipes.autoencoder.generate import threshold_of
from regard.recipes.autoencoder.given_inputs import GivenInput, given_inputs, restore
from regard.recipes.autoencoder.read_inputs import image_reader
from regard.recipes.autoencoder.task import to_numbers
from regard.recipes.autoencoder.write_inputs import (
    check_not_lost,
    check_place,
    is_folder,
    lay_out,
    png,
    to_bytes,
    write_made,
)
from regard.recipes.prediction import Prediction
from regard.runs.load import load_model
from regard.runs.number_format import say_number
from regard.runs.run import Run

AT_ONCE = 64  # inputs that are encoded together
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


@torch.no_grad()
def predict(run: Run, inputs: Sequence[str], options: CodeOptions) -> Iterator[Prediction]:
    """Each input given back; what cannot be read has an error instead. Codes are written after the last."""
    model: Any = load_model(run)
    config, info = run.section(InputsConfig, "data"), run.section(InputsInfo, "corpus")
    if options.codes is not None:
        _check_codes_file(options.codes, inputs)
    given = given_inputs(inputs, run)
    names: list[str] = []
    codes: list[Tensor] = []
    while some := list(islice(given, AT_ONCE)):
        good = [each for each in some if each.tokens is not None]
        done = iter(_reconstruct(model, good, config, info) if good else ())
        for each in some:
            if each.tokens is None:
                yield each.prediction
                continue
            found = next(done)
            names.append(found.input)
            codes.append(torch.tensor(found.code))
            yield found
    if options.codes is not None and codes:
        write_codes(Path(options.codes), names, torch.stack(codes))


def _reconstruct(
    model: Any, given: Sequence[GivenInput], config: InputsConfig, info: InputsInfo
) -> Iterator[Reconstruction]:
    x = to_numbers(torch.stack([each.tokens for each in given if each.tokens is not None]), threshold_of(config))
    codes, _ = model.encode(x)
    made = model.decode_mean(codes)
    errors = model.likelihood.squared_error(x, made).sqrt()
    for i, (_, asked) in enumerate(given):
        values = {"RMSE": float(errors[i])}
        if info.form == "rows":
            values |= dict(zip(info.columns, restore(made[i : i + 1], info)[0].tolist(), strict=True))
        yield Reconstruction(
            input=asked.input,
            source=asked.source,
            row=asked.row,
            notes=asked.notes,
            truth=None,
            values=values,
            code=tuple(codes[i].tolist()),
            made=made[i],
            given=x[i],
        )


def _check_codes_file(out: str, inputs: Sequence[str]) -> None:
    parent = Path(out).absolute().parent
    if not parent.is_dir():
        raise RegardError(f"cannot write {out}: there is no folder {parent}; make it first")
    if any(os.path.exists(each) and os.path.exists(out) and os.path.samefile(each, out) for each in inputs):
        raise RegardError(f"--codes {out} is one of the inputs, which would be lost; give another name")


def write_codes(out: Path, names: Sequence[str], codes: Tensor) -> None:
    """Codes with the names of their inputs: arrays `codes` n d and `names` n, or a table."""
    if out.suffix.lower() == ".npz":
        files.write_arrays(out, {"codes": codes.numpy(), "names": np.array(names)})
        return
    lines = [",".join(("input", *(f"z{i + 1}" for i in range(codes.shape[1]))))]
    for name, code in zip(names, codes.tolist(), strict=True):
        quoted = '"' + name.replace('"', '""') + '"'
        lines.append(",".join((quoted, *(f"{each:.7g}" for each in code))))
    files.write_text(out, "\n".join(lines) + "\n")


# ── pictures


def check_output(run: Run, inputs: Sequence[str], out: str | os.PathLike[str]) -> None:
    """Raise for what cannot be drawn, or not there; before any work."""
    info = run.section(InputsInfo, "corpus")
    check_place(out, info.form)
    given = list(inputs)
    if info.form == "images":
        reader = image_reader(run.section(InputsConfig, "data"))
        for each in inputs:
            with suppress(ValueError, OSError):
                found = reader.read(each, want="use")
                given += map(found.names, found.readable())
    check_not_lost(out, given)


def draw(run: Run, predictions: Iterator[Prediction], out: str | os.PathLike[str]) -> Iterator[Prediction]:
    """Write what the model gives back: one image as it is, several on a sheet below what was given, a file for
    each in a folder."""
    info = run.section(InputsInfo, "corpus")
    done: list[Reconstruction] = []
    for prediction in predictions:
        if isinstance(prediction, Reconstruction) and prediction.error is None:
            done.append(prediction)
            prediction = replace(prediction, picture=os.fspath(out))
        yield prediction
    made = [each.made for each in done if each.made is not None]
    given = [each.given for each in done if each.given is not None]
    if not made:
        return
    together = torch.stack(made)
    if info.form != "images" or len(made) == 1 or is_folder(out) or Path(out).suffix.lower() != ".png":
        if info.form == "images" and len(made) == 1 and not is_folder(out):
            files.write_bytes(out, png(to_bytes(together)[0]))
            return
        write_made(together, info, out, names=_names_of_files([each.input for each in done]))
        return
    files.write_bytes(out, png(sheet_of_pairs(torch.stack(given), together)))


def _names_of_files(inputs: Sequence[str]) -> list[str]:
    """The names of the inputs without folders and endings; none if two are the same."""
    names = [Path(each).stem for each in inputs]
    different = {name.casefold() for name in names}
    return names if len(different) == len(names) else []


def sheet_of_pairs(given: Tensor, made: Tensor, across: int = 16) -> Any:
    """Rows of what was given, and below each what came back.   n c h w -> h' w'"""
    count = len(given)
    across = min(across, count)
    rows = []
    for start in range(0, count, across):
        for part in (given, made):
            some = part[start : start + across]
            if len(some) < across:
                some = torch.cat((some, torch.full((across - len(some), *some.shape[1:]), 0.5)))
            rows.append(some)
    return lay_out(to_bytes(torch.cat(rows)), across)
