"""Sets: how they are read, scaled, thinned and put side by side, for training, predictions and pages alike."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor, nn

from regard.config import Amount, Natural, Size, config
from regard.data.array import Array
from regard.data.batch import Batch, generator
from regard.data.point_clouds import find_clouds
from regard.data.splits import TEST
from regard.data.surface import random_turns
from regard.data.table_formats import is_table
from regard.data.targets import find_scale
from regard.errors import RegardError, nearest
from regard.look.model_input import ModelInput, Tokens
from regard.look.reader import NAMED
from regard.look.redact_paths import without_folders
from regard.models.additive import AdditiveConfig
from regard.models.deep_sets import DeepSetsConfig
from regard.models.mlp import MLPConfig
from regard.models.set_transformer import SetTransformerConfig
from regard.recipes.evidence import Evidence, evidence_of
from regard.recipes.example import Example, Examples
from regard.recipes.job import ShownExample
from regard.recipes.processor import Encoded, Processor, Want
from regard.recipes.sets.config import SetsConfig
from regard.recipes.sets.made_sets import MADE, draw_one, read_made, usual_sets
from regard.recipes.sets.model_input import SetInput
from regard.recipes.sets.read_clouds import CLOUD_POINTS, are_arrays, check_file, clouds_of, read_arrays, read_clouds
from regard.recipes.sets.read_table import read_table
from regard.recipes.sets.solids import fit_in_ball

DIGITS = 6  # of each number of an example that is kept
READABLE = 50  # elements of a set that a person can look at one by one


@config
class SetsFitted:
    """What the train split said: with the weights, all that a prediction needs."""

    form: Literal["table", "clouds", "made"]  # how sets were read
    features: tuple[str, ...]  # names of the numbers of an element
    centre: tuple[float, ...]  # the mean that is subtracted from them
    scale: tuple[Amount, ...]  # the standard deviation that they are then divided by
    ball: bool = False  # point clouds: first moved to the origin and shrunk into a ball
    fill: tuple[float, ...] | None = None  # what a missing feature becomes; None: it is an error
    size: Size = 1  # the most elements of a set in a batch
    usual: Size = 1  # mean number of elements of a set in a batch
    elements: Natural = 0  # of all sets, by which other data is noticed

    def __post_init__(self) -> None:
        if self.fill is not None and len(self.fill) != len(self.features):
            raise RegardError(f"{len(self.features)} features need as many fillings, got {len(self.fill)}")
        if not len(self.features) == len(self.centre) == len(self.scale):
            raise RegardError(
                f"{len(self.features)} features need as many centres and scales, got {len(self.centre)} and "
                f"{len(self.scale)}"
            )


@dataclass(frozen=True, eq=False)
class SetsProcessor(Processor[SetsConfig, SetsFitted]):
    """An example is a set: x n features. A batch is padded: x b n features, real b n."""

    Fitted: ClassVar[type] = SetsFitted
    shows: ClassVar[str | None] = "elements"

    # ── reading

    def read(self, data: Any, *, want: Want) -> Examples:
        each = None if self.fitted is None else self.target is not None and self.target.each is not None
        if data is None:
            return read_made(self.config)
        if are_arrays(data):
            return read_arrays(data, want, each=each)
        if not isinstance(data, str | os.PathLike):
            return self._read_table(data, want, each)
        path = os.fspath(data)
        if want == "learn":
            return self._read_new(os.path.expanduser(path), path)
        if self.fitted.form == "table":
            check_file(path)
            return self._read_table(path, want, each)
        if want == "judge" and not self.fitted.ball:
            raise RegardError(
                f"the task {self.config.task} is synthetic, so no file holds its targets; leave --data out"
            )
        return read_clouds(path, self.config, want, each=each)

    def _read_new(self, path: str, given: str) -> Examples:
        """Data to learn from, by what it is."""
        if not os.path.exists(path):
            near = nearest(given, MADE)
            hint = f" (did you mean {near}?)" if near else ""
            raise FileNotFoundError(
                f"there is no {given}{hint}; give a folder of point clouds, a table (.csv, .tsv, .parquet, .jsonl), "
                f"or a synthetic task: {', '.join(MADE)}"
            )
        if os.path.isdir(path):
            found = read_clouds(path, self.config, "learn")
            self._check_turn(found)
            return found
        if not is_table(path):
            raise RegardError(
                f"sets must be a folder of point clouds or a table (.csv, .tsv, .parquet, .jsonl), got {given}"
            )
        return self._read_table(path, "learn", None)

    def _read_table(self, data: Any, want: Want, each: bool | None) -> Examples:
        if self.config.turn is not None:
            raise RegardError(f"turn needs point clouds, and {data} is a table; leave turn out")
        if self.fitted is not None:
            found = read_table(data, self.config, want, self.fitted.features, each=each)
            return replace(found, notes=(*found.notes, *self._note_on_filled(found)))
        return read_table(data, self.config, want, self.config.columns or None, each=each)

    def _check_turn(self, examples: Examples) -> None:
        width = examples.inputs(0)["x"].shape[1]
        if self.config.turn not in (None, "none") and width != 3:
            raise RegardError(
                f"turn needs points with 3 numbers (x, y, z), but those of {examples.what} have {width}; leave turn out"
            )

    def is_one(self, given: Any) -> bool:
        return getattr(given, "ndim", 0) == 2 and not hasattr(given, "columns")

    def is_readable(self) -> bool:
        return self.config.path is not None or self.fitted.form == "made"

    # ── fitting

    def fit(self, examples: Examples, train: Array, model: Any, start: Self | None) -> Self:
        form: Literal["table", "clouds", "made"] = examples.about["form"]
        task = MADE[self.config.task]
        ball = form == "clouds" or (form == "made" and self.config.task == "solids")
        sizes: Array = examples.about["sizes"]
        if form == "made":
            names, most = task.features, task.most
            x = usual_sets(self.config).points if task.numbers else np.zeros((1, len(names)))
        else:
            x = np.concatenate([examples.inputs(int(i))["x"] for i in train])
            names, most = _names_of(examples, x.shape[1]), int(sizes.max())
        if form == "clouds":
            most = CLOUD_POINTS
        fill = self._fill(x, names, examples.what) if form == "table" else None
        x = x if fill is None else np.where(np.isnan(x), fill, x)
        centre, scale = x.mean(0), find_scale(x)
        if ball:  # places are in the ball already, what is beyond them is standardised like columns of a table
            centre[:3], scale[:3] = 0.0, 1.0
        elif form == "made" and not task.numbers:
            centre, scale = np.zeros(len(names)), np.ones(len(names))
        size = self.config.points or most
        seen = sizes if examples.splits is None else sizes[examples.splits != TEST]
        fitted = SetsFitted(
            form=form,
            features=tuple(names),
            centre=tuple(centre.tolist()),
            scale=tuple(scale.tolist()),
            ball=ball,
            fill=fill,
            size=size,
            usual=max(1, round(float(np.minimum(seen, size).mean()))),
            elements=int(sizes.sum()),
        )
        return replace(self, fitted=fitted)

    def _fill(self, x: Array, names: Sequence[str], what: str) -> tuple[float, ...] | None:
        """The median of each column without its missing cells, which are NaN."""
        if self.config.missing != "fill":
            return None
        for name, column in zip(names, x.T, strict=True):
            if np.isnan(column).all():
                raise RegardError(
                    f"every cell of column '{name}' of {what} is missing in the train split, so there is no median to "
                    "fill in; name the other columns with --data.columns"
                )
        return tuple(np.nanmedian(x, 0).tolist())

    def notes(self, examples: Examples, train: Array) -> tuple[str, ...]:
        """Which cells were filled with what, which sets are empty, and which features have one value in the whole train
        split."""
        if self.fitted.form == "made":
            return ()
        found = list(self._note_on_filled(examples))
        sizes = examples.about["sizes"]
        if len(empty := np.flatnonzero(sizes == 0)):
            which = f"{len(empty):,} of {len(sizes):,} sets are empty, such as {examples.names(int(empty[0]))}"
            found.append(f"{which}; the model gives all empty sets the same prediction")
        x = np.concatenate([self.encode(examples[int(i)])["x"] for i in train])
        columns = zip(self.fitted.features, x.T, strict=True)
        still = [name for name, column in columns if (column == column[:1]).all()]
        if still:
            each, it = ("each have the same value", "them") if len(still) > 1 else ("has the same value", "it")
            found.append(f"{', '.join(still)} {each} in the whole train split, so the model cannot learn from {it}")
        return tuple(found)

    def _note_on_filled(self, examples: Examples) -> tuple[str, ...]:
        holes: Mapping[str, int] = examples.about.get("holes", {})
        if not holes or self.fitted.fill is None:
            return ()
        medians = dict(zip(self.fitted.features, self.fitted.fill, strict=True))
        each = ", ".join(f"{name} {count:,} × {medians[name]:.6g}" for name, count in holes.items())
        count = sum(holes.values())
        cells = f"{count:,} missing cell{'s' if count > 1 else ''}"
        return (f"filled {cells} with the median of the train split: {each}",)

    def model_config(self, model: Any) -> Any:
        found: dict[str, Any] = {"features": len(self.fitted.features), "outputs": self.target.outputs}
        each = self.target.each is not None
        if isinstance(model, MLPConfig):
            if each:
                raise RegardError(
                    "an mlp predicts one target for each set, but here every element has a target; "
                    "choose another --model"
                )
            return replace(model, size=self.fitted.size, **found)
        if isinstance(model, AdditiveConfig):
            if each:
                raise RegardError(
                    "an additive model sums the evidence of all elements for one prediction, but here every element "
                    "has a target; choose another --model"
                )
            return replace(model, usual=self.fitted.usual, contrast=bool(self.target.classes), **found)
        if isinstance(model, DeepSetsConfig):
            found["usual"] = self.fitted.usual
        if isinstance(model, SetTransformerConfig) and model.seeds > 1 and not each:
            raise RegardError(
                f"classification and regression need one seed, got --model.seeds {model.seeds}; leave it out"
            )
        return replace(model, each=each, **found)

    # ── one batch

    def encode(self, example: Example) -> Encoded:
        x, fitted = example.inputs["x"], self.fitted
        if x.shape[1:] != (len(fitted.features),):
            wanted = f"{len(fitted.features)} numbers ({', '.join(fitted.features)})"
            element = "point" if fitted.ball else "element"
            raise RegardError(f"each {element} must have {wanted}, got {x.shape[1]}")
        if fitted.fill is not None:
            x = np.where(np.isnan(x), np.array(fitted.fill), x)
        elif np.isnan(x).any():
            raise RegardError(
                "the run was trained without --data.missing fill, so it knows no values to fill in; use --data.missing "
                "drop, or fill in the cells"
            )
        if fitted.ball and not example.inputs.get("in_ball"):
            x = np.concatenate((fit_in_ball(x[:, :3]), x[:, 3:]), 1)
        found: dict[str, Any] = {"x": ((x - np.array(fitted.centre)) / np.array(fitted.scale)).astype(np.float32)}
        return found | {"notes": example.inputs["notes"]} if example.inputs.get("notes") else found

    def length_of(self, encoded: Encoded) -> int:
        return min(len(encoded["x"]), self.fitted.size)

    def sample(self, encoded: Encoded, random: np.random.Generator | None, parts: Array | None = None) -> Encoded:
        """Some elements of a large set. A set of a table is judged and used whole, if nobody asked for less."""
        x = encoded["x"]
        whole = self.fitted.form == "table" and (self.config.points is None or self.target.each is not None)
        if len(x) <= self.fitted.size or (random is None and whole):
            return encoded
        draw = generator(0) if random is None else random
        kept = np.sort(draw.permutation(np.arange(len(x)))[: self.fitted.size])
        return {**encoded, "x": x[kept], "kept": kept}

    def collate(self, rows: Sequence[Encoded], random: np.random.Generator | None = None) -> Batch:
        sets = [row["x"] for row in rows]
        turn = self.config.turn
        if random is not None and self.fitted.form == "clouds" and turn not in (None, "none"):
            turns = random_turns(len(sets), random, upright=turn == "upright").astype(np.float32)
            sets = [cloud @ turned for cloud, turned in zip(sets, turns, strict=True)]
        return pad_sets(sets)

    def place_targets(self, codes: Sequence[Array], batch: Batch, parts: Array | None = None) -> Array:
        if self.target is None or self.target.each is None:
            return np.stack(codes)
        return self.target.pad(codes, batch["x"].shape[1])

    def answers(self, out: Tensor, batch: Batch, rows: Sequence[Encoded]) -> Sequence[Tensor]:
        if self.target is None or self.target.each is None:
            return list(out)
        return [one[: len(row["x"])] for one, row in zip(out, rows, strict=True)]

    def explain(self, model: nn.Module, encoded: Encoded) -> Evidence | None:
        element = "point" if self.fitted.ball else "element"
        names = [f"{element} {i + 1}" for i in range(len(encoded["x"]))]
        x = torch.from_numpy(encoded["x"])[None]
        return evidence_of(model, x, names, self.target.classes, self.target.numbers)

    # ── showing

    def typical(self, examples: Examples) -> int:
        """A set of median size, and at most READABLE: a set of one element is a poor example."""
        sizes = examples.about["sizes"]
        return int(np.abs(sizes - min(float(np.median(sizes)), READABLE)).argmin())

    def draw_example(self, name: str | None, seed: int) -> Examples | None:
        if self.fitted.form == "made":
            return draw_one(self.config, name or "1", seed)
        if self.fitted.form == "clouds" and name is None and self.config.path is not None:
            path = os.path.expanduser(self.config.path)
            each = self.target.each is not None
            return clouds_of(find_clouds(path)[:1], path, self.config, "judge", each=each)
        return None

    def introduce(self, examples: Examples, i: int) -> str:
        if self.fitted.form == "made":
            return f"Set {int(examples.names(i)):,} of the synthetic task {self.config.task}"
        if self.fitted.form == "clouds":
            return Path(examples.names(i)).name
        return f"Set {examples.names(i)} of {Path(examples.what).name}"

    def show(self, example: Example) -> ShownExample:
        rows = np.asarray(example.inputs["x"], dtype=np.float64).tolist()
        elements = tuple(tuple(float(f"{each:.{DIGITS}g}") for each in row) for row in rows)
        name = f"set {int(example.name):,}" if self.fitted.form == "made" else without_folders(example.name)
        element = "point" if self.fitted.ball else "element"
        return ShownExample(name=name, text=f"{len(rows):,} {element}{'s' * (len(rows) != 1)}", elements=elements)

    def from_kept(self, kept: Mapping[str, Any]) -> Example | None:
        rows = np.array(kept["elements"], dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != len(self.fitted.features):
            return None
        return Example({"x": rows}, name=str(kept["name"]))

    def from_inputs(self, inputs: Mapping[str, Any]) -> Example | None:
        return Example({"x": next(iter(inputs.values()))[0].double().numpy()})

    def model_input(
        self, example: Example, encoded: Encoded, batch: Batch, model: nn.Module, file: str | None
    ) -> ModelInput:
        n = len(encoded["x"])
        rows = np.asarray(example.inputs["x"], dtype=np.float64)
        if "kept" in encoded:
            rows = rows[encoded["kept"]]
        if not n:
            raise RegardError("the set is empty, so there is nothing to show; give a set with at least one element")
        roles: Any = model.roles
        tokens = roles.stream.tokens
        return SetInput(
            inputs={tokens: batch["x"]},
            streams=(Tokens("points", tuple(str(i + 1) for i in range(n)), "items"),) if n <= NAMED else (),
            points=tokens,
            rows=torch.from_numpy(rows).float(),
            columns=self.fitted.features,
            text=file,
        )


def pad_sets(sets: Sequence[Array]) -> Batch:
    """Sets of several sizes in one batch. Padding holds zeros and is not real.   x b n features, real b n"""
    sizes = np.array([len(each) for each in sets])
    real = np.arange(max(1, sizes.max(initial=0))) < sizes[:, None]
    x = np.zeros((*real.shape, sets[0].shape[1]), dtype=np.float32)
    x[real] = np.concatenate(sets)
    inputs = {"x": torch.from_numpy(x), "real": None if real.all() else torch.from_numpy(real)}
    return Batch(inputs, size=real.size)


def _names_of(examples: Examples, width: int) -> tuple[str, ...]:
    """What the numbers of an element are called."""
    names: tuple[str, ...] | None = examples.about.get("features")
    return names or (*"xyz", *(f"number {i + 1}" for i in range(3, width)))[:width]
