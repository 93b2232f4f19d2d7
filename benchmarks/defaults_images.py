"""Classes of images: the default beside our other kinds and beside two networks in a plain PyTorch loop.

Everyone has the same images, the same seconds of the processor with one thread (a busy machine then changes
little), and the validation split of the recipe. Evaluations and the trial of mirrors are part of our seconds.
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from alternate import table
from torch import Tensor, nn

import regard
from regard.data.cache import cache_folder
from regard.recipes.images.recipe import RECIPE
from regard.recipes.job import DataContext, Job
from regard.recipes.request import TrainRequest
from regard.training.budget import EVALUATIONS, SHARE
from regard.training.progress import Observer

TIMED = 12  # steps from which the number of steps is computed
BATCH = 128


def add_images_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", nargs="+", required=True)
    parser.add_argument("--flip", nargs="*", default=[], help="data for which peers mirror images")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--who", nargs="+", default=["default", *PEERS])


def compare_images(options: argparse.Namespace) -> str:
    rows = []
    for data in options.data:
        for who in options.who:
            found = []
            for seed in range(options.seeds):
                if who in PEERS:
                    found.append(train_peer(who, data, data in options.flip, options.seconds, seed))
                else:
                    found.append(train_ours(who, data, options.seconds, seed))
                print(data, who, seed, [round(each, 2) for each in found[-1]], flush=True)
            means = [statistics.mean(each) for each in zip(*found, strict=True)]
            rows.append(
                [Path(data).stem, who, f"{means[0]:.2f}", f"{means[1]:.2f}", f"{means[2]:.1f}", f"{means[3]:.0f}"]
            )
    headers = ["data", "model", "test %", "validation %", "epochs", "seconds of the processor"]
    return f"Means of {options.seeds} seeds.\n\n" + table(headers, rows)


# ── ours


class StepTimes(Observer):
    """When each step was done, in seconds of the processor."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def stepped(self, step: int, loss: float, size: int, seconds: float) -> None:
        self.times.append(time.process_time())


def train_ours(kind: str, data: str, seconds: float, seed: int) -> tuple[float, float, float, float]:
    """Accuracy on the test and validation splits, epochs, and seconds: the default as it is, or another kind.
    Evaluations take the share of the time that they would take of as many minutes."""
    how: dict[str, Any] = {} if kind == "default" else {"model": kind}
    with tempfile.TemporaryDirectory() as folder:
        timed = StepTimes()
        options: dict[str, Any] = {"train.seed": seed}
        run = regard.train(
            "images", data=data, out=f"{folder}/a", steps=TIMED, options=options, observers=[timed],
            report=False, **how,
        )  # fmt: skip
        step = statistics.median(np.diff(timed.times))
        images, batch = run.config.counts, run.config.train["batch"]
        evaluation = step * images["validation"] / batch / 3  # forward only
        evaluations = max(1, min(EVALUATIONS, int(SHARE * seconds / evaluation)))
        steps = round((seconds - evaluations * evaluation) / step)
        options["train.evaluate_every"] = math.ceil(steps / evaluations)
        began = time.process_time()
        run = regard.train(
            "images", data=data, out=f"{folder}/b", steps=steps, options=options, observers=[],
            report=False, **how,
        )  # fmt: skip
        took = time.process_time() - began
        best = max(each["accuracy"] for each in run.metrics() if each["event"] == "validation")
        test = (run.config.test or {}).get("accuracy", math.nan)
        return 100 * test, 100 * best, steps * batch / images["train"], took


# ── peers


def convolve(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU())


class Add(nn.Module):
    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x)


def plain_cnn(colours: int, classes: int) -> nn.Module:
    """Two convolutions at each of three sizes."""
    return nn.Sequential(
        convolve(colours, 32), convolve(32, 32), nn.MaxPool2d(2),
        convolve(32, 64), convolve(64, 64), nn.MaxPool2d(2),
        convolve(64, 128), convolve(128, 128), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(128, classes),
    )  # fmt: skip


def resnet9(colours: int, classes: int, width: int = 16) -> nn.Module:
    """As on many pages, with a quarter of the channels: with all, minutes are one epoch."""
    a, b, c, d = width, 2 * width, 4 * width, 8 * width
    return nn.Sequential(
        convolve(colours, a), convolve(a, b), nn.MaxPool2d(2), Add(convolve(b, b), convolve(b, b)),
        convolve(b, c), nn.MaxPool2d(2), convolve(c, d), nn.MaxPool2d(2),
        Add(convolve(d, d), convolve(d, d)), nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(d, classes),
    )  # fmt: skip


def one_cycle(share: float) -> float:
    """The share of the learning rate after this share of the time."""
    if share < 0.3:
        return 0.04 + 0.96 * share / 0.3
    return 0.5 * (1 + math.cos(math.pi * (share - 0.3) / 0.7))


# a network, its learning rate, bfloat16 with channels last?
PEERS: dict[str, tuple[Callable[[int, int], nn.Module], float, bool]] = {
    "plain-cnn": (plain_cnn, 3e-3, False),
    "plain-resnet9": (resnet9, 1e-2, False),
    "plain-cnn-bf16": (plain_cnn, 3e-3, True),
    "plain-resnet9-bf16": (resnet9, 1e-2, True),
}


def train_peer(who: str, data: str, flip: bool, seconds: float, seed: int) -> tuple[float, float, float, float]:
    """Accuracy on the test and validation splits, epochs, and seconds: AdamW with one cycle, crops, mirrors
    where asked for; the last weights count."""
    make, lr, half = PEERS[who]
    request = TrainRequest(recipe=RECIPE, data=data)
    settings = request.settings({"train.seed": seed})
    job = RECIPE.prepare(settings, DataContext(cache=cache_folder(), examples=request.examples))
    torch.manual_seed(seed)
    model = make(job.model.colours, job.model.classes).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=1e-2)
    rows, taken, order = job.source.units("train"), 0, np.zeros(0, dtype=np.int64)
    spent = 0.0
    while spent < seconds:
        began = time.process_time()
        if len(order) < BATCH:
            order = np.random.default_rng([seed, taken]).permutation(rows)
        batch, order = job.source.take(order[:BATCH]), order[BATCH:]
        x = change(scale(job, batch["x"], half), flip)
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            loss = F.cross_entropy(model(x).float(), batch.target)
        loss.backward()
        for group in optimiser.param_groups:
            group["lr"] = lr * one_cycle(spent / seconds)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        taken += len(x)
        spent += time.process_time() - began
    found = [measure(model, job, split, half) for split in ("test", "validation")]
    return found[0], found[1], taken / len(rows), spent


def scale(job: Job, pixels: Tensor, half: bool) -> Tensor:
    x: Tensor = job.processor.scale(pixels.float() / 255)
    return x.contiguous(memory_format=torch.channels_last) if half else x


def change(x: Tensor, flip: bool) -> Tensor:
    """Moved by up to an eighth, zeros beyond; half of them mirrored."""
    if flip:
        x = torch.where(torch.rand(len(x), 1, 1, 1) < 0.5, x.flip(-1), x)
    side = x.shape[-1]
    most = side // 8
    padded = F.pad(x, (most,) * 4)
    starts = torch.randint(0, 2 * most + 1, (len(x), 2))
    moved = [each[:, a : a + side, b : b + side] for each, (a, b) in zip(padded, starts.tolist(), strict=True)]
    return torch.stack(moved).contiguous(
        memory_format=torch.channels_last
        if x.is_contiguous(memory_format=torch.channels_last)
        else torch.contiguous_format
    )


@torch.no_grad()
def measure(model: nn.Module, job: Job, split: str, half: bool) -> float:
    count = len(job.source.units(split))
    if not count:
        return math.nan
    model.eval()
    right = 0
    for batch in job.source.of(split):
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            right += int((model(scale(job, batch["x"], half)).argmax(1) == batch.target).sum())
    return 100 * right / count
