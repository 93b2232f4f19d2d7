"""Convolution is a circulant matrix: both views give torch's numbers, and it commutes with shifts exactly where it says so."""

import pytest
import torch
import torch.nn.functional as F
from scipy.linalg import circulant

from regard.nn.convolve import Convolution, data_matrix, filter_matrix, shift_matrix, taps
from regard.symmetry.actions import OnGrid
from regard.symmetry.check import check
from regard.symmetry.groups import Shifts, Trivial
from regard.symmetry.laws import Symmetry

CASES = [
    (sizes, kernel, padding)
    for padding in ("circular", "zeros", "valid")
    for sizes, kernel in (((9,), (3,)), ((7,), (5,)), ((5, 6), (3, 3)), ((4, 7), (3, 1)))
] + [((6, 5), (2, 4), "valid")]


def random(*shape):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape)))


def torchs(x, weight, padding):
    """The same by torch.nn.functional."""
    convolve = {1: F.conv1d, 2: F.conv2d}[weight.dim() - 2]
    edges = [k // 2 for k in weight.shape[2:]]
    if padding == "circular":
        return convolve(F.pad(x, [edge for edge in reversed(edges) for _ in range(2)], mode="circular"), weight)
    return convolve(x, weight, padding=edges if padding == "zeros" else 0)


@pytest.mark.parametrize("sizes, kernel, padding", CASES)
def test_both_matrices_are_torchs_convolution(sizes, kernel, padding):
    x, weight = random(2, 3, *sizes), random(4, 3, *kernel)
    true = torchs(x, weight, padding)
    by_filter = (x.flatten(1) @ filter_matrix(weight, sizes, padding).T).view(true.shape)
    by_data = (weight.flatten(1) @ data_matrix(x, kernel, padding)).view(true.shape)
    torch.testing.assert_close(by_filter, true)
    torch.testing.assert_close(by_data, true)


@pytest.mark.parametrize("n, k", [(8, 3), (7, 5), (3, 5)])
def test_one_axis_is_scipys_circulant_of_the_filter_backwards(n, k):
    w = random(k)
    column = torch.zeros(n, dtype=torch.float64)
    for i, number in enumerate(w.flip(0)):  # backwards, with its middle at place 0
        column[(i - k // 2) % n] += number
    torch.testing.assert_close(filter_matrix(w[None, None], (n,)), torch.from_numpy(circulant(column.numpy())))


def test_valid_convolution_has_as_many_places_as_the_filter_fits():
    assert taps((9,), (3,), "valid").shape == (7, 3)  # T − k + 1
    toeplitz = filter_matrix(random(1, 1, 3), (9,), "zeros")
    for k in range(-2, 3):
        # constant along its diagonals, without coming around
        assert toeplitz.diagonal(k).unique().numel() == 1
    assert toeplitz[0, -1] == 0 != filter_matrix(random(1, 1, 3), (9,))[0, -1]


@pytest.mark.parametrize("by", [(1, 0), (0, 1), (3, -2)])
def test_the_square_commutes(by):
    """Shift and convolve, or convolve and shift: W S = S W, for every shift around the end, and for zeros not."""
    sizes, weight = (5, 6), random(1, 1, 3, 3)
    shift, around, zeros = (
        shift_matrix(sizes, by).double(),
        filter_matrix(weight, sizes),
        filter_matrix(weight, sizes, "zeros"),
    )
    x = random(30)
    torch.testing.assert_close((shift @ x).view(sizes), x.view(sizes).roll(by, (0, 1)))
    torch.testing.assert_close(around @ shift, shift @ around)
    assert (zeros @ shift - shift @ zeros).abs().max() > 0.1


def test_zeros_break_shifts_at_the_border_and_only_there():
    conv, x = Convolution(2, 3, padding="zeros").double(), random(1, 2, 12, 12)
    with torch.no_grad():
        apart = (conv(x.roll((3, 0), (2, 3))) - conv(x).roll((3, 0), (2, 3))).abs().amax((0, 1))
    touched = apart > 1e-12
    assert touched[[0, 11, 2, 3]].all()  # the border, and where it came to lie
    assert not touched[4:11].any() and not touched[1].any()


@pytest.mark.parametrize("how, keeps", [
    ({}, Shifts()),
    ({"stride": 2}, Shifts(2)),
    ({"stride": 3, "kernel": 5}, Shifts(3)),
    ({"kernel": 1, "stride": 2, "padding": "zeros"}, Shifts(2)),
    ({"padding": "zeros"}, Trivial()),
    ({"padding": "valid"}, Trivial()),
])  # fmt: skip
def test_a_convolution_keeps_what_it_says(how, keeps):
    torch.manual_seed(0)
    conv, x = Convolution(2, 3, **how), torch.randn(2, 2, 12, 12)
    assert conv.keeps == keeps
    report = check(conv, x, symmetry=keeps, laws=["shift"])
    assert report.ok and report["shift"].measured == ("broken" if keeps == Trivial() else "holds"), str(report)
    if keeps == Trivial():
        assert report["shift"].layer == ""
    else:
        assert report["shift"].error < 1e-5  # in float32


def test_a_stride_keeps_no_more_than_it_says():
    conv, x = Convolution(1, 1, stride=2), torch.randn(1, 1, 8, 8)
    pooled = torch.nn.Sequential(conv, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    assert check(pooled, x, symmetry=Shifts(2), laws=["shift"]).ok  # a global pool makes it invariant
    assert not check(pooled, x, symmetry=Shifts(1), laws=["shift"]).ok
    assert Symmetry(Shifts(2), OnGrid(), OnGrid(stride=2)).declared(None, None) == "equivariant"


def test_bad_arguments():
    with pytest.raises(ValueError, match="padding.*'same'"):
        Convolution(1, 1, padding="same")
    with pytest.raises(ValueError, match=r"middle.*sides.*\(2, 2\)"):
        Convolution(1, 1, 2)
    with pytest.raises(ValueError, match=r"filter.*\(5,\).*not fit into \(4,\)"):
        taps((4,), (5,), "valid")
    with pytest.raises(ValueError, match=r"x must be 'b c h w' with c=2"):
        Convolution(2, 1)(torch.zeros(1, 3, 4, 4))


@pytest.mark.parametrize("make, words", [
    (lambda: filter_matrix(torch.ones(3, 3), (6, 7)), r"weight.*'e c k…'.*axes.*shape \(3, 3\)"),
    (lambda: filter_matrix(torch.ones(1, 1, 3, 3), 6), r"sizes.*side.*\(3, 3\).*\(9, 9\).*6"),
    (lambda: filter_matrix(torch.ones(1, 1, 3, 3), (6,)), r"sizes.*side.*\(3, 3\).*\(9, 9\)"),
    (lambda: data_matrix(torch.ones(6, 7), (3, 3)), r"x.*'b c n…'.*axes.*shape \(6, 7\)"),
    (lambda: data_matrix(torch.ones(1, 1, 6, 7), (3,)), r"kernel.*side.*\(6, 7\).*\(3, 3\).*\(3,\)"),
])  # fmt: skip
def test_what_is_no_filter_or_no_data_is_told(make, words):
    with pytest.raises(ValueError, match=words):
        make()
