"""torch.compile(fullgraph=True) of attend without a break, with the same numbers."""

import pytest
import torch

from regard.attention import kernels
from regard.attention.attend import attend
from regard.attention.mask import Not
from regard.attention.masks import BigBird, Causal, Documents, Padding, Prefix, Window
from tests.attention.cases import HEADS, made

N = 300
INPUTS = [torch.randn(2, HEADS, N, 8, generator=torch.Generator().manual_seed(i)).requires_grad_() for i in range(3)]
BIAS = {name: made(name, torch.float32) for name in ("alibi", "alibi learned", "relative", "buckets")}
PLACES = torch.arange(N)

CASES = {
    "bare": lambda q, k, v: attend(q, k, v),
    "causal": lambda q, k, v: attend(q, k, v, mask=Causal()),
    "window": lambda q, k, v: attend(q, k, v, mask=Causal() & Window(20)),
    "window, learned bias": lambda q, k, v: attend(q, k, v, mask=Causal() & Window(20), bias=BIAS["buckets"]),
    "bigbird or not": lambda q, k, v: attend(q, k, v, mask=BigBird(block=16) | Not(Window(290))),
    "prefix, alibi": lambda q, k, v: attend(q, k, v, mask=Prefix(20), bias=BIAS["alibi"]),
    "padding": lambda q, k, v: attend(q, k, v, mask=Causal() & Padding([N, 200]), bias=BIAS["relative"]),
    "documents": lambda q, k, v: attend(q, k, v, mask=Documents(PLACES // 70), bias=BIAS["alibi learned"]),
    "places": lambda q, k, v: attend(q, k, v, mask=Causal() & Window(9), where=PLACES),
    "grouped": lambda q, k, v: attend(q, k[:, :2], v[:, :2], mask=Causal() & Window(9)),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kernel", [None, "tiled"])
def test_attend_compiles_without_a_break(case, kernel):
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
    "causal": (lambda q, k, v: attend(q, k, v, mask=Causal()), 3),
    "alibi": (lambda q, k, v: attend(q, k, v, mask=Causal(), bias=BIAS["alibi"]), 3),
    "grouped": (lambda q, k, v: attend(q, k[:, :2], v[:, :2], mask=Causal()), 3),
    "window": (lambda q, k, v: attend(q, k, v, mask=Causal() & Window(30)), 5),  # strips are cut for one length
    "padding": (lambda q, k, v: attend(q, k, v, mask=Padding([40, 20])), 5),
}


@pytest.mark.parametrize("case", MANY_LENGTHS)
def test_lengths_may_change(case):
    """The first two lengths are compiled; after that plain sequences need no further graph."""
    torch.compiler.reset()
    f, most = MANY_LENGTHS[case]
    graphs = []
    compiled = torch.compile(f, fullgraph=True, backend=lambda graph, _: (graphs.append(graph), graph.forward)[1])
    for n in (64, 65, 70, 90, 700, 701):
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
