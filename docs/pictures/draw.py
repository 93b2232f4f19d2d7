"""The pictures of docs/attention.md, docs/symmetry.md and docs/images.md, drawn by the library they explain.

python docs/pictures/draw.py [NAME ...]      all of them, or only those named; written beside this file
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter
from torch import Tensor

from regard.attention.attend import attend
from regard.attention.biases import ALiBi
from regard.attention.mask import Mask
from regard.attention.masks import BigBird, Causal, Documents, Padding, Prefix, Window
from regard.attention.places import Where, sides
from regard.nn.convolve import data_matrix, filter_matrix, shift_matrix
from regard.nn.memory import Composite, Fading, Forgetting, Gated, Softmax
from regard.symmetry.actions import Fixed, OnAxis, OnBoth, OnGrid
from regard.symmetry.groups import Permutations, Reflections, Rotations, Shifts, product
from regard.symmetry.linear.bases import basis
from regard.symmetry.linear.birkhoff import permutation_matrix, sinkhorn

HERE = Path(__file__).parent
BLUE, ORANGE, GREEN, PINK = "#0072b2", "#d55e00", "#009e73", "#cc79a7"  # told apart by colour-blind eyes, too
INK, PALE = "#222222", "#e9eef2"

STYLE = {
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.labelsize": 10,
    "axes.edgecolor": "#888888",
    "axes.labelcolor": INK,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": "#555555",
    "ytick.color": "#555555",
    "legend.frameon": False,
    "lines.linewidth": 2,
    "image.cmap": "Greys",
}

# Digits 1 to 8, seven rows of five.
GLYPHS = (
    "..#.. .##.. ..#.. ..#.. ..#.. ..#.. .###.",
    ".###. #...# ....# ..##. .#... #.... #####",
    "####. ....# ....# .###. ....# ....# ####.",
    "#..#. #..#. #..#. ##### ...#. ...#. ...#.",
    "##### #.... ####. ....# ....# #...# .###.",
    ".###. #.... #.... ####. #...# #...# .###.",
    "##### ....# ...#. ..#.. ..#.. .#... .#...",
    ".###. #...# #...# .###. #...# #...# .###.",
)


def strip() -> Tensor:
    """Eight small images, one after another.   8 64"""
    images = torch.zeros(8, 8, 8)
    for image, glyph in zip(images, GLYPHS, strict=True):
        image[:7, 1:6] = torch.tensor([[float(dot == "#") for dot in row] for row in glyph.split()])
    return images.flatten(1)


def memories() -> Figure:
    """A strip of images in each of the five memories. θ is the identity, so that a memory is an image again."""
    x = strip()
    finds = torch.linalg.pinv(x)  # column i: a θ_λ that gives 1 for image i and 0 for the others
    gates = {
        "composite": Composite(64, 64),
        "fading": Fading(64, 64, gamma=0.7),
        "forgetting": Forgetting(64, 64),
        "gated": Gated(64, 64),
        "softmax": Softmax(64, 64),
    }
    with torch.no_grad():
        for memory in gates.values():
            memory.value.weight.copy_(torch.eye(64))
            memory.value.bias.zero_()
        # the 5 wipes out what came before it
        gates["forgetting"].gate.weight.copy_((-8 * finds[:, 4]).expand(64, 64))
        gates["forgetting"].gate.bias.fill_(4.0)
        # 2 and 7 say that they matter
        gates["gated"].gate.weight.copy_(6 * (finds[:, 1] + finds[:, 6])[None])
        gates["gated"].gate.bias.fill_(-3.0)
        # the query likes the 2, and the 7 a little less
        gates["softmax"].query.copy_(4 * finds[:, 1] + 3 * finds[:, 6])
    says = {
        "composite": "Composite\nall count the same",
        "fading": "Fading, γ = 0.7\nthe old is faint",
        "forgetting": "Forgetting\nthe 5 clears the past",
        "gated": "Gated\n2 and 7 open the gate",
        "softmax": "Softmax\nthey share a sum of 1",
    }
    figure = Figure(figsize=(8.6, 6.4))
    grid = figure.add_gridspec(
        6, 10, left=0.01, right=0.99, top=0.98, bottom=0.02, hspace=0.35, wspace=0.15, width_ratios=[2.8, *[1] * 8, 1.5]
    )
    for i in range(8):
        axis = figure.add_subplot(grid[0, i + 1])
        picture(axis, x[i])
    words(figure.add_subplot(grid[0, 0]), "the strip,\noldest first")
    words(figure.add_subplot(grid[0, 9]), "what is\nremembered", align="center")
    for row, (name, memory) in enumerate(gates.items(), 1):
        with torch.no_grad():
            weights, image = memory.weights(x[None])[0], memory(x[None])[0]
        # forgetting has one for each channel, here alike
        weights = weights.mean(-1) if weights.dim() == 2 else weights
        words(figure.add_subplot(grid[row, 0]), says[name])
        axis = figure.add_subplot(grid[row, 1:9])
        axis.bar(range(8), weights.numpy(), width=0.55, color=BLUE)
        for i, weight in enumerate(weights.tolist()):
            axis.text(i, weight + 0.04, f"{weight:.2f}", ha="center", va="bottom", fontsize=8.5, color=INK)
        axis.set(xlim=(-0.5, 7.5), ylim=(0, 1.12))
        axis.spines["left"].set_visible(False)
        axis.set_yticks([])
        axis.set_xticks([])
        axis = figure.add_subplot(grid[row, 9])
        picture(axis, image)
    return figure


def picture(axis: Axes, image: Tensor) -> None:
    """An image of 64 numbers, black where it is largest."""
    axis.imshow(image.view(8, 8).numpy(), vmin=0)
    axis.set_xticks([])
    axis.set_yticks([])
    for spine in axis.spines.values():
        spine.set(visible=True, color="#cccccc")


def database() -> Figure:
    """Eight directions with a number each, asked for a direction in between."""
    angles = torch.arange(8) * torch.pi / 4
    stored = torch.tensor([4.0, 7.0, 6.0, 2.0, 1.0, 3.0, 8.0, 5.0])
    names = ["E", "NE", "N", "NW", "W", "SW", "S", "SE"]
    k, v = points(angles), stored[None, None, :, None]
    asked = torch.linspace(0, 2 * torch.pi, 361)
    figure = Figure(figsize=(8.6, 3.3), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.25])
    for i, (length, colour) in enumerate(zip((1, 4, 16, 64), (PINK, GREEN, ORANGE, BLUE), strict=True)):
        one = attend(length * points(torch.tensor([0.9])), k, torch.eye(8)[None, None], scale=1.0)[0, 0, 0]
        left.bar(np.arange(8) + (i - 1.5) * 0.2, one.numpy(), width=0.2, color=colour, label=f"β = {length}")
        answers = attend(length * points(asked), k, v, scale=1.0)[0, 0, :, 0]
        right.plot(asked.rad2deg().numpy(), answers.numpy(), color=colour)
    left.set_xticks(range(8), names)
    left.set(title="weights when asked for 52°, between NE and N", xlabel="key", ylabel="weight", ylim=(0, 1.02))
    left.legend(loc="upper right", title="length of the query")
    right.plot(range(0, 361, 45), [*stored.tolist(), stored[0].item()], "o", color=INK, markersize=6)
    right.set_xticks(range(0, 361, 45), [*names, "E"])
    right.set(title="the answer in every direction", xlabel="query", ylabel="answer", ylim=(0, 9))
    right.annotate("stored", (270, 8), (300, 8), va="center", color=INK)
    return figure


def points(angles: Tensor) -> Tensor:
    """Unit vectors.   n -> 1 1 n 2"""
    return torch.stack([angles.cos(), angles.sin()], -1)[None, None]


def square_root() -> Figure:
    """What the width of queries and keys does to a softmax over 64 keys, with the square root and without."""
    seed, keys, trials = torch.Generator().manual_seed(0), 64, 400
    widths = [2**i for i in range(11)]
    variance, entropy, slopes = [], {True: [], False: []}, {True: [], False: []}
    for c in widths:
        q, k = torch.randn(trials, 1, c, generator=seed), torch.randn(trials, keys, c, generator=seed)
        scores = (q @ k.mT)[:, 0]
        variance.append(scores.var().item())
        for scaled in (True, False):
            w = (scores / c**0.5 if scaled else scores).softmax(-1)
            entropy[scaled].append(-(w * w.clamp(min=1e-30).log()).sum(-1).mean().item())
            jacobian = torch.diag_embed(w) - w[:, :, None] * w[:, None, :]
            size = torch.linalg.matrix_norm(jacobian)
            slopes[scaled].append(size.quantile(torch.tensor([0.25, 0.5, 0.75])).tolist())
    figure = Figure(figsize=(9, 3.1), layout="constrained")
    first, second, third = figure.subplots(1, 3)
    first.plot(widths, widths, color="#aaaaaa", linewidth=1.2, label="c")
    first.plot(widths, variance, "o", color=BLUE, markersize=5, label="measured")
    first.set_yscale("log", base=2)
    first.set(title="variance of q·k")
    first.legend(loc="upper left")
    for scaled, colour, label in ((True, BLUE, "q·k / √c"), (False, ORANGE, "q·k")):
        second.plot(widths, entropy[scaled], "o-", color=colour, markersize=4, label=label)
        low, middle, high = zip(*slopes[scaled], strict=True)
        third.plot(widths, middle, "o-", color=colour, markersize=4, label=label)
        third.fill_between(widths, low, high, color=colour, alpha=0.18, linewidth=0)
    second.axhline(np.log(keys), color="#aaaaaa", linewidth=1.2)
    second.text(1024, np.log(keys) + 0.06, "all alike: log 64", ha="right", va="bottom", fontsize=9, color="#555555")
    second.set(title="entropy of the softmax", ylim=(0, 4.7))
    second.legend(loc="lower left")
    third.set(title="size of its derivative", ylim=(0, 0.5))
    third.legend(loc="upper right")
    for axis in (first, second, third):
        powers_of_two(axis, [1, 4, 16, 64, 256, 1024])
        axis.set_xlabel("channels c")
    first.yaxis.set_major_locator(FixedLocator([1, 4, 16, 64, 256, 1024]))
    first.yaxis.set_major_formatter(ScalarFormatter())
    return figure


def powers_of_two(axis: Axes, ticks: list[int]) -> None:
    axis.set_xscale("log", base=2)
    axis.xaxis.set_major_locator(FixedLocator(ticks))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(ScalarFormatter())


def alibi() -> Figure:
    """Causal ALiBi whose scores are all 0, beside a fading memory that is divided by its total."""
    heads, n = 8, 32
    bias = ALiBi(heads)
    q = torch.zeros(1, heads, n, 4)
    # h n
    weights = attend(q, q, torch.eye(n).expand(1, heads, n, n), mask=Causal(), bias=bias)[0, :, -1].flip(-1)
    figure = Figure(figsize=(8.6, 3.3), layout="constrained")
    left, right = figure.subplots(1, 2)
    for head, colour in zip((0, 2, 4, 7), (BLUE, ORANGE, GREEN, PINK), strict=True):
        slope = bias.slopes[head].item()
        faded = Fading(1, 1, gamma=float(np.exp(-slope))).weights(torch.zeros(1, n, 1))[0].flip(-1)
        faded = faded / faded.sum()
        for axis in (left, right):
            axis.plot(range(n), weights[head].numpy(), color=colour, label=f"head {head + 1}, slope 1/{1 / slope:.0f}")
            axis.plot(range(0, n, 3), faded[::3].numpy(), "o", color=colour, markersize=5, markerfacecolor="white")
    left.set(title="lines: ALiBi with q·k = 0, circles: fading", ylim=(0, None), ylabel="weight")
    left.legend(loc="upper right")
    right.set(title="the same on a logarithmic scale", yscale="log", ylim=(1e-5, 1))
    for axis in (left, right):
        axis.set_xlabel("places back")
    return figure


def masks() -> Figure:
    """Masks as matrices: a row for each query, a column for each key, blue where it may attend."""
    n = 10
    lost = torch.tensor([float("nan"), *range(n - 1)])
    documents = torch.tensor([0, 0, 0, 0, 1, 1, 1, 2, 2, 2])
    shown: list[tuple[str, Mask, int, Where]] = [
        ("Causal()", Causal(), n, None),
        ("Window(2)", Window(2), n, None),
        ("Causal() & Window(3)", Causal() & Window(3), n, None),
        ("Causal() &\n(Window(1) | ~Window(5))", Causal() & (Window(1) | ~Window(5)), n, None),
        ("Prefix(4)", Prefix(4), n, None),
        ("Causal() &\nDocuments(0000111222)", Causal() & Documents(documents), n, None),
        ("Padding([7])", Padding([7]), n, None),
        ("BigBird(block=2,\nrandom=1)", BigBird(block=2, random=1), n, None),
        ("Causal()\n4 queries, 10 keys", Causal(), 4, None),
        ("Causal() & Window(3)\nfirst token has no place", Causal() & Window(3), n, lost),
        ("Causal()\ntokens in another order", Causal(), n, torch.tensor([4, 0, 7, 2, 9, 1, 5, 8, 3, 6])),
        ("~Window(2)", ~Window(2), n, None),
    ]
    figure = Figure(figsize=(9.4, 8.0), layout="constrained")
    for axis, (name, mask, queries, where) in zip(figure.subplots(3, 4).flatten(), shown, strict=True):
        allowed = mask.tile(*sides(where, queries, n, 1, torch.device("cpu")))
        matrix = allowed[0, 0].expand(queries, n).int().numpy()
        axis.pcolormesh(matrix, cmap=ListedColormap([PALE, BLUE]), edgecolors="white", linewidth=1.2, vmin=0, vmax=1)
        axis.set(aspect="equal", xlim=(0, n), ylim=(queries, 0))
        axis.set_title(name, fontsize=9, family="monospace")
        bare(axis)
        axis.set_ylabel("query")
        axis.set_xlabel("key")
    return figure


def bare(axis: Axes) -> None:
    """No ticks and no frame."""
    axis.set_xticks([])
    axis.set_yticks([])
    for spine in axis.spines.values():
        spine.set_visible(False)


def words(axis: Axes, text: str, align: str = "left") -> None:
    axis.axis("off")
    axis.text(0.0 if align == "left" else 0.5, 0.5, text, ha=align, va="center", color=INK, transform=axis.transAxes)


def bases() -> Figure:
    """Matrices that commute: entries of one colour are equal, and each colour is one weight that may be chosen."""
    mirrored = product(Rotations(), Reflections())
    shown = [
        ("permutations of 6:\n2 weights", basis(Permutations(), OnAxis(), OnAxis(), 6), (6, 6)),
        ("shifts of 6:\n6 weights", basis(Shifts(), OnAxis(), OnAxis(), 6), (6, 6)),
        (
            "permutations of 4, on both\nsides of a matrix: 15 weights",
            basis(Permutations(), OnBoth(), OnBoth(), 4),
            (16, 16),
        ),
        ("kernels for quarter\nturns: 7 weights", basis(Rotations(), OnGrid(), Fixed(), (5, 5)), (5, 5)),
        ("for turns and\nmirrors: 6 weights", basis(mirrored, OnGrid(), Fixed(), (5, 5)), (5, 5)),
    ]
    figure = Figure(figsize=(9.4, 2.7), layout="constrained")
    axes = figure.subplots(1, 5, width_ratios=[1, 1, 1.5, 0.9, 0.9])
    for axis, (name, found, shape) in zip(axes, shown, strict=True):
        maps = found.matrices()
        # which maps an entry belongs to
        colours = torch.einsum("koi,k->oi", maps, 2.0 ** torch.arange(len(maps)))
        numbers = colours.unique(return_inverse=True)[1].view(shape)
        axis.pcolormesh(numbers.numpy(), cmap="tab20", edgecolors="white", linewidth=0.8, vmin=0, vmax=19)
        axis.set(aspect="equal", xlim=(0, shape[1]), ylim=(shape[0], 0))
        axis.set_title(name, fontsize=9)
        bare(axis)
    return figure


def codes() -> Figure:
    """Where the sets of {1, 2, 3, ...} are on the line: each set is the number that has its digits."""
    sets = torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * 10)
    figure = Figure(figsize=(9, 2.4), layout="constrained")
    axis = figure.subplots()
    for row, (base, colour) in enumerate(((2.0, ORANGE), (2.5, PINK), (3.0, GREEN), (4.0, BLUE))):
        found = (sets * base ** -torch.arange(1.0, 11.0)).sum(1) * (base - 1)
        axis.vlines(found.numpy(), row - 0.32, row + 0.32, color=colour, linewidth=0.4)
        one, rest = sets[:, 0] == 1, sets[:, 0] == 0
        gap = found[one].min() - found[rest].max()
        axis.text(1.015, row, f"gap {gap:.3f}" if gap > 0.005 else "no gap", va="center", fontsize=9, color=colour)
    axis.set_yticks(range(4), ["base 2", "base 2.5", "base 3", "base 4"])
    axis.set_xticks([])
    axis.set(xlim=(-0.01, 1.12), ylim=(3.6, -0.6))
    axis.set_title("every set of ten things as a number; left of the gap those without the first thing")
    axis.spines[["left", "bottom"]].set_visible(False)
    return figure


def polytope() -> Figure:
    """Doubly stochastic 3 × 3 matrices, projected to the plane: six corners, all of them joined, and ways to them."""
    names = [(0, 1, 2), (1, 2, 0), (2, 0, 1), (1, 0, 2), (0, 2, 1), (2, 1, 0)]
    corners = torch.stack([permutation_matrix(torch.tensor(order), torch.float64) for order in names])
    even, odd = (corners[:3] - 1 / 3, corners[3:] - 1 / 3)  # two triangles in planes that meet in the middle only
    plane = torch.stack(
        [shadow(even, 90.0) + 0.72 * shadow(odd, 90.0 + 60.0), shadow(even, 0.0) + 0.72 * shadow(odd, 60.0)]
    )

    def at(matrix: Tensor) -> Tensor:
        return torch.einsum("...ij,sij->...s", matrix - 1 / 3, plane)

    points = at(corners)
    figure = Figure(figsize=(7.6, 3.9), layout="constrained")
    left, right = figure.subplots(1, 2)
    for axis in (left, right):
        for i in range(6):
            for j in range(i):
                swap = (i < 3) != (j < 3)
                style = {"color": BLUE if swap else ORANGE, "alpha": 0.8 if axis is left else 0.25}
                axis.plot(*points[[i, j]].T.numpy(), linewidth=1.3, linestyle="-" if swap else "--", **style)
        axis.plot(*points.T.numpy(), "o", color=INK, markersize=5)
        axis.set(aspect="equal", xlim=(-1.5, 1.5), ylim=(-1.25, 1.75))
        bare(axis)
    for order, point in zip(names, points * 1.16, strict=True):
        left.text(*point.tolist(), "".join(str(k + 1) for k in order), ha="center", va="center", fontsize=11, color=INK)
    left.set_title("corners: the six orders of 1 2 3\nsolid: one swap apart, dashed: all three move", fontsize=9)
    seed = torch.Generator().manual_seed(3)
    for corner in torch.cat((corners, corners)):
        scores = 1.5 * corner + torch.randn(3, 3, dtype=torch.float64, generator=seed)
        way = torch.stack([at(sinkhorn(scores, temperature=float(t)).matrix) for t in np.geomspace(50, 0.03, 40)])
        right.plot(*way.T.numpy(), color=GREEN, linewidth=1.2)
    right.plot([0], [0], "o", color=GREEN, markersize=5)
    right.set_title(
        "sinkhorn of twelve scores as the temperature falls:\nfrom the middle, all ⅓, to a corner", fontsize=9
    )
    return figure


def shadow(triangle: Tensor, angle: float) -> Tensor:
    """A direction in the plane of a centred triangle of matrices, at an angle from its first corner.   3 3"""
    first = triangle[0] / triangle[0].norm()
    other = triangle[1] - (triangle[1] * first).sum() * first
    turn = np.deg2rad(angle)
    return float(np.cos(turn)) * first + float(np.sin(turn)) * other / other.norm()


def convolution() -> Figure:
    """The commuting square, x shifted and filtered on two ways, and one filter as the matrices it is."""
    sizes, by = (8, 8), (1, 3)
    x, edges = strip()[3], torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]])[None, None] / 4
    shift, conv = shift_matrix(sizes, by), filter_matrix(edges, sizes)
    figure = Figure(figsize=(8.6, 3.4), layout="constrained")
    axes = figure.subplot_mosaic([["x", "Sx", "W", "X"], ["Wx", "WSx", "W", "X"]], width_ratios=[1, 1, 1.7, 1.7])
    corners = {"x": x, "Sx": shift @ x, "Wx": conv @ x, "WSx": conv @ shift @ x}
    for name, says in {"x": "x", "Sx": "S x, shifted →", "Wx": "W x, filtered ↓", "WSx": "W S x = S W x"}.items():
        axes[name].imshow(corners[name].view(sizes).numpy(), cmap="RdBu_r", vmin=-1, vmax=1)
        axes[name].set_title(says, fontsize=9)
    signal, taps = torch.arange(1.0, 11.0), torch.tensor([[[1.0, 3.0, 2.0]]])
    axes["W"].imshow(filter_matrix(taps, (10,)).numpy(), vmin=0, vmax=4)
    axes["W"].set_title("the filter as a matrix: W x\ncirculant, constant along diagonals", fontsize=9)
    axes["X"].imshow(data_matrix(signal[None, None], (3,))[0].numpy(), vmin=0, vmax=12)
    axes["X"].set_title("the data as a matrix: w X\none row a tap, one column a place", fontsize=9)
    for axis in axes.values():
        axis.set(xticks=[], yticks=[])
    return figure


PICTURES: dict[str, Callable[[], Figure]] = {
    "memories": memories,
    "database": database,
    "square_root": square_root,
    "alibi": alibi,
    "masks": masks,
    "bases": bases,
    "codes": codes,
    "polytope": polytope,
    "convolution": convolution,
}


def main(names: list[str]) -> None:
    for name in names or PICTURES:
        with mpl.rc_context(STYLE):
            PICTURES[name]().savefig(HERE / f"{name}.png", dpi=120, facecolor="white", metadata={"Software": None})


if __name__ == "__main__":
    main(sys.argv[1:])
