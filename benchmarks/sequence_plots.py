"""CNN, RNN, attention: three language models of equal parameters, in four plots.

    python benchmarks/sequence_plots.py input.txt [--out FOLDER] [--minutes 5] [--recall-minutes 5] [--keep]

1. Time of a training step against the length of the text, for as many tokens in all.
2. Reach: one symbol, some noise, and the question what the symbol was; the share of right answers by distance.
3. Operations that must follow one another to read a text: the arithmetic of the three.
4. Quality at equal time: validation loss on characters of a text against seconds of training.

What is done is kept in --out and not done again; a training that was stopped goes on. Sizes can be made tiny to try it out:
--parameters 20000 --longest 64 --minutes 0.1 --recall-minutes 0.05
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from alternate import keep, table, take_turns
from torch import Tensor, nn

import regard
from regard.models.conv import Conv, ConvConfig
from regard.models.decoder import Decoder, DecoderConfig
from regard.models.recurrent import LSTM, LSTMConfig
from regard.training.step import seed_all

HERE = Path(__file__).parent
KINDS = ("conv", "lstm", "decoder")
NAMES = {"conv": "CNN", "lstm": "RNN (LSTM)", "decoder": "attention"}
COLOURS = {"conv": "#d55e00", "lstm": "#0072b2", "decoder": "#009e73"}  # told apart without colour vision, too
DEPTHS = {"conv": 6, "lstm": 2, "decoder": 4}
HEADS, KERNEL = 4, 5
SYMBOLS, NOISE = 16, 16  # ids of what is to be recalled, and of what lies between; one more asks
ROWS, RATE, JUDGED = 64, 1e-3, 512


def make_config(kind: str, vocab: int, dim: int, context: int) -> Any:
    size = {"vocab": vocab, "dim": dim, "depth": DEPTHS[kind], "context": context}
    if kind == "decoder":
        return DecoderConfig(**size, heads=HEADS)
    if kind == "lstm":
        return LSTMConfig(**size)
    return ConvConfig(**size, kernel=KERNEL)


def make_model(kind: str, vocab: int, dim: int, context: int) -> nn.Module:
    torch.manual_seed(0)
    config = make_config(kind, vocab, dim, context)
    return {"conv": Conv, "lstm": LSTM, "decoder": Decoder}[kind](config)


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def find_width(kind: str, vocab: int, wanted: int) -> int:
    """The width whose number of parameters is closest to the one that is wanted."""
    widths = range(2 * HEADS, 2048, 2 * HEADS)
    best, least = widths[0], float("inf")
    for dim in widths:
        off = abs(count(make_model(kind, vocab, dim, 64)) - wanted)
        if off > least:
            break
        best, least = dim, off
    return best


class Notes:
    """Figures by name in a file, one a line: what is there is not measured again."""

    def __init__(self, file: Path) -> None:
        self.file = file
        lines = file.read_text().splitlines() if file.exists() else []
        self.found: dict[str, Any] = {}
        for line in lines:
            name, value = json.loads(line)
            self.found[name] = value

    def get(self, name: str, measure: Callable[[], Any]) -> Any:
        if name not in self.found:
            self.found[name] = measure()
            with self.file.open("a") as log:
                log.write(json.dumps([name, self.found[name]], allow_nan=False) + "\n")
            print(f"{name}: done", flush=True)
        return self.found[name]


def time_steps(widths: dict[str, int], length: int, tokens: int, seconds: float) -> dict[str, float]:
    """Seconds of a training step of each, in turns, for `tokens` tokens in rows of this length."""
    vocab, rows = 64, max(1, tokens // length)
    ids = torch.randint(vocab, (rows, length), generator=torch.Generator().manual_seed(0))

    def step_of(kind: str) -> Callable[[], None]:
        model = make_model(kind, vocab, widths[kind], length)

        def step() -> None:
            model.zero_grad()
            logits = model(ids)
            F.cross_entropy(logits.flatten(0, 1), ids.flatten()).backward()

        return step

    return take_turns({kind: step_of(kind) for kind in KINDS}, seconds=seconds)


def draw_questions(distance: int, rows: int, draw: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
    """A symbol, so much noise, and the token that asks.   -> ids b (distance + 2), symbols b"""
    symbols = torch.randint(SYMBOLS, (rows, 1), generator=draw)
    noise = torch.randint(SYMBOLS, SYMBOLS + NOISE, (rows, distance), generator=draw)
    asks = torch.full((rows, 1), SYMBOLS + NOISE)
    return torch.cat((symbols, noise, asks), 1), symbols[:, 0]


def train_recall(kind: str, dim: int, longest: int, minutes: float, distances: list[int]) -> dict[str, Any]:
    """The share of right answers at each distance, after so many minutes on distances of all sizes."""
    model = make_model(kind, SYMBOLS + NOISE + 1, dim, longest + 2)
    optimiser = torch.optim.AdamW(model.parameters(), RATE)
    began, step = time.perf_counter(), 0
    while time.perf_counter() - began < 60 * minutes or step == 0:
        seed_all(0, step, torch.device("cpu"))
        distance = int(longest ** torch.rand(()).item())  # as many near as far, on a logarithmic scale
        ids, symbols = draw_questions(distance, ROWS)
        loss = F.cross_entropy(model(ids)[:, -1], symbols)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        step += 1
    right = {}
    model.eval()
    for distance in distances:
        ids, symbols = draw_questions(distance, JUDGED, torch.Generator().manual_seed(distance))
        with torch.no_grad():
            right[str(distance)] = float((model(ids)[:, -1].argmax(-1) == symbols).float().mean())
    return {"steps": step, "right": right}


def train_text(kind: str, text: str, wanted: int, out: Path, minutes: float) -> list[tuple[float, float]]:
    """(seconds, validation loss) of a training on characters."""
    how: dict[str, Any] = {"out": out, "report": False, "model": kind}
    if out.exists():
        run = regard.train("text", resume=True, **how)
    else:
        options = {"model.dim": find_width(kind, 65, wanted), "model.depth": DEPTHS[kind], "data.tokens": "characters"}
        if kind == "decoder":
            options |= {"model.heads": HEADS, "model.ngrams": 1}
        run = regard.train("text", data=text, minutes=minutes, options=options, **how)
    return [(each["seconds"], each["loss"]) for each in run.metrics() if each["event"] == "validation"]


def sequential_steps(kind: str, length: int) -> int:
    """Layers that must follow one another: a recurrent one must also wait for each token before it."""
    return DEPTHS[kind] * (length if kind == "lstm" else 1)


def draw(path: Path, lengths: list[int], seen: dict[str, Any], distances: list[int]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    figure, axes = pyplot.subplots(2, 2, figsize=(9, 6.5), layout="constrained")
    times, reach, steps, quality = axes.flat
    for kind in KINDS:
        how = {"color": COLOURS[kind], "label": NAMES[kind], "marker": ".", "linewidth": 1.6}
        times.plot(lengths, [1000 * seen["times"][str(n)][kind] for n in lengths], **how)
        reach.plot(distances, [100 * seen["reach"][kind]["right"][str(d)] for d in distances], **how)
        steps.plot(lengths, [sequential_steps(kind, n) for n in lengths], **how)
        quality.plot(*zip(*seen["quality"][kind], strict=True), **how)
    back = DEPTHS["conv"] * (KERNEL - 1)
    reach.axvline(back, color=COLOURS["conv"], linewidth=0.8, linestyle=":")
    reach.axhline(100 / SYMBOLS, color="#777777", linewidth=0.8, linestyle=":")
    titles = {
        times: ("a training step", "tokens in a row (as many in all)", "milliseconds"),
        reach: ("recall (dotted: chance, and as far as the CNN sees)", "tokens between", "% right"),
        steps: ("operations one after another", "tokens in a row", "layers that wait for one another"),
        quality: ("quality at equal time", "seconds of training", "validation loss"),
    }
    for axis, (title, across, up) in titles.items():
        axis.set_title(title, loc="left", fontsize=10)
        axis.set(xlabel=across, ylabel=up)
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    for axis, at in ((times, lengths), (reach, distances), (steps, lengths)):
        axis.set_xscale("log", base=2)
        axis.set_xticks(at, [f"{each:,}" for each in at])
    for axis in (times, steps):
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axis.yaxis.set_minor_formatter(NullFormatter())
    reach.set_ylim(0, 104)
    times.legend(frameon=False)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def powers(first: int, last: int) -> list[int]:
    return [2**k for k in range(first.bit_length() - 1, last.bit_length()) if 2**k <= last]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", help="a text file, such as tinyshakespeare")
    parser.add_argument("--out", type=Path, default=Path("runs/benchmark-sequences"))
    parser.add_argument("--parameters", type=int, default=1_000_000)
    parser.add_argument("--longest", type=int, default=2048, help="tokens of the longest row that is timed")
    parser.add_argument("--tokens", type=int, default=8192, help="tokens of a timed step")
    parser.add_argument("--farthest", type=int, default=256, help="largest distance of a symbol")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each length")
    parser.add_argument("--minutes", type=float, default=5.0, help="of training on the text, for each model")
    parser.add_argument("--recall-minutes", type=float, default=5.0, help="of learning to recall, for each model")
    parser.add_argument("--picture", type=Path, help="where the plots go; None: into --out")
    parser.add_argument("--keep", action="store_true", help="write results.md and sequence_plots.png")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    notes = Notes(asked.out / "done.jsonl")
    size = f"{asked.parameters}"
    widths = {kind: find_width(kind, 65, asked.parameters) for kind in KINDS}
    lengths, distances = powers(32, asked.longest), powers(1, asked.farthest)
    far, enough = asked.farthest, asked.recall_minutes
    seen: dict[str, Any] = {"times": {}, "reach": {}, "quality": {}}
    for length in lengths:
        name = f"time {size} {asked.tokens} {length}"
        seen["times"][str(length)] = notes.get(
            name, lambda length=length: time_steps(widths, length, asked.tokens, asked.seconds)
        )
    for kind in KINDS:
        seen["reach"][kind] = notes.get(
            f"reach {size} {far} {enough:g} {kind}",
            lambda kind=kind: train_recall(kind, widths[kind], far, enough, distances),
        )
        out = asked.out / f"text-{size}-{asked.minutes:g}-{kind}"
        seen["quality"][kind] = notes.get(
            f"quality {size} {asked.minutes:g} {kind}",
            lambda kind=kind, out=out: train_text(kind, asked.text, asked.parameters, out, asked.minutes),
        )
    picture = HERE / "sequence_plots.png" if asked.keep else asked.picture or asked.out / "sequence_plots.png"
    draw(picture, lengths, seen, distances)
    text = make_table(widths, lengths, seen)
    print(f"{text}\n\n{picture}")
    if asked.keep:
        machine = f"{platform.processor() or platform.machine()}, {torch.get_num_threads()} threads"
        said = (
            f"`python benchmarks/sequence_plots.py {Path(asked.text).name} --minutes {asked.minutes:g} "
            f"--recall-minutes {enough:g}` on {machine}, torch {torch.__version__}: language models of about "
            f"{asked.parameters:,} parameters; steps of {asked.tokens:,} tokens; recall after {enough:g} minutes on "
            f"distances up to {far}; loss on characters after {asked.minutes:g} minutes. One seed. Picture: "
            "`sequence_plots.png`.\n\n"
        )
        keep(HERE / "results.md", "CNN, RNN, attention", said + text)


def make_table(widths: dict[str, int], lengths: list[int], seen: dict[str, Any]) -> str:
    first, last = str(lengths[0]), str(lengths[-1])
    headers = ["model", "parameters", f"ms a step, rows of {first}", f"of {last}", "farthest recall above 90 %"]
    headers += [f"steps one after another, {last} tokens", "validation loss"]
    rows = []
    for kind in KINDS:
        right = {int(far): share for far, share in seen["reach"][kind]["right"].items()}
        good = [far for far, share in right.items() if share > 0.9]
        times = [f"{1000 * seen['times'][n][kind]:,.0f}" for n in (first, last)]
        loss = min((loss for _, loss in seen["quality"][kind]), default=float("nan"))
        size = f"{count(make_model(kind, 65, widths[kind], 64)):,}"
        waits = f"{sequential_steps(kind, int(last)):,}"
        rows.append([NAMES[kind], size, *times, str(max(good, default="–")), waits, f"{loss:.3f}"])
    return table(headers, rows)


if __name__ == "__main__":
    main()
