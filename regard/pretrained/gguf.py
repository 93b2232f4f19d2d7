"""A GGUF file of a Llama-like model, as one of ours. Its names and facts are put into those of Hugging Face
first: from there the same tables lead on."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard import files
from regard.errors import RegardError
from regard.pretrained.families import FAMILIES
from regard.pretrained.family import translate
from regard.pretrained.foreign_config import ForeignConfig
from regard.pretrained.gguf_file import GGUFFile
from regard.pretrained.gguf_template import read_gguf_template
from regard.pretrained.gguf_tokenizer import read_tokenizer
from regard.pretrained.weights import Pretrained

PERMUTED = ("llama",)  # their queries and keys pair neighbouring channels; ours (and Hugging Face's) halves
ARCHITECTURES = ("llama", "qwen2", "qwen3")
PARTS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
WHOLE = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
FREQUENCIES = "rope_freqs.weight"  # how many times slower each pair of channels turns
LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
ENDS = ("tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id")
MOST_LAYERS = 1024


def is_gguf(path: files.PathLike) -> bool:
    """Is this a file that begins as GGUF files do, or is called so?"""
    path = Path(path)
    if not path.is_file():
        return False
    if path.suffix == ".gguf":
        return True
    with files.open_regular(path) as file:
        return file.read(4) == b"GGUF"


def read_gguf(path: files.PathLike) -> Pretrained:
    """The model of a file, with its tokenizer."""
    file = GGUFFile(path)
    architecture = check_architecture(file)
    plain = read_config(file, architecture)
    family = FAMILIES[architecture]
    theirs = ForeignConfig(plain, str(path))
    config, names = translate(family, theirs, "tokens")
    state, left_out = names.read(_tensors(file, architecture, config), str(path))
    tokenizer, notes = read_tokenizer(file.facts)
    chat, said = read_gguf_template(file.facts)
    types = sorted({stored.kind.name for stored in file.tensors.values()})
    found = Pretrained(
        kind=family.kind,
        config=config,
        state=state,
        origin=architecture,
        tokenizer=tokenizer,
        ends=tuple(id for id in map(file.facts.get, ENDS) if type(id) is int and id >= 0),
        chat=chat,
        notes=(f"weights are read as float32 from {', '.join(types)}", *notes, *said),
        where=str(path),
        left_out=left_out,
    )
    found.check()
    return found


def check_architecture(file: GGUFFile) -> str:
    """The architecture of a file, if it is one that is known."""
    architecture = file.facts.get("general.architecture")
    if architecture not in ARCHITECTURES:
        raise RegardError(
            f"{file.path}: models of the architecture {architecture!r} cannot be imported; known: "
            f"{', '.join(ARCHITECTURES)}"
        )
    return str(architecture)


def read_config(file: GGUFFile, architecture: str) -> dict[str, Any]:
    """The facts of a file as a config.json."""
    facts = file.facts

    def fact(name: str, default: Any = None) -> Any:
        value = facts.get(f"{architecture}.{name}", default)
        if value is None:
            raise RegardError(f"{file.path} has no {architecture}.{name}")
        return value

    dim, heads = fact("embedding_length"), fact("attention.head_count")
    depth = fact("block_count")
    if any(type(each) is not int or each < 1 for each in (dim, heads, depth)) or depth > MOST_LAYERS:
        raise RegardError(f"{file.path} has sizes that no model has: {dim=}, {heads=}, {depth=}")
    embedding = file.tensors.get("token_embd.weight")
    if embedding is None:
        raise RegardError(f"{file.path} has no token_embd.weight")
    for name in ("attention.sliding_window", "expert_count"):
        if facts.get(f"{architecture}.{name}"):
            raise RegardError(f"{file.path}: {architecture}.{name} cannot be represented")
    head_dim = fact("attention.key_length", dim // heads)
    if fact("rope.dimension_count", head_dim) != head_dim:
        raise RegardError(f"{file.path}: rope.dimension_count must be that of a head, {head_dim}")
    biases = "blk.0.attn_output.bias" in file.tensors
    found = {
        "model_type": architecture,
        "vocab_size": embedding.shape[0],
        "hidden_size": dim,
        "num_hidden_layers": depth,
        "num_attention_heads": heads,
        "num_key_value_heads": fact("attention.head_count_kv", heads),
        "intermediate_size": fact("feed_forward_length"),
        "max_position_embeddings": fact("context_length"),
        "rms_norm_eps": fact("attention.layer_norm_rms_epsilon"),
        "tie_word_embeddings": "output.weight" not in file.tensors,
        "rope_parameters": _rope(file, architecture, head_dim),
    }
    if architecture != "qwen2":
        found |= {"head_dim": head_dim, "attention_bias": biases}
    return found


def _rope(file: GGUFFile, architecture: str, head_dim: int) -> dict[str, Any]:
    """Rotary settings; factors of a Llama 3 are settings that give the same factors."""
    facts = file.facts
    found: dict[str, Any] = {"rope_theta": facts.get(f"{architecture}.rope.freq_base", 10_000.0)}
    kind = facts.get(f"{architecture}.rope.scaling.type", "none")
    factor = facts.get(f"{architecture}.rope.scaling.factor")
    if FREQUENCIES in file.tensors:
        return found | _llama3(file, found["rope_theta"], head_dim)
    if kind == "none" or not factor:
        return found | {"rope_type": "default"}
    found |= {"rope_type": kind, "factor": factor}
    original = facts.get(f"{architecture}.rope.scaling.original_context_length")
    if kind == "yarn" and original:
        found["original_max_position_embeddings"] = original
    return found


def _llama3(file: GGUFFile, base: float, head_dim: int) -> dict[str, Any]:
    """The factors that each frequency is divided by -> the settings of Llama 3 that give them."""
    factors = file.read(FREQUENCIES).double()
    slowest = float(factors.max())
    frequencies = base ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
    turns = LLAMA3["original_max_position_embeddings"] * frequencies / (2 * math.pi)
    low, high = LLAMA3["low_freq_factor"], LLAMA3["high_freq_factor"]
    kept = ((turns - low) / (high - low)).clamp(0, 1)
    wanted = 1 / ((1 - kept) / slowest + kept)
    if factors.shape != wanted.shape or not torch.allclose(factors, wanted, rtol=1e-4):
        raise RegardError(f"{file.path}: {FREQUENCIES} are not the factors of a Llama 3, and cannot be represented")
    return {"rope_type": "llama3", "factor": slowest, **LLAMA3}


def _tensors(file: GGUFFile, architecture: str, config: Any) -> dict[str, Tensor]:
    """All tensors by the names of Hugging Face."""
    found: dict[str, Tensor] = {}
    for name in file.tensors:
        if name == FREQUENCIES:
            continue
        tensor = file.read(name)
        if architecture in PERMUTED and name.startswith("blk."):
            tensor = unpermute(tensor, name, config, str(file.path))
        found[rename(name)] = tensor
    return found


def rename(name: str) -> str:
    """blk.3.attn_q.weight -> model.layers.3.self_attn.q_proj.weight; unknown names stay, and are refused."""
    if name in WHOLE:
        return WHOLE[name]
    parts = name.split(".")
    if len(parts) == 4 and parts[0] == "blk" and parts[2] in PARTS:
        return f"model.layers.{parts[1]}.{PARTS[parts[2]]}.{parts[3]}"
    return name


def unpermute(tensor: Tensor, name: str, config: Any, where: str) -> Tensor:
    """Rows of queries and keys in the order of halves: pairs of neighbours become i and i + c/2."""
    part = name.split(".")[2]
    heads = {"attn_q": config.heads, "attn_k": config.kv_heads or config.heads}.get(part)
    if heads is None:
        return tensor
    if len(tensor) % (2 * heads):
        raise RegardError(f"{where}: {name} has {len(tensor)} rows, which {heads} heads cannot share")
    return tensor.unflatten(0, (heads, -1, 2)).transpose(1, 2).flatten(0, 2)
