"""What each position is worth: trained on 64 characters, tested on up to 1,024, and on shuffled words.

    python benchmarks/positions.py input.txt [--steps 250] [--seed 0]

Decoders that differ only in what tells them the order learn the same batches for the same number of steps. They are judged on
one stretch of the last tenth of the text, cut into rows of 64 to 1,024 characters, in three ways: every character sees all of
its row before it; it sees, in each block, the last 64; or the text is cut into crops of 64, every 32, that begin at place 0.
Then words are shuffled. A causal mask alone tells an order, so encoders, which have none, are asked as well. About seven
minutes on two cores; writes results.md and positions.png.
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# threads that wait sleep: much faster beside other busy programs
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch
import torch.nn.functional as F
from alternate import Work, keep, table, take_turns
from torch import Tensor, nn

from regard.data.batch import IGNORE, Batch
from regard.models.attentions import FullAttention, WindowAttention
from regard.models.decoder import Decoder, DecoderConfig
from regard.models.encoder import Encoder, EncoderConfig
from regard.recipes.text.config import TextConfig
from regard.recipes.text.dataset import Corpus, TextSource, encode_corpus
from regard.training.config import TrainConfig
from regard.training.step import Stepper
from regard.training.tasks import MaskedToken, NextToken, Task
from regard.verbs import train

HERE = Path(__file__).parent
TRAINED, LENGTHS = 64, (64, 128, 256, 512, 1024)
STRETCH = 32_768  # characters of the validation split that everybody is judged on, whatever the length
HIDDEN = 128  # rows of it in which characters are hidden from encoders
BATCH, AT_ONCE = 32, 4096  # rows of a training batch; characters of a batch when judging
DEPTH, ENCODER_DEPTH = 4, 2
SIZES: dict[str, Any] = {"dim": 128, "heads": 4, "zero_start": True}
KINDS: dict[str, dict[str, Any]] = {
    "none": {"position": "none"},
    "sinusoidal": {"position": "sinusoidal", "embedding_scale": True},  # sines of height 1 would drown small embeddings
    "learned": {"position": "learned"},
    "concatenated": {"position": "concatenated", "embedding_scale": True},
    "relative": {"position": "none", "bias": "relative"},
    "rotary": {"position": "rotary"},
    "ALiBi": {"position": "none", "bias": "alibi"},
}
COLOURS = ("#666666", "#D55E00", "#000000", "#E69F00", "#009E73", "#0072B2", "#CC79A7")
NO_PLACE = f"no place beyond {TRAINED}"


def decoder(kind: str, vocab: int, context: int = TRAINED, window: int | None = None) -> Decoder:
    return Decoder(
        DecoderConfig(
            vocab=vocab,
            context=context,
            depth=DEPTH,
            attention=FullAttention() if window is None else WindowAttention(width=window),
            **SIZES,
            **KINDS[kind],
        )
    )


def encoder(kind: str, vocab: int) -> Encoder:
    return Encoder(EncoderConfig(vocab=vocab, context=TRAINED, depth=ENCODER_DEPTH, **SIZES, **KINDS[kind]))


def learn(model: nn.Module, task: Task, corpus: Corpus, steps: int, seed: int) -> nn.Module:
    """Train, by the same batches for all, and give back in eval mode."""
    with tempfile.TemporaryDirectory() as folder:
        # nothing to look at: it is judged below
        source = TextSource(corpus.train, corpus.split, BATCH, TRAINED, seed)
        out = Path(folder) / "run"
        train.train(model=model, task=task, data=source, out=out, steps=steps, options={"seed": seed}, observers=[])
    return model.eval()


# ── longer than it was trained on ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Stretch:
    """A piece of text: each of `count` characters from `first` on is asked once, whatever the rows."""

    ids: Tensor
    first: int
    count: int

    def rows(self, n: int, asked: int | None = None) -> Batch:
        """Rows of n that end `asked` characters apart; the last `asked` of each row are to be predicted (None: all)."""
        asked = asked or n
        ends = self.first + torch.arange(asked, self.count + 1, asked)
        places = ends[:, None] - n + torch.arange(n)
        target = self.ids[places].clone()
        target[:, : n - asked] = IGNORE
        return Batch({"tokens": self.ids[places - 1]}, target)


@dataclass(frozen=True)
class Decoded:
    """Losses of one decoder: at all lengths (None: it has no place there), by crops, and on shuffled words."""

    full: list[float | None]  # all of the row in sight
    near: list[float | None]  # the last 64 in sight
    crops: float
    shuffled: float


def loss(model: nn.Module, rows: Batch) -> float:
    """Nats a character."""
    size = max(1, AT_ONCE // rows.tokens.shape[1])
    parts = zip(rows.tokens.split(size), rows.target.split(size), strict=True)
    with torch.no_grad():
        return NextToken().measure(model, (Batch({"tokens": tokens}, target) for tokens, target in parts))["loss"]


def extrapolate(kind: str, model: Decoder, text: Stretch) -> tuple[list[float | None], list[float | None], float]:
    """Losses at all lengths, with all of the row in sight and with the last 64; and the loss by crops."""
    near = decoder(kind, model.config.vocab, window=TRAINED).eval()
    near.load_state_dict(model.state_dict())
    ends = kind == "learned"  # its table does
    each = [[None if ends and n > TRAINED else loss(seer, text.rows(n)) for n in LENGTHS] for seer in (model, near)]
    return each[0], each[1], loss(model, text.rows(TRAINED, asked=TRAINED // 2))


# ── shuffled ────────────────────────────────────────────────────────────────────────────────────────────────


def shuffled(text: str, seed: torch.Generator) -> list[int]:
    """An order of the characters in which the words have changed places; the gaps, and what an edge may have cut, stay."""
    spans = [(match.start(), match.end()) for match in re.finditer(r"\s+|\S+", text)]
    words = [i for i, (start, _) in enumerate(spans) if not text[start].isspace()][1:-1]
    order = list(range(len(spans)))
    for i, j in zip(words, torch.randperm(len(words), generator=seed).tolist(), strict=True):
        order[i] = words[j]
    return [place for i in order for place in range(*spans[i])]


def orders(corpus: Corpus, text: Stretch, seed: int) -> Tensor:
    """One for each piece of 64 characters.   pieces 64"""
    draw = torch.Generator().manual_seed(seed)
    pieces = text.ids[text.first : text.first + text.count].view(-1, TRAINED)
    return torch.tensor([shuffled(corpus.tokenizer.decode(piece.numpy()), draw) for piece in pieces])


def in_order(text: Stretch, order: Tensor) -> Stretch:
    """The same stretch with each piece put in an order of its own."""
    ids = text.ids.clone()
    ids[text.first : text.first + text.count] = text.rows(TRAINED).target.gather(1, order).flatten()
    return Stretch(ids, text.first, text.count)


@torch.no_grad()
def notices(model: Encoder, task: MaskedToken, text: Stretch, order: Tensor) -> list[str]:
    """Losses at hidden characters before and after their rows are put in another order, and the largest change of a
    probability there, in float64; and that change when rows are mirrored.
    """
    model = model.double()
    rows, order = text.rows(TRAINED).target[:HIDDEN], order[:HIDDEN]
    hidden = task.hide(Batch({"tokens": rows}, rows), torch.Generator().manual_seed(0))
    asked = hidden.target != IGNORE
    usual = model(hidden["tokens"]).log_softmax(-1)
    mirror = torch.arange(TRAINED - 1, -1, -1).expand_as(order)
    losses, changes = [F.nll_loss(usual[asked], hidden.target[asked]).item()], []
    for way in (order, mirror):
        back = torch.empty_like(way).scatter_(1, way, torch.arange(TRAINED).expand_as(way))
        moved = model(hidden["tokens"].gather(1, way)).log_softmax(-1)
        answers = moved.gather(1, back[..., None].expand_as(moved))  # of each character, wherever it went
        losses.append(F.nll_loss(answers[asked], hidden.target[asked]).item())
        changes.append((answers.exp() - usual.exp())[asked].abs().max().item())
    verdict = ["no" if change < 1e-6 else "yes" for change in changes]
    return [
        str(model.symmetry),
        f"{losses[0]:.3f}",
        f"{losses[1]:.3f}",
        *(f"{said}, {change:.1g}" for said, change in zip(verdict, changes, strict=True)),
    ]


# ── cost ────────────────────────────────────────────────────────────────────────────────────────────────────


def costs(corpus: Corpus, steps: int, seed: int) -> dict[str, list[str]]:
    """Parameters, a training step at 64, and a forward at 1,024, in turns."""
    vocab, long = corpus.tokenizer.size, LENGTHS[-1]
    source, tokens = corpus.source(BATCH, TRAINED, seed), torch.randint(corpus.tokenizer.size, (4, long))

    def step(kind: str) -> Work:
        stepper = Stepper(decoder(kind, vocab), NextToken(), source, TrainConfig(steps=steps, seed=seed))

        def run() -> None:
            stepper.gradients(0)
            stepper.move(0, steps)

        return run

    def forward(kind: str) -> Work:
        model = decoder(kind, vocab, context=long).eval()
        return torch.no_grad()(lambda: model(tokens))

    turns = [take_turns({kind: make(kind) for kind in KINDS}, seconds=20) for make in (step, forward)]
    return {
        kind: [
            f"{sum(p.numel() for p in decoder(kind, vocab).parameters()):,}",
            *(f"{1e3 * times[kind]:.0f} ms, {times[kind] / times['none']:.2f} ×" for times in turns),
        ]
        for kind in KINDS
    }


# ── all of it ───────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Exam:
    """What everybody learns from and is asked."""

    corpus: Corpus
    text: Stretch
    order: Tensor  # pieces 64, the words of each shuffled
    steps: int
    seed: int

    def decoder(self, kind: str) -> Decoded:
        torch.manual_seed(self.seed)
        vocab = self.corpus.tokenizer.size
        model = learn(decoder(kind, vocab), NextToken(), self.corpus, self.steps, self.seed)
        mixed = in_order(self.text, self.order)
        return Decoded(*extrapolate(kind, model, self.text), shuffled=loss(model, mixed.rows(TRAINED)))

    def encoder(self, kind: str) -> list[str]:
        torch.manual_seed(self.seed)
        vocab = self.corpus.tokenizer.size  # the id after the last one hides a character
        task = MaskedToken(mask=vocab, vocab=vocab, seed=self.seed)
        model = learn(encoder(kind, vocab + 1), task, self.corpus, self.steps, self.seed)
        return notices(model, task, self.text, self.order)


def exam(path: str, cache: Path, steps: int, seed: int) -> Exam:
    corpus = encode_corpus(
        TextConfig(path=path, tokens="characters", context=TRAINED, validation=0.1, test=0.0), cache=cache, seed=seed
    )
    longest, have = LENGTHS[-1], len(corpus.validation)
    if have < longest:
        raise SystemExit(
            f"the last tenth of the text must have {longest:,} characters, got {have:,}; give a longer text"
        )
    text = Stretch(torch.tensor(corpus.ids.astype("int64")), corpus.split, min(STRETCH, have // longest * longest))
    return Exam(corpus, text, orders(corpus, text, seed), steps, seed)


def report(about: Exam, found: dict[str, Decoded], asked: dict[str, list[str]], paid: dict[str, list[str]]) -> str:
    def numbers(values: list[float | None]) -> list[str]:
        return [NO_PLACE if value is None else f"{value:.3f}" for value in values]

    lengths = [f"{n:,}" for n in LENGTHS]
    words = [(kind, d.full[0], d.shuffled) for kind, d in found.items()]
    parts = [
        f"`python benchmarks/positions.py input.txt --steps {about.steps} --seed {about.seed}`: decoders of {DEPTH} blocks "
        f"(width {SIZES['dim']}, {SIZES['heads']} heads), trained on {about.steps} batches of {BATCH} × {TRAINED} characters, "
        f"the same for all; embeddings are times √d where sines are added or put beside them. Loss in nats a character on the "
        f"same {about.text.count:,} characters of the last tenth, float32.",
        "All of the row in sight (picture: `positions.png`):",
        table(["position", *lengths], [[kind, *numbers(d.full)] for kind, d in found.items()]),
        f"The last {TRAINED} characters in sight of each block, the same weights; and crops of {TRAINED}, every "
        f"{TRAINED // 2}, that begin at place 0, judged on their second half:",
        table(["position", *lengths, "crops"], [[kind, *numbers([*d.near, d.crops])] for kind, d in found.items()]),
        f"Cost, in turns, {torch.get_num_threads()} threads, {torch.backends.cpu.get_cpu_capability()} (a step of {BATCH} rows "
        f"of {TRAINED}; a forward of 4 rows of {LENGTHS[-1]:,}, for which learned got a table as long):",
        table(["position", "parameters", "training step", "forward"], [[kind, *row] for kind, row in paid.items()]),
        f"Shuffled words, the same decoders, rows of {TRAINED}:",
        table(
            ["position", "as written", "words shuffled", "difference"],
            [[kind, f"{usual:.3f}", f"{strange:.3f}", f"{strange - usual:+.3f}"] for kind, usual, strange in words],
        ),
        f"Encoders of {ENCODER_DEPTH} blocks, without a causal mask, guess hidden characters. Do their answers change when "
        "words are shuffled, or rows mirrored (the largest change of a probability, in float64)?",
        table(
            ["position", "keeps", "loss as written", "words shuffled", "notices the shuffle", "notices the mirror"],
            [[kind, *row] for kind, row in asked.items()],
        ),
    ]
    return "\n\n".join(parts)


def draw(found: dict[str, Decoded], steps: int, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4.6), sharey=True, layout="constrained")
    titles = ("all of the row in sight", f"the last {TRAINED} characters in sight of each block")
    for i, title in enumerate(titles):
        for (kind, d), colour in zip(found.items(), COLOURS, strict=True):
            points = [(n, value) for n, value in zip(LENGTHS, (d.full, d.near)[i], strict=True) if value is not None]
            style = "X" if len(points) == 1 else "o-"
            label = f"{kind} ({NO_PLACE})" if len(points) == 1 else kind
            axes[i].plot(
                *zip(*points, strict=True), style, color=colour, label=label, markersize=8 if style == "X" else 5
            )
        axes[i].axvline(TRAINED, color="#bbbbbb", linestyle=":", zorder=0)
        axes[i].set(xscale="log", xlabel="characters of a row", title=title)
        axes[i].set_xticks(LENGTHS, [f"{n:,}" for n in LENGTHS])
        axes[i].minorticks_off()
        axes[i].grid(alpha=0.3)
    axes[0].set_ylabel("validation loss, nats a character")
    lines, labels = axes[0].get_legend_handles_labels()
    figure.legend(lines, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=9)
    figure.suptitle(f"Trained on rows of {TRAINED} for {steps} steps, tested on longer ones")
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", help="a text file; characters of the last tenth are judged")
    parser.add_argument("--steps", type=int, default=250, help="of each model")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    began = time.perf_counter()

    def tell(words: str) -> None:
        print(f"{time.perf_counter() - began:4.0f} s  {words}", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        about = exam(arguments.text, Path(folder), arguments.steps, arguments.seed)
        found: dict[str, Decoded] = {}
        for kind in KINDS:
            found[kind] = about.decoder(kind)
            tell(f"decoder, {kind}: {found[kind].full[0]:.3f} on rows of {TRAINED}")
        asked: dict[str, list[str]] = {}
        for kind in KINDS:
            asked[kind] = about.encoder(kind)
            tell(f"encoder, {kind}: {asked[kind][1]}")
        paid = costs(about.corpus, about.steps, about.seed)
        tell("cost")
        draw(found, about.steps, HERE / "positions.png")
        text = report(about, found, asked, paid)
    keep(HERE / "results.md", "Positions", text)
    print(text)


if __name__ == "__main__":
    main()
