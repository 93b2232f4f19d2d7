"""What the attention tests share: every mask and bias by name, random inputs, and how results are compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from regard.attention.attend import attend
from regard.attention.biases import ALiBi, Bias, Buckets, Distance, Relative
from regard.attention.mask import Mask
from regard.attention.masks import BigBird, Causal, Dense, Documents, Full, Order, Padding, Prefix, Window

LENGTHS = [(1, 1), (1, 7), (7, 7), (64, 64), (129, 65), (300, 300)]
HEADS, CHANNELS, BATCH = 4, 8, 2
FEW = 2  # heads at the longest lengths: what they add is strips, and two heads show all that heads may do to strips


def random_bools(*shape: int, share: float, seed: int = 7) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed)) < share


# each makes a mask of n queries over m keys, for h heads
MASKS: dict[str, Callable[..., Mask]] = {
    "full": lambda n, m, h=HEADS: Full(),
    "causal": lambda n, m, h=HEADS: Causal(),
    "window": lambda n, m, h=HEADS: Window(5),
    "prefix": lambda n, m, h=HEADS: Prefix(3),
    "bigbird": lambda n, m, h=HEADS: BigBird(block=8, neighbours=1, everywhere=1, random=1, seed=3),
    "padding by length": lambda n, m, h=HEADS: Padding([m, max(m - 3, 0)]),
    "padding by slot": lambda n, m, h=HEADS: Padding(random_bools(BATCH, m, share=0.7)),
    "dense": lambda n, m, h=HEADS: Dense(random_bools(BATCH, h, n, m, share=0.3)),
    "documents": lambda n, m, h=HEADS: Documents((torch.arange(n) // 5, torch.arange(m) // 5)),
    "order": lambda n, m, h=HEADS: Order((torch.arange(n) * 7 % 11, torch.arange(m) * 5 % 11)),
    "causal and window": lambda n, m, h=HEADS: Causal() & Window(40),
    "window or prefix": lambda n, m, h=HEADS: Window(2) | Prefix(2),
    "not window": lambda n, m, h=HEADS: ~Window(2),
    "nothing": lambda n, m, h=HEADS: ~Full(),
}

BIASES: dict[str, Callable[[int], Bias | None]] = {
    "no bias": lambda h: None,
    "alibi": lambda h: ALiBi(h),
    "alibi of the past": lambda h: ALiBi(h, two_sided=False),
    "alibi learned": lambda h: ALiBi(h, learned=True),
    "relative": lambda h: Relative(CHANNELS, reach=3),
    "relative keys": lambda h: Relative(CHANNELS, reach=6, values=False),
    "buckets": lambda h: Buckets(h, buckets=8, farthest=20),
    "buckets of the past": lambda h: Buckets(h, buckets=8, farthest=20, both_directions=False),
    "distance": lambda h: Distance(h, farthest=20.0, steps=4),
}


def random_inputs(
    n: int,
    m: int,
    *,
    heads: int = HEADS,
    groups: int | None = None,
    width: int = CHANNELS,
    batch: int = BATCH,
    dtype: torch.dtype = torch.float64,
) -> list[Tensor]:
    """q, k, v that want gradients; as many key heads as query heads, or `groups` of them."""
    draw = torch.Generator().manual_seed(1000 * n + m)
    g = heads if groups is None else groups
    shapes = [(batch, heads, n, CHANNELS), (batch, g, m, CHANNELS), (batch, g, m, width)]
    return [torch.randn(*s, generator=draw, dtype=torch.float64).to(dtype).requires_grad_() for s in shapes]


def made(bias: str, dtype: torch.dtype = torch.float64, heads: int = HEADS) -> Bias | None:
    torch.manual_seed(5)
    bias_object = BIASES[bias](heads)
    return bias_object if bias_object is None else bias_object.to(dtype)


def results(inputs: Sequence[Tensor], bias: Bias | None = None, **how: object) -> list[Tensor]:
    """The output of attend, and the gradients of a curved function of it for the inputs and the bias' parameters."""
    wanted = [*inputs, *(p for p in (bias.parameters() if bias is not None else ()) if p.requires_grad)]
    out = attend(*inputs, bias=bias, **how)  # type: ignore[arg-type]
    grads = torch.autograd.grad(out.double().sin().sum(), wanted, allow_unused=True)
    return [out, *(torch.zeros_like(w) if g is None else g for w, g in zip(wanted, grads, strict=True))]


def relative_error(found: Tensor, true: Tensor, largest: float) -> float:
    """Relative to the tensor's largest value; a tensor that is truly zero is measured against the largest of its case."""
    size = true.abs().max().item() if true.numel() else 0.0
    size = size if size > 1e-12 * largest else largest
    gap = (found.double() - true.double()).abs().max().item() if true.numel() else 0.0
    return gap / size if size else gap


def worst_error(found: Sequence[Tensor], true: Sequence[Tensor]) -> float:
    """The worst of all outputs and gradients; NaN counts as infinite."""
    largest = max((t.abs().max().item() for t in true if t.numel()), default=0.0)
    errors = [relative_error(f, t, largest) for f, t in zip(found, true, strict=True)]
    return max(float("inf") if e != e else e for e in errors)
