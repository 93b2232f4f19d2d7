"""Training tokens/s of recurrent and encoder-decoder models beside torch.nn's of the same shape, as ratios in one run.

    python benchmarks/sequence_models.py [--seconds 20] [--dim 256] [--rows 64] [--tokens 20] [--half] [--only lstm]

Each pair is timed in turns, forward and backward, without padding. `transformer` is compared with
torch.nn.Transformer (post-norm, ReLU, biases), the recurrent ones with torch.nn.LSTM and GRU between the same
embedding and head. The decoders of `dot` and `general` are one fused call and one call of attention; `additive`
and fed ones are loops over the target, and their rows say what the loop costs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models.conv import ConvSeq2Seq, ConvSeq2SeqConfig
from regard.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from regard.models.experts import PlainMLP
from regard.models.recurrent import GRU, LSTM, GRUConfig, LSTMConfig, LSTMSeq2Seq, LSTMSeq2SeqConfig

VOCAB = 4000


class TorchRecurrent(nn.Module):
    """torch.nn's layers between an embedding and a head."""

    def __init__(self, cls: type[nn.Module], dim: int) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(VOCAB, dim), nn.Linear(dim, VOCAB, bias=False)
        self.layers = cls(dim, dim, 2, batch_first=True)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.layers(self.embed(tokens))[0])


class TorchTransformer(nn.Module):
    """torch.nn.Transformer between an embedding and a head."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(VOCAB, dim), nn.Linear(dim, VOCAB, bias=False)
        self.body = nn.Transformer(dim, heads, 3, 3, 4 * dim, dropout=0.0, batch_first=True)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        x = self.body(self.embed(source), self.embed(target), tgt_mask=mask, tgt_is_causal=True)
        return self.head(x)


class TorchSeq2Seq(nn.Module):
    """torch.nn.LSTM as encoder (both directions) and as decoder, without attention: the recurrent work alone."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(VOCAB, dim), nn.Linear(dim, VOCAB, bias=False)
        self.encoder = nn.LSTM(dim, dim // 2, 2, batch_first=True, bidirectional=True)
        self.decoder = nn.LSTM(dim, dim, 2, batch_first=True)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        _, ends = self.encoder(self.embed(source))
        # the two directions of a layer beside each other
        first = tuple(x.unflatten(0, (2, 2)).transpose(1, 2).flatten(2).contiguous() for x in ends)
        return self.head(self.decoder(self.embed(target), first)[0])


def pairs(dim: int) -> dict[str, tuple[nn.Module, nn.Module]]:
    """(ours, torch.nn's) by name."""
    size = {"vocab": VOCAB, "dim": dim, "dropout": 0.0, "tied": False}
    heads = max(1, dim // 64)
    plain = {
        "position": "none",
        "norm": "layernorm",
        "placement": "post",
        "mlp": PlainMLP(activation="relu"),
        "qk_norm": False,
    }
    transformer = EncoderDecoderConfig(**size, depth=3, heads=heads, offset=True, **plain)
    torch_transformer = TorchTransformer(dim, heads)
    torch_seq2seq = TorchSeq2Seq(dim)

    def recurrent(**how: object) -> nn.Module:
        return LSTMSeq2Seq(LSTMSeq2SeqConfig(**size, depth=2, **how))  # type: ignore[arg-type]

    return {
        "lstm": (LSTM(LSTMConfig(**size, depth=2)), TorchRecurrent(nn.LSTM, dim)),
        "gru": (GRU(GRUConfig(**size, depth=2)), TorchRecurrent(nn.GRU, dim)),
        "transformer": (EncoderDecoder(transformer), torch_transformer),
        "transformer, regard's parts": (
            EncoderDecoder(EncoderDecoderConfig(**size, depth=3, heads=heads)),
            torch_transformer,
        ),
        "conv (beside Transformer)": (ConvSeq2Seq(ConvSeq2SeqConfig(**size, depth=3)), torch_transformer),
        "lstm seq2seq, none": (recurrent(score="none"), torch_seq2seq),
        "lstm seq2seq, general": (recurrent(score="general"), torch_seq2seq),
        "lstm seq2seq, dot and feed": (recurrent(score="dot", feed=True), torch_seq2seq),
        "lstm seq2seq, additive": (recurrent(score="additive"), torch_seq2seq),
    }


def step_of(model: nn.Module, inputs: tuple[Tensor, ...], target: Tensor, half: bool) -> Callable[[], None]:
    def step() -> None:
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            logits = model(*inputs)
        F.cross_entropy(logits.float().flatten(0, 1), target.flatten()).backward()

    return step


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=20.0, help="for each pair")
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=20)
    parser.add_argument("--half", action="store_true", help="in bfloat16, as training is where it is fast")
    parser.add_argument("--only", default="", help="pairs whose name holds this")
    asked = parser.parse_args()
    torch.manual_seed(0)
    source, target = (torch.randint(VOCAB, (asked.rows, asked.tokens)) for _ in range(2))
    precision = "bfloat16" if asked.half else "float32"
    size = f"dim {asked.dim}, {asked.rows} rows of {asked.tokens} tokens"
    print(f"{size}, {precision}, {torch.get_num_threads()} threads")
    print("| model | tokens/s | torch.nn | ratio |\n|---|---|---|---|")
    for name, (ours, theirs) in pairs(asked.dim).items():
        if asked.only not in name:
            continue
        inputs = (source, target) if "seq2seq" in name or "transformer" in name.lower() else (source,)
        steps = [step_of(model, inputs, target, asked.half) for model in (ours, theirs)]
        for step in steps:
            step()
        times: list[list[float]] = [[], []]
        began = time.perf_counter()
        while time.perf_counter() - began < asked.seconds or len(times[0]) < 3:
            for i, step in enumerate(steps):
                start = time.perf_counter()
                step()
                times[i].append(time.perf_counter() - start)
        own, other = (asked.rows * asked.tokens / median(each) for each in times)
        ratio = median(b / a for a, b in zip(*times, strict=True))
        print(f"| {name} | {own:,.0f} | {other:,.0f} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
