"""The road to attention: each memory is its equation, each is a special case of the next, and none minds padding."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.func import functional_call

from regard.attention.attend import attend
from regard.attention.biases import ALiBi
from regard.attention.masks import Causal
from regard.nn.memory import MEMORIES, Composite, Fading, Forgetting, Gated, Softmax, scan
from regard.symmetry.groups import Permutations, Shifts
from tests.nn.padding import SLOTS, put_in_slots

INPUTS, DIM = 3, 4
MEMORY_CLASSES = {
    "composite": Composite,
    "fading": lambda i, d: Fading(i, d, gamma=0.7),
    "learned fading": lambda i, d: Fading(i, d, gamma=0.8, learned=True),
    "forgetting": Forgetting,
    "gated": Gated,
    "softmax": Softmax,
}
INVARIANT = {"composite", "gated", "softmax"}
REAL = torch.tensor([[1, 1, 1, 1, 1], [0, 1, 1, 0, 1], [0, 0, 0, 1, 0]]).bool()


def made(kind, inputs=INPUTS, dim=DIM):
    torch.manual_seed(1)
    return MEMORY_CLASSES[kind](inputs, dim).double()


@pytest.fixture(params=MEMORY_CLASSES)
def kind(request):
    return request.param


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.randn(3, 5, INPUTS, dtype=torch.float64)


def same(one, other):
    torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


def differ(one, other):
    assert (one - other).abs().max() > 1e-3


def step_by_step(memory, x, real=None):
    """The memory after every token.   b n d"""
    state, seen = memory.start(x.shape[0]), []
    for t in range(x.shape[1]):
        state = memory.step(state, x[:, t], None if real is None else real[:, t])
        seen.append(memory.read(state))
    return torch.stack(seen, 1)


# ── the equations ───────────────────────────────────────────────────────────────────────────────────────────


def bar(x):
    """x̄ = [1; x]"""
    return torch.cat([torch.ones(1, dtype=x.dtype), x])


def theta(linear):
    """The matrix of x̄: its first row belongs to the 1."""
    return torch.cat([linear.bias[None], linear.weight.T])


def by_definition(memory, x):
    """One row, token by token, as it is written.   n inputs -> d"""
    values = [theta(memory.value).T @ bar(token) for token in x]
    last = len(values) - 1
    if isinstance(memory, Composite):
        return sum(values)
    if isinstance(memory, Fading):
        return sum(memory.gamma ** (last - i) * value for i, value in enumerate(values))
    if isinstance(memory, Gated):
        gates = [torch.sigmoid(theta(memory.gate)[:, 0] @ bar(token)) for token in x]
        return sum(gate * value for gate, value in zip(gates, values, strict=True))
    if isinstance(memory, Forgetting):
        held = torch.zeros(DIM, dtype=x.dtype)
        for token, value in zip(x, values, strict=True):
            held = torch.sigmoid(theta(memory.gate).T @ bar(token)) * held + value
        return held
    scores = torch.stack([memory.query @ token + 5.0 for token in x])  # a bias in the scores cancels
    return sum(w * value for w, value in zip(scores.exp() / scores.exp().sum(), values, strict=True))


def test_each_is_its_equation(kind, x):
    memory = made(kind)
    same(memory(x), torch.stack([by_definition(memory, row) for row in x]))
    expected = torch.stack([by_definition(memory, row[real]) for row, real in zip(x, REAL, strict=True)])
    same(memory(x, REAL), expected)


def test_the_weights_are_those_of_the_memory(kind, x):
    memory = made(kind)
    weights = memory.weights(x, REAL)
    assert weights.shape == ((3, 5, DIM) if kind == "forgetting" else (3, 5))
    assert (weights[~REAL] == 0).all()
    assert (weights[REAL] > 0).all()
    laid = weights if kind == "forgetting" else weights[..., None]
    same((laid * memory.value(x)).sum(1), memory(x, REAL))


def test_weights_of_each_kind(x):
    same(made("composite").weights(x, REAL), REAL.double())
    fading = made("fading").weights(x, REAL)
    same(fading[0], 0.7 ** torch.arange(4, -1, -1).double())
    same(fading[1], torch.tensor([0, 0.49, 0.7, 0, 1], dtype=torch.float64))  # T is the last real place
    same(fading[2], torch.tensor([0, 0, 0, 1, 0]).double())
    same(made("softmax").weights(x, REAL).sum(1), torch.ones(3).double())
    same(made("forgetting").weights(x, REAL)[1, 4], torch.ones(DIM).double())
    assert (made("gated").weights(x) < 1).all()


# ── each is a special case of another ───────────────────────────────────────────────────────────────────────


def alike(memory, other):
    """The other with the values (θ) of the first."""
    other.double().value.load_state_dict(memory.value.state_dict())
    return other


@pytest.mark.parametrize("real", [None, REAL], ids=["whole", "padded"])
def test_composite_is_fading_with_gamma_one(x, real):
    composite = made("composite")
    same(alike(composite, Fading(INPUTS, DIM, gamma=1.0))(x, real), composite(x, real))
    differ(alike(composite, Fading(INPUTS, DIM, gamma=0.9))(x, real), composite(x, real))


@pytest.mark.parametrize("real", [None, REAL], ids=["whole", "padded"])
def test_fading_is_forgetting_with_a_constant_gate(x, real):
    fading = made("fading")
    forgetting = alike(fading, made("forgetting"))
    differ(forgetting(x, real), fading(x, real))
    with torch.no_grad():
        forgetting.gate.weight.zero_()
        forgetting.gate.bias.fill_(math.log(0.7 / 0.3))
    same(forgetting(x, real), fading(x, real))
    same(forgetting.sequence(x, real), fading.sequence(x, real))


@pytest.mark.parametrize("real", [None, REAL], ids=["whole", "padded"])
def test_softmax_with_a_zero_query_is_composite_divided_by_the_number_of_tokens(x, real):
    softmax = made("softmax")
    composite = alike(softmax, made("composite"))
    count = 5 if real is None else real.sum(1, keepdim=True)
    differ(softmax(x, real), composite(x, real) / count)
    with torch.no_grad():
        softmax.query.zero_()
    same(softmax(x, real), composite(x, real) / count)


def test_softmax_is_attend_with_one_learned_query(x):
    softmax = made("softmax")
    k, v = x[:, None], softmax.value(x)[:, None]
    same(softmax(x), attend(softmax.query.expand(3, 1, 1, -1), k, v, scale=1.0)[:, 0, 0])
    same(softmax.sequence(x), attend(softmax.query.expand(3, 1, 5, -1), k, v, scale=1.0, mask=Causal())[:, 0])


@pytest.mark.parametrize("head, slope", [(0, 2**-4), (1, 2**-8)])
def test_causal_alibi_without_queries_is_normalised_fading(head, slope):
    torch.manual_seed(0)
    v = torch.randn(2, 2, 9, DIM, dtype=torch.float64)
    k = torch.randn(2, 2, 9, DIM, dtype=torch.float64)
    out = attend(torch.zeros_like(k), k, v, mask=Causal(), bias=ALiBi(2))[:, head]
    fading = Fading(DIM, DIM, gamma=math.exp(-slope)).double()
    with torch.no_grad():
        fading.value.weight.copy_(torch.eye(DIM))
        fading.value.bias.zero_()
    v = v[:, head]
    same(out, fading.sequence(v) / fading.sequence(torch.ones_like(v)))
    same(out[:, -1], fading(v) / fading.weights(v).sum(1, keepdim=True))


# ── symmetry ────────────────────────────────────────────────────────────────────────────────────────────────


def test_order_matters_to_those_that_say_so(kind, x):
    memory, order = made(kind), torch.tensor([3, 0, 4, 1, 2])
    assert Shifts() <= memory.keeps
    assert (Permutations() <= memory.keeps) == (kind in INVARIANT)
    check = same if kind in INVARIANT else differ
    check(memory(x[:, order]), memory(x))
    check(memory(x[:, order], REAL[:, order])[:2], memory(x, REAL)[:2])


# ── padding, neighbours ─────────────────────────────────────────────────────────────────────────────────────


def with_gradients(f, memory, x, *args):
    x = x.clone().requires_grad_()
    out = f(x, *args)
    return out, *torch.autograd.grad(out.sin().sum(), [x, *memory.parameters()])


@pytest.mark.parametrize("junk", [0.0, torch.nan, torch.inf, -torch.inf, 1e300])
def test_neither_amount_nor_contents_of_padding_matter(kind, x, junk):
    memory = made(kind)
    out, dx, *rest = with_gradients(memory, memory, x)
    wide, real = put_in_slots(x, SLOTS, 9, junk)
    out_wide, dx_wide, *rest_wide = with_gradients(memory, memory, wide, real)
    same(out_wide, out)
    same(dx_wide[real].view_as(dx), dx)
    assert (dx_wide[~real] == 0).all()
    same(rest_wide, rest)
    same(memory.weights(wide, real)[real].flatten(), memory.weights(x).flatten())


@pytest.mark.parametrize("junk", [0.0, torch.nan, torch.inf])
def test_padding_does_not_matter_to_sequences_and_steps(kind, x, junk):
    memory = made(kind)
    wide, real = put_in_slots(x, SLOTS, 9, junk)
    after = real.cumsum(1)  # what each slot has seen
    expected = torch.cat([torch.zeros(3, 1, DIM).double(), step_by_step(memory, x)], 1)
    expected = expected.gather(1, after[..., None].expand(-1, -1, DIM))
    for f in (memory.sequence, lambda x: step_by_step(memory, x, real)):
        args = (real,) if f == memory.sequence else ()
        out, dx, *rest = with_gradients(f, memory, wide, *args)
        same(out, expected)
        assert (dx[~real] == 0).all()
        assert all(each.isfinite().all() for each in (dx, *rest))


def test_nothing_real_is_zero_with_zero_gradients(kind, x):
    memory, nothing = made(kind), torch.zeros(3, 5, dtype=torch.bool)
    for f in (memory, memory.sequence, lambda x, real: step_by_step(memory, x, real)):
        out, *gradients = with_gradients(f, memory, x * torch.nan, nothing)
        assert (out == 0).all()
        assert all((each == 0).all() for each in gradients)
    assert (memory(x[:, :0]) == 0).all()
    assert memory.sequence(x[:, :0]).shape == (3, 0, DIM)
    assert memory.weights(x, nothing).abs().sum() == 0


def test_neighbours_in_the_batch_do_not_matter(kind, x):
    memory = made(kind)
    together, every = memory(x, REAL), memory.sequence(x, REAL)
    for row in range(3):
        only = slice(row, row + 1)
        same(memory(x[only], REAL[only]), together[only])
        same(memory.sequence(x[only], REAL[only]), every[only])


# ── step by step, all at once ───────────────────────────────────────────────────────────────────────────────


@settings(max_examples=12)
@given(n=st.sampled_from([1, 2, 3, 7, 8, 9, 33]), seed=st.integers(0, 1000), share=st.sampled_from([0.3, 0.9, 1.0]))
def test_step_by_step_is_all_at_once(n, seed, share):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(2, n, INPUTS, dtype=torch.float64, generator=generator)
    real = torch.rand(2, n, generator=generator) < share
    for kind in MEMORY_CLASSES:
        memory = made(kind)
        with torch.no_grad():
            steps = step_by_step(memory, x, real)
            same(memory.sequence(x, real), steps)
            same(memory(x, real), steps[:, -1])


@pytest.mark.parametrize("logits", [-800.0, -40.0, -3.0, 3.0, 40.0, "mixed", "one"])
def test_forgetting_is_exact_for_512_tokens_and_any_gate(logits):
    torch.manual_seed(0)
    memory, x = Forgetting(1, 2).double(), torch.randn(2, 512, 1, dtype=torch.float64)
    with torch.no_grad():
        memory.gate.weight.fill_(1.0)
        memory.gate.bias.zero_()
        memory.value.weight.fill_(0.0)  # so that the values stay of size 1 whatever the gates are
        memory.value.bias.copy_(torch.tensor([1.0, -0.5]))
        if logits == "mixed":
            x = x * 20
        elif logits == "one":
            x, x[:, 1] = x + 6, -1e8  # one gate of nothing: it must not blur the others
        else:
            x = x + logits
        steps = step_by_step(memory, x)
        same(memory.sequence(x), steps)
        same(memory(x), steps[:, -1])


@pytest.mark.parametrize("n", [1, 2, 3, 8, 100])
def test_scan_is_the_recurrence(n):
    torch.manual_seed(0)
    gate, value = torch.rand(2, n, 3, dtype=torch.float64), torch.randn(2, n, 3, dtype=torch.float64)
    held, expected = torch.zeros(2, 3, dtype=torch.float64), []
    for t in range(n):
        held = gate[:, t] * held + value[:, t]
        expected.append(held)
    same(scan(gate, value), torch.stack(expected, 1))


def test_a_softmax_of_huge_scores_does_not_overflow():
    torch.manual_seed(0)
    memory, x = made("softmax"), torch.randn(2, 20, INPUTS, dtype=torch.float64) * 3000
    steps = step_by_step(memory, x)
    assert steps.isfinite().all()
    same(memory(x), steps[:, -1])


def test_a_state_is_small_and_does_not_grow(kind, x):
    memory = made(kind)
    state = memory.start(3)
    assert (memory.read(state) == 0).all()
    after = memory.step(memory.step(state, x[:, 0]), x[:, 1])
    assert type(after) is type(state)
    assert [each.shape for each in after] == [each.shape for each in state]
    assert sum(each.numel() for each in after) <= 3 * (DIM + 2)


@pytest.mark.parametrize("real", [None, torch.arange(300)[None] >= 3], ids=["whole", "padded"])
@pytest.mark.parametrize("kind", ["fading", "forgetting"])
def test_half_precision_counts_in_float32(kind, real):
    memory = Fading(1, 1, gamma=0.99) if kind == "fading" else Forgetting(1, 1)
    x = torch.ones(1, 300, 1)
    with torch.no_grad():
        if kind == "forgetting":
            memory.gate.weight.zero_()
            memory.gate.bias.fill_(4.59375)  # σ = 0.99, and exact in bfloat16
        exact = memory.double().weights(x.double(), real)
        half = memory.bfloat16().weights(x.bfloat16(), real)
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.double(), exact, rtol=2**-8, atol=0)


# ── gradients, errors, compiling ────────────────────────────────────────────────────────────────────────────


class Called(torch.nn.Module):
    """One of the ways to use a memory as the forward of a module."""

    def __init__(self, memory, way):
        super().__init__()
        self.memory, self.way = memory, way

    def forward(self, x, real):
        if self.way == "steps":
            return step_by_step(self.memory, x, real)
        return getattr(self.memory, self.way)(x, real)


@pytest.mark.parametrize("way", ["forward", "sequence", "steps"])
def test_gradients(kind, way):
    torch.manual_seed(0)
    called = Called(made(kind, 2, 2), way)
    names, parameters = zip(*called.named_parameters(), strict=True)
    x = torch.randn(2, 4, 2, dtype=torch.float64, requires_grad=True)
    real = torch.tensor([[1, 1, 1, 1], [1, 0, 1, 0]]).bool()

    def f(x, *values):
        return functional_call(called, dict(zip(names, values, strict=True)), (x, real))

    assert torch.autograd.gradcheck(f, (x, *(p.detach().clone().requires_grad_() for p in parameters)))


def test_words_of_errors(kind, x):
    memory = made(kind)
    for f in (memory, memory.weights, memory.sequence):
        with pytest.raises(ValueError, match="x.*'b n inputs'.*inputs=3.*shape .3, 5, 2."):
            f(x[..., :2])
        with pytest.raises(ValueError, match="real.*'b n'.*b=3, n=5.*shape .3, 4."):
            f(x, REAL[:, :4])
        with pytest.raises(ValueError, match="real.*tensor 'b n', True = real.*torch.float32"):
            f(x, REAL.float())
    state = memory.start(3)
    with pytest.raises(ValueError, match="x.*'b inputs'.*inputs=3.*shape .3, 5, 3."):
        memory.step(state, x)
    with pytest.raises(ValueError, match="real.*tensor 'b'"):
        memory.step(state, x[:, 0], torch.ones(3))


@pytest.mark.parametrize("gamma", [0.0, -0.5, 1.5, math.nan])
def test_gamma_is_above_zero_and_at_most_one(gamma):
    with pytest.raises(ValueError, match=f"gamma.*0.*1.*{gamma}"):
        Fading(2, 2, gamma=gamma)


def test_a_learned_gamma_begins_where_it_was_told_and_stays_inside():
    fading = Fading(2, 2, gamma=0.8, learned=True)
    torch.testing.assert_close(fading.gamma, torch.tensor(0.8))
    assert "logit" in fading.state_dict()
    assert "logit" not in Fading(2, 2, gamma=0.8).state_dict()
    with torch.no_grad():
        fading.logit.fill_(-200.0)
    assert fading(torch.ones(1, 3, 2)).isfinite().all()
    with pytest.raises(ValueError, match="learned gamma.*1.*1.0"):
        Fading(2, 2, gamma=1.0, learned=True)


def test_the_table_names_all():
    assert {name: memory(2, 3)(torch.zeros(1, 4, 2)).shape for name, memory in MEMORIES.items()} == dict.fromkeys(
        ["composite", "fading", "forgetting", "gated", "softmax"], (1, 3)
    )


def test_memories_compile_in_one_graph(kind, x):
    memory = made(kind)

    def whole(x, real):
        return (
            memory(x, real),
            memory.sequence(x, real),
            memory.weights(x, real),
            memory.step(memory.start(3), x[:, 0]),
        )

    compiled = torch.compile(whole, fullgraph=True, backend="eager")(x, REAL)
    for one, other in zip(compiled, whole(x, REAL), strict=True):
        same(one, other)
