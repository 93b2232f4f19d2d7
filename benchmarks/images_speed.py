"""How fast are ViT and Swin beside Hugging Face's, and how does their cost grow with the picture? (Commands of images.py.)"""

from __future__ import annotations

import argparse
import copy
import platform
import re
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from alternate import Work, keep, table, take_turns
from apart import contest
from apart import take_turns as take_turns_apart
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from regard.attention.kernels.precision import CPU_MULTIPLIES
from regard.models.swin import Swin, SwinConfig
from regard.models.vit import ViT, ViTConfig
from regard.nn.linear import prepacked
from regard.training import memory

HERE = Path(__file__).parent
RESULTS = HERE / "results.md"
SIDES = (224, 448, 672, 896)
PEAK = 2048  # side of the square matrices whose product is the peak
COPIED = 2**26  # numbers of float32 that are copied to see how fast memory is
ATTENTIONS = ("sdpa", "eager")  # Hugging Face's, the one that it takes by itself first
# operations that are matrix products, or made of them; convolutions and flash attention have many names
PRODUCTS = re.compile(
    r"(aten::(mm|addmm|bmm|baddbmm)|mkldnn::_linear_pointwise|aten::.*(convolution|flash_attention).*)"
)
# what such a model is made of beside them, forward and backward; everything else is layout, sums and Python
FUNCTIONS = re.compile(r"aten::(gelu|_softmax|native_layer_norm)(_backward|_backward_data)?")


# ---- contestants


class Entry(NamedTuple):
    """A model as it takes part: in a dtype of its own, or under autocast."""

    model: nn.Module
    dtype: torch.dtype
    autocast: bool = False

    def logits(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16) if self.autocast else nullcontext():
            out: Any = self.model(x.to(self.dtype))
        return out if isinstance(out, Tensor) else out.logits

    def forward(self, x: Tensor, y: Tensor) -> Work:
        self.model.eval()

        def run() -> None:
            with torch.no_grad():
                self.logits(x)

        return run

    def step(self, x: Tensor, y: Tensor) -> Work:
        """Forward, backward, and a step of plain gradient descent."""
        optimizer = torch.optim.SGD(self.model.train().parameters(), lr=1e-9)

        def run() -> None:
            optimizer.zero_grad()
            F.cross_entropy(self.logits(x).float(), y).backward()
            optimizer.step()

        return run


WORK: dict[str, Callable[[Entry, Tensor, Tensor], Work]] = {"forward": Entry.forward, "step": Entry.step}


def peers(drop_path: float = 0.0) -> dict[str, tuple[nn.Module, dict[str, nn.Module]]]:
    """Ours, and Hugging Face's with each of its attentions: the same shape and the same weights. Its ViT knows no drop path."""
    import transformers

    from tests.models.theirs_images import swin_weights, vit_weights

    tiny: dict[str, Any] = {
        "hidden_size": 192, "num_hidden_layers": 12, "num_attention_heads": 3, "intermediate_size": 768, "layer_norm_eps": 1e-5,
    }  # fmt: skip
    swin: dict[str, Any] = {"drop_path_rate": drop_path}
    vits = transformers.ViTForImageClassification, transformers.ViTConfig, tiny, vit_weights
    swins = transformers.SwinForImageClassification, transformers.SwinConfig, swin, swin_weights
    found = {}
    for name, ours, (kind, config, sizes, weights) in (
        ("ViT-Tiny", ViT(ViTConfig(classes=1000)), vits),
        ("Swin-Tiny", Swin(SwinConfig(classes=1000, drop_path=drop_path)), swins),
    ):
        theirs = {how: kind(config(num_labels=1000, attn_implementation=how, **sizes)) for how in ATTENTIONS}
        for model in theirs.values():
            model.load_state_dict(theirs[ATTENTIONS[0]].state_dict())
        ours.load_state_dict(weights(theirs[ATTENTIONS[0]]))
        found[name] = (ours, theirs)
    return found


def entries(ours: nn.Module, theirs: dict[str, nn.Module], dtype: torch.dtype) -> dict[str, Entry]:
    """Who takes part in this dtype. In bfloat16 `regard train` runs under autocast; a model of bfloat16 is for answers."""
    everyone = {"regard": ours} | {f"Hugging Face ({how})": model for how, model in theirs.items()}
    if dtype is torch.float32:
        return {who: Entry(model, dtype) for who, model in everyone.items()}
    found = {f"{who}, autocast": Entry(model, torch.float32, autocast=True) for who, model in everyone.items()}
    return found | {
        f"{who}, bfloat16 model": Entry(copy.deepcopy(model).to(dtype), dtype) for who, model in everyone.items()
    }


# ---- speed


class Asked(NamedTuple):
    """What one contestant does, in words that can be sent to another process."""

    shape: str
    who: str
    dtype: torch.dtype
    what: str
    batch: int
    way: str
    drop_path: float = 0.0

    @property
    def model(self) -> str:
        """Who it is, however it comes to bfloat16."""
        return self.who.split(",")[0]


USUAL = f"Hugging Face ({ATTENTIONS[0]})"
HEAT = 2.0  # seconds, for each way to bfloat16, by which the faster one is chosen
WAYS = ("as it comes", "heap kept")
FIXED = "heap kept, weights fixed"  # ours, where no gradient is wanted: as `regard predict` answers
COMPILED = "heap kept, compiled"
STAY = ExitStack()  # until the process ends


def speed(args: argparse.Namespace) -> None:
    x, _ = pictures(args.batch)
    rows: list[list[str]] = []
    memory = bandwidth()
    for shape, (ours, theirs) in peers().items():
        if shape not in args.shapes:
            continue
        with torch.no_grad(), FlopCounterMode(display=False) as counted:
            true = Entry(theirs["eager"].eval(), torch.float32).logits(x)
        for dtype in (getattr(torch, name) for name in args.dtypes):
            if not CPU_MULTIPLIES.get(dtype, True):
                continue
            everyone = entries(ours, theirs, dtype)
            apart = {who: gap(entry, x, true) for who, entry in everyone.items()}
            assert dtype is torch.bfloat16 or max(apart.values()) < 1e-5, apart
            for what in args.work:
                ways = (*WAYS, COMPILED) if args.compile else WAYS
                asked = [
                    Asked(shape, who, dtype, what, args.batch, way, args.drop_path) for who in everyone for way in ways
                ]
                asked += [
                    one._replace(way=FIXED)
                    for one in asked
                    if is_ours(one) and one.way == WAYS[1] and what == "forward"
                ]
                rounds, parts, peak = measured(finalists(asked), args)
                seen = {one: statistics.median(each[one] for each in rounds) for one in rounds[0]}
                flops = counted.get_total_flops() * (1 if what == "forward" else 3)
                for one, took in sorted(seen.items(), key=lambda each: each[1]):
                    products, functions = parts[one]
                    of_usual = [fastest(each, is_usual) / each[one] for each in rounds]
                    of_best = statistics.median(fastest(each, partial(is_rival, of=one)) / each[one] for each in rounds)
                    rows.append([
                        shape, "training step" if what == "step" else what, str(dtype).removeprefix("torch."), one.who, one.way,
                        f"{args.batch / took:.1f}",
                        f"{statistics.median(of_usual):.2f} × ({min(of_usual):.2f} to {max(of_usual):.2f})", f"{of_best:.2f} ×",
                        f"{flops / took / peak:.0%} of {peak / 1e9:.0f} GFLOP/s", f"{products:.0%}",
                        f"{of_best / (products + functions):.2f} ×", f"{apart[one.who]:.0e}",
                    ])  # fmt: skip
                    print(" | ".join(rows[-1]), flush=True)
                keep_speed(args, rows, memory)


def is_ours(one: Asked) -> bool:
    return one.model == "regard"


def is_usual(one: Asked) -> bool:
    """Hugging Face's with nothing set by anybody."""
    return one.model == USUAL and one.way == WAYS[0]


def is_rival(one: Asked, of: Asked) -> bool:
    """Any of Hugging Face's in the same way; it has no fixed weights."""
    return not is_ours(one) and one.way == (WAYS[1] if of.way == FIXED else of.way)


def fastest(seen: dict[Asked, float], which: Callable[[Asked], bool]) -> float:
    return min(took for one, took in seen.items() if which(one))


def finalists(asked: list[Asked]) -> list[Asked]:
    """Of autocast and a model of bfloat16 the faster one, for everyone in each way: all of them at once would need more memory
    than there is. Of Hugging Face's as it comes both take part, since all are compared with the faster of them."""
    groups: dict[tuple[str, str], list[Asked]] = {}
    for one in asked:
        groups.setdefault((one.model, one.way), []).append(one)
    found = [one for one in asked if is_usual(one)]
    groups.pop((USUAL, WAYS[0]))
    for group in groups.values():
        if len(group) > 1:
            with contest({one: (work_of, one) for one in group}) as contestants:
                took = take_turns_apart(contestants, seconds=HEAT, least=5, shared=False)
            group.sort(key=lambda one: took[one])
        found.append(group[0])
    return found


def pictures(batch: int) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(batch, 3, 224, 224), torch.randint(1000, (batch,))


def measured(
    asked: list[Asked], args: argparse.Namespace
) -> tuple[list[dict[Asked, float]], dict[Asked, tuple[float, float]], float]:
    """Seconds of each, round by round, the parts of its time, and the operations a second of a large product, which takes turns
    with them. Where the system puts a process makes it faster or slower as long as it lives, so each round has new ones."""
    makers = {"peak": (product, asked[0].dtype)} | {one: (work_of, one) for one in asked}
    rounds = []
    for _ in range(args.rounds):
        with contest(makers) as contestants:
            rounds.append(take_turns_apart(contestants, seconds=args.seconds, least=2, shared=args.shared))
            parts = {one: contestants[one].ask(shares) for one in asked} if len(rounds) == args.rounds else {}
    return rounds, parts, 2 * PEAK**3 / statistics.median(seen.pop("peak") for seen in rounds)


def product(dtype: torch.dtype) -> Work:
    a = torch.randn(PEAK, PEAK, dtype=dtype)
    return lambda: a @ a


def work_of(one: Asked) -> Work:
    sys.path.insert(0, str(HERE.parent))
    if one.way != WAYS[0]:
        memory.keep()
    x, y = pictures(one.batch)
    ours, theirs = peers(one.drop_path)[one.shape]
    entry = entries(ours, theirs, one.dtype)[one.who]
    if one.way == COMPILED:
        entry.model.compile()
    if one.way == FIXED:
        STAY.enter_context(prepacked(entry.model))
    return WORK[one.what](entry, x, y)


@torch.no_grad()
def gap(entry: Entry, x: Tensor, true: Tensor) -> float:
    """The largest difference from what is true, relative to the largest number there."""
    return float((entry.logits(x) - true).abs().max() / true.abs().max())


def shares(run: Work) -> tuple[float, float]:
    """The shares of its time that are spent within matrix products, and within gelu, softmax and norms."""
    run()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
        for _ in range(3):
            run()
    times = {each.key: each.self_cpu_time_total for each in seen.key_averages()}
    products, functions = (
        sum(t for name, t in times.items() if kind.fullmatch(name)) for kind in (PRODUCTS, FUNCTIONS)
    )
    return products / sum(times.values()), functions / sum(times.values())


def bandwidth() -> float:
    """Bytes a second, read and written, of a copy that fits no cache."""
    given, to = torch.randn(COPIED), torch.empty(COPIED)
    return 8 * COPIED / take_turns({"copy": lambda: to.copy_(given)}, seconds=1)["copy"]


def keep_speed(args: argparse.Namespace, rows: list[list[str]], memory: float) -> None:
    clock = "seconds of the processor, since others used it, too" if args.shared else "seconds of the wall"
    chosen = {name: getattr(args, name) for name in ("dtypes", "shapes", "work")}
    command = (
        f"python benchmarks/images.py speed --batch {args.batch} --rounds {args.rounds} --seconds {args.seconds:g}"
    )
    command += "".join(f" --{name} {' '.join(values)}" for name, values in chosen.items())
    command += "".join(f" --{flag}" for flag in ("shared", "compile") if getattr(args, flag))
    command += f" --drop-path {args.drop_path:g}" if args.drop_path else ""
    machine = f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}, {torch.get_num_threads()} threads"
    text = (
        f"`{command}` on {machine}, torch {torch.__version__}. Pictures of 224 × 224, the same weights for all; "
        f"each in a process of its own, in turns of a second or more, {clock}; {args.rounds} rounds, "
        "each with new processes, medians of all, and of ratios within a round (smallest and largest in brackets). A step is "
        "loss, gradients and plain gradient descent; `regard train` works under autocast. *Heap kept*: as by `regard train` "
        "and `regard predict`; weights fixed: laid out once for all products (`regard.nn.linear.prepacked`), as by the latter; "
        "compiled: by torch.compile. Of autocast and a model of bfloat16 the faster one in a short "
        "heat (five turns or a little more) takes part: by chance it may be the slower one. "
        f"*Of theirs as it comes*: of Hugging Face's with the attention that it takes by itself ({ATTENTIONS[0]}), of "
        "which both take part, and the faster one counts; "
        "*of their best in this way*: of Hugging Face's with whichever attention is faster. *Of the peak*: the operations of "
        "Hugging Face's eager model, as PyTorch counts them, three times for a step, beside a product of "
        f"{PEAK} × {PEAK} in the same run. *In products*: the share of time that PyTorch's profiler sees in matrix products. "
        "*If the rest were free*: of their best in this way, if all that is neither a product nor gelu, softmax or norm took "
        f"no time. *Off by*: from Hugging Face in float32. Memory: {memory / 1e9:.0f} GB/s."
    )
    headers = ["model", "work", "dtype", "who", "way", "images/s", "of theirs as it comes", "of their best in this way"]
    headers += ["of the peak", "in products", "if the rest were free", "off by"]
    title = f"Images, speed in {' and '.join(args.dtypes)}, {args.batch} at once{', compiled' if args.compile else ''}"
    if args.drop_path:
        title += ", with stochastic depth"
        text += (
            f" Stochastic depth: {args.drop_path:g} of the pictures skip the last block, fewer those before. Ours leaves out "
            "both branches of a block and does not compute them; Hugging Face's leaves out attention alone, after computing it."
        )
    keep(RESULTS, title, f"{text}\n\n{table(headers, rows)}")


# ---- cost


def cost(args: argparse.Namespace) -> None:
    """Seconds of one forward pass against the side of the picture."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    models = {
        "ViT-Tiny, patches of 16": ViT(ViTConfig(classes=10)).eval(),
        "Swin-Tiny": Swin(SwinConfig(classes=10)).eval(),
    }
    seen: dict[str, list[float]] = {name: [] for name in models}
    for side in SIDES:
        x = torch.randn(1, 3, side, side)
        contest = {name: Entry(model, torch.float32).forward(x, x) for name, model in models.items()}
        found = take_turns(contest, seconds=args.seconds, timer=time.process_time)
        for name, took in found.items():
            seen[name].append(took)
        print(side, found, flush=True)
    figure, axis = plt.subplots(figsize=(6, 4))
    pixels = [side * side for side in SIDES]
    for (name, times), colour in zip(seen.items(), ("#0072b2", "#d55e00"), strict=True):
        axis.plot(pixels, [took / times[0] for took in times], "o-", color=colour, label=name)
    axis.plot(pixels, [p / pixels[0] for p in pixels], ":", color="#888888", label="linear")
    axis.set(xscale="log", yscale="log", xlabel="side of the picture", ylabel="seconds, times those at 224")
    axis.set_xticks(pixels, [str(side) for side in SIDES])
    axis.minorticks_off()
    axis.legend(frameon=False)
    figure.savefig(HERE / "images_cost.png", dpi=120, bbox_inches="tight")
    rows = [
        [
            str(side),
            *(f"{seen[name][i]:.3f} s, {seen[name][i] / seen[name][0]:.1f} ×" for name in seen),
            f"{pixels[i] / pixels[0]:.1f} ×",
        ]
        for i, side in enumerate(SIDES)
    ]
    text = (
        "`python benchmarks/images.py cost`: one picture forward, seconds of the processor; see images_cost.png.\n\n"
        + table(["side", *seen, "pixels"], rows)
    )
    keep(RESULTS, "Images, cost by side", text)
