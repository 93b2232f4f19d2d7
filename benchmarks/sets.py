"""Sets: what the papers report, seen here. Each part is trained by the library's own trainer, with one thread.

    python benchmarks/sets.py max [--seeds 3] [--steps 4000]
    python benchmarks/sets.py clusters [--steps 9000]
    python benchmarks/sets.py solids [--steps 1200]
    python benchmarks/sets.py symmetry [--steps 600]

Minutes are those of the processor (one thread), so that they do not depend on what else the machine has to do.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from alternate import keep, table
from torch import Tensor, nn

from regard.data.batch import Batch, Source
from regard.recipes.base import get_recipe
from regard.recipes.job import DataContext
from regard.recipes.sets.cluster import Gaussians, read_mixture
from regard.recipes.sets.config import SetsConfig, choose_defaults
from regard.recipes.settings import apply_settings
from regard.runs.load import load_model
from regard.runs.new_run import create_run
from regard.symmetry.actions import Fixed, OnVectors
from regard.symmetry.groups import Rotations
from regard.symmetry.linear.symmetrize import Sampled
from regard.training import loop
from regard.training.progress import Observer
from regard.verbs import train_run

RESULTS = Path(__file__).parent / "results.md"
TEST = 10_000  # added to a seed: sets that are neither learned from nor used to choose the best weights


class Told(Observer):
    """A line for each look at the validation split, so that a run that is cut short has said something."""

    def __init__(self, name: str) -> None:
        self.name, self.began, self.losses = name, time.process_time(), []

    def stepped(self, step: int, loss: float, tokens: int, seconds: float) -> None:
        self.losses.append(loss)

    def evaluated(self, step: int, measures: Mapping[str, float]) -> None:
        told = "  ".join(f"{name} {value:.4f}" for name, value in measures.items())
        spent = time.process_time() - self.began
        print(f"{self.name}  step {step}  {spent:.0f} s  training {np.mean(self.losses[-50:]):.4f}  {told}", flush=True)


@dataclass
class JudgedBy(Source):
    """Batches of one source, and the validation split of another."""

    learned: Source
    judged: Source

    def batch(self, step: int) -> Batch:
        return self.learned.batch(step)

    def validation(self) -> Iterator[Batch]:
        return self.judged.validation()


@dataclass
class Trained:
    model: nn.Module
    task: Any
    minutes: float  # of the processor
    steps: int


def trained(kind: str, options: Mapping[str, Any], *, judged: SetsConfig | None = None, name: str = "") -> Trained:
    """A model of a kind, by the recipe with these options; the best weights, as the validation split sees them.

    judged: other sets than those that are learned from to choose the best weights by.
    """
    recipe = apply_settings(get_recipe("sets").defaults(None, kind), options)
    with tempfile.TemporaryDirectory() as folder:
        job = train_run.prepare_job(get_recipe("sets"), recipe, DataContext(cache=Path(folder)))
        model = train_run.build_model(job, recipe)
        source = job.source
        if judged is not None:
            source = JudgedBy(source, source_of(judged, recipe.train.seed, recipe.train.batch))
        run = create_run(
            Path(folder) / "run", {"recipe": "sets", "kind": job.kind, "model": job.model, "train": recipe.train}
        )
        began = time.process_time()
        result = loop.fit(run, model, job.task, source, recipe.train, observers=[Told(name or kind)])
        minutes = (time.process_time() - began) / 60
        model = load_model(run)
    return Trained(model, job.task, minutes, result.step)


@torch.no_grad()
def measured(task: Any, model: nn.Module, config: SetsConfig, seed: int, splits: int) -> dict[str, float]:
    """The measures over new sets, 512 for each split."""
    batches = (each for split in range(splits) for each in fresh(config, TEST + 100 * seed + split))
    found: dict[str, float] = task.measure(model.eval(), batches)
    return found


def source_of(config: SetsConfig, seed: int, batch: int) -> Source:
    """New sets of a synthetic task."""
    settings = apply_settings(
        choose_defaults(config, None, None), {"train.seed": seed, "train.batch": batch, "data.test": 0.0}
    )
    return get_recipe("sets").prepare(settings, DataContext(cache=Path("unused"))).source


def fresh(config: SetsConfig, seed: int, batch: int = 32) -> Iterator[Batch]:
    return iter(source_of(config, seed, batch).validation())


def spread(values: list[float], digits: int) -> str:
    more = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.{digits}f}{more}"


# ── the largest of a set ────────────────────────────────────────────────────────────────────────────────────

MAX_MODELS = {
    "DeepSets, max": (
        "deepsets",
        {"model.pool": "max", "model.layers": "alone", "model.depth": 3, "model.hidden": 64},
        0.1355,
    ),
    "DeepSets, sum": (
        "deepsets",
        {"model.pool": "sum", "model.layers": "alone", "model.depth": 3, "model.hidden": 64},
        1.902,
    ),
    "SetTransformer": ("settransformer", {"model.points": None, "model.hidden": 64, "model.heads": 4}, 0.2085),
}


def largest(arguments: argparse.Namespace) -> None:
    """Mean absolute error of the largest of up to ten whole numbers from 1 to 99."""
    rows = []
    for name, (kind, how, published) in MAX_MODELS.items():
        errors, minutes = [], []
        for seed in range(arguments.seeds):
            options = {
                "data.task": "max",
                "data.points": None,
                "train.steps": arguments.steps,
                "train.batch": 128,
                "train.seed": seed,
                "train.lr": arguments.lr,
                "train.weight_decay": 0.0,
                **how,
            }
            found = trained(kind, options, name=f"{name} {seed}")
            errors.append(measured(found.task, found.model, SetsConfig(task="max"), seed, splits=8)["MAE"])
            minutes.append(found.minutes)
            print(name, seed, errors[-1], f"{minutes[-1]:.1f} minutes", flush=True)
        rows.append([name, spread(errors, 4), f"{published:.4f}", f"{max(minutes):.1f}", str(arguments.seeds)])
    said = (
        f"`python benchmarks/sets.py max --seeds {arguments.seeds} --steps {arguments.steps} --lr {arguments.lr}`: the largest "
        "of 1 to 10 whole numbers from 1 to 99; 64 channels, 128 new sets a step, 4,096 new sets to judge by. Mean and "
        "standard deviation over seeds. Published: Lee et al. 2019, table 13, the same widths.\n\n"
    )
    headers = ["model", "mean absolute error", "published", "minutes of one thread, at most", "seeds"]
    keep(RESULTS, "Sets: the largest", said + table(headers, rows))


# ── clusters ────────────────────────────────────────────────────────────────────────────────────────────────


def clusters(arguments: argparse.Namespace) -> None:
    """Log-likelihood a point of four Gaussians, found in one forward pass."""
    options = {
        "data.task": "clusters",
        "data.points": arguments.points,
        "train.steps": arguments.steps,
        "train.batch": arguments.batch,
        "train.seed": arguments.seed,
        "train.optimiser": arguments.optimiser,
        "train.lr": arguments.lr,
        "train.weight_decay": 0.0,
        "train.evaluate_every": 500,
        "train.warmup": 100,
        "train.decay": 0.9,
        "train.average": 0.998,
        "model.hidden": arguments.hidden,
        "model.points": 16,
        "model.depth": 2,
        "model.after": 1,
    }
    whole = SetsConfig(task="clusters")
    found = trained("settransformer", options, judged=whole, name="clusters")
    ours = measured(found.task, found.model, whole, arguments.seed, splits=8)["log-likelihood"]
    best = oracle(whole, TEST + 100 * arguments.seed, splits=8)
    rows = [
        ["the Gaussians that made the points", f"{best:.4f}", "−1.4726"],
        [
            "EM, best of 10 starts, 200 sets",
            f"{expectation_maximisation(whole, TEST + 100 * arguments.seed, 200):.4f}",
            "",
        ],
        [
            f"SetTransformer, {arguments.hidden} channels, 16 inducing points",
            f"{ours:.4f}",
            "−1.5145 (SAB), −1.5009 (ISAB)",
        ],
    ]
    said = (
        f"`python benchmarks/sets.py clusters --steps {arguments.steps} --batch {arguments.batch} --points {arguments.points} "
        f"--hidden {arguments.hidden} --optimiser {arguments.optimiser} --lr {arguments.lr} --seed {arguments.seed}`: four "
        "Gaussians in the plane; the network reads the points and puts out shares, middles and deviations, without any labels. "
        f"Learned from sets of {arguments.points} points, which cost less, judged by 4,096 new sets of 100 to 500. "
        f"{found.steps} steps in "
        f"{found.minutes:.0f} minutes of one thread. Published: Lee et al. 2019, table 15.\n\n"
    )
    keep(RESULTS, "Sets: amortised clustering", said + table(["who", "log-likelihood a point", "published"], rows))
    print(rows)
    picture_clusters(found.model, whole)


def truth(batch: Batch) -> Gaussians:
    made = batch.target.unflatten(1, (4, 5))
    return Gaussians(made[..., 0].log(), made[..., 1:3], made[..., 3:])


def oracle(config: SetsConfig, seed: int, splits: int) -> float:
    total, count = 0.0, 0
    for split in range(splits):
        for batch in fresh(config, seed + split):
            each = truth(batch).log_likelihood(batch["x"])
            each = each if "real" not in batch else each[batch["real"]]
            total, count = total + each.double().sum().item(), count + each.numel()
    return total / count


def sets_of(config: SetsConfig, seed: int) -> Iterator[Tensor]:
    for batch in fresh(config, seed):
        for i, points in enumerate(batch["x"]):
            yield points if "real" not in batch else points[batch["real"][i]]


def expectation_maximisation(config: SetsConfig, seed: int, sets: int) -> float:
    from sklearn.mixture import GaussianMixture

    total, count = 0.0, 0
    for points in list(sets_of(config, seed))[:: max(1, 512 // sets)]:
        x = points.double().numpy()
        fit = GaussianMixture(4, covariance_type="diag", n_init=10, random_state=0).fit(x)
        total, count = total + fit.score(x) * len(x), count + len(x)
    return total / count


@torch.no_grad()
def picture_clusters(model: nn.Module, config: SetsConfig) -> None:
    """Eight sets, with the Gaussians that the network sees in them."""
    from matplotlib import pyplot
    from matplotlib.patches import Ellipse

    figure, axes = pyplot.subplots(2, 4, figsize=(12, 6), layout="constrained")
    chosen = [points for i, points in enumerate(sets_of(config, TEST)) if i % 64 == 7]
    for axis, points in zip(axes.flat, chosen, strict=True):
        seen = read_mixture(model(points[None]), 4, 2)
        axis.scatter(*points.T, s=3, color="0.5", linewidths=0)
        for share, middle, deviation, colour in zip(
            *(part[0].tolist() for part in seen), pyplot.cm.tab10.colors, strict=False
        ):
            for times in (1, 2):
                widths = [2 * times * each for each in deviation]
                axis.add_patch(Ellipse(middle, *widths, fill=False, color=colour, lw=0.6 + 2 * np.exp(share)))
        axis.set(xlim=(-5, 5), ylim=(-5, 5), aspect="equal", xticks=[], yticks=[], title=f"{len(points)} points")
    figure.savefig(Path(__file__).parent / "clusters.png", dpi=110)


# ── solids ──────────────────────────────────────────────────────────────────────────────────────────────────

COUNTS = (32, 64, 128, 256, 512, 1024, 2048)
SAMPLES = (1, 2, 4, 8, 16)


def solids(arguments: argparse.Namespace) -> None:
    """Twelve shapes: accuracy by number of points, and under rotation with and without an average over turns."""
    whole, models = SetsConfig(task="solids", points=1024), {}
    for turn, steps in (("any", arguments.steps), ("none", arguments.steps // 4)):
        options = {
            "data.task": "solids",
            "data.points": 256,
            "data.turn": turn,
            "train.steps": steps,
            "train.batch": 32,
            "train.seed": arguments.seed,
            "train.evaluate_every": max(1, steps // 4),
            "train.decay": 0.9,
            "train.average": 0.99,
            "model.hidden": arguments.hidden,
            "model.depth": arguments.depth,
        }
        judged = SetsConfig(task="solids", points=1024, turn=turn)
        models[turn] = trained("pointnet", options, judged=judged, name=f"solids turned {turn}")
    task = models["any"].task

    def accuracy(model: nn.Module, **how: Any) -> float:
        config = SetsConfig(**{"task": "solids", "points": 1024} | how)
        share = measured(task, model, config, arguments.seed, splits=1)["accuracy"]
        print(how, f"{share:.4f}", flush=True)
        return share

    by_points = {count: accuracy(models["any"].model, points=count) for count in COUNTS}
    reached = measured(task, models["any"].model, whole, arguments.seed + 1, splits=4)["accuracy"]
    turned = {
        (learned, seen): accuracy(models[learned].model, turn=seen)
        for learned in ("none", "any")
        for seen in ("none", "any")
    }
    averaged = {
        (learned, samples): accuracy(over_turns(models[learned].model, samples), turn="any", points=256)
        for learned in ("none", "any")
        for samples in SAMPLES
    }
    plain = {learned: accuracy(models[learned].model, turn="any", points=256) for learned in ("none", "any")}
    rows = [[f"{count:,}", f"{share:.1%}"] for count, share in by_points.items()]
    said = (
        f"`python benchmarks/sets.py solids --steps {arguments.steps} --hidden {arguments.hidden} --depth {arguments.depth} "
        f"--seed {arguments.seed}`: points on twelve shapes, stretched by a tenth at most, 0.01 of noise, turned (SO(3)). "
        f"PointNet, learned from 256 points, {models['any'].steps} steps of 32 clouds, {models['any'].minutes:.0f} minutes of "
        "one thread. "
        f"**{reached:.1%}** of 2,048 new clouds of 1,024 points are named rightly. By number of points (512 clouds each):\n\n"
        + table(["points", "accuracy"], rows)
        + "\n\nTurned and not, 1,024 points; and what an average over random turns (`symmetrize.Sampled`, 256 points) "
        "makes of it:\n\n"
    )
    more = [
        [
            {"none": "unturned solids", "any": "turned solids"}[learned],
            f"{turned[learned, 'none']:.1%}",
            f"{turned[learned, 'any']:.1%}",
            f"{plain[learned]:.1%}",
            *(f"{averaged[learned, n]:.1%}" for n in SAMPLES),
        ]
        for learned in ("none", "any")
    ]
    headers = ["learned from", "unturned", "turned", "turned, 256 points", *(f"mean of {n} turns" for n in SAMPLES)]
    keep(RESULTS, "Sets: solids", said + table(headers, more) + "\n\nPicture: `solids.png`.")
    picture_solids(by_points, plain, averaged)


def over_turns(model: nn.Module, samples: int) -> nn.Module:
    """The mean of the model's scores over some turns of the cloud."""
    return Sampled(model, Rotations("space"), OnVectors(), Fixed(), samples=samples)


def picture_solids(by_points: Mapping[int, float], plain: Mapping[str, float], averaged: Mapping[Any, float]) -> None:
    from matplotlib import pyplot

    from regard.data.batch import generator
    from regard.recipes.sets.solids import SOLIDS, draw_solids

    figure = pyplot.figure(figsize=(12, 8), layout="constrained")
    top, bottom = figure.subfigures(2, 1)
    clouds = draw_solids(np.arange(len(SOLIDS)), 600, generator(1))
    for i, (name, cloud) in enumerate(zip(SOLIDS, clouds, strict=True)):
        axis = top.add_subplot(2, 6, i + 1, projection="3d")
        axis.scatter(*cloud.T, s=1.5, c=cloud[:, 1], cmap="viridis", linewidths=0)
        axis.set(title=name, aspect="equal")
        axis.set_axis_off()
    left, right = bottom.subplots(1, 2)
    left.plot(list(by_points), [100 * share for share in by_points.values()], "o-")
    left.set(xscale="log", xlabel="points of a cloud", ylabel="accuracy, %", title="twelve solids, turned any way")
    left.set_xticks(list(by_points), [str(count) for count in by_points])
    left.minorticks_off()
    for learned, colour in (("any", "C0"), ("none", "C3")):
        name = {"any": "turned", "none": "unturned"}[learned]
        shares = [100 * averaged[learned, n] for n in SAMPLES]
        right.plot(SAMPLES, shares, "o-", color=colour, label=f"learned from {name} ones")
        right.axhline(100 * plain[learned], color=colour, ls=":", label="the same, without an average")
    right.set(
        xscale="log",
        xlabel="turns that scores are averaged over",
        ylabel="accuracy, %",
        ylim=(0, 101),
        title="turned solids, 256 points",
    )
    right.set_xticks(SAMPLES, [str(n) for n in SAMPLES])
    right.minorticks_off()
    right.legend(frameon=False)
    figure.savefig(Path(__file__).parent / "solids.png", dpi=110)


# ── why symmetry pays ───────────────────────────────────────────────────────────────────────────────────────

SETS = (50, 200, 800, 3200, 12800)
RIVALS = {
    "DeepSets": ("deepsets", {"model.hidden": 64, "model.layers": "alone", "model.pool": "max"}),
    "MLP": ("mlp", {"model.hidden": 256, "model.depth": 3}),
}


def symmetry(arguments: argparse.Namespace) -> None:
    """An invariant network and a plain one on the same sets, by how many there are to learn from."""
    config = SetsConfig(task="solids", points=64, turn="none")
    found: dict[tuple[str, int], list[float]] = {}
    for name, (kind, how) in RIVALS.items():
        for sets in SETS:
            for seed in range(arguments.seeds):
                options = {
                    "data.task": "solids",
                    "data.points": 64,
                    "data.turn": "none",
                    "data.sets": sets,
                    "train.seed": seed,
                    "train.steps": arguments.steps,
                    "train.batch": 64,
                    "train.evaluate_every": max(1, arguments.steps // 6),
                    **how,
                }
                model = trained(kind, options, name=f"{name} {sets} sets, seed {seed}")
                share = measured(model.task, model.model, config, seed, splits=2)["accuracy"]
                found.setdefault((name, sets), []).append(100 * share)
    rows = [[f"{sets:,}", *(spread(found[name, sets], 1) for name in RIVALS)] for sets in SETS]
    said = (
        f"`python benchmarks/sets.py symmetry --steps {arguments.steps} --seeds {arguments.seeds}`: which of twelve unturned "
        f"solids, from 64 points in no order; {arguments.steps} steps of 64, the best weights of six looks, 1,024 new sets to "
        "judge by, accuracy in % with the standard deviation over seeds. Picture: `sets_symmetry.png`.\n\n"
    )
    keep(RESULTS, "Sets: why symmetry pays", said + table(["sets to learn from", *RIVALS], rows))
    picture_symmetry(found)


def picture_symmetry(found: Mapping[tuple[str, int], list[float]]) -> None:
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
    for name in RIVALS:
        means, errors = zip(*((np.mean(found[name, sets]), np.std(found[name, sets])) for sets in SETS), strict=True)
        axis.errorbar(SETS, means, errors, fmt="o-", capsize=3, label=name)
    axis.axhline(100 / 12, color="0.6", ls=":", label="guessing")
    axis.set(
        xscale="log",
        xlabel="sets to learn from",
        ylabel="accuracy on new sets, %",
        ylim=(0, 101),
        title="twelve solids, 64 points in no order",
    )
    axis.set_xticks(SETS, [f"{sets:,}" for sets in SETS])
    axis.minorticks_off()
    axis.legend(frameon=False, loc="center left")
    figure.savefig(Path(__file__).parent / "sets_symmetry.png", dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(required=True)
    part = parts.add_parser("max")
    part.add_argument("--seeds", type=int, default=3)
    part.add_argument("--steps", type=int, default=4000)
    part.add_argument("--lr", type=float, default=0.01)
    part.set_defaults(run=largest)
    part = parts.add_parser("clusters")
    part.add_argument("--steps", type=int, default=9000)
    part.add_argument("--batch", type=int, default=32)
    part.add_argument("--points", type=int, default=128)
    part.add_argument("--hidden", type=int, default=64)
    part.add_argument("--optimiser", default="muon")
    part.add_argument("--lr", type=float, default=0.005)
    part.add_argument("--seed", type=int, default=0)
    part.set_defaults(run=clusters)
    part = parts.add_parser("solids")
    part.add_argument("--steps", type=int, default=1600)
    part.add_argument("--hidden", type=int, default=128)
    part.add_argument("--depth", type=int, default=2)
    part.add_argument("--seed", type=int, default=0)
    part.set_defaults(run=solids)
    part = parts.add_parser("symmetry")
    part.add_argument("--steps", type=int, default=600)
    part.add_argument("--seeds", type=int, default=2)
    part.set_defaults(run=symmetry)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    arguments.run(arguments)


if __name__ == "__main__":
    main()
