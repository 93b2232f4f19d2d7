"""How fast and how small is attention, beside PyTorch's own?

python benchmarks/attention.py                  all of it, a few minutes; writes results.md and attention.png
python benchmarks/attention.py --thresholds     what the thresholds of kernels/choose.py were taken from
"""

from __future__ import annotations

import argparse
import platform
from pathlib import Path

import torch
import torch.nn.functional as F
from alternate import Work, extra_memory, keep, table, take_turns
from torch import Tensor

from regard.attention import kernels
from regard.attention.attend import attend, explain
from regard.attention.biases import ALiBi
from regard.attention.masks import Causal, Window

HERE = Path(__file__).parent
HEADS, CHANNELS = 8, 64


def inputs(n: int, dtype: torch.dtype = torch.float32, grad: bool = False) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(1, HEADS, n, CHANNELS).to(dtype).requires_grad_(grad) for _ in range(3)]


def forward(run: Work) -> Work:
    def timed() -> None:
        with torch.no_grad():
            run()

    return timed


def both_ways(run: Work) -> Work:
    """Forward and backward."""

    def timed() -> None:
        out = run()
        assert isinstance(out, Tensor)
        out.backward(torch.ones_like(out))

    return timed


def window() -> list[list[str]]:
    """A causal window of 256 over 32,768 tokens, forward, against SDPA causal over all of them."""
    q, k, v = inputs(32_768)
    mask = Causal() & Window(255)
    work = {
        "SDPA causal": forward(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)),
        "regard": forward(lambda: attend(q, k, v, mask=mask)),
    }
    return versus("causal window 256, 32,768 tokens, forward", work, seconds=30)


def alibi() -> list[list[str]]:
    """Causal ALiBi, 8,192 tokens, forward and backward, against SDPA with the bias as a matrix (made beforehand)."""
    n = 8192
    q, k, v = inputs(n, grad=True)
    bias, place = ALiBi(HEADS), torch.arange(n)
    matrix = -bias.slopes[:, None, None] * (place[:, None] - place).abs()
    matrix = matrix.masked_fill(place > place[:, None], -torch.inf)[None]
    work = {
        "SDPA, dense bias": both_ways(lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=matrix)),
        "regard": both_ways(lambda: attend(q, k, v, mask=Causal(), bias=bias)),
    }
    rows = versus("causal ALiBi, 8,192 tokens, forward + backward", work, seconds=40)
    memory = matrix.numel() * matrix.element_size() / 2**20
    rows[0][-1] += f" (+ {memory:.0f} of the matrix itself)"
    rows += versus(
        "the same, SDPA causal without any bias",
        {
            "SDPA causal": both_ways(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)),
            "regard": work["regard"],
        },
        seconds=20,
    )
    return rows


def versus(title: str, work: dict[str, Work], seconds: float) -> list[list[str]]:
    times = take_turns(work, seconds=seconds)
    peer = next(iter(work))
    ratio = times[peer] / times["regard"]
    sizes = {name: f"{extra_memory(run):.0f}" for name, run in work.items()}
    return [
        [title, name, f"{t:.3f} s", f"{ratio:.1f} ×" if name == "regard" else "", sizes[name]]
        for name, t in times.items()
    ]


def plain_causal() -> list[list[str]]:
    """Nothing but a causal mask: how much the door costs, and where another way than SDPA is better."""
    rows = []
    for dtype in (torch.float32, torch.bfloat16):
        for n in (64, 256, 1024, 4096, 8192):
            for name, way in (("forward", forward), ("forward + backward", both_ways)):
                if dtype == torch.bfloat16 and n > 4096 and way is both_ways:
                    continue  # a processor without bfloat16 units takes minutes for SDPA's backward here
                q, k, v = inputs(n, dtype, grad=way is both_ways)
                work = {
                    "SDPA": way(lambda q=q, k=k, v=v: F.scaled_dot_product_attention(q, k, v, is_causal=True)),
                    "regard": way(lambda q=q, k=k, v=v: attend(q, k, v, mask=Causal())),
                }
                times = take_turns(work, seconds=1.5 if n < 2000 else 4)
                sdpa, ours = times["SDPA"], times["regard"]
                allowed = 1.05 * sdpa + 20e-6
                rows.append(
                    [
                        str(dtype).removeprefix("torch."),
                        f"{n:,}",
                        name,
                        f"{1e3 * sdpa:.3f} ms",
                        f"{1e3 * ours:.3f} ms",
                        f"{sdpa / ours:.2f} ×",
                        "yes" if ours <= allowed else f"no, {1e6 * (ours - allowed):.0f} µs over",
                        explain(q, k, v, mask=Causal()).name,
                    ]
                )
    return rows


def against_length() -> dict[str, dict[int, tuple[float, float]]]:
    """Seconds and megabytes of forward + backward at growing length."""
    curves: dict[str, dict[int, tuple[float, float]]] = {
        "SDPA, dense mask": {},
        "SDPA causal": {},
        "causal ALiBi": {},
        "causal window 256": {},
    }
    for n in (1024, 2048, 4096, 8192, 16384):
        q, k, v = inputs(n, grad=True)
        bias = ALiBi(HEADS)
        work = {
            "SDPA causal": both_ways(lambda q=q, k=k, v=v: F.scaled_dot_product_attention(q, k, v, is_causal=True)),
            "causal ALiBi": both_ways(lambda q=q, k=k, v=v, bias=bias: attend(q, k, v, mask=Causal(), bias=bias)),
            "causal window 256": both_ways(lambda q=q, k=k, v=v: attend(q, k, v, mask=Causal() & Window(255))),
        }
        if n <= 8192:
            work["SDPA, dense mask"] = both_ways(lambda q=q, k=k, v=v, n=n: dense_window(q, k, v, n))
        times = take_turns(work, seconds=1, least=1)
        for name, run in work.items():
            curves[name][n] = times[name], extra_memory(run)
    return curves


def dense_window(q: Tensor, k: Tensor, v: Tensor, n: int) -> Tensor:
    place = torch.arange(n)
    apart = place[:, None] - place
    return F.scaled_dot_product_attention(q, k, v, attn_mask=(apart >= 0) & (apart < 256))


def draw(curves: dict[str, dict[int, tuple[float, float]]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    colours = ["#999999", "#D55E00", "#0072B2", "#009E73"]
    for i, (what, unit) in enumerate((("time", "seconds"), ("extra memory at the peak", "megabytes"))):
        for (name, points), colour in zip(curves.items(), colours, strict=True):
            axes[i].plot(list(points), [p[i] for p in points.values()], "o-", label=name, color=colour)
        axes[i].set(xscale="log", yscale="log", xlabel="tokens", ylabel=unit, title=f"{what}, forward + backward")
        axes[i].set_xticks(list(curves["SDPA causal"]), [f"{n:,}" for n in curves["SDPA causal"]])
        axes[i].minorticks_off()
        axes[i].grid(alpha=0.3)
    axes[0].legend()
    figure.suptitle(f"{HEADS} heads of {CHANNELS}, float32, {torch.get_num_threads()} threads")
    figure.savefig(path, dpi=110)


def thresholds() -> str:
    """Dense matrix or strips, and at which size?"""
    rows = []
    for n in (128, 256, 384, 512, 768, 1024, 2048):
        q, k, v = inputs(n, grad=True)
        for name, mask, bias in (
            ("window of 64", Causal() & Window(63), None),
            ("half of it", Window(n // 3), None),
            ("ALiBi", Causal(), ALiBi(HEADS)),
        ):
            work: dict[str, Work] = {}
            for kernel in ("fused", "tiled", "reference"):

                def run(kernel=kernel, q=q, k=k, v=v, mask=mask, bias=bias) -> Tensor:
                    with kernels.only(kernel):
                        return attend(q, k, v, mask=mask, bias=bias)

                work[kernel] = both_ways(run)
            times = take_turns(work, seconds=1)
            rows.append(
                [
                    f"{n:,}",
                    name,
                    *(f"{1e3 * t:.2f}" for t in times.values()),
                    explain(q, k, v, mask=mask, bias=bias).name,
                ]
            )
    return table(["tokens", "mask", "fused ms", "tiled ms", "reference ms", "chosen"], rows)


def matmul_peak() -> str:
    a = torch.randn(2048, 2048)
    seconds = take_turns({"float32": lambda: a @ a}, seconds=2)["float32"]
    return f"{2 * 2048**3 / seconds / 1e9:.0f} GFLOP/s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--thresholds", action="store_true", help="only measure where kernels cross")
    arguments = parser.parse_args()
    if arguments.thresholds:
        print(thresholds())
        return
    machine = (
        f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}, {torch.get_num_threads()} threads, "
        f"torch {torch.__version__}, float32 matmul peak {matmul_peak()}"
    )
    headers = ["work", "who", "median", "faster", "extra memory, MB"]
    long = table(headers, [*window(), *alibi()])
    print(long)
    short = table(
        ["dtype", "tokens", "work", "SDPA", "regard", "faster", "within 5 % + 20 µs", "kernel"], plain_causal()
    )
    print(short)
    curves = against_length()
    draw(curves, HERE / "attention.png")
    lengths = list(curves["SDPA causal"])
    growth = table(
        ["forward + backward", *(f"{n:,}" for n in lengths)],
        [
            [name, *(f"{p[n][0]:.2f} s, {p[n][1]:.0f} MB" if n in p else "" for n in lengths)]
            for name, p in curves.items()
        ],
    )
    print(growth)
    text = (
        f"`python benchmarks/attention.py` on {machine}. Medians of alternating runs; {HEADS} heads of {CHANNELS}, batch 1.\n\n"
        f"{long}\n\nPlain causal attention:\n\n{short}\n\n"
        f"Cost and memory against length (picture: `attention.png`):\n\n{growth}\n"
    )
    keep(HERE / "results.md", "Attention", text)


if __name__ == "__main__":
    main()
