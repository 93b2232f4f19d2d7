"""Token and place in the stream of a decoder: what linear probes read where positions are added, and where concatenated.

    python benchmarks/probes.py input.txt          some two minutes of one core; writes results.md

Decoders of 4 blocks, which differ only in their position, learn characters. Then each token's vector is taken before the first
block and after each, and two linear maps are fitted on some rows (ridge regression on one-hot targets) and judged on others:
which character is it, and at which of the 64 places? A third asks for the character before it, which attention has to fetch.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from alternate import keep, table
from torch import Tensor, nn

from regard.models.decoder import Decoder, DecoderConfig
from regard.recipes.text.config import TextConfig
from regard.recipes.text.dataset import encode_corpus
from regard.training.config import TrainConfig
from regard.training.step import Stepper
from regard.training.tasks import NextToken

RESULTS = Path(__file__).parent / "results.md"
CONTEXT, BATCH, DEPTH, DIM, ROWS = 64, 32, 4, 96, 384
RIDGE = 1e-2  # of the mean variance of the features
KINDS: dict[str, dict[str, Any]] = {
    "none": {"position": "none"},
    "sinusoidal, added": {"position": "sinusoidal", "embedding_scale": True},
    "learned, added": {"position": "learned"},
    "sinusoidal, concatenated": {"position": "concatenated", "embedding_scale": True},
    "rotary": {"position": "rotary"},
}


class Stream(nn.Module):
    """A decoder that gives the stream before the first block and after each.   b n -> depth + 1, b n d each"""

    def __init__(self, of: Decoder) -> None:
        super().__init__()
        self.of = of

    def forward(self, tokens: Tensor) -> list[Tensor]:
        found: list[Tensor] = []
        stack = self.of.stack
        handles = [stack.blocks[0].register_forward_pre_hook(lambda block, given: found.append(given[0]))]
        for block in stack.blocks:
            handles.append(block.register_forward_hook(lambda block, given, out: found.append(out)))
        try:
            self.of(tokens)
        finally:
            for handle in handles:
                handle.remove()
        return found


def probe(x: Tensor, target: Tensor, classes: int) -> float:
    """The share of held-out targets that a linear map finds.   rows n d, rows n"""
    half = len(x) // 2
    learn, judge = x[:half].flatten(0, 1).double(), x[half:].flatten(0, 1).double()
    centre = learn.mean(0)
    learn, judge = F.pad(learn - centre, (0, 1), value=1.0), F.pad(judge - centre, (0, 1), value=1.0)
    gram = learn.mT @ learn
    gram += RIDGE * gram.diagonal().mean() * torch.eye(len(gram), dtype=gram.dtype)
    answers = F.one_hot(target[:half].flatten(), classes).double()
    weights = torch.linalg.solve(gram, learn.mT @ answers)
    guess = (judge @ weights).argmax(-1)
    return float((guess == target[half:].flatten()).double().mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", help="a text file")
    parser.add_argument("--steps", type=int, default=150)
    asked = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        settings = TextConfig(path=asked.text, context=CONTEXT, validation=0.1, test=0.0)
        corpus = encode_corpus(settings, cache=Path(folder), seed=0)
        source, vocab = corpus.source(BATCH, CONTEXT, 0), corpus.tokenizer.size
        batches = [corpus.source(ROWS, CONTEXT, 1).batch(0)["tokens"]]
        tokens = torch.cat(batches)
        places = torch.arange(CONTEXT).expand_as(tokens)
        for kind, options in KINDS.items():
            torch.manual_seed(0)
            config = DecoderConfig(
                vocab=vocab, context=CONTEXT, dim=DIM, depth=DEPTH, heads=4, zero_start=True, **options
            )
            model = Decoder(config)
            stepper = Stepper(model.train(), NextToken(), source, TrainConfig(steps=asked.steps, warmup=10))
            for step in range(asked.steps):
                loss, _ = stepper.gradients(step)
                stepper.move(step, step / asked.steps)
            with torch.no_grad():
                states = Stream(model.eval())(tokens)
            for number, state in enumerate(states):
                before = (state[:, 1:], tokens[:, :-1])
                figures = [probe(state, tokens, vocab), probe(*before, vocab), probe(state, places, CONTEXT)]
                where = "before the blocks" if number == 0 else f"after block {number}"
                rows.append([kind, where, *(f"{figure:.1%}" for figure in figures)])
            print(kind, f"{float(loss):.3f}", flush=True)
    headers = ["position", "where", "which character", "the one before it", f"which of {CONTEXT} places"]
    text = table(headers, rows)
    print(text)
    command = f"`python benchmarks/probes.py {Path(asked.text).name} --steps {asked.steps}`"
    said = (
        f"{command}: decoders of {DEPTH} blocks, width {DIM}; of the concatenated one a quarter of the width is the place's. "
        f"Held-out accuracy of linear probes, fitted on {ROWS // 2} rows of {CONTEXT} characters. One seed."
    )
    keep(RESULTS, "Probes: token and place, added and concatenated", f"{said}\n\n{text}")


if __name__ == "__main__":
    main()
