"""Fine-tuning weights of others: what few labels are worth, and how fast a language model learns a new text.

    python benchmarks/finetune.py --minilm DIR --train train.csv --test test.csv --gguf FILE --text FILE [--steps 60]

Labels: accuracy on a test table after 100 and 1,000 rows of a training table, by MiniLM (whole, and with LoRA), by a
model from scratch (regard's default) and by TF-IDF with logistic regression. Text: the perplexity of its last part
before and after SmolLM2 was fine-tuned, whole and with LoRA, with tokens a second and the largest memory, beside a
loop of PyTorch over Hugging Face's model with AdamW, the same batches and the same precision.

Each figure is measured in a process of its own and kept in --kept; what is there already is not measured again.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

ROWS = (100, 1000)
LABEL_MODELS = ("minilm", "minilm lora", "scratch", "tf-idf")
TEXT_MODELS = ("before", "whole", "lora", "hugging face")
CONTEXT, BATCH, RANK, RATE = 128, 8, 16, 1e-4
Figures = dict[str, float]


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


# ── labels


def measure_labels(model: str, count: int, chosen: argparse.Namespace, folder: Path) -> Figures:
    train, test = rows_of(chosen.train)[:count], rows_of(chosen.test)
    if model == "tf-idf":
        return {"accuracy": _tf_idf(train, test)}
    import regard

    few = folder / "few.csv"
    with few.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["text", "label"])
        writer.writeheader()
        writer.writerows({"text": row["text"], "label": row["label"]} for row in train)
    options: dict[str, Any] = {}
    start = None
    if model != "scratch":
        start = chosen.minilm
        options = {"train.batch": 16, "data.context": 64, "train.lr": 5e-5}
    if model == "minilm lora":
        options |= {"model.lora": RANK, "train.lr": 1e-3}
    steps = None if model == "scratch" else max(chosen.steps, count // 4)
    run = regard.train(
        "text", data=few, start=start, out=folder / "run", steps=steps, options=options, observers=[], report=False
    )
    return {"accuracy": regard.evaluate(run.path, chosen.test).measures["accuracy"]}


def _tf_idf(train: list[dict[str, str]], test: list[dict[str, str]]) -> float:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    model = make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression(C=10, max_iter=1000))
    model.fit([row["text"] for row in train], [row["label"] for row in train])
    return float(model.score([row["text"] for row in test], [row["label"] for row in test]))


# ── a text


def measure_text(model: str, _: int, chosen: argparse.Namespace, folder: Path) -> Figures:
    import regard

    whole = chosen.text.read_text()
    cut = int(len(whole) * 0.9)
    learned, unseen = folder / "learned.txt", folder / "unseen.txt"
    learned.write_text(whole[:cut])
    unseen.write_text(whole[cut : cut + 40_000])
    if model == "before":
        return {"perplexity": regard.evaluate(chosen.gguf, unseen).measures["perplexity"]}
    if model == "hugging face":
        return _hugging_face(chosen, learned, folder)
    options: dict[str, Any] = {"data.context": CONTEXT, "train.batch": BATCH, "train.lr": RATE}
    options |= {"train.precision": "float32", "train.evaluate_every": chosen.steps, "data.validation": 0.02}
    if model == "lora":
        options |= {"model.lora": RANK, "train.lr": 10 * RATE}
    run = regard.train(
        "text",
        data=learned,
        start=chosen.gguf,
        out=folder / "run",
        steps=chosen.steps,
        options=options,
        observers=[],
        report=False,
    )
    seconds = [event["seconds"] for event in run.metrics() if event.get("event") == "step"]
    apart = [b - a for a, b in pairwise(seconds)]
    many = chosen.steps / max(1, len(seconds))  # steps between two events
    speed = BATCH * CONTEXT * many / statistics.median(apart) if apart else float("nan")
    return {"perplexity": regard.evaluate(run.path, unseen).measures["perplexity"], "tokens/s": speed}


def _hugging_face(chosen: argparse.Namespace, learned: Path, folder: Path) -> Figures:
    """The loop that Hugging Face's Trainer makes: forward, backward, clip, AdamW."""
    import torch
    from transformers import AutoModelForCausalLM

    from regard.data import tokenizer as tokenizers
    from regard.targets.imported import open_run
    from regard.verbs.pretrained import export_run

    run = open_run(chosen.gguf)
    export_run(run.path, folder / "hf")
    model = AutoModelForCausalLM.from_pretrained(folder / "hf").train()
    ids = torch.from_numpy(tokenizers.load(run.path).encode(learned.read_text()[:400_000]).astype("int64"))
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.1)
    times = []
    draw = torch.Generator().manual_seed(0)
    for _ in range(chosen.steps):
        began = time.perf_counter()
        starts = torch.randint(len(ids) - CONTEXT - 1, (BATCH,), generator=draw)
        rows = torch.stack([ids[start : start + CONTEXT + 1] for start in starts.tolist()])
        loss = model(input_ids=rows, labels=rows).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        times.append(time.perf_counter() - began)
    return {"tokens/s": BATCH * CONTEXT / statistics.median(times)}


# ── one after another


def questions(chosen: argparse.Namespace) -> dict[str, tuple[Callable[..., Figures], str, int]]:
    """What can be measured with the paths that were given."""
    found: dict[str, tuple[Callable[..., Figures], str, int]] = {}
    if chosen.minilm and chosen.train and chosen.test:
        for count in ROWS:
            found |= {f"{count} labels, {name}": (measure_labels, name, count) for name in LABEL_MODELS}
    if chosen.gguf and chosen.text:
        found |= {f"text, {name}": (measure_text, name, 0) for name in TEXT_MODELS}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("minilm", "train", "test", "gguf", "text"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--kept", type=Path, default=Path("finetune.json"))
    parser.add_argument("--only", help="measure one figure, in this process")
    chosen = parser.parse_args()
    asked = questions(chosen)
    if chosen.only is not None:
        measure, name, count = asked[chosen.only]
        with tempfile.TemporaryDirectory() as folder:
            figures = measure(name, count, chosen, Path(folder))
        figures["megabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps(figures))
        return
    kept: dict[str, Figures] = json.loads(chosen.kept.read_text()) if chosen.kept.exists() else {}
    for question in asked:
        if question not in kept:
            words = [sys.executable, __file__, *sys.argv[1:], "--only", question]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"{question}: {done.stderr.strip().splitlines()[-1]}", flush=True)
                continue
            kept[question] = json.loads(done.stdout.strip().splitlines()[-1])
            chosen.kept.write_text(json.dumps(kept, indent=2))
        figures = ", ".join(f"{name} {value:.4g}" for name, value in kept[question].items())
        print(f"{question}: {figures}", flush=True)


if __name__ == "__main__":
    main()
