"""Where the norm stands decides how deep a decoder may be: pre-norm, post-norm and DeepNorm, with and without warm-up.

    python benchmarks/norms.py input.txt          some five minutes on two cores; writes results.md and norms.png

Decoders of width 64 read characters, and AdamW takes 200 steps. The rate is full in the first half of them, or climbs to it if
there is warm-up, and falls to zero in the second, so that nothing but the start is different. zero_start and qk_norm are off:
only the norms keep the stream in order. A norm after the embedding lets all begin with a stream of the same size. Weights start
as PyTorch starts them; DeepNorm's own start is a part of DeepNorm.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

import torch
import torch.nn.functional as F
from alternate import keep, table
from torch import Tensor, nn

from regard.data.batch import Batch
from regard.models.decoder import Decoder, DecoderConfig
from regard.models.experts import PlainMLP
from regard.recipes.text.config import TextConfig
from regard.recipes.text.dataset import Corpus, encode_corpus

HERE = Path(__file__).parent
DEPTHS, PLACEMENTS = (4, 16, 48), ("pre", "post", "deepnorm")
WIDTH, HEADS, CONTEXT, ROWS, JUDGED = 64, 4, 64, 8, 16  # JUDGED: batches of the validation split
# nats; who knows the frequencies of characters and nothing else comes this close to their entropy
CLOSE = 0.03


@dataclass(frozen=True)
class Setting:
    """One run."""

    depth: int
    placement: str
    warm: bool
    steps: int
    rate: float
    seed: int

    def rate_at(self, step: int) -> float:
        """Full or climbing in the first half, falling in the second."""
        half = self.steps / 2
        return self.rate * min(1.0, (step + 1) / half if self.warm else 1.0, (self.steps - step) / half)


@dataclass(frozen=True)
class Outcome:
    """What was seen of it."""

    gradients: list[float]  # of each block before the first step
    losses: list[float]  # of each step
    judged: float  # validation loss at the end


def run(setting: Setting, text: str, folder: Path) -> Outcome:
    torch.set_num_threads(1)  # the matrices are too small to be shared; another run has the other core
    torch.manual_seed(setting.seed)
    corpus = read(text, folder)
    source = corpus.source(ROWS, CONTEXT, setting.seed)
    model = decoder(setting, corpus.tokenizer.size)
    optimiser = torch.optim.AdamW(model.parameters(), lr=setting.rate, weight_decay=0.01, fused=True)
    gradients: list[float] = []
    losses: list[float] = []
    for step in range(setting.steps):
        for group in optimiser.param_groups:
            group["lr"] = setting.rate_at(step)
        loss = loss_of(model, source.batch(step))
        optimiser.zero_grad()
        loss.backward()
        gradients = gradients or [gradient_of(block) for block in model.stack.blocks]
        optimiser.step()
        losses.append(loss.item())
    with torch.no_grad():
        judged = sum(loss_of(model, batch).item() for batch in islice(source.validation(), JUDGED)) / JUDGED
    return Outcome(gradients, losses, judged)


def decoder(setting: Setting, vocab: int) -> Decoder:
    config = DecoderConfig(
        vocab=vocab,
        context=CONTEXT,
        dim=WIDTH,
        heads=HEADS,
        depth=setting.depth,
        placement=setting.placement,
        norm="layernorm",
        mlp=PlainMLP(activation="gelu"),
        offset=True,
        embedding_norm=True,
        qk_norm=False,
        zero_start=False,
    )
    return Decoder(config)


def read(text: str, folder: Path) -> Corpus:
    return encode_corpus(
        TextConfig(path=text, tokens="characters", context=CONTEXT, validation=0.1, test=0.0), cache=folder, seed=0
    )


def loss_of(model: nn.Module, batch: Batch) -> Tensor:
    return F.cross_entropy(model(batch["tokens"]).flatten(0, 1), batch.target.flatten())


def gradient_of(part: nn.Module) -> float:
    """Norm of the gradient of all its parameters."""
    return math.sqrt(sum(p.grad.square().sum().item() for p in part.parameters() if p.grad is not None))


def unigram(corpus: Corpus) -> float:
    """Validation loss of who knows how frequent each character is, and nothing else."""
    count = torch.bincount(torch.as_tensor(corpus.train[:].astype("int64")), minlength=corpus.tokenizer.size)
    log = ((count + 1.0) / (count.sum() + len(count))).log()
    source = corpus.source(ROWS, CONTEXT, seed=0)
    return -torch.stack([log[batch.target].mean() for batch in islice(source.validation(), JUDGED)]).mean().item()


def verdict(loss: float, frequencies: float, vocab: int) -> str:
    if not loss <= math.log(vocab):  # worse than a guess, or not a number
        return "diverged"
    return "stuck" if loss > frequencies - CLOSE else "learns"


def smooth(losses: list[float], over: int = 10) -> tuple[list[float], list[float]]:
    """Means of `over` steps, and where they are."""
    pieces = [losses[i : i + over] for i in range(0, len(losses), over)]
    return [i * over + len(piece) / 2 for i, piece in enumerate(pieces)], [sum(piece) / len(piece) for piece in pieces]


def draw(seen: dict[Setting, Outcome], frequencies: float, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.lines import Line2D

    colours = dict(zip(PLACEMENTS, ("#0072B2", "#D55E00", "#009E73"), strict=True))
    figure, axes = pyplot.subplots(2, len(DEPTHS), figsize=(12, 6.8), sharey="row", layout="constrained")
    for setting, outcome in seen.items():
        above, below = axes[:, DEPTHS.index(setting.depth)]
        colour = colours[setting.placement]
        if not setting.warm:  # the start is the same with warm-up
            layers = range(1, setting.depth + 1)
            above.plot(layers, outcome.gradients, "o-", markersize=3, color=colour)
        below.plot(*smooth(outcome.losses), "--" if setting.warm else "-", color=colour)
    for depth, (above, below) in zip(DEPTHS, axes.T, strict=True):
        above.set(title=f"{depth} blocks", xlabel="block", yscale="log")
        above.set_xticks([1, *range(max(1, depth // 4), depth + 1, max(1, depth // 4))])
        below.axhline(frequencies, color="#999999", linestyle=":")
        below.set(xlabel="step")
        for axis in (above, below):
            axis.grid(alpha=0.3, which="both")
    axes[0, 0].yaxis.set_major_formatter("{x:g}")
    axes[0, 0].yaxis.set_minor_formatter("{x:g}")
    axes[0, 0].set_ylabel("gradient norm of a block, at the start")
    axes[1, 0].set_ylabel("training loss, mean of 10 steps")
    named = [Line2D([], [], color=colour, label=name) for name, colour in colours.items()]
    kinds = [
        Line2D([], [], color="black", label="no warm-up"),
        Line2D([], [], color="black", linestyle="--", label="warm-up"),
        Line2D([], [], color="#999999", linestyle=":", label="frequencies of characters only"),
    ]
    figure.legend(handles=[*named, *kinds], loc="outside lower center", ncols=6, frameon=False)
    figure.savefig(path, dpi=110)


def row(setting: Setting, outcome: Outcome, frequencies: float, vocab: int) -> list[str]:
    first, last = outcome.gradients[0], outcome.gradients[-1]
    return [
        str(setting.depth),
        setting.placement,
        "yes" if setting.warm else "no",
        f"{first:.3f}",
        f"{last:.3f}",
        f"{first / last:.2f}",
        f"{outcome.judged:.2f}",
        verdict(outcome.judged, frequencies, vocab),
    ]


def all_of(settings: Iterable[Setting], text: str, folder: Path, workers: int) -> dict[Setting, Outcome]:
    """Each in a process of its own, the longest first."""
    began, seen = time.perf_counter(), {}
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        work = {pool.submit(run, each, text, folder): each for each in sorted(settings, key=lambda each: -each.depth)}
        for done in as_completed(work):
            setting, outcome = work[done], done.result()
            seen[setting] = outcome
            print(
                f"{time.perf_counter() - began:4.0f} s   {len(seen):2} of {len(work)}   {setting.depth:2} blocks, "
                f"{setting.placement}, warm-up {'yes' if setting.warm else 'no'}: loss {outcome.judged:.2f}",
                flush=True,
            )
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", help="a text file, such as tinyshakespeare")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2, help="processes")
    arguments = parser.parse_args()
    settings = [
        Setting(depth, placement, warm, arguments.steps, arguments.rate, arguments.seed)
        for depth in DEPTHS
        for placement in PLACEMENTS
        for warm in (False, True)
    ]
    with tempfile.TemporaryDirectory() as folder:
        corpus = read(arguments.text, Path(folder))
        frequencies, vocab = unigram(corpus), corpus.tokenizer.size
        outcomes = all_of(settings, arguments.text, Path(folder), arguments.workers)
        seen = {setting: outcomes[setting] for setting in settings}
    headers = ["blocks", "placement", "warm-up", "gradient of the first block", "of the last", "ratio"]
    headers += [f"loss after {arguments.steps} steps", "it"]
    rows = table(headers, [row(setting, outcome, frequencies, vocab) for setting, outcome in seen.items()])
    print(rows)
    draw(seen, frequencies, HERE / "norms.png")
    name = Path(arguments.text).name
    note = (
        f"`python benchmarks/norms.py {name} --steps {arguments.steps} --rate {arguments.rate:g} --seed {arguments.seed}`: "
        f"width {WIDTH}, {HEADS} heads, {ROWS} windows of {CONTEXT} characters a step, AdamW, LayerNorm, no clipping; "
        "zero_start and qk_norm are off, so that the norms alone decide. The rate falls to zero in the second half; in "
        "the first it is full, or climbs (warm-up). Gradients are those before the first step, losses those of the first "
        f"{JUDGED * ROWS * CONTEXT:,} characters of the last tenth. *Stuck*: no better than knowing how frequent each "
        f"character is, {frequencies:.2f} there (within {CLOSE}). One seed. Picture: `norms.png`.\n\n"
    )
    keep(HERE / "results.md", "Norms by depth", note + rows)


if __name__ == "__main__":
    main()
