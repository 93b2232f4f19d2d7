"""Beam search: seconds for many sentences and for one, against Hugging Face `generate` with the same weights.

    python benchmarks/translate_speed.py [--sentences 1000] [--beams 5] [--threads 2] [--seconds 60] [--keep]

Random weights in Marian's shape, of the size of our default for sentences: dim 128, 4 + 4 blocks, 4 heads, 8,000 tokens.
Sources have 8 to 20 tokens, 14 in the mean. No token ends a translation, so each has as many tokens as its source: both
sides do the same work, and the tokens that they find are compared. Batches are the same for both, sorted by length.
The third contestant is our default model of the same size, by the way that `regard predict` takes.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from alternate import keep, table, take_turns
from torch import Tensor

from regard.generation.source_reader import generate_targets
from regard.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from regard.models.experts import PlainMLP
from regard.recipes.translation.search import batches_by_length

RESULTS = Path(__file__).parent / "results.md"
SIZE = {"vocab": 8000, "dim": 128, "depth": 4, "heads": 4}
LONGEST, BEGIN, NEVER = 128, 0, -1  # tokens of a table of positions; the first token; an id that is none


def make_marian() -> Any:
    """A random model of Hugging Face. No token ends what it writes."""
    import transformers

    config = transformers.MarianConfig(
        vocab_size=SIZE["vocab"],
        d_model=SIZE["dim"],
        encoder_layers=SIZE["depth"],
        decoder_layers=SIZE["depth"],
        encoder_attention_heads=SIZE["heads"],
        decoder_attention_heads=SIZE["heads"],
        encoder_ffn_dim=4 * SIZE["dim"],
        decoder_ffn_dim=4 * SIZE["dim"],
        max_position_embeddings=LONGEST,
        activation_function="relu",
        scale_embedding=True,
        pad_token_id=BEGIN,
        bos_token_id=None,
        eos_token_id=None,
        forced_eos_token_id=None,
        decoder_start_token_id=BEGIN,
    )
    torch.manual_seed(0)
    model = transformers.MarianMTModel(config).eval()
    for parameter in model.parameters():
        # (random weights as they come say the same at each step; larger ones make the beams change places)
        if parameter.dim() == 2:
            torch.nn.init.normal_(parameter, std=0.1)
    return model


def copy_marian(theirs: Any) -> EncoderDecoder:
    """The same model from our parts: Marian is a choice of them."""
    ours = EncoderDecoder(
        EncoderDecoderConfig(
            **SIZE,
            context=LONGEST,
            position="learned",
            norm="layernorm",
            placement="post",
            mlp=PlainMLP(activation="relu"),
            qk_norm=False,
            offset=True,
            embedding_scale=True,
        )
    )
    weights = dict.fromkeys(("embed.weight", "source_embed.weight"), theirs.model.shared.weight)
    for side in ("encoder", "decoder"):
        stack = getattr(theirs.model, side)
        weights[f"{side}.position.of.table"] = stack.embed_positions.weight
        for i, layer in enumerate(stack.layers):
            for name, part in parts_of(layer, side).items():
                first, second = ("scale", "shift") if name.endswith("norm") else ("weight", "bias")
                place = f"{side}.blocks.{i}.{name}"
                weights |= {f"{place}.{first}": part.weight, f"{place}.{second}": part.bias}
    ours.load_state_dict({name: tensor.detach() for name, tensor in weights.items()}, strict=True)
    return ours.eval()


def parts_of(layer: Any, side: str) -> dict[str, Any]:
    """The parts of a layer of Marian by the names of ours."""
    parts = {"mlp.norm": layer.final_layer_norm, "mlp.f.up": layer.fc1, "mlp.f.down": layer.fc2}
    attentions = {"attention": (layer.self_attn, layer.self_attn_layer_norm)}
    if side == "decoder":
        attentions["cross"] = (layer.encoder_attn, layer.encoder_attn_layer_norm)
    for name, (attention, norm) in attentions.items():
        parts |= {
            f"{name}.norm": norm,
            f"{name}.f.to_q": attention.q_proj,
            f"{name}.f.to_k": attention.k_proj,
            f"{name}.f.to_v": attention.v_proj,
            f"{name}.f.mix": attention.out_proj,
        }
    return parts


def make_sources(count: int) -> list[Tensor]:
    """Ids of sentences, the length of each between 8 and 20; the first has 14."""
    draw = torch.Generator().manual_seed(0)
    lengths = [14, *torch.randint(8, 21, (count - 1,), generator=draw).tolist()]
    return [torch.randint(1, SIZE["vocab"], (n,), generator=draw) for n in lengths]


def pad(sources: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    ids = torch.nn.utils.rnn.pad_sequence(list(sources), batch_first=True)
    lengths = torch.tensor([len(each) for each in sources])
    return ids, torch.arange(ids.shape[1]) < lengths[:, None]


def translate_ours(model: EncoderDecoder, sources: Sequence[Tensor], beams: int) -> list[list[int]]:
    """As many tokens as the longest source of a batch, because theirs knows one number for all."""
    found: list[list[int]] = [[] for _ in sources]
    for places in batches_by_length([len(each) for each in sources], beams):
        ids, real = pad([sources[place] for place in places])
        how = {"begin": BEGIN, "end": NEVER, "max_new": ids.shape[1], "beams": beams}
        best = generate_targets(model, ids, None if bool(real.all()) else real, **how)
        for place, (one,) in zip(places, best, strict=True):
            found[place] = one.ids
    return found


def translate_theirs(model: Any, sources: Sequence[Tensor], beams: int) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in sources]
    for places in batches_by_length([len(each) for each in sources], beams):
        ids, real = pad([sources[place] for place in places])
        with torch.inference_mode():
            out = model.generate(
                input_ids=ids,
                attention_mask=real.long(),
                num_beams=beams,
                max_new_tokens=ids.shape[1],
                do_sample=False,
                length_penalty=1.0,
                early_stopping=False,
            )
        for place, row in zip(places, out[:, 1:].tolist(), strict=True):
            found[place] = row
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--beams", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--seconds", type=float, default=60.0, help="time for each of the two measurements")
    parser.add_argument("--keep", action="store_true", help="write the table to results.md")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    theirs = make_marian()
    ours = copy_marian(theirs)
    torch.manual_seed(0)
    usual = EncoderDecoder(EncoderDecoderConfig(**SIZE, context=LONGEST)).eval()
    sources = make_sources(asked.sentences)
    same = compare(translate_ours(ours, sources, asked.beams), translate_theirs(theirs, sources, asked.beams))
    rows = []
    for count in (len(sources), 1):
        some = sources[:count]
        work: dict[str, Callable[[], object]] = {
            "regard": lambda some=some: translate_ours(ours, some, asked.beams),
            "Hugging Face": lambda some=some: translate_theirs(theirs, some, asked.beams),
            "regard, default model": lambda some=some: translate_ours(usual, some, asked.beams),
        }
        times = take_turns(work, seconds=asked.seconds)
        for name, seconds in times.items():
            times_faster = times["Hugging Face"] / seconds
            rows.append([f"{count:,}", name, f"{1000 * seconds:,.1f}", f"{times_faster:.2f} ×"])
    text = table(["sentences", "who", "ms", "Hugging Face / it"], rows)
    said = f"{same:.1%} of the translations are the same, token by token."
    print(f"{text}\n\n{said}")
    if asked.keep:
        machine = f"{platform.processor() or platform.machine()}, {asked.threads} threads"
        command = f"`python benchmarks/translate_speed.py` on {machine}, torch {torch.__version__}, beam {asked.beams}"
        keep(RESULTS, "Beam search against Hugging Face", f"{command}. Medians of alternating runs. {said}\n\n{text}")


def compare(one: list[list[int]], other: list[list[int]]) -> float:
    """The share of sentences with the same tokens. (Sums of float32 may tie or cross in their last digits.)"""
    return sum(a == b for a, b in zip(one, other, strict=True)) / len(one)


if __name__ == "__main__":
    main()
