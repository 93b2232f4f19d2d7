"""torch.compile(fullgraph=True) of attend without a break, with the same numbers."""

import pytest
import torch

from regard.attention import kernels
from regard.attention.attend import attend
from regard.attention.mask import Not
from regard.attention.masks import BigBird, Causal, Documents, Padding, Prefix, Window
from tests.attention.cases import HEADS, made

N = 200  # two strips of the tiled kernel, the second one shorter
INPUTS = [torch.randn(2, HEADS, N, 8, generator=torch.Generator().manual_seed(i)).requires_grad_() for i in range(3)]
BIAS = {name: made(name, torch.float32) for name in ("alibi", "alibi learned", "relative", "buckets")}
PLACES = torch.arange(N)

CASES = {
    "bare": lambda q, k, v: attend(q, k, v),
    "causal": lambda q, k, v: attend(q, k, v, mask=Causal()),
    "window, learned bias": lambda q, k, v: attend(q, k, v, mask=Causal() & Window(20), bias=BIAS["buckets"]),
    "bigbird or not": lambda q, k, v: attend(q, k, v, mask=BigBird(block=16) | Not(Window(190))),
    "prefix, alibi": lambda q, k, v: attend(q, k, v, mask=Prefix(20), bias=BIAS["alibi"]),
    "padding": lambda q, k, v: attend(q, k, v, mask=Causal() & Padding([N, 150]), bias=BIAS["relative"]),
    "documents": lambda q, k, v: attend(q, k, v, mask=Documents(PLACES // 70), bias=BIAS["alibi learned"]),
    "places": lambda q, k, v: attend(q, k, v, mask=Causal() & Window(9), where=PLACES),
    "grouped": lambda q, k, v: attend(q, k[:, :2], v[:, :2], mask=Causal() & Window(9)),
}
# with the tiled kernel those that differ in their strips: full ones, slots, no mask known ahead, learned, grouped
STRIPS = ("causal", "window, learned bias", "bigbird or not", "padding", "documents", "grouped")


@pytest.mark.parametrize("kernel, case", [(None, case) for case in CASES] + [("tiled", case) for case in STRIPS])
def test_attend_compiles_without_a_break(kernel, case):
    torch.compiler.reset()

    def both(f):
        out = f(*INPUTS)
        return [out, *torch.autograd.grad(out.sin().sum(), INPUTS)]

    kernels.wanted, before = kernel, kernels.wanted
    try:
        compiled = both(torch.compile(CASES[case], fullgraph=True, backend="eager"))
        eager = both(CASES[case])
    finally:
        kernels.wanted = before
    for found, true in zip(compiled, eager, strict=True):
        torch.testing.assert_close(found, true, rtol=1e-5, atol=1e-5)


MANY_LENGTHS = {
    "causal": (lambda q, k, v: attend(q, k, v, mask=Causal()), 2),
    "alibi": (lambda q, k, v: attend(q, k, v, mask=Causal(), bias=BIAS["alibi"]), 2),
    "grouped": (lambda q, k, v: attend(q, k[:, :2], v[:, :2], mask=Causal()), 2),
    "window": (lambda q, k, v: attend(q, k, v, mask=Causal() & Window(30)), 3),  # strips are cut for one length
    "padding": (lambda q, k, v: attend(q, k, v, mask=Padding([40, 20])), 3),
}


@pytest.mark.parametrize("case", MANY_LENGTHS)
def test_lengths_may_change(case):
    """The first two lengths are compiled; after that plain sequences need no further graph."""
    torch.compiler.reset()
    f, most = MANY_LENGTHS[case]
    graphs = []
    compiled = torch.compile(f, fullgraph=True, backend=lambda graph, _: (graphs.append(graph), graph.forward)[1])
    for n in (64, 65, 90, 384):  # the last is long enough for strips that repeat
        q, k, v = torch.randn(3, 2, HEADS, n, 8)
        torch.testing.assert_close(compiled(q, k, v), f(q, k, v), rtol=1e-5, atol=1e-5)
    assert len(graphs) <= most


def test_a_window_stays_sparse_when_compiled():
    """The blocks that are skipped are skipped in the graph, too: it holds few and narrow matrix products."""
    torch.compiler.reset()
    sizes = []

    def count(graph, example_inputs):
        for node in graph.graph.nodes:
            value = node.meta.get("example_value")
            if isinstance(value, torch.Tensor):
                sizes.append(value.numel())
        return graph.forward

    long = torch.randn(1, 1, 4096, 8)
    with torch.no_grad():
        out = torch.compile(lambda q: attend(q, q, q, mask=Causal() & Window(50)), fullgraph=True, backend=count)(long)
    torch.testing.assert_close(out, attend(long, long, long, mask=Causal() & Window(50)), rtol=1e-5, atol=1e-5)
    assert sizes and max(sizes) < 4096 * 4096 / 10
