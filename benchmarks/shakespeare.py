"""Seconds until validation loss 1.88 on tinyshakespeare: the text recipe beside nanoGPT's CPU configuration.

    python benchmarks/shakespeare.py input.txt [--seeds 3]

The peer is Hugging Face's GPT-2 with the published settings (4 layers, width 128, 4 heads, windows of 64, batch 12, 2,000
steps, AdamW 1e-3 with warm-up 100 and cosine to 1e-4, float32). Both read the same characters, the first nine tenths, and are
judged on the whole last tenth. Only steps are timed, not the looks at the validation split.
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import torch
import torch.nn.functional as F
from alternate import keep, table

from regard.recipes.text.config import TextConfig
from regard.recipes.text.dataset import encode_corpus
from regard.training.progress import Observer
from regard.verbs import train

GOAL, STEPS = 1.88, 2000
OURS = 45  # steps that the recipe is given; its schedule fits itself to them


def peer(corpus_file: str, seed: int) -> tuple[float | None, float, float]:
    """Seconds until the goal (None: never), the last validation loss, and seconds of all steps, of the published settings."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(seed)
    with tempfile.TemporaryDirectory() as folder:
        corpus = encode_corpus(
            TextConfig(path=corpus_file, context=64, validation=0.1, test=0.0), cache=Path(folder), seed=seed
        )
        source = corpus.source(12, 64, seed)
        size = corpus.tokenizer.size
        config = GPT2Config(
            vocab_size=size,
            n_positions=64,
            n_embd=128,
            n_layer=4,
            n_head=4,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
        )
        model = GPT2LMHeadModel(config)
        groups = [
            {"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": 0.1},
            {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
        ]
        optimiser = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99))
        spent, reached, loss = 0.0, None, math.inf
        for step in range(STEPS):
            began = time.perf_counter()
            rate = (
                1e-3 * (step + 1) / 100
                if step < 100
                else 1e-4 + 4.5e-4 * (1 + math.cos(math.pi * (step - 100) / (STEPS - 100)))
            )
            for group in optimiser.param_groups:
                group["lr"] = rate
            batch = source.batch(step)
            logits = model(batch["tokens"]).logits
            optimiser.zero_grad()
            F.cross_entropy(logits.flatten(0, 1), batch.target.flatten()).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            spent += time.perf_counter() - began
            if step + 1 >= 1400 and (step + 1) % 50 == 0 and reached is None:
                loss = judged(model, source.validation())
                reached = spent if loss <= GOAL else None
        return reached, loss, spent


@torch.no_grad()
def judged(model: torch.nn.Module, batches: object) -> float:
    model.eval()
    total = count = 0.0
    for batch in batches:  # type: ignore[attr-defined]
        losses = F.cross_entropy(model(batch["tokens"]).logits.flatten(0, 1), batch.target.flatten(), reduction="none")
        asked = batch.target.flatten() >= 0
        total, count = total + losses[asked].sum().item(), count + asked.sum().item()
    model.train()
    return total / count


class Timed(Observer):
    """Seconds of steps until the goal."""

    def __init__(self) -> None:
        self.spent, self.reached, self.loss = 0.0, None, math.inf

    def stepped(self, step: int, loss: float, tokens: int, seconds: float) -> None:
        self.spent += seconds

    def evaluated(self, step: int, measures: Mapping[str, float]) -> None:
        self.loss = measures["loss"]
        if self.loss <= GOAL and self.reached is None:
            self.reached = self.spent


def ours(corpus_file: str, seed: int, steps: int) -> tuple[float | None, float]:
    timed = Timed()
    with tempfile.TemporaryDirectory() as folder:
        options = {
            "train.seed": seed,
            "train.steps": steps,
            "train.evaluate_every": 3,
            "data.validation": 0.1,
            "data.test": 0.0,  # the usual split of this text
        }
        train.train("text", data=corpus_file, out=Path(folder) / "run", options=options, observers=[timed])
    return timed.reached, timed.loss


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", help="tinyshakespeare as a text file")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=OURS, help="steps of the recipe")
    arguments = parser.parse_args()
    rows, ratios = [], []
    for seed in range(arguments.seeds):
        us, our_loss = ours(arguments.text, seed, arguments.steps)
        them, their_loss, spent = peer(arguments.text, seed)
        ours_said = "never" if us is None else f"{us:.1f} s"
        theirs_said = f"not in {spent:.1f} s" if them is None else f"{them:.1f} s"
        # a peer that does not get there in its 2,000 steps would have needed more than their time
        if us is not None:
            ratios.append((spent if them is None else them) / us)
        more = "more than " if them is None else ""
        sooner = f"{more}{ratios[-1]:.1f} ×" if us is not None else ""
        rows.append([str(seed), ours_said, f"{our_loss:.3f}", theirs_said, f"{their_loss:.3f}", sooner])
        print(rows[-1], flush=True)
    headers = [
        "seed",
        "regard, to 1.88",
        f"its loss after {arguments.steps} steps",
        "GPT-2, to 1.88",
        "its loss then",
        "sooner",
    ]
    mean = f"\n\nMean: {statistics.mean(ratios):.1f} × sooner." if ratios else ""
    note = (
        f"`python benchmarks/shakespeare.py input.txt --seeds {arguments.seeds} --steps {arguments.steps}`, "
        f"{torch.get_num_threads()} threads, {torch.backends.cpu.get_cpu_capability()}, float32; steps timed, looks not.\n\n"
    )
    keep(Path(__file__).parent / "results.md", "Shakespeare", note + table(headers, rows) + mean)


if __name__ == "__main__":
    main()
