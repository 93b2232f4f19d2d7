"""Sixteen texts at once: the scheduler against Hugging Face's generate in a batch, and against one by one.

    python benchmarks/serve.py                                        # about 5 minutes
    python benchmarks/serve.py --shape gpt2 --dtype bfloat16 --new 32

The model has the shape of SmolLM2-135M or GPT-2, with random weights, the same for all. Each of --texts prompts has
--prompt tokens of its own; texts are greedy and have --new tokens. Every way is run --repeats times, in turns, and the
fastest counts. tokens/s: new tokens over all seconds, those for the prompts too. One by one, a fourth of the texts is
written. Needs transformers.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch

from regard.generation.model_slots import make_slots
from regard.generation.request import Piece, Request
from regard.generation.sampling import Sampling
from regard.generation.scheduler import Scheduler
from regard.nn.linear import prepacked
from regard.pretrained.open import read_pretrained

SHAPES: dict[str, dict[str, Any]] = {
    "smollm2": {
        "model_type": "llama",
        "vocab_size": 49152,
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": True,
    },
    "gpt2": {"model_type": "gpt2"},
    "tiny": {
        "model_type": "llama",
        "vocab_size": 512,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": True,
    },
}


class Silent:
    """A stream without text."""

    def add(self, token: int) -> str:
        return ""

    def rest(self) -> str:
        return ""


def make_models(shape: str, dtype: torch.dtype) -> tuple[Any, Any]:
    """Theirs, and ours with the same weights."""
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    settings = dict(SHAPES[shape])
    theirs = AutoModelForCausalLM.from_config(AutoConfig.for_model(settings.pop("model_type"), **settings)).eval()
    with tempfile.TemporaryDirectory() as folder:
        theirs.save_pretrained(folder)
        ours = read_pretrained(folder).build().eval()
    return theirs.to(dtype), ours.to(dtype)


def write(model: Any, prompts: list[list[int]], new: int, at_once: int) -> list[list[int]]:
    """The texts by the scheduler."""
    slots = make_slots(model, at_once, len(prompts[0]) + new)
    scheduler = Scheduler(slots)

    def ignore(piece: Piece) -> None:
        pass

    sampling = Sampling(max_new=new, temperature=0)
    requests = [Request(prompt, sampling, Silent(), ignore) for prompt in prompts]
    with prepacked(model):
        scheduler.submit(requests)
        while scheduler.step():
            pass
    return [request.ids[len(request.prompt) :] for request in requests]


@torch.inference_mode()
def write_theirs(model: Any, prompts: list[list[int]], new: int) -> list[list[int]]:
    """The texts by Hugging Face's generate."""
    given = torch.tensor(prompts)
    mask = torch.ones_like(given)
    how = {"min_new_tokens": new, "max_new_tokens": new, "do_sample": False, "pad_token_id": 0}
    return model.generate(given, attention_mask=mask, **how)[:, given.shape[1] :].tolist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="smollm2")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--texts", type=int, default=16)
    parser.add_argument("--prompt", type=int, default=32)
    parser.add_argument("--new", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    theirs, ours = make_models(asked.shape, getattr(torch, asked.dtype))
    draw = torch.Generator().manual_seed(0)
    prompts = torch.randint(10, 500, (asked.texts, asked.prompt), generator=draw).tolist()
    few = prompts[: max(1, asked.texts // 4)]
    ways: dict[str, tuple[int, Callable[[], list[list[int]]]]] = {
        "Hugging Face, all in one batch": (len(prompts), lambda: write_theirs(theirs, prompts, asked.new)),
        "regard, all at once": (len(prompts), lambda: write(ours, prompts, asked.new, asked.texts)),
        "Hugging Face, one by one": (len(few), lambda: [write_theirs(theirs, [p], asked.new)[0] for p in few]),
        "regard, one by one": (len(few), lambda: write(ours, few, asked.new, 1)),
    }
    write(ours, prompts, 2, asked.texts)
    write_theirs(theirs, prompts, 2)
    best: dict[str, float] = {}
    texts: dict[str, list[list[int]]] = {}
    for _ in range(asked.repeats):
        for name, (_, run) in ways.items():
            began = time.perf_counter()
            texts[name] = run()
            seconds = time.perf_counter() - began
            best[name] = min(best.get(name, seconds), seconds)
    speeds = {name: count * asked.new / best[name] for name, (count, _) in ways.items()}
    what = f"{asked.texts} texts of {asked.new} tokens after {asked.prompt}, {asked.dtype}, {asked.threads} threads"
    print(
        f"{asked.shape}: {what}\n\n| way | tokens/s | of the batch of Hugging Face | of regard one by one |\n|---|---|---|---|"
    )
    for name, speed in speeds.items():
        batch, alone = speeds["Hugging Face, all in one batch"], speeds["regard, one by one"]
        print(f"| {name} | {speed:,.0f} | {speed / batch:.2f} | {speed / alone:.2f} |")
    at_once = texts["regard, all at once"]
    same = [a == b for a, b in zip(at_once, texts["regard, one by one"], strict=False)]
    also = [a == b for a, b in zip(at_once, texts["Hugging Face, all in one batch"], strict=True)]
    print(f"\nthe same texts as one by one: {sum(same)} of {len(same)}; as Hugging Face: {sum(also)} of {len(also)}")


if __name__ == "__main__":
    main()
