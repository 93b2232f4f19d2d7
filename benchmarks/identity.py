"""The identity question: can a network of many layers learn f(x) = x, which one of no layers knows at once?

    python benchmarks/identity.py          some five minutes on two cores; writes results.md and identity.png

Each network has `depth` layers around f_k(z) = relu(W_k z + b_k), put together in one of five ways, and a linear map back at
the end. All start as PyTorch starts them, and Adam takes as many steps with each.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import torch
import torch.nn.functional as F
from alternate import keep, table
from torch import Tensor, nn

HERE = Path(__file__).parent
DEPTHS = (1, 2, 4, 8, 16, 32, 64)
WIDTH, GROWTH, POINTS = 16, 8, 256  # GROWTH: channels that each layer of the dense network adds


class Plain(nn.Module):
    """f(z).   b d -> b d"""

    grows = 0  # channels that come out beyond those that went in

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, self.grows or width)

    def f(self, z: Tensor) -> Tensor:
        return F.relu(self.linear(z))

    def forward(self, z: Tensor) -> Tensor:
        return self.f(z)


class Dense(Plain):
    """[z, f(z)]: every later layer, and the last map, sees what all before it gave, and x.   b d -> b (d + GROWTH)"""

    grows = GROWTH

    def forward(self, z: Tensor) -> Tensor:
        return torch.cat([z, self.f(z)], dim=-1)


class Residual(Plain):
    """f(z) + z.   b d -> b d"""

    def forward(self, z: Tensor) -> Tensor:
        return self.f(z) + z


class NormInside(Plain):
    """f(norm z) + z: the stream itself is left alone.   b d -> b d"""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.norm = nn.LayerNorm(width)

    def forward(self, z: Tensor) -> Tensor:
        return self.f(self.norm(z)) + z


class NormOutside(NormInside):
    """norm(f(z) + z): the stream loses its mean and its length.   b d -> b d"""

    def forward(self, z: Tensor) -> Tensor:
        return self.norm(self.f(z) + z)


KINDS: dict[str, type[Plain]] = {
    "plain": Plain,
    "DenseNet-like": Dense,
    "residual": Residual,
    "residual, norm inside": NormInside,
    "residual, norm outside": NormOutside,
}


class Network(nn.Module):
    """z_0 = x, z_k = layer_k(z_{k−1}), and a linear map of the last one.   b d -> b d"""

    def __init__(self, kind: type[Plain], depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(kind(WIDTH + kind.grows * k) for k in range(depth))
        self.last = nn.Linear(WIDTH + kind.grows * depth, WIDTH)

    def forward(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The answer, and what came out of each layer."""
        outs = [x]
        for layer in self.layers:
            outs.append(layer(outs[-1]))
        return self.last(outs[-1]), outs[1:]


@dataclass(frozen=True)
class Setting:
    """One run."""

    kind: str
    depth: int
    seed: int
    steps: int
    rate: float


@dataclass(frozen=True)
class Outcome:
    """What was seen of it."""

    activations: list[float]  # root mean square of what each layer gives, before the first step
    gradients: list[float]  # norm of the gradient of each layer's matrix, before the first step
    error: float  # mean squared error on points of its own, after the last


def run(setting: Setting) -> Outcome:
    torch.set_num_threads(1)  # the matrices are too small to be shared; another run has the other core
    torch.manual_seed(setting.seed)
    model = Network(KINDS[setting.kind], setting.depth)
    optimiser = torch.optim.Adam(model.parameters(), lr=setting.rate, fused=True)
    activations: list[float] = []
    gradients: list[float] = []
    for _ in range(setting.steps):
        x = torch.randn(POINTS, WIDTH)
        guess, outs = model(x)
        optimiser.zero_grad()
        F.mse_loss(guess, x).backward()
        if not gradients:
            activations = [out.square().mean().sqrt().item() for out in outs]
            gradients = [layer.linear.weight.grad.norm().item() for layer in model.layers]
        optimiser.step()
    with torch.no_grad():
        x = torch.randn(16 * POINTS, WIDTH)
        return Outcome(activations, gradients, F.mse_loss(model(x)[0], x).item())


def all_of(settings: Iterable[Setting], workers: int) -> dict[Setting, Outcome]:
    """Each in a process, the longest first."""
    began, seen = time.perf_counter(), {}
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        work = {pool.submit(run, each): each for each in sorted(settings, key=lambda each: -each.depth)}
        for done in as_completed(work):
            setting, outcome = work[done], done.result()
            seen[setting] = outcome
            print(
                f"{time.perf_counter() - began:4.0f} s   {len(seen):3} of {len(work)}   {setting.depth:2} layers, "
                f"{setting.kind}, seed {setting.seed}: error {outcome.error:.1e}",
                flush=True,
            )
    return seen


def count_parameters(kind: str, depth: int) -> int:
    return sum(p.numel() for p in Network(KINDS[kind], depth).parameters())


def parameters_table() -> str:
    """A dense layer reads all before it, so its matrices grow with depth, and their sum with the square of it."""
    rows = [[str(depth), *(f"{count_parameters(kind, depth):,}" for kind in KINDS)] for depth in DEPTHS]
    return table(["parameters at so many layers", *KINDS], rows)


def errors_of(seen: dict[Setting, Outcome], kind: str, depth: int) -> list[float]:
    """Of all seeds, the smallest first."""
    return sorted(outcome.error for setting, outcome in seen.items() if (setting.kind, setting.depth) == (kind, depth))


def draw(seen: dict[Setting, Outcome], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    colours = dict(zip(KINDS, ("#555555", "#E69F00", "#D55E00", "#0072B2", "#009E73"), strict=True))
    figure, axes = pyplot.subplots(1, 3, figsize=(13, 4.6), layout="constrained")
    deepest = max(DEPTHS)
    for kind, colour in colours.items():
        errors = [errors_of(seen, kind, depth) for depth in DEPTHS]
        axes[0].plot(DEPTHS, [statistics.median(e) for e in errors], "o-", markersize=4, color=colour, label=kind)
        axes[0].fill_between(
            DEPTHS, [e[0] for e in errors], [e[-1] for e in errors], color=colour, alpha=0.15, linewidth=0
        )
        first = next(o for s, o in seen.items() if (s.kind, s.depth) == (kind, deepest))
        layers = range(1, deepest + 1)
        axes[1].plot(layers, first.activations, color=colour)
        axes[2].plot(layers, [g if g > 0 else float("nan") for g in first.gradients], color=colour)
    axes[0].axhline(1, color="#999999", linestyle=":")
    axes[0].text(1, 1.25, "answering 0", color="#777777", fontsize=9)
    axes[0].set(xscale="log", xlabel="layers", ylabel="mean squared error", title="what is left of the error")
    axes[0].set_xticks(DEPTHS, [str(depth) for depth in DEPTHS])
    axes[0].minorticks_off()
    axes[1].set(xlabel="layer", ylabel="root mean square", title=f"activation, at the start, {deepest} layers")
    axes[2].set(xlabel="layer", ylabel="norm", title=f"gradient of W, at the start, {deepest} layers")
    for axis in axes:
        axis.set(yscale="log")
        axis.grid(alpha=0.3)
    for axis in axes[1:]:
        axis.set_xticks([1, *range(16, deepest + 1, 16)])
    figure.legend(loc="outside lower center", ncols=len(KINDS), frameon=False)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2, help="processes")
    arguments = parser.parse_args()
    settings = [
        Setting(kind, depth, seed, arguments.steps, arguments.rate)
        for kind in KINDS
        for depth in DEPTHS
        for seed in range(arguments.seeds)
    ]
    outcomes = all_of(settings, arguments.workers)
    seen = {setting: outcomes[setting] for setting in settings}
    middle = [[statistics.median(errors_of(seen, kind, depth)) for kind in KINDS] for depth in DEPTHS]
    errors = table(
        ["layers", *KINDS], [[str(d), *(f"{e:.2g}" for e in row)] for d, row in zip(DEPTHS, middle, strict=True)]
    )
    deepest = max(DEPTHS)
    starts = {s.kind: o for s, o in seen.items() if s.depth == deepest and s.seed == 0}
    norms = table(
        [f"{deepest} layers, at the start", *KINDS],
        [
            ["activation, first layer", *(f"{starts[k].activations[0]:.2g}" for k in KINDS)],
            ["activation, last layer", *(f"{starts[k].activations[-1]:.2g}" for k in KINDS)],
            ["gradient, first layer", *(f"{starts[k].gradients[0]:.2g}" for k in KINDS)],
            ["gradient, last layer", *(f"{starts[k].gradients[-1]:.2g}" for k in KINDS)],
        ],
    )
    sizes = parameters_table()
    print(errors, sizes, norms, sep="\n\n")
    draw(seen, HERE / "identity.png")
    note = (
        f"`python benchmarks/identity.py --steps {arguments.steps} --rate {arguments.rate:g} --seeds {arguments.seeds}`: mean "
        f"squared error of f(x) = x (0 as the answer has 1); x normal of width {WIDTH}, ReLU layers, Adam, {POINTS} new points "
        f"a step; medians of the seeds. Each DenseNet-like layer adds {GROWTH} channels. *Norm inside*: z + f(norm z); "
        "*outside*: norm(z + f(z)). Activations are root mean squares of what a layer "
        "gives, gradients those of its matrix. Picture: `identity.png`.\n\n"
    )
    keep(HERE / "results.md", "The identity question", f"{note}{errors}\n\n{sizes}\n\n{norms}\n")


if __name__ == "__main__":
    main()
