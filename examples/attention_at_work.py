"""What each position can and cannot know, shown by training: a small model reads a row of letters with one marker in it.

    python examples/attention_at_work.py [--out PICTURE] [--seconds BUDGET]

Two questions are answered at the marker. *Which letter came just before?* needs order. *Which letter is the most common?*
does not. One block of attention learns both at once from rows of 12 letters and is tested on rows of 12 and of 24; only
what tells it the order differs.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# threads that wait sleep: much faster beside other busy programs
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch
import torch.nn.functional as F
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from torch import Tensor, nn

from regard.attention import tap
from regard.attention.biases import ALiBi, Buckets, Relative
from regard.attention.kernels.reference import attention_weights
from regard.attention.masks import Causal, Full
from regard.attention.positions import Learned, Rotary, Sinusoidal
from regard.nn.block import Stack
from regard.nn.embed import TokenEmbedding

LETTERS, MARKER, NAMES = 10, 10, "abcdefghij*"  # letters are 0 to 9, and the marker comes after them
LENGTH, DIM, HEADS = 12, 32, 4
STEPS, BATCH, RATE = 400, 32, 0.01

KINDS: dict[str, Callable[[], dict[str, Any]]] = {
    "none": dict,
    "sinusoidal": lambda: {"position": Sinusoidal(DIM)},
    "learned": lambda: {"position": Learned(2 * LENGTH, DIM)},  # the second half of its table is never trained
    "rotary": lambda: {"position": Rotary(DIM // HEADS)},
    "alibi": lambda: {"bias": ALiBi(HEADS, learned=True)},  # knows how far, but not on which side
    "alibi, causal": lambda: {"bias": ALiBi(HEADS, learned=True), "mask": Causal()},  # the mask knows the side
    "relative": lambda: {"bias": Relative(DIM // HEADS, reach=4)},
    "buckets": lambda: {"bias": Buckets(HEADS, buckets=16, farthest=32)},
}


class Reader(nn.Module):
    """Letters in, two answers at the marker out.   b n -> b 2 letters"""

    def __init__(self, mask: Any = None, **order: Any) -> None:
        super().__init__()
        self.mask = Full() if mask is None else mask
        self.embed = TokenEmbedding(LETTERS + 1, DIM)
        self.stack = Stack(1, DIM, HEADS, hidden=2 * DIM, **order)
        self.answer = nn.Linear(DIM, 2 * LETTERS)
        self.keeps = self.stack.keeps & self.mask.keeps

    def forward(self, letters: Tensor) -> Tensor:
        x = self.stack(self.embed(letters), mask=self.mask)  # b n d
        return self.answer(x[letters == MARKER]).unflatten(-1, (2, LETTERS))


def rows(b: int, n: int, seed: torch.Generator) -> tuple[Tensor, Tensor]:
    """Random letters, a quarter of them the same, and one marker.   -> letters: b n, answers: b 2"""
    often = torch.rand(b, n, generator=seed).argsort(1) < n // 4
    letters = torch.where(often, *(torch.randint(LETTERS, (b, size), generator=seed) for size in (1, n)))
    marker = torch.randint(1, n, (b, 1), generator=seed)
    letters, before = letters.scatter(1, marker, MARKER), letters.gather(1, marker - 1)[:, 0]
    most = F.one_hot(letters, LETTERS + 1)[..., :LETTERS].sum(1).argmax(1)
    return letters, torch.stack([before, most], 1)


def train(reader: Reader, seconds: float, tell: Callable[[float], None]) -> int:
    """STEPS steps of AdamW, or as many as the seconds allow; the rate falls to zero over the second half.  -> steps"""
    optimiser, seed = torch.optim.AdamW(reader.parameters(), lr=RATE), torch.Generator().manual_seed(0)
    begun, done, step = time.perf_counter(), 0.0, 0
    while done < 1:
        optimiser.param_groups[0]["lr"] = RATE * min(1.0, 2 * (1 - done))
        letters, answers = rows(BATCH, LENGTH, seed)
        loss = F.cross_entropy(reader(letters).flatten(0, 1), answers.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        step += 1
        done = max(step / STEPS, (time.perf_counter() - begun) / seconds)
        tell(done)
    return step


@torch.no_grad()
def right(reader: Reader, n: int) -> list[float]:
    """The share of right answers to both questions, on rows it has never seen."""
    letters, answers = rows(1000, n, torch.Generator().manual_seed(1))
    return (reader(letters).argmax(-1) == answers).double().mean(0).tolist()


@torch.no_grad()
def marker_weights(reader: Reader, letters: Tensor) -> Tensor:
    """What the marker of one row attends to.   n -> h n"""
    heard: list[tap.Heard] = []
    with tap.listen(heard.append):
        reader(letters[None])
    (call,) = heard  # one block, so one call of attend; the weights follow from what it was given
    return attention_weights(call.q, call.k, call.terms)[0, :, letters == MARKER].squeeze(1)


def draw(readers: dict[str, Reader], path: Path) -> None:
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    letters = torch.tensor([NAMES.index(name) for name in "dahfab*iaceg"])
    figure = Figure(figsize=(9, 7.2), layout="constrained")
    axes = figure.subplots(4, 2).flatten()
    for axis, (kind, reader) in zip(axes, readers.items(), strict=True):
        image = axis.imshow(marker_weights(reader, letters).numpy(), cmap="Blues", vmin=0, vmax=1, aspect="auto")
        axis.add_patch(Rectangle((4.5, -0.5), 1, HEADS, fill=False, color="#d55e00", linewidth=2))
        axis.set_xticks(range(len(letters)), [NAMES[i] for i in letters])
        axis.set_yticks(range(HEADS), range(1, HEADS + 1))
        axis.set_title(f"{kind}: {right(reader, LENGTH)[0]:.0%} right", loc="left", fontsize=11)
        axis.set_ylabel("head")
    figure.suptitle("Which letter came just before the marker *?   What the marker attends to; the answer is framed.")
    figure.colorbar(image, ax=axes, shrink=0.5, label="attention weight")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def budget(text: str) -> float:
    """Seconds, from "5", "5s" or "2m"; no less than a tenth of one."""
    return max(0.1, float(text.rstrip("sm")) * (60 if text.endswith("m") else 1))


def main() -> None:
    parser = argparse.ArgumentParser(description="what each position can and cannot know, shown by training")
    parser.add_argument("--out", type=Path, default="out/attention_at_work.png", help="the picture (%(default)s)")
    parser.add_argument("--seconds", type=budget, default="20s", help="time to train in (%(default)s)")
    options = parser.parse_args()
    if find_spec("matplotlib") is None:
        sys.exit("the picture needs matplotlib; install it with: pip install 'regard[look]'")
    console, readers, early = Console(highlight=False), {}, False
    table = Table(
        "position",
        "keeps",
        title="Right answers on rows of 12 and of 24, trained on 12",
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for column in ("before\nof 12", "before\nof 24", "most\nof 12", "most\nof 24", "seconds"):
        table.add_column(column, justify="right")
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("training", total=len(KINDS))
        for i, kind in enumerate(KINDS):
            torch.manual_seed(0)
            begun, reader = time.perf_counter(), Reader(**KINDS[kind]())
            steps = train(reader, options.seconds / len(KINDS), lambda done, i=i: bar.update(task, completed=i + done))
            seconds, early, readers[kind] = time.perf_counter() - begun, early or steps < STEPS, reader
            scores = [
                score for both in zip(*(right(reader, n) for n in (LENGTH, 2 * LENGTH)), strict=True) for score in both
            ]
            table.add_row(kind, str(reader.keeps), *(f"{score:.0%}" for score in scores), f"{seconds:.1f}")
            if not console.is_terminal:
                console.print(f"trained with position {kind}: {steps} steps in {seconds:.1f} s")
    console.print(table)
    if early:
        console.print(f"Some ended before their {STEPS} steps; more time: --seconds {max(60, 3 * options.seconds):.0f}")
    _, answers = rows(1000, LENGTH, torch.Generator().manual_seed(1))
    guess = (answers[:, 0] == answers[:, 1]).double().mean()
    console.print(f"To guess the most common letter as the one before is right in {guess:.0%} of the rows.")
    draw(readers, options.out)
    console.print("Read next: docs/attention.md, from memory to keys, queries and values.")
    console.print(f"What each attends to is drawn in {options.out}", soft_wrap=True)


if __name__ == "__main__":
    main()
