"""Does training ever wait for pictures? Makes a folder of 3,000 JPEGs of 200 × 200 pixels, trains a few steps on it, and counts
the seconds in which a step waits for its batch: with decoded pictures kept, and with every picture decoded again for each step.

python benchmarks/loading.py                      writes results.md
python benchmarks/loading.py --pictures 300       fewer; writes nothing
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from alternate import keep, table
from PIL import Image

from regard.data.batch import Batch, Source
from regard.recipes.base import get_recipe
from regard.recipes.job import DataContext
from regard.recipes.settings import apply_settings
from regard.training.step import Stepper
from regard.verbs import train_run

PICTURES, SIDE, CLASSES = 3000, 200, 10
STEPS, FIRST = 8, 2  # the first steps are not counted
RESULTS = Path(__file__).with_name("results.md")


class Seen(NamedTuple):
    model: str
    decoded: str
    first: float  # seconds until the first step, nothing known yet
    again: float  # the same the second time
    step: float
    waited: float


class Watched(Source):
    """A source, and the seconds it was waited for."""

    def __init__(self, source: Source) -> None:
        self.source, self.seconds = source, 0.0

    def batch(self, step: int) -> Batch:
        began = time.perf_counter()
        found = self.source.batch(step)
        self.seconds += time.perf_counter() - began
        return found

    def validation(self) -> Iterator[Batch]:
        return self.source.validation()


def make(folder: Path, pictures: int) -> None:
    """Blots of colour, as large as photos are when they are JPEGs."""
    draw = np.random.default_rng(0)
    for number in range(pictures):
        place = folder / f"class {number % CLASSES}"
        place.mkdir(parents=True, exist_ok=True)
        blots = draw.integers(0, 256, (25, 25, 3)).astype(np.uint8)
        Image.fromarray(blots).resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(place / f"{number}.jpg", quality=90)


def measured(folder: Path, cache: Path, model: str, decoded: str) -> Seen:
    starting = []
    for _ in range(2):
        began = time.perf_counter()
        images = get_recipe("images")
        settings = apply_settings(images.defaults(str(folder), model), {"data.decoded": decoded})
        job = train_run.prepare_job(images, settings, DataContext(cache=cache))
        starting.append(time.perf_counter() - began)
    source = Watched(job.source)
    stepper = Stepper(train_run.build_model(job, settings).train(), job.task, source, settings.train)
    for step in range(FIRST + STEPS):
        if step == FIRST:
            source.seconds, began = 0.0, time.perf_counter()
        stepper.gradients(step)
        stepper.move(step, None)
    return Seen(model, decoded, *starting, (time.perf_counter() - began) / STEPS, source.seconds / STEPS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=PICTURES)
    pictures = parser.parse_args().pictures
    rows = []
    with tempfile.TemporaryDirectory(prefix="regard-loading-") as name:
        make(folder := Path(name) / "pictures", pictures)
        for model in ("vit", "lenet"):
            for decoded in ("auto", "never"):
                cache = Path(name) / f"cache {model} {decoded}"
                cache.mkdir()
                rows.append(measured(folder, cache, model, decoded))
    head = ["model", "decoded", "start", "second start", "a step", "waiting in it", "share"]
    text = table(
        head,
        [
            [
                each.model,
                each.decoded,
                f"{each.first:.1f} s",
                f"{each.again:.1f} s",
                f"{1e3 * each.step:.0f} ms",
                f"{1e3 * each.waited:.1f} ms",
                f"{each.waited / each.step:.1%}",
            ]
            for each in rows
        ],
    )
    print(text)
    if pictures == PICTURES:
        threads = torch.get_num_threads()
        how = f"{threads} thread{'s' * (threads > 1)}: {PICTURES:,} JPEGs of {SIDE} × {SIDE} pixels, as 64 × 64, 64 in a batch"
        keep(RESULTS, "Loading of pictures", f"`python benchmarks/loading.py`, {how}.\n\n{text}")


if __name__ == "__main__":
    main()
