"""What does recording cost, beside the model alone and beside Hugging Face's own way of giving weights?

python benchmarks/look.py [--tokens 512]        writes results.md

GPT-2 with 124 M random weights, one row. Weights are computed when asked for, so both are measured: recording alone, and
with all 144 maps taken. Hugging Face gives weights only when the whole model runs its eager attention.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from alternate import Work, extra_memory, keep, table, take_turns

from regard.look import page
from regard.look.model_input import ModelInput, Tokens
from regard.look.record import record
from regard.look.scene import gather


def main() -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--seconds", type=float, default=40)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config()).eval()
    slow = GPT2LMHeadModel(GPT2Config(attn_implementation="eager")).eval()
    ids = torch.randint(50257, (1, arguments.tokens))

    @torch.no_grad()
    def alone() -> None:
        model(ids)

    @torch.no_grad()
    def recorded() -> None:
        with record(model):
            model(ids)

    @torch.no_grad()
    def taken() -> None:
        with record(model) as seen:
            model(ids)
        for entry in seen:
            entry.weights  # noqa: B018

    @torch.no_grad()
    def summarised() -> None:
        with record(model, keep="summary"):
            model(ids)

    @torch.no_grad()
    def eager() -> None:
        slow(ids, output_attentions=True)

    work: dict[str, Work] = {
        "the model alone": alone,
        "regard.record": recorded,
        "regard.record, all weights taken": taken,
        "regard.record, summaries": summarised,
        "Hugging Face, eager, output_attentions": eager,
    }
    times = take_turns(work, seconds=arguments.seconds)
    plain = times["the model alone"]
    rows = [
        [name, f"{time:.3f} s", f"{time / plain:.2f} ×", f"{extra_memory(work[name]):.0f}"]
        for name, time in times.items()
    ]
    shown = table(["who", "median", "of the model alone", "extra memory, MB"], rows)
    stream = Tokens("tokens", tuple(map(str, ids[0].tolist())))
    scene = gather(model, ModelInput(inputs={"input_ids": ids}, streams=(stream,)), name="gpt2", tsne=False)
    size = len(page.html(scene.data).encode()) / 1e6
    largest = max(scene.data["views"], key=lambda view: len(json.dumps(view)))["view"]
    words = (
        f"`python benchmarks/look.py --tokens {arguments.tokens}`: GPT-2, 124 M random weights, {arguments.tokens} tokens, "
        f"{torch.get_num_threads()} threads, medians of alternating runs. Its page has {size:.1f} MB, most of it {largest}."
    )
    print(shown, words, sep="\n")
    keep(Path(__file__).parent / "results.md", "Recording", f"{words}\n\n{shown}\n")


if __name__ == "__main__":
    main()
