"""How far positions and biases reach beyond the length they were trained on: trained on 256, tested on up to 4,096.

    python benchmarks/length_extrapolation.py work/ text.txt [--steps 1500] [--seed 0]

It is benchmarks/positions.py at four times the length, with every position and bias, and both ways of evaluating that
the literature mixes up: rows that follow each other, where a row's first characters know little (longer rows then help
everybody), and a window that slides, where every character that is counted has a full context behind it. Each decoder
learns the same batches. It is judged on one stretch of the last tenth of the text: with all of the row in sight, with
the last 256 characters in sight of each block, and by sliding rows of n that count their last 128 characters only.

Everything is kept in the folder that is given: what is finished is not done again, a run that was broken off goes on.
Writes results.md and length_extrapolation.png. A try in a minute: --steps 5 --lengths 256 512 --stretch 1024 --minimal.
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

# threads that wait sleep: much faster beside other busy programs
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch
from alternate import keep, table
from positions import KINDS as SHORT
from positions import Stretch, loss

from regard.files import write_json
from regard.models.attentions import WindowAttention
from regard.models.decoder import Decoder, DecoderConfig
from regard.recipes.text.config import TextConfig
from regard.recipes.text.dataset import Corpus, TextSource, encode_corpus
from regard.training.tasks import NextToken
from regard.verbs import train

HERE = Path(__file__).parent
TRAINED, LENGTHS = 256, (256, 512, 1024, 2048, 4096)
COUNTED = 128  # characters at the end of a sliding row that are counted
STRETCH, BATCH = 32_768, 16
SIZES: dict[str, Any] = {"dim": 192, "heads": 6, "depth": 4, "zero_start": True}
KINDS: dict[str, dict[str, Any]] = {
    **SHORT,
    "buckets (T5)": {"position": "none", "bias": "buckets"},
    "rotary + ALiBi": {"position": "rotary", "bias": "alibi"},
}
WAYS = {
    "full": "Rows that follow each other, all of the row in sight:",
    "near": f"The same rows, the last {TRAINED} characters in sight of each block:",
    "sliding": f"Rows that slide by {COUNTED}, of which the last {COUNTED} characters are counted, all in sight:",
}
NO_PLACE = "–"


def config_of(kind: str, vocab: int, sizes: dict[str, Any]) -> DecoderConfig:
    return DecoderConfig(vocab=vocab, context=TRAINED, **sizes, **KINDS[kind])


def learn(kind: str, corpus: Corpus, work: Path, arguments: argparse.Namespace, sizes: dict[str, Any]) -> Decoder:
    """A trained model: trained, resumed, or found."""
    torch.manual_seed(arguments.seed)
    model = Decoder(config_of(kind, corpus.tokenizer.size, sizes))
    out = work / "".join(each if each.isalnum() else "-" for each in kind)
    train.train(
        model=model,
        task=NextToken(),
        data=TextSource(corpus.train, corpus.split, BATCH, TRAINED, arguments.seed),
        out=out,
        steps=arguments.steps,
        resume=(out / "config.json").exists(),
        options={"seed": arguments.seed, "save_minutes": 1.0},
        observers=[],
        report=False,
    )
    return model.eval()


def judge(kind: str, model: Decoder, text: Stretch, way: str, length: int) -> float | None:
    """Nats a character; None: it has no place there."""
    if kind == "learned" and length > TRAINED:
        return None
    if way == "sliding":
        return loss(model, text.rows(length, asked=COUNTED))
    if way == "full":
        return loss(model, text.rows(length))
    near = Decoder(replace(model.config, attention=WindowAttention(width=TRAINED))).eval()
    near.load_state_dict(model.state_dict())
    return loss(near, text.rows(length))


def draw(found: dict[str, Any], lengths: list[int], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(WAYS), figsize=(15, 4.8), sharey=True, layout="constrained")
    colours = pyplot.get_cmap("tab10").colors  # type: ignore[attr-defined]
    for axis, (way, title) in zip(axes, WAYS.items(), strict=True):
        for kind, colour in zip(KINDS, colours, strict=False):
            points = [(n, found[f"{kind}, {way}, {n}"]) for n in lengths]
            known = [(n, value) for n, value in points if value is not None]
            axis.plot(*zip(*known, strict=True), "o-" if len(known) > 1 else "X", color=colour, label=kind)
        axis.axvline(TRAINED, color="#bbbbbb", linestyle=":", zorder=0)
        axis.set(xscale="log", xlabel="characters of a row", title=title.removesuffix(":").split(",")[0])
        axis.set_xticks(lengths, [f"{n:,}" for n in lengths])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("validation loss, nats a character")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(KINDS), frameon=False)
    figure.savefig(path, dpi=110)


def report(found: dict[str, Any], arguments: argparse.Namespace, count: int, sizes: dict[str, Any]) -> str:
    def cell(value: float | None) -> str:
        return NO_PLACE if value is None else f"{value:.3f}"

    parts = [
        f"`python benchmarks/length_extrapolation.py work/ text.txt --steps {arguments.steps} --seed {arguments.seed}`: "
        f"decoders of {sizes['depth']} blocks (width {sizes['dim']}, {sizes['heads']} heads), trained on "
        f"{arguments.steps} batches of {BATCH} × {TRAINED} characters, the same for all. "
        f"Loss in nats a character on the same {count:,} characters."
    ]
    for way, words in WAYS.items():
        rows = [[kind, *(cell(found[f"{kind}, {way}, {n}"]) for n in arguments.lengths)] for kind in KINDS]
        parts += [words, table(["position", *(f"{n:,}" for n in arguments.lengths)], rows)]
    return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path, help="a folder for runs and figures; what is there is not done again")
    parser.add_argument("text", help="a text file; characters of the last tenth are judged")
    parser.add_argument("--steps", type=int, default=1500, help="of each model")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lengths", type=int, nargs="+", default=list(LENGTHS))
    parser.add_argument("--stretch", type=int, default=STRETCH, help="characters that everybody is judged on")
    parser.add_argument("--minimal", action="store_true", help="tiny models, to try the script")
    arguments = parser.parse_args()
    work: Path = arguments.work
    work.mkdir(parents=True, exist_ok=True)
    sizes = SIZES | ({"dim": 32, "heads": 2, "depth": 1} if arguments.minimal else {})
    corpus = encode_corpus(
        TextConfig(path=arguments.text, tokens="characters", context=TRAINED, validation=0.1, test=0.0),
        cache=work / "cache",
        seed=arguments.seed,
    )
    longest = max(arguments.lengths)
    count = min(arguments.stretch, (len(corpus.validation) - longest) // longest * longest)
    if count <= 0:
        raise SystemExit(f"the last tenth of the text must have {2 * longest:,} characters; give a longer text")
    # sliding rows look back beyond the stretch
    text = Stretch(torch.tensor(corpus.ids.astype("int64")), corpus.split + longest, count)
    kept = work / "figures.json"
    found: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {}
    for kind in KINDS:
        asked = [(way, n) for way in WAYS for n in arguments.lengths if f"{kind}, {way}, {n}" not in found]
        if not asked:
            continue
        model = learn(kind, corpus, work, arguments, sizes)
        for way, n in asked:
            found[f"{kind}, {way}, {n}"] = judge(kind, model, text, way, n)
            write_json(kept, found)
        print(f"{kind}: {found[f'{kind}, full, {arguments.lengths[0]}']:.3f}", flush=True)
    said = report(found, arguments, count, sizes)
    draw(found, arguments.lengths, (work if arguments.minimal else HERE) / "length_extrapolation.png")
    if not arguments.minimal:
        keep(HERE / "results.md", "Length extrapolation", said)
    print(said)


if __name__ == "__main__":
    main()
