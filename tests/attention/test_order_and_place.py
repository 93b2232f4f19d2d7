"""The one question: does order matter here? What each mask, bias and position keeps, and what it is seen to break."""

import pytest
import torch

from regard.attention.attend import attend
from regard.attention.biases import Bias
from regard.attention.masks import BigBird, Causal, Dense, Documents, Full, Order, Padding, Prefix, Window
from regard.attention.positions import Concatenated, Learned, Nothing, Rotary, Sinusoidal
from regard.symmetry.groups import EVERYTHING, Permutations, Shifts, Trivial
from tests.attention.cases import BATCH, BIASES, CHANNELS, HEADS, made, random_bools

N = 24
MASKS = {
    "none": None,
    "full": Full(),
    "causal": Causal(),
    "window": Window(4),
    "prefix": Prefix(6),
    "bigbird": BigBird(block=4, random=1),
    "padding": Padding([N, N - 5]),
    "documents": Documents(torch.arange(N) // 7),
    "order": Order(torch.arange(N) * 5 % N),
    "dense": Dense(random_bools(BATCH, N, N, share=0.5)),
    "causal and window": Causal() & Window(6),
    "causal and padding": Causal() & Padding([N, N - 5]),
    "causal or documents": Causal() | Documents(torch.arange(N) // 7),
    "not window": ~Window(2),
}
POSITIONS = {
    "none": Nothing(),
    "rotary": Rotary(CHANNELS),
    "rotary interleaved": Rotary(CHANNELS, interleaved=True),
    "sinusoidal": Sinusoidal(HEADS * CHANNELS),
    "learned": Learned(200, HEADS * CHANNELS),
    "concatenated": Concatenated(Sinusoidal(HEADS * CHANNELS)),
}


def run(x, where, *, mask=None, bias=None, position=None):
    """Self-attention whose projections are fixed random maps, so that only the parts under test differ."""
    position = position or Nothing()
    x = position.place(x, where)
    width, draw = HEADS * CHANNELS, torch.Generator().manual_seed(3)
    q, k, v = (
        x @ torch.randn(x.shape[-1], width, generator=draw, dtype=x.dtype) / x.shape[-1] ** 0.5 for _ in range(3)
    )
    q, k, v = (y.unflatten(-1, (HEADS, CHANNELS)).transpose(1, 2) for y in (q, k, v))
    out = attend(position.turn(q, where), position.turn(k, where), v, mask=mask, bias=bias, where=where)
    return out.transpose(1, 2).flatten(2)


def tokens():
    return torch.randn(BATCH, N, HEADS * CHANNELS, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def gap(a, b):
    return ((a - b).abs().max() / b.abs().max()).item()


def orders():
    return torch.stack([torch.randperm(N, generator=torch.Generator().manual_seed(s)) for s in range(BATCH)])


def moved(x, order):
    return torch.stack([row[o] for row, o in zip(x, order, strict=True)])


PARTS = (
    [pytest.param({"mask": m}, id=f"mask {name}") for name, m in MASKS.items()]
    + [pytest.param({"bias": made(name)}, id=f"bias {name}") for name in BIASES]
    + [pytest.param({"position": p.double()}, id=f"position {name}") for name, p in POSITIONS.items()]
    + [pytest.param({"mask": Causal(), "bias": made("buckets"), "position": Rotary(CHANNELS)}, id="all of them")]
)


def kept(part):
    group = EVERYTHING
    for piece in part.values():
        group = group & (EVERYTHING if piece is None else piece.keeps)
    return group


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("nowhere", [False, True])
def test_moving_tokens_with_their_places_moves_the_output(part, nowhere):
    where = torch.arange(N).expand(BATCH, N)
    if nowhere:
        where = where.double().masked_fill(random_bools(BATCH, N, share=0.2), torch.nan)
    x, order = tokens(), orders()
    mask = part.get("mask")
    together = part | ({"mask": mask.take(order)} if mask is not None else {})
    out = run(moved(x, order), moved(where, order), **together)
    assert gap(out, moved(run(x, where, **part), order)) < 1e-10


@pytest.mark.parametrize("part", PARTS)
def test_shifting_places_changes_nothing_where_shifts_are_kept(part):
    where, x = torch.arange(N), tokens()
    error = gap(run(x, where + 11, **part), run(x, where, **part))
    if Shifts() <= kept(part):
        assert error < 1e-10
    else:
        assert error > 1e-4  # and the others are seen to break it


@pytest.mark.parametrize("part", PARTS)
def test_moving_values_but_not_places_shows_who_keeps_permutations(part):
    """Places stay, tokens move, and what belongs to a token (padding, document, rank) moves with it."""
    where, x, order = torch.arange(N), tokens(), orders()
    mask = part.get("mask")
    moves = mask is not None and Permutations() <= mask.keeps
    out = run(moved(x, order), where, **(part | ({"mask": mask.take(order)} if moves else {})))
    error = gap(out, moved(run(x, where, **part), order))
    if Permutations() <= kept(part):
        assert error < 1e-10
    else:
        assert error > 1e-4


def test_what_each_part_says_it_keeps():
    assert Nothing().keeps == Full().keeps == Padding([1]).keeps == EVERYTHING
    assert Causal().keeps == Window(3).keeps == Rotary(4).keeps == made("alibi").keeps == Shifts()
    assert Prefix(2).keeps == BigBird().keeps == Sinusoidal(4).keeps == Learned(3, 4).keeps == Trivial()
    assert (Causal() & Padding([3])).keeps == Shifts()
    assert (Causal() & Prefix(2)).keeps == Trivial()


@pytest.mark.parametrize("name", [n for n in BIASES if n != "no bias"])
def test_a_bias_gives_nothing_to_tokens_without_a_place(name):
    bias = made(name)
    assert isinstance(bias, Bias)
    where = torch.arange(N).double()
    where[0] = torch.nan
    x = tokens()
    biased, plain = run(x, where, bias=bias), run(x, where)
    assert gap(biased[:, :1], plain[:, :1]) < 1e-12  # the token without a place sees every score as it was
    assert gap(biased[:, 1:], plain[:, 1:]) > 1e-4


@pytest.mark.parametrize("name", ["rotary", "rotary interleaved", "sinusoidal", "learned"])
def test_a_position_leaves_tokens_without_a_place_alone(name):
    position = POSITIONS[name].double()
    where = torch.arange(5).double()
    where[2] = torch.nan
    x = tokens()[:, :5]
    q = x.unflatten(-1, (HEADS, CHANNELS)).transpose(1, 2)
    acted = (x, position.place(x, where), q.transpose(1, 2), position.turn(q, where).transpose(1, 2))
    changed = [(before - after).abs().amax((0, -1)) for before, after in (acted[:2], acted[2:])]
    total = changed[0] + changed[1].reshape(5, -1).amax(-1)
    assert total[2] == 0 and (total[[1, 3, 4]] > 1e-3).all()


def test_rotary_scores_depend_on_the_distance_alone():
    """⟨R_m x, R_n y⟩ = ⟨R_(m−n) x, y⟩"""
    x, y = torch.randn(2, 1, 1, 1, 8, dtype=torch.float64)
    rotary = Rotary(8)
    for m, n in ((3, 1), (1000, 998), (7, 7)):
        both = (rotary.turn(x, first=m) * rotary.turn(y, first=n)).sum()
        torch.testing.assert_close(both, (rotary.turn(x, first=m - n) * y).sum())


def test_rotary_stays_exact_far_from_the_start():
    q, k = torch.randn(2, 1, 1, 4, 64)
    near, far = ((Rotary(64).turn(q, first=f) @ Rotary(64).turn(k, first=f).mT) for f in (0, 100_000))
    assert gap(far, near) < 1e-5


def test_words_of_errors():
    with pytest.raises(ValueError, match="dim.*even.*channels.*5.*6"):
        Sinusoidal(5)
    with pytest.raises(ValueError, match=r"8.*8.*learned \(0.*7\).*Rotary"):
        Learned(8, 4).place(torch.zeros(1, 9, 4))
    with pytest.raises(ValueError, match="Rotary.*axis.*where.*2"):
        Rotary(4).turn(torch.zeros(1, 1, 3, 4), torch.zeros(1, 3, 2))
    with pytest.raises(ValueError, match="Sinusoidal.*tokens.*width 4.*6"):
        Sinusoidal(4).place(torch.zeros(1, 3, 6))
    with pytest.raises(ValueError, match="Rotary.*8 channels.*head.*4"):
        Rotary(8).turn(torch.zeros(1, 1, 3, 4))
    with pytest.raises(TypeError, match=r"Concatenated.*position.*\(Sinusoidal, Learned\).*Rotary"):
        Concatenated(Rotary(4))
