"""The door of attention: what it promises for odd inputs, and the words it refuses with."""

import pytest
import torch

from regard.attention import kernels, tap
from regard.attention.attend import attend, explain
from regard.attention.biases import ALiBi, Buckets, Relative
from regard.attention.kernels.reference import attention_weights
from regard.attention.masks import Causal, Dense, Full, Padding, Window
from tests.attention.cases import BATCH, HEADS, MASKS, made, random_inputs

KERNELS = ("reference", "plain", "fused", "tiled")


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("bias_name", ["no bias", "alibi"])
def test_a_row_with_nothing_allowed_gives_zeros_and_zero_gradients(kernel, bias_name):
    allowed = torch.rand(20, 30) < 0.5
    allowed[[3, 7]] = False
    inputs = random_inputs(20, 30)
    with kernels.only(kernel):
        out = attend(*inputs, mask=Dense(allowed), bias=made(bias_name))
        grads = torch.autograd.grad(out.sum(), inputs)
    assert (out[:, :, [3, 7]] == 0).all()
    assert all(torch.isfinite(g).all() for g in grads)
    assert (grads[0][:, :, [3, 7]] == 0).all()
    assert (grads[0][:, :, [4, 8]] != 0).any()


@pytest.mark.parametrize(
    "kernel, bias_name",
    [
        (kernel, bias)
        for kernel in KERNELS
        for bias in ("no bias", "alibi", "relative", "buckets")
        if (kernel, bias) not in (("fused", "relative"), ("fused", "buckets"))
    ],  # SDPA cannot, and says so (test_kernels)
)
@pytest.mark.parametrize("rubbish", [torch.nan, torch.inf, 1e30])
def test_padding_may_hold_anything(kernel, bias_name, rubbish):
    """Neither an output nor a gradient sees it, whatever the amount of padding."""
    bias = made(bias_name)
    q, k, v = random_inputs(12, 20)
    clean = [x.detach()[:1] for x in (q, k[:, :, :12], v[:, :, :12])]
    dirty = [x.detach().clone()[:1] for x in (q, k, v)]
    for x in dirty[1:]:
        x[:, :, 12:] = rubbish
    outs, grads = [], []
    for x, real in ((clean, 12), (dirty, 12)):
        x = [y.requires_grad_() for y in x]
        where = (torch.arange(12), torch.arange(x[1].shape[2]))
        with kernels.only(kernel):
            out = attend(*x, mask=Padding([real]) & Window(9), bias=bias, where=where)
        outs.append(out)
        grads.append(torch.autograd.grad(out.sin().sum(), x))
    torch.testing.assert_close(outs[1], outs[0])
    for found, true in zip(grads[1], grads[0], strict=True):
        torch.testing.assert_close(found[:, :, :12], true)
        assert (found[:, :, 12:] == 0).all()


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("mask_name", MASKS)
def test_a_row_does_not_depend_on_its_neighbours(kernel, mask_name):
    n = 33
    q, k, v = (x.detach() for x in random_inputs(n, n))
    others = [torch.cat((x[:1], 100 * torch.randn_like(x[1:]))) for x in (q, k, v)]
    mask = MASKS[mask_name](n, n)
    with kernels.only(kernel):
        torch.testing.assert_close(attend(*others, mask=mask)[0], attend(q, k, v, mask=mask)[0], rtol=1e-12, atol=1e-12)


def test_dense_columns_that_nobody_sees_are_cleared_head_by_head():
    q, k, v = (x.detach() for x in random_inputs(5, 5, groups=2))
    allowed = torch.ones(BATCH, HEADS, 5, 5, dtype=torch.bool)
    allowed[:, :2, :, 4] = False  # the two query heads that use key head 0
    k[:, 0, 4], v[:, 0, 4] = torch.nan, torch.inf
    assert torch.isfinite(attend(q, k, v, mask=Dense(allowed))).all()
    allowed[:, 1, :, 4] = True  # now head 1 looks at it
    assert torch.isnan(attend(q, k, v, mask=Dense(allowed))[:, 1]).all()


def test_bottom_right_alignment_of_masks_and_biases():
    """The last 3 of 9 queries alone give what they give among all."""
    q, k, v = random_inputs(9, 9)
    for mask in (Causal(), Causal() & Window(2), Window(4)):
        for bias in (None, ALiBi(HEADS), made("buckets"), made("relative")):
            torch.testing.assert_close(
                attend(q[:, :, 6:], k, v, mask=mask, bias=bias), attend(q, k, v, mask=mask, bias=bias)[:, :, 6:]
            )


def test_no_keys_gives_zeros_and_no_queries_gives_nothing():
    q, k, v = random_inputs(3, 0)
    assert torch.equal(attend(q, k, v, mask=Causal()), torch.zeros(BATCH, HEADS, 3, 8, dtype=torch.float64))
    q, k, v = random_inputs(0, 3)
    assert attend(q, k, v).shape == (BATCH, HEADS, 0, 8)


def test_where_in_all_its_shapes():
    q, k, v = random_inputs(4, 6)
    expected = attend(q, k, v, mask=Causal(), bias=ALiBi(HEADS))
    keys = torch.arange(6)
    each = keys.expand(BATCH, 6)
    for where in (keys, each, each[..., None], (keys[2:], keys), (each[:, 2:], each), keys.double() + 0.0):
        torch.testing.assert_close(attend(q, k, v, mask=Causal(), bias=ALiBi(HEADS), where=where), expected)


def test_alibi_sums_over_axes_and_knows_the_past_from_the_future():
    q = torch.zeros(1, 1, 3, 2, dtype=torch.float64)
    v = torch.eye(3, dtype=torch.float64)[None, None]
    grid = torch.tensor([[[0, 0], [1, 2], [3, 0]]])
    slope = ALiBi(1).slopes.double()
    expected = torch.softmax(-slope * torch.tensor([[0, 3, 3], [3, 0, 4], [3, 4, 0]]), -1)
    torch.testing.assert_close(attend(q, q, v, bias=ALiBi(1).double(), where=grid)[0, 0], expected)
    past = torch.softmax(-slope * torch.tensor([[0, 0, 0], [1, 0, 0], [2, 1, 0]]), -1)
    torch.testing.assert_close(attend(q, q, v, bias=ALiBi(1, two_sided=False).double())[0, 0], past)


def test_autocast_works_in_its_dtype_and_leaves_float32_kernels_alone():
    q, k, v = (x.detach().float() for x in random_inputs(9, 9))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = attend(q, k, v, mask=Causal(), bias=ALiBi(HEADS))
    assert out.dtype == torch.bfloat16
    expected = attend(*(x.bfloat16() for x in (q, k, v)), mask=Causal(), bias=ALiBi(HEADS))
    torch.testing.assert_close(out, expected, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("kernel", KERNELS)
def test_listening_changes_no_bit_and_hears_everything(kernel):
    inputs = random_inputs(30, 40)
    bias, mask = ALiBi(HEADS), Causal() & Window(9)
    heard = []
    with kernels.only(kernel):
        alone = attend(*inputs, mask=mask, bias=bias)
        with tap.listen(heard.append):
            out = attend(*inputs, mask=mask, bias=bias)
        attend(*inputs, mask=mask)
    assert torch.equal(out, alone) and len(heard) == 1 and tap.listeners == ()
    one = heard[0]
    weights = attention_weights(one.q, one.k, one.terms)
    torch.testing.assert_close(weights @ one.v, one.out)
    assert one.kernel == kernel and one.out is out


def test_listeners_leave_also_after_an_exception():
    with pytest.raises(KeyError), tap.listen(lambda heard: None):
        raise KeyError
    assert tap.listeners == ()


def test_gradients_are_right_by_finite_differences():
    inputs = random_inputs(5, 7)
    bias = Relative(8, reach=2).double()
    for kernel in KERNELS:
        with kernels.only(kernel):
            how = {"mask": Causal() & Window(4), "bias": None if kernel == "fused" else bias}
            assert torch.autograd.gradcheck(lambda q, k, v, how=how: attend(q, k, v, **how), inputs, fast_mode=True)


def test_full_is_no_mask():
    inputs = random_inputs(9, 9)
    assert explain(*inputs, mask=Full()).why == explain(*inputs).why


BAD = [
    ({"q": (2, 4, 5)}, r"attend takes q: b h n c, k: b g m c, v: b g m e, got \(2, 4, 5\)"),
    ({"k": (3, 4, 7, 8)}, r"b must be one number, got 2, 3 and 2; attend was given q: b h n c = \(2, 4, 5, 8\)"),
    ({"k": (2, 4, 7, 6)}, r"queries and keys must have as many channels, got c=8 and 6"),
    ({"v": (2, 4, 6, 8)}, r"keys and values must belong together, got 4 heads of 7 keys and 4 heads of 6 values"),
    ({"k": (2, 3, 7, 8), "v": (2, 3, 7, 8)}, r"key heads must divide that of query heads, got g=3 and h=4"),
    ({"dtype": torch.float32}, r"must have one floating dtype, got torch.float64, torch.float32 and torch.float64"),
    ({"dropout": 1.0}, r"dropout must be at least 0 and less than 1, got 1.0; give a float, 0.0 when not training"),
    ({"dropout": "x"}, r"dropout must be at least 0 and less than 1, got 'x'; give a float"),
    ({"dropout": None}, r"dropout must be at least 0 and less than 1, got None; give a float"),
    ({"dropout": torch.tensor(0.1)}, r"dropout must be at least 0 and less than 1, got tensor\(0.1000\); give a float"),
    ({"scale": torch.tensor(0.5)}, r"scale must be a number, got Tensor; for a learned one multiply q by it"),
    ({"scale": "x"}, r"scale must be a number, got str; use float\(...\)"),
    (
        {"q": (2, 4, 5, 0), "k": (2, 4, 7, 0)},
        r"q and k have c=0 channels, and scale=None is c\^\(−½\); give a scale, or at least one channel",
    ),
    (
        {"mask": torch.ones(5, 7, dtype=torch.bool)},
        r"mask must be a Mask of regard.attention, got Tensor; wrap a bool tensor, True = may attend, in Dense",
    ),
    ({"mask": Padding([1, 2, 3])}, r"Padding for b=2 rows takes 2 lengths, got 3"),
    ({"mask": Padding([7, 8])}, r"lengths of Padding must be from 0 to m=7, the number of keys, got 8"),
    ({"mask": Causal}, r"mask must be an object, got the class Causal; write Causal\(...\)"),
    (
        {"bias": torch.zeros(5, 7)},
        r"bias must be a Bias of regard.attention, got Tensor; for scores of your own, subclass Bias",
    ),
    ({"where": [0, 1]}, r"where must be a tensor, or a pair \(here, there\) of tensors, got list"),
    ({"where": (range(5), range(7))}, r"where\[0\] must be a tensor of coordinates, got range; use torch.tensor"),
    ({"bias": ALiBi(3)}, r"ALiBi was made for 3 heads, got queries with 4; use ALiBi\(heads=4\)"),
    ({"bias": Buckets(2)}, r"Buckets was made for 2 heads"),
    ({"bias": Relative(5)}, r"Relative was made for 5 channels a head, got queries of 8 and values of 8"),
    ({"bias": Buckets(4), "where": torch.zeros(2, 7, 2)}, r"Buckets reads places on one axis, got where with 2"),
    ({"where": torch.arange(6)}, r"where must have the shape n, b n or b n s with n=7 and b=2, got \(6,\)"),
    ({"where": torch.zeros(2, 7, 0)}, r"with n=7 and b=2, got \(2, 7, 0\); a place has at least one axis"),
    ({"where": torch.ones(7, dtype=torch.bool)}, r"where must hold numbers \(coordinates\), got torch.bool"),
    ({"where": (torch.zeros(2, 5, 2), torch.arange(7))}, r"the same number of axes, got 2 and 1 in where"),
    (
        {"k": (2, 4, 3, 8), "v": (2, 4, 3, 8), "where": torch.arange(3)},
        r"n=5 queries for m=3 keys; give a pair \(here, there\)",
    ),
]


@pytest.mark.parametrize("change, words", BAD)
def test_words_of_errors(change, words):
    q, k, v = (torch.zeros(change.get(name, shape), dtype=torch.float64) for name, shape in
               (("q", (2, 4, 5, 8)), ("k", (2, 4, 7, 8)), ("v", (2, 4, 7, 8))))  # fmt: skip
    if "dtype" in change:
        k = k.to(change["dtype"])
    how = {name: x for name, x in change.items() if name in ("mask", "bias", "where", "scale", "dropout")}
    with pytest.raises(ValueError, match=words):
        attend(q, k, v, **how)


@pytest.mark.parametrize("call", [attend, explain])
def test_what_has_no_numbers_is_refused(call):
    x = torch.zeros(2, 4, 5, 8)
    for at, name in enumerate("qkv"):
        for value, kind in ((x.tolist(), "list"), (None, "NoneType"), (x.numpy(), "ndarray")):
            given = [x, x, x]
            given[at] = value
            with pytest.raises(ValueError, match=rf"{name} must be a tensor, got {kind}; use torch.as_tensor\(...\)"):
                call(*given)
    shape_only = x.to("meta")
    with pytest.raises(ValueError, match="q.*tensor.*shape.*device"):
        call(shape_only, shape_only, shape_only)


def test_no_channels_are_possible_with_a_scale():
    """All scores are 0 then, so the mean of the values comes out."""
    q, v = torch.zeros(1, 1, 3, 0), torch.randn(1, 1, 3, 4)
    torch.testing.assert_close(attend(q, q, v, scale=1.0), v.mean(2, keepdim=True).expand_as(v))


def test_words_of_errors_of_biases():
    with pytest.raises(ValueError, match="heads.*1.*0"):
        ALiBi(0)
    with pytest.raises(ValueError, match="buckets.*4.*farthest.*8.*buckets=33"):
        Buckets(4, buckets=33)
    with pytest.raises(ValueError, match="reach.*0.*more.*-1"):
        Relative(4, reach=-1)
