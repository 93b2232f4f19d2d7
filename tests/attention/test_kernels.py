"""Every kernel equals the reference: outputs and all gradients."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention import kernels
from regard.attention.attend import attend, explain
from regard.attention.biases import ALiBi
from regard.attention.kernels import precision, row_strips, tiled
from regard.attention.masks import Causal, Padding, Window
from tests.attention.cases import (
    BATCH,
    BIASES,
    CHANNELS,
    FEW,
    HEADS,
    LENGTHS,
    MASKS,
    made,
    random_inputs,
    results,
    worst_error,
)

ANY_MASK = ("plain", "fused", "tiled")
FAST = (*ANY_MASK, "stairs")  # which takes a plain causal mask and no other


def defined(inputs, bias, **how):
    with kernels.only("reference"):
        return results(inputs, bias, **how)


def exactly(inputs):
    return [x.detach().double().requires_grad_() for x in inputs]


def compare(kernel, inputs, bias, *, true=None, **how):
    """Worst relative error of a kernel against the reference; None if the kernel says it cannot do this."""
    true = defined(inputs, bias, **how) if true is None else true
    try:
        with kernels.only(kernel):
            found = results(inputs, bias, **how)
    except ValueError as refused:
        if "kernel cannot do this" not in str(refused):
            raise
        return None
    return worst_error(found, true)


@pytest.mark.parametrize("n, m", LENGTHS)
@pytest.mark.parametrize("bias_name", BIASES)
def test_kernels_agree_with_the_reference(n, m, bias_name):
    heads = HEADS if n < 300 else FEW
    bias = made(bias_name, heads=heads)
    for groups in (HEADS, 2, 1) if heads == HEADS else (FEW, 1):
        inputs = random_inputs(n, m, heads=heads, groups=groups)
        # all masks with as many key heads as query heads; a few with grouped heads, which masks know nothing of
        for mask_name in MASKS if groups == heads else ("causal and window", "dense"):
            mask = MASKS[mask_name](n, m, heads)
            true = defined(inputs, bias, mask=mask)
            for kernel in FAST if n < 100 else FAST[1:]:  # in float64 `plain` is the definition itself
                error = compare(kernel, inputs, bias, true=true, mask=mask)
                assert error is None or error < 1e-10, (kernel, mask_name, groups, error)


@pytest.mark.parametrize("bias_name", BIASES)
def test_kernels_agree_in_float32(bias_name):
    """With the reference in float64 of the same numbers, so that no kernel is blamed for the rounding of another."""
    bias, exact_bias = made(bias_name, torch.float32, FEW), made(bias_name, heads=FEW)
    for n, m in LENGTHS:
        inputs = random_inputs(n, m, heads=FEW, dtype=torch.float32)
        for mask_name in ("full", "causal", "causal and window", "padding by slot"):
            mask = MASKS[mask_name](n, m)
            true = defined(exactly(inputs), exact_bias, mask=mask)
            for kernel in FAST:  # `plain` is the reference, too: they part only in half precision
                error = compare(kernel, inputs, bias, true=true, mask=mask)
                assert error is None or error < 1e-5, (kernel, mask_name, n, error)


@pytest.mark.parametrize("bias_name", ["no bias", "alibi", "buckets"])
def test_kernels_agree_in_bfloat16(bias_name, monkeypatch):
    """At most 2 × SDPA's error + 2⁻⁷ of the largest, with the processor's own bfloat16 and without it."""
    bias = made(bias_name, heads=FEW)
    for n, m in LENGTHS:
        if n > m:  # the first rows of a causal mask are then empty, for which SDPA has NaN
            continue
        half = random_inputs(n, m, heads=FEW, dtype=torch.bfloat16)
        for mask_name in ("full", "causal", "causal and window"):
            mask = MASKS[mask_name](n, m)
            true = defined(exactly(half), bias, mask=mask)
            added = dense_matrix(mask, bias, n, m).to(torch.bfloat16)
            out = torch.nn.functional.scaled_dot_product_attention(*half, attn_mask=added)
            sdpa = [out, *torch.autograd.grad(out.double().sin().sum(), half)]
            for kernel, units in (
                *itertools.product(("fused", "tiled"), (False, True)),
                ("plain", True),
                ("reference", True),
            ):
                monkeypatch.setitem(precision.CPU_MULTIPLIES, torch.bfloat16, units)
                try:
                    with kernels.only(kernel):
                        found = results(half, bias, mask=mask)
                except ValueError:
                    continue
                for t, s, f in zip(true[:4], sdpa, found[:4], strict=True):
                    allowed = 2 * (s.double() - t).abs().max() + 2**-7 * t.abs().max()
                    assert (f.double() - t).abs().max() <= allowed, (kernel, units, mask_name, n)


def dense_matrix(mask, bias, n, m):
    """Mask and bias as SDPA takes them, by the definition."""
    from regard.attention.places import sides

    here, there = sides(None, n, m, BATCH, torch.device("cpu"))
    scores = torch.zeros(1, 1, n, m, dtype=torch.float64)
    if bias is not None:
        scores = bias.scores(torch.zeros(BATCH, FEW, n, CHANNELS, dtype=torch.float64), here, there).detach()
    return scores.masked_fill(~mask.tile(here, there), -torch.inf)


MASK_NAMES = st.sampled_from(sorted(MASKS))


@st.composite
def combinations(draw):
    """A random case: lengths, heads, a tree of masks, a bias, places that are given or not."""
    n, m = draw(st.integers(1, 200)), draw(st.integers(1, 200))
    mask = MASKS[draw(MASK_NAMES)](n, m)
    for _ in range(draw(st.integers(0, 2))):
        other = MASKS[draw(MASK_NAMES)](n, m)
        mask = draw(st.sampled_from([lambda a, b: a & b, lambda a, b: a | b, lambda a, b: a & ~b]))(mask, other)
    places = draw(st.sampled_from(["none", "shuffled", "some nowhere"]))
    return n, m, draw(st.sampled_from([HEADS, 2, 1])), mask, draw(st.sampled_from(sorted(BIASES))), places


@settings(max_examples=110, derandomize=True, deadline=None, database=None)
@given(combinations(), st.sampled_from(ANY_MASK))
def test_kernels_agree_on_random_combinations(case, kernel):
    n, m, groups, mask, bias_name, places = case
    where = None
    if places != "none":
        draw = torch.Generator().manual_seed(n)
        where = (torch.randperm(n, generator=draw).double(), torch.randperm(m, generator=draw).double())
        if places == "some nowhere":
            where[0][::5], where[1][::7] = torch.nan, torch.nan
    error = compare(kernel, random_inputs(n, m, groups=groups), made(bias_name), mask=mask, where=where)
    assert error is None or error < 1e-10


STRIDES = {
    "heads split off": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "channels apart": lambda x: x.mT.contiguous().mT,
    "every other channel": lambda x: x.repeat_interleave(2, -1)[..., ::2],
    "one row for all": lambda x: x[:1, :1].expand_as(x),
}


@pytest.mark.parametrize("strides", STRIDES)
@pytest.mark.parametrize("kernel", FAST)
def test_memory_may_be_laid_out_in_any_way(kernel, strides):
    inputs = [STRIDES[strides](x.detach()).requires_grad_() for x in random_inputs(150, 150)]
    mask = Causal() if kernel == "stairs" else Causal() & Window(30)
    assert compare(kernel, inputs, None, mask=mask) < 1e-10
    grads = []
    for name in (kernel, "reference"):
        with kernels.only(name):  # a sum hands back a gradient without any memory of its own
            grads.append(torch.autograd.grad(attend(*inputs, mask=mask).sum(), inputs))
    assert worst_error(*grads) < 1e-10


@pytest.mark.parametrize("width", [3, 16])
@pytest.mark.parametrize("kernel", ANY_MASK)
def test_values_may_have_a_width_of_their_own(kernel, width):
    for mask in (None, Causal() & Window(9)):
        assert compare(kernel, random_inputs(40, 60, width=width), ALiBi(HEADS), mask=mask) < 1e-10


def test_far_blocks_that_cannot_matter_are_skipped_and_nothing_changes():
    torch.manual_seed(0)
    inputs = [torch.randn(1, 2, 1500, 16, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    bias = ALiBi(2)
    bias.slopes = torch.tensor([0.5, 0.01], dtype=torch.float64)
    areas = []
    cut = row_strips.cut

    def spy(*args, **kwargs):
        found = cut(*args, **kwargs)
        areas.append([sum(s.area for s in found if s.heads.start == head) for head in range(2)])
        return found

    tiled.cut, before = spy, tiled.cut
    try:
        error = compare("tiled", inputs, bias, mask=Causal())
    finally:
        tiled.cut = before
    assert error < 1e-10
    steep, flat = areas[0]
    assert steep < 0.4 * flat  # the steep head forgets, and its far blocks are not visited


def test_a_loud_far_key_is_never_skipped():
    """Skipping rests on the norms of q and k: make one far key so loud that it wins against the bias."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 1000, 16, dtype=torch.float64) for _ in range(3))
    k[:, :, 3] = q[:, :, 900] * 1000
    inputs = [x.requires_grad_() for x in (q, k, v)]
    assert compare("tiled", inputs, ALiBi(2), mask=Causal()) < 1e-10
    weight = torch.softmax((q[:, :, 900:901] @ k.mT) / 4, -1)[..., 3]
    assert (weight > 0.9).all()  # without the bias it is the winner


def test_repeated_strips_are_one_call(monkeypatch):
    """A window over consecutive places is the same everywhere, so its strips are joined."""
    found = row_strips.cached_strips(Causal() & Window(255), 32768, 32768, 8, 128, True)
    assert len(found) <= 4
    assert sum(s.step * s.repeat for s in found) == 32768
    assert sum(s.area for s in found) < 0.015 * 8 * 32768**2


def test_memory_of_strips_has_a_bound():
    whole = row_strips.cached_strips(Causal(), 4096, 4096, 8, 128, True)
    small = list(row_strips.small_enough(whole, 2, 2**20))
    assert max(2 * s.area for s in small) <= 2**20
    rows = sorted((s.rows.start + i * s.step, s.rows.stop + i * s.step) for s in small for i in range(s.repeat))
    assert rows[0][0] == 0 and rows[-1][1] == 4096
    assert all(above[1] == below[0] for above, below in itertools.pairwise(rows))


@pytest.mark.parametrize("most", [1, 4000, 2**14])
def test_strips_of_any_size_give_the_same(most, monkeypatch):
    monkeypatch.setattr(tiled, "MOST", most)
    n = {1: 20, 4000: 140, 2**14: 300}[most]  # the smaller the strips, the more of them
    for mask in (Causal() & Window(9), Padding([n, n - 7])):
        assert compare("tiled", random_inputs(n, n), made("buckets"), mask=mask) < 1e-10


def test_dropout_of_tiled_is_the_same_forward_and_backward(monkeypatch):
    """With v the identity the output is the dropped weights; the gradient of v must use the very same ones."""
    monkeypatch.setattr(tiled, "MOST", 2**12)
    torch.manual_seed(0)
    n = 200
    q, k = (torch.randn(1, 1, n, 8, dtype=torch.float64) for _ in range(2))
    v = torch.eye(n, dtype=torch.float64)[None, None].requires_grad_()
    with kernels.only("tiled"):
        before = torch.get_rng_state()
        weights = attend(q, k, v, dropout=0.25)
        torch.set_rng_state(before)
        again = attend(q, k, v, dropout=0.25)
    assert torch.equal(weights, again)  # the seed decides
    upstream = torch.randn(n, n, dtype=torch.float64)
    (grad,) = torch.autograd.grad(weights, v, upstream[None, None])
    torch.testing.assert_close(grad[0, 0], weights[0, 0].detach().T @ upstream)
    plainly = attend(q, k, v)[0, 0]
    kept = weights[0, 0] != 0
    assert 0.72 < kept.double().mean() < 0.78
    torch.testing.assert_close(weights[0, 0][kept], plainly[kept] / 0.75)


def test_dropout_of_the_reference():
    torch.manual_seed(0)
    q = torch.randn(1, 1, 100, 8)
    weights = attend(q, q, torch.eye(100)[None, None], dropout=0.5)
    kept = weights != 0
    assert 0.45 < kept.double().mean() < 0.55
    torch.testing.assert_close(weights[kept], (attend(q, q, torch.eye(100)[None, None]) / 0.5)[kept])


def test_choice_says_why():
    q, k, v = random_inputs(64, 64)
    long = torch.zeros(1, 1, 8192, 8)
    assert explain(q, k, v, mask=Causal()).name == "fused"
    assert "SDPA" in explain(q, k, v, mask=Causal()).why
    assert explain(long, long, long, mask=Causal() & Window(100)).name == "tiled"
    assert "% of the 8192 × 8192 pairs" in explain(long, long, long, mask=Causal() & Window(100)).why
    assert "learned" in explain(q, k, v, bias=ALiBi(HEADS, learned=True)).why
    assert explain(long, long, long, dropout=0.1).name == "tiled"
    with kernels.only("reference"):
        assert str(explain(q, k, v)) == "reference: asked for with only('reference')"


def test_half_precision_without_units_is_computed_in_float32(monkeypatch):
    monkeypatch.setitem(precision.CPU_MULTIPLIES, torch.bfloat16, False)
    half = random_inputs(64, 64, dtype=torch.bfloat16)
    assert "float32" in explain(*half).why
    out = attend(*half)
    assert out.dtype == torch.bfloat16
    wide = attend(*(x.float() for x in half))
    assert torch.equal(out, wide.bfloat16())
    with torch.no_grad():  # a short forward pass is not worth the copies
        assert "float32" not in explain(*half).why
        short = attend(*half)
    assert (short.float() - wide).abs().max() < 2**-6 * wide.abs().max()
    monkeypatch.setitem(precision.CPU_MULTIPLIES, torch.bfloat16, True)
    assert explain(*half).name == "plain"


def test_only_refuses_unknown_names_and_ends_with_its_block():
    words = r"no kernel is called 'flush'; there are reference, plain, fused, stairs, tiled"
    with pytest.raises(ValueError, match=words), kernels.only("flush"):
        pass
    with pytest.raises(KeyError), kernels.only("tiled"):
        raise KeyError
    assert kernels.wanted is None


def test_fused_refuses_what_it_cannot_do():
    inputs = random_inputs(7, 7)
    with kernels.only("fused"):
        with pytest.raises(ValueError, match="kernel.*Relative"):
            attend(*inputs, bias=made("relative"))
        with pytest.raises(ValueError, match="Buckets.*learned.*SDPA"):
            attend(*inputs, bias=made("buckets"))
        with pytest.raises(ValueError, match="kernel.*dropout.*kernel"):
            attend(*inputs, dropout=0.1)
        with torch.no_grad():
            assert attend(*inputs, bias=made("buckets")).shape == inputs[0].shape


@pytest.mark.parametrize("kernel", ("reference", *FAST))
def test_a_planted_wrong_kernel_is_caught(kernel, monkeypatch):
    """The comparison above must be able to fail: scale the scores by a hair and see it do so."""
    from regard.attention.kernels import choose

    true = choose.KERNELS[kernel]
    monkeypatch.setitem(choose.KERNELS, kernel, lambda q, k, v, terms: true(q * (1 + 1e-8), k, v, terms))
    inputs = random_inputs(64, 64)
    other = "fused" if kernel == "reference" else kernel
    mask = Causal() if kernel == "stairs" else Causal() & Window(9)
    assert compare(other, inputs, None, mask=mask) > 1e-10
