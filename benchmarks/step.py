"""How fast is one training step of a decoder of 10.7 million parameters, beside the same in other libraries?

python benchmarks/step.py                      eager, about a minute; writes results.md
python benchmarks/step.py --compile            compiled by torch.compile as well (minutes of compiling)
python benchmarks/step.py --profile            where our own step spends its time

6 blocks of width 384 with 6 heads, vocabulary 65, batch 8 × 256: loss, gradients, and a step of fused AdamW, for all the same.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import torch
import torch.nn.functional as F
from alternate import Work, keep, table, take_turns
from torch import Tensor, nn

from regard.attention.kernels.precision import CPU_MULTIPLIES
from regard.models.decoder import Decoder, DecoderConfig
from regard.models.experts import PlainMLP

HERE = Path(__file__).parent
VOCAB, CONTEXT, DIM, DEPTH, HEADS, BATCH = 65, 256, 384, 6, 6, 8
PEAK = 2048  # side of the square matrices whose product is the peak
SIZES = {"vocab": VOCAB, "context": CONTEXT, "dim": DIM, "depth": DEPTH, "heads": HEADS}
AS_GPT2 = {
    "position": "learned",
    "norm": "layernorm",
    "mlp": PlainMLP(activation="gelu"),
    "offset": True,
    "qk_norm": False,
    "tied": True,
}
AS_TORCH = AS_GPT2 | {"mlp": PlainMLP(activation="relu"), "tied": False}
AS_LLAMA = {"mlp": PlainMLP(activation="swiglu"), "qk_norm": False}
LIKE = {  # who computes the same
    "regard as torch.nn": "torch.nn.TransformerEncoder",
    "regard as GPT-2": "Hugging Face GPT-2",
    "regard as Llama": "Hugging Face Llama",
}


class Logits(nn.Module):
    """A Hugging Face model that gives its logits and nothing else."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor) -> Tensor:
        return self.model(tokens, use_cache=False).logits


class TorchDecoder(nn.Module):
    """torch.nn's own blocks with a causal mask."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(DIM, HEADS, 4 * DIM, dropout=0.0, batch_first=True, norm_first=True)
        self.embedding, self.position_embedding = nn.Embedding(VOCAB, DIM), nn.Embedding(CONTEXT, DIM)
        self.blocks = nn.TransformerEncoder(layer, DEPTH, norm=nn.LayerNorm(DIM), enable_nested_tensor=False)
        self.head = nn.Linear(DIM, VOCAB, bias=False)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(CONTEXT), persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens) + self.position_embedding.weight[: tokens.shape[1]]
        return self.head(self.blocks(x, mask=self.mask, is_causal=True))


def contestants() -> tuple[dict[str, Callable[[], nn.Module]], list[str]]:
    """Ours first, the others where they are installed; and who is not, and why."""
    left_out: list[str] = []
    found: dict[str, Callable[[], nn.Module]] = {
        "regard": lambda: Decoder(DecoderConfig(**SIZES)),
        "regard as torch.nn": lambda: Decoder(DecoderConfig(**SIZES, **AS_TORCH)),
        "regard as GPT-2": lambda: Decoder(DecoderConfig(**SIZES, **AS_GPT2)),
        "regard as Llama": lambda: Decoder(DecoderConfig(**SIZES, **AS_LLAMA)),
        "torch.nn.TransformerEncoder": TorchDecoder,
    }
    try:
        import transformers as hf

        gpt2 = hf.GPT2Config(
            vocab_size=VOCAB,
            n_positions=CONTEXT,
            n_embd=DIM,
            n_layer=DEPTH,
            n_head=HEADS,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=0,
            eos_token_id=0,
        )
        llama = hf.LlamaConfig(
            vocab_size=VOCAB,
            hidden_size=DIM,
            intermediate_size=1024,
            num_hidden_layers=DEPTH,
            num_attention_heads=HEADS,
            max_position_embeddings=CONTEXT,
        )
        found["Hugging Face GPT-2"] = lambda: Logits(hf.GPT2LMHeadModel(gpt2))
        found["Hugging Face Llama"] = lambda: Logits(hf.LlamaForCausalLM(llama))
    except ImportError as error:
        left_out.append(f"Hugging Face ({error})")
    try:
        import x_transformers as xt

        layers = {"dim": DIM, "depth": DEPTH, "heads": HEADS, "attn_flash": True, "rotary_pos_emb": True}
        found["x-transformers"] = lambda: xt.TransformerWrapper(
            num_tokens=VOCAB, max_seq_len=CONTEXT, attn_layers=xt.Decoder(**layers)
        )
    except ImportError as error:
        left_out.append(f"x-transformers ({error})")
    return found, left_out


def step(model: nn.Module, half: bool, compiled: bool) -> Work:
    """One training step on fixed tokens."""
    draw = torch.Generator().manual_seed(0)
    tokens, target = torch.randint(VOCAB, (2, BATCH, CONTEXT), generator=draw)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    forward = torch.compile(model) if compiled else model

    def run() -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16) if half else nullcontext():
            loss = F.cross_entropy(forward(tokens).flatten(0, 1).float(), target.flatten())
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()

    return run


def flops(model: nn.Module) -> int:
    """Operations of one step, counted for all alike: matrices that tokens pass, and the head, and attention."""
    tables = ("emb", "wte", "wpe", "table", "head")
    matrices = sum(
        p.numel() for name, p in model.named_parameters() if p.dim() == 2 and not any(t in name for t in tables)
    )
    return 3 * BATCH * CONTEXT * (2 * (matrices + VOCAB * DIM) + 4 * DIM * CONTEXT * DEPTH)


def measure(dtype: torch.dtype, compiled: bool, seconds: float) -> list[list[str]]:
    """A row of the table for each contestant, the fastest first."""
    torch.manual_seed(0)
    models = {name: make() for name, make in contestants()[0].items()}
    a = torch.randn(PEAK, PEAK, dtype=dtype)
    work: dict[str, Work] = {"peak": lambda: a @ a}
    work |= {name: step(model, dtype == torch.bfloat16, compiled) for name, model in models.items()}
    times = take_turns(work, seconds=seconds)
    peak = 2 * PEAK**3 / times.pop("peak")
    best = min(time for name, time in times.items() if not name.startswith("regard"))
    return [
        [
            "compiled" if compiled else "eager",
            str(dtype).removeprefix("torch."),
            name,
            f"{sum(p.numel() for p in models[name].parameters()) / 1e6:.1f} M",
            f"{BATCH * CONTEXT / time:,.0f}",
            f"{best / time:.2f}",
            f"{times[LIKE[name]] / time:.2f}" if LIKE.get(name) in times else "",
            f"{flops(models[name]) / time / peak:.0%} of {peak / 1e9:.0f} GFLOP/s",
        ]
        for name, time in sorted(times.items(), key=lambda each: each[1])
    ]


def profile() -> str:
    torch.manual_seed(0)
    run = step(Decoder(DecoderConfig(**SIZES)), half=False, compiled=False)
    run()
    with torch.profiler.profile() as seen:
        run()
    return seen.key_averages().table(sort_by="self_cpu_time_total", row_limit=25, max_name_column_width=48)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compile", action="store_true", help="compiled as well")
    parser.add_argument("--profile", action="store_true", help="only show where our step spends its time")
    parser.add_argument("--seconds", type=float, default=60, help="of measuring, for each table")
    arguments = parser.parse_args()
    if arguments.profile:
        print(profile())
        return
    half = CPU_MULTIPLIES[torch.bfloat16]
    rows = []
    for compiled in (False, True) if arguments.compile else (False,):
        for dtype in (torch.float32, torch.bfloat16) if half else (torch.float32,):
            rows += measure(dtype, compiled, arguments.seconds)
    headers = [
        "how",
        "dtype",
        "who",
        "parameters",
        "tokens/s",
        "of the best other",
        "of its like",
        "of the matmul peak",
    ]
    shown = table(headers, rows)
    print(shown)
    missing = "" if half else " This processor has no units for bfloat16, so it is not measured."
    missing += "".join(f" Left out: {who}." for who in contestants()[1])
    words = (
        f"`python benchmarks/step.py{' --compile' if arguments.compile else ''}` on {platform.machine()}, "
        f"{torch.backends.cpu.get_cpu_capability()}, {torch.get_num_threads()} threads, torch {torch.__version__}. Medians of "
        f"alternating steps; {DEPTH} blocks, width {DIM}, {HEADS} heads, vocabulary {VOCAB}, batch {BATCH} × {CONTEXT}, loss, "
        f"gradients and fused AdamW. *Its like* computes the same; our default also has QK-norm and relu².{missing}"
    )
    keep(HERE / "results.md", "Training step", f"{words}\n\n{shown}\n")


if __name__ == "__main__":
    main()
