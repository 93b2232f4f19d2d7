"""What pretraining is worth with few labels: permutation LM (XLNet), masked LM, causal LM, and none, at the same compute.

    python benchmarks/pretraining.py work/ train.csv test.csv [--plain text.txt] [--minutes 5] [--tune-steps 300]

The tables have the columns text and label. All texts of train.csv, without their labels (or another text), are the
plain text. Each model learns from it for the same time, with the same width, depth and tokens. Then its blocks, the mean
of their outputs and a new linear map are trained on 100 and on 1,000 rows of train.csv, the first of one order for all,
and judged on test.csv. The blocks of the causal LM stay causal. One seed: differences of a few percent mean nothing.

Everything is kept in the folder that is given: what is finished is not done again, a run that was broken off goes on.
Writes results.md. A try in a minute: --minutes 0.05 --tune-steps 5 --minimal.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# threads that wait sleep: much faster beside other busy programs
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch
from alternate import keep, table
from torch import Tensor, nn

from regard.data import tokenizer as tokenizers
from regard.data.batch import Batch, pad_rows
from regard.files import write_json
from regard.models.sequence_model import SequenceModel, count_places
from regard.nn.pool import MeanPool
from regard.recipes.base import problem_of_run
from regard.runs.run import Run
from regard.training.tasks import Classify
from regard.verbs import train

HERE = Path(__file__).parent
TASKS = {"permutation": "permutation LM (XLNet)", "masked": "masked LM", "next": "causal LM"}
LABELS = (100, 1000)
CONTEXT, BATCH = 64, 32
SIZES: dict[str, Any] = {"model.dim": 128, "model.depth": 4, "model.heads": 4, "model.ngrams": 1}


class Judge(nn.Module):
    """Blocks of a language model, the mean of their outputs, and a linear map.   ids b n -> b classes"""

    def __init__(self, body: SequenceModel, classes: int) -> None:
        super().__init__()
        self.body, self.pool, self.head = body, MeanPool(), nn.Linear(body.config.dim, classes)

    def forward(self, tokens: Tensor, *, real: Tensor | None = None) -> Tensor:
        where = count_places(real)
        x = self.body.embedded(tokens, where, real)
        out: Tensor = self.head(self.pool(self.body.stack(x, mask=self.body.mask, where=where, real=real), real))
        return out


@dataclass(frozen=True)
class Rows:
    """Labelled texts as tensors."""

    tokens: Tensor
    labels: Tensor
    real: Tensor

    def take(self, which: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.tokens[which], self.labels[which], self.real[which]


def read(path: Path) -> list[tuple[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return [(row["text"], row["label"]) for row in csv.DictReader(file)]


def as_rows(rows: list[tuple[str, str]], names: list[str], tokenizer: Any) -> Rows:
    ids = [tokenizer.encode(text)[:CONTEXT].astype("int64") for text, _ in rows]
    tokens, real = pad_rows(ids)
    labels = torch.tensor([names.index(label) for _, label in rows])
    return Rows(tokens, labels, torch.ones_like(tokens, dtype=torch.bool) if real is None else real)


def pretrain(task: str, plain: Path, work: Path, minutes: float, sizes: dict[str, Any]) -> Run:
    """A finished run: trained, resumed, or found."""
    out = work / f"pretrained-{task}"
    if (out / "config.json").exists():
        return train.train("text", out=out, resume=True, report=False)
    options = {
        "data.tokens": "words",
        "data.context": CONTEXT,
        "train.batch": BATCH,
        "train.save_minutes": 0.5,
        **sizes,
    }
    return train.train("text", data=plain, task=task, out=out, minutes=minutes, options=options, report=False)


def tune(run: Run, rows: Rows, tested: Rows, count: int, out: Path, arguments: argparse.Namespace) -> dict[str, float]:
    """Accuracy and loss on the test table after fine-tuning; `fresh` weights of the same shape without a run's."""
    torch.manual_seed(arguments.seed)
    body: Any = problem_of_run(run).load(run)
    if out.name.startswith("none"):
        body = type(body)(body.config)
    order = torch.randperm(len(rows.labels), generator=torch.Generator().manual_seed(arguments.seed))[:count]
    model = Judge(body, int(rows.labels.max()) + 1)
    options = {"seed": arguments.seed, "batch": BATCH, "lr": 0.005, "adam_lr": 0.001}
    train.train(
        model=model,
        task="classify",
        data=rows.take(order),
        out=out,
        steps=arguments.tune_steps,
        resume=(out / "config.json").exists(),
        options=options,
        report=False,
        observers=[],
    )
    model.eval()
    with torch.no_grad():
        parts = torch.arange(len(tested.labels)).split(256)
        return Classify().measure(
            model, (Batch({"tokens": tokens}, target) for tokens, target in map(tested.take, parts))
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path, help="a folder for runs and figures; what is there is not done again")
    parser.add_argument("train", type=Path, help="a table with the columns text and label")
    parser.add_argument("test", type=Path)
    parser.add_argument("--plain", type=Path, help="the text to pretrain on; without it the texts of the table")
    parser.add_argument("--minutes", type=float, default=5.0, help="of each pretraining")
    parser.add_argument("--tune-steps", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minimal", action="store_true", help="tiny models, to try the script")
    arguments = parser.parse_args()
    work: Path = arguments.work
    work.mkdir(parents=True, exist_ok=True)
    sizes = SIZES | ({"model.dim": 32, "model.depth": 1, "model.heads": 2} if arguments.minimal else {})
    rows, tested = read(arguments.train), read(arguments.test)
    plain = arguments.plain or work / "plain.txt"
    if arguments.plain is None:
        plain.write_text("\n".join(text for text, _ in rows), encoding="utf-8")
    names = sorted({label for _, label in rows})
    kept = work / "figures.json"
    found: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {}
    for task in TASKS:
        run = pretrain(task, plain, work, arguments.minutes, sizes)
        tokenizer = tokenizers.load(run.verify("tokenizer.json"))
        known, asked = as_rows(rows, names, tokenizer), as_rows(tested, names, tokenizer)
        for start in (task, *(["none"] if task == "masked" else [])):
            for count in LABELS:
                name = f"{start}-{count}"
                if name not in found:
                    began = time.perf_counter()
                    found[name] = tune(run, known, asked, count, work / name, arguments)
                    write_json(kept, found)
                    share = found[name]["accuracy"]
                    print(f"{name}: {share:.1%} in {time.perf_counter() - began:.0f} s", flush=True)
    text = report(found, arguments, len(tested), len(names), sizes)
    if not arguments.minimal:
        keep(HERE / "results.md", "Pretraining with few labels", text)
    print(text)


def report(
    found: dict[str, Any], arguments: argparse.Namespace, tested: int, classes: int, sizes: dict[str, Any]
) -> str:
    said = TASKS | {"none": "none: random weights, both directions"}
    lines = [
        [words, *(f"{found[f'{task}-{count}']['accuracy']:.1%}" for count in LABELS)] for task, words in said.items()
    ]
    about = (
        f"`python benchmarks/pretraining.py work/ train.csv test.csv --minutes {arguments.minutes:g} --tune-steps "
        f"{arguments.tune_steps} --seed {arguments.seed}`: {sizes['model.depth']} blocks of width {sizes['model.dim']}, words; "
        f"pretrained for {arguments.minutes:g} minutes each, then fine-tuned for {arguments.tune_steps} steps. Accuracy on "
        f"{tested:,} texts of {classes} classes, one seed."
    )
    return f"{about}\n\n{table(['pretrained as', *(f'{count:,} labels' for count in LABELS)], lines)}"


if __name__ == "__main__":
    main()
