"""Masks: what each allows, and that the answers for whole blocks are never wrong."""

import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention import kernels
from regard.attention.attend import attend
from regard.attention.mask import Not, from_settings
from regard.attention.masks import BigBird, Causal, Dense, Documents, Full, Order, Padding, Prefix, Window
from regard.attention.places import sides
from tests.attention.cases import BATCH, HEADS, MASKS

CPU = torch.device("cpu")


def whole(mask, n, m, where=None, b=BATCH):
    """The dense matrix of a mask, for looking at."""
    here, there = sides(where, n, m, b, CPU)
    return mask.tile(here, there).expand(-1, -1, n, m)


def as_text(mask, n, m, where=None):
    return ["".join("#" if a else "." for a in row) for row in whole(mask, n, m, where)[0, 0]]


def test_causal_includes_the_present_and_is_aligned_at_the_end():
    assert as_text(Causal(), 3, 3) == ["#..", "##.", "###"]
    assert as_text(Causal(), 2, 4) == ["###.", "####"]
    assert as_text(Causal(), 4, 2) == ["..", "..", "#.", "##"]


def test_window_prefix_order_documents():
    assert as_text(Window(1), 4, 4) == ["##..", "###.", ".###", "..##"]
    assert as_text(Causal() & Window(1), 4, 4) == ["#...", "##..", ".##.", "..##"]
    assert as_text(Prefix(2), 4, 4) == ["##..", "##..", "###.", "####"]
    assert as_text(Order(torch.tensor([2, 0, 1])), 3, 3) == ["###", ".#.", ".##"]
    assert as_text(Documents(torch.tensor([5, 5, 9])), 3, 3) == ["##.", "##.", "..#"]
    assert as_text(Documents(torch.tensor([5, 5, 9])), 1, 3) == ["..#"]
    assert as_text(Causal() | ~Window(1), 4, 4) == ["#.##", "##.#", "###.", "####"]


def test_window_takes_the_largest_axis_distance():
    grid = torch.tensor([[[0, 0], [0, 2], [1, 1], [3, 0]]])
    assert as_text(Window(1), 4, 4, grid) == ["#.#.", ".##.", "###.", "...#"]


def test_tokens_without_a_place_see_and_are_seen():
    where = torch.tensor([torch.nan, 0.0, 1.0, 2.0])
    assert as_text(Causal(), 4, 4, where) == ["####", "##..", "###.", "####"]
    assert as_text(Causal() & Window(0), 4, 4, where) == ["####", "##..", "#.#.", "#..#"]
    assert as_text(Prefix(0), 4, 4, where) == ["####", "##..", "###.", "####"]
    assert as_text(BigBird(block=1, neighbours=0, everywhere=0, random=0), 4, 4, where) == [
        "####",
        "##..",
        "#.#.",
        "#..#",
    ]


def test_bigbird_is_neighbours_global_blocks_and_random_links():
    base = BigBird(block=4, neighbours=1, everywhere=1, random=0)
    blocks = whole(base, 64, 64)[0, 0].view(16, 4, 16, 4).any(3).any(1)
    i, j = torch.arange(16)[:, None], torch.arange(16)
    assert torch.equal(blocks, ((i - j).abs() <= 1) | (i == 0) | (j == 0))
    linked = whole(BigBird(block=4, random=2, seed=1), 64, 64)[0, 0]
    assert torch.equal(linked, linked.T)  # a link counts both ways
    extra = linked.sum() - whole(base, 64, 64).sum()
    assert 0 < extra <= 2 * 2 * 15 * 16
    assert not torch.equal(linked, whole(BigBird(block=4, random=2, seed=2), 64, 64)[0, 0])
    longer = whole(BigBird(block=4, random=2, seed=1), 128, 128)[0, 0]
    assert torch.equal(longer[:64, :64], linked)  # what was drawn does not change as the sequence grows


def test_bigbird_draws_evenly():
    drawn = whole(BigBird(block=1, neighbours=0, everywhere=0, random=1, seed=5), 400, 400)[0, 0].tril(-1)
    assert torch.equal(drawn.sum(1), (torch.arange(400) > 0).long())
    share = drawn.nonzero()[:, 1] / drawn.nonzero()[:, 0]
    assert abs(share.mean() - 0.5) < 0.05 and share.std() > 0.25


@st.composite
def places(draw, n):
    kind = draw(st.sampled_from(["none", "shuffled", "nowhere", "real", "grid"]))
    if kind == "none":
        return None
    seed = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    if kind == "shuffled":
        return torch.randperm(n, generator=seed)
    if kind == "grid":
        return torch.randint(0, 9, (BATCH, n, 2), generator=seed)
    where = 20 * torch.randn(BATCH, n, generator=seed)
    if kind == "nowhere":
        where[torch.rand(BATCH, n, generator=seed) < 0.2] = torch.nan
    return where


def lawful(mask, n, m, where, block):
    """Whatever `blocks` says must be true of the dense matrix, block by block."""
    here, there = sides(where, n, m, BATCH, CPU)
    answer = mask.blocks(here.bounds(block), there.bounds(block))
    dense = mask.tile(here, there).expand(BATCH, HEADS, n, m).numpy()
    shape = (BATCH, HEADS, -(-n // block), -(-m // block))
    some, every = np.broadcast_to(answer.some, shape), np.broadcast_to(answer.every, shape)
    for i in range(shape[2]):
        for j in range(shape[3]):
            tile = dense[:, :, i * block : (i + 1) * block, j * block : (j + 1) * block]
            assert (some[:, :, i, j] | ~tile.any((2, 3))).all(), "a block that is not empty was called empty"
            assert (~every[:, :, i, j] | tile.all((2, 3))).all(), "a block that is not full was called full"
    return some, every


@settings(max_examples=40, derandomize=True, deadline=None, database=None)
@given(st.data())
def test_block_answers_are_never_wrong(data):
    n, m = data.draw(st.sampled_from([(40, 40), (13, 40), (40, 13), (1, 30)]))
    mask = MASKS[data.draw(st.sampled_from(sorted(MASKS)))](n, m)
    other = MASKS[data.draw(st.sampled_from(sorted(MASKS)))](n, m)
    mask = data.draw(st.sampled_from([mask, mask & other, mask | other, ~mask, ~(mask & other)]))
    where = data.draw(places(m)) if n <= m else None
    lawful(mask, n, m, where, data.draw(st.sampled_from([1, 4, 7, 16])))


@pytest.mark.parametrize("name", MASKS)
def test_block_answers_are_sharp_where_it_matters(name):
    """Not only right but useful: with one token a block the answers are the mask itself, for consecutive places."""
    mask = MASKS[name](30, 30)
    some, every = lawful(mask, 30, 30, None, 1)
    assert np.array_equal(some, every)


def test_a_planted_wrong_block_answer_is_caught():
    class Wrong(Causal):
        def blocks(self, here, there):
            return Window(3).blocks(here, there)

    with pytest.raises(AssertionError, match="a block that is not (full|empty) was called"):
        lawful(Wrong(), 40, 40, None, 4)


def test_windows_over_long_sequences_visit_few_blocks():
    here, there = sides(None, 32768, 32768, 1, CPU)
    answer = (Causal() & Window(255)).blocks(here.bounds(128), there.bounds(128))
    assert answer.some.sum() == 256 + 255 + 254  # the block itself and two before it


@pytest.mark.parametrize("name", ["padding by length", "padding by slot", "dense"])
def test_take_moves_what_is_held_by_slot(name):
    mask = MASKS[name](20, 20)
    order = torch.stack([torch.randperm(20, generator=torch.Generator().manual_seed(s)) for s in range(BATCH)])
    rows = torch.arange(BATCH)[:, None, None]
    before = whole(mask, 20, 20).expand(BATCH, HEADS, 20, 20)
    moved = before[rows, :, order[:, :, None], order[:, None, :]].movedim(-1, 1)
    assert torch.equal(whole(mask.take(order), 20, 20).expand(BATCH, HEADS, 20, 20), moved)
    one = order[0]
    assert torch.equal(whole((mask & Full()).take(one), 20, 20), whole(mask, 20, 20)[:, :, one][..., one])
    assert torch.equal(whole(Not(mask).take(one), 20, 20), ~whole(mask, 20, 20)[:, :, one][..., one])


def test_take_moves_documents_and_leaves_places_alone():
    ids, order = torch.tensor([1, 1, 2, 3]), torch.tensor([3, 0, 1, 2])
    assert as_text(Documents(ids).take(order), 4, 4) == as_text(Documents(ids[order]), 4, 4)
    assert as_text(Documents((ids, ids)).take(order), 4, 4) == as_text(Documents(ids[order]), 4, 4)
    assert Causal().take(order) == Causal()


def test_static_masks_are_values():
    assert Causal() & Window(3) == Causal() & Window(3)
    assert hash(Causal() & ~Window(3)) == hash(Causal() & ~Window(3))
    assert Causal() & Window(3) != Causal() | Window(3)
    for name, make in MASKS.items():
        mask = make(9, 9)
        if mask.static:
            assert from_settings(mask.settings()) == mask, name
    assert repr(Causal() & ~Window(3)) == "(Causal() & ~Window(reach=3))"


def test_errors_say_what_was_given_and_what_to_do():
    with pytest.raises(ValueError, match="reach.*0.*more.*-1"):
        Window(-1)
    with pytest.raises(ValueError, match=r"Padding.*lengths \(b\).*tensor b m, True = real.*torch.float32"):
        Padding(torch.ones(2, 3))
    with pytest.raises(ValueError, match="Padding.*b=2.*2 lengths.*3"):
        Padding([1, 2, 3]).fits(2, 1, 5, 5)
    with pytest.raises(ValueError, match=r"takes a bool tensor 2 × 5, got \(2, 4\)"):
        Padding(torch.ones(2, 4, dtype=torch.bool)).fits(2, 1, 5, 5)
    with pytest.raises(ValueError, match=r"torch.float32 \(2, 2\).*1 =.*0 =.*`mask != 0`"):
        Dense(torch.zeros(2, 2))
    with pytest.raises(ValueError, match=r"Dense for b=2, h=4, n=3, m=3 takes n m, b n m or b h n m, got \(2, 3\)"):
        Dense(torch.ones(2, 3, dtype=torch.bool)).fits(2, 4, 3, 3)
    with pytest.raises(ValueError, match="Documents.*4 tokens.*n=2 queries.*m=5"):
        Documents(torch.arange(4)).fits(1, 1, 2, 5)
    with pytest.raises(ValueError, match="2.*4 tokens.*n=2 queries.*m=5"):
        Documents((torch.arange(2), torch.arange(4))).fits(1, 1, 2, 5)
    with pytest.raises(ValueError, match=r"Order.*tensors n.*b n.*b=1.*\(2, 3\)"):
        Order(torch.zeros(2, 3)).fits(1, 1, 3, 3)
    with pytest.raises(TypeError, match="masks combine.*not.*`and`"):
        Causal() and Window(3)
    with pytest.raises(TypeError, match="mask.*mask.*Tensor.*tensor.*Dense"):
        Causal() & torch.ones(3, 3)
    with pytest.raises(TypeError, match="mask.*mask.*Tensor.*tensor.*Dense"):
        torch.ones(3, 3, dtype=torch.bool) & Causal()
    with pytest.raises(TypeError, match=r"mask.*mask.*class Causal; write Causal\(...\)"):
        Causal | Window(3)
    with pytest.raises(TypeError, match="mask.*mask.*int"):
        Not(3)


@pytest.mark.parametrize("reach", ["3", None, torch.tensor(3), torch.tensor([3, 4]), float("nan"), -1, -0.5])
def test_a_reach_is_a_number(reach):
    words = (
        rf"reach must be 0 or more, got {re.escape(repr(reach))}; give a number: Window\(0\) sees only its own place"
    )
    with pytest.raises(ValueError, match=words):
        Window(reach)


@pytest.mark.parametrize("length", ["a", None, torch.tensor(3), float("nan")])
def test_a_prefix_has_a_number_of_places(length):
    words = rf"length must be a number, got {re.escape(repr(length))}; Prefix\(3\) lets all see the places 0, 1 and 2"
    with pytest.raises(ValueError, match=words):
        Prefix(length)


@pytest.mark.parametrize("setting", [{"block": 0}, {"block": "x"}, {"block": 2.5}, {"random": -1}, {"seed": "a"}])
def test_bigbird_takes_whole_numbers(setting):
    ((name, value),) = setting.items()
    words = r"block must be at least 1 and the counts at least 0, all whole numbers, got BigBird\(.*"
    with pytest.raises(ValueError, match=words + re.escape(f"{name}={value!r}")):
        BigBird(**setting)


@pytest.mark.parametrize("real", ["x", ["a", "b"], None, [[True], [True, False]]])
def test_padding_says_what_it_takes(real):
    words = r"Padding takes whole lengths \(b\) or a bool tensor b m, True = real, got {}; give a list of whole numbers"
    with pytest.raises(ValueError, match=words.format(re.escape(repr(real)))):
        Padding(real)
    with pytest.raises(ValueError, match=r"True = real, got torch.complex64 \(2,\)"):
        Padding(torch.zeros(2, dtype=torch.complex64))


@pytest.mark.parametrize(
    "allowed, kind", [([[True]], "list"), (np.ones((2, 2), dtype=bool), "ndarray"), (None, "NoneType")]
)
def test_dense_takes_a_tensor(allowed, kind):
    with pytest.raises(ValueError, match=rf"True = may attend, got {kind}; use torch.as_tensor\(...\)"):
        Dense(allowed)


@pytest.mark.parametrize("data, kinds", [
    ([0, 0, 1], "list"),
    (None, "NoneType"),
    (([0, 0], [0, 1]), "list and list"),
    ((torch.zeros(3),) * 3, "tuple"),
])  # fmt: skip
def test_what_tokens_hold_is_in_tensors(data, kinds):
    words = rf"takes a tensor, or a pair \(here, there\) of tensors, got {kinds}; use torch.tensor\(...\)"
    for mask in (Documents, Order):
        with pytest.raises(ValueError, match=f"{mask.__name__} {words}"):
            mask(data)


def test_numbers_of_any_kind_are_numbers():
    """Places may be real, so a reach may be; and what numpy counted is as good as what Python did."""
    assert as_text(Window(1.5), 3, 3, torch.tensor([0.0, 1.5, 3.1])) == ["##.", "##.", "..#"]
    for one in (1, 1.0, np.int64(1), np.float32(1)):
        assert as_text(Window(one), 4, 4) == as_text(Window(1), 4, 4)
        assert as_text(Prefix(one), 4, 4) == as_text(Prefix(1), 4, 4)
    assert as_text(Prefix(-1), 3, 3) == as_text(Causal(), 3, 3)


def test_ranks_may_have_any_dtype():
    ranks = torch.tensor([2, 0, 1, 3])
    for dtype in (torch.int32, torch.float16, torch.bfloat16):
        some, every = lawful(Order(ranks.to(dtype)), 4, 4, None, 1)
        assert np.array_equal(some, every)


@pytest.mark.parametrize("block", [1, 7, 32, 64])
@pytest.mark.parametrize("n, m", [(1, 1), (200, 200), (50, 200)])
def test_big_bird_by_blocks_is_its_rule_by_places(block, n, m):
    """Consecutive places are asked by blocks, others one by one; and strips are cut along its blocks."""
    mask = BigBird(block=block, random=1, seed=2)
    places = torch.arange(m)
    by_blocks = mask.tile(*sides(None, n, m, 1, torch.device("cpu")))
    by_places = mask.tile(*sides((places[m - n :], places), n, m, 1, torch.device("cpu")))
    assert torch.equal(by_blocks, by_places)
    q, k, v = (torch.randn(1, 2, size, 8, dtype=torch.float64, requires_grad=True) for size in (n, m, m))
    outs = []
    for kernel in ("reference", "tiled"):
        with kernels.only(kernel):
            outs.append(attend(q, k, v, mask=mask & Causal()))
    torch.testing.assert_close(*outs)
    grads = [torch.autograd.grad(out.sin().sum(), (q, k, v)) for out in outs]
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other)
