"""What windows need of attention: a number for each difference in row and column, and masks that leave all something."""

import pytest
import torch

from regard.attention import kernels
from regard.attention.attend import attend, explain
from regard.attention.biases import Offsets
from regard.attention.masks import Dense
from regard.attention.places import sides
from regard.nn.embed import grid_places

CPU = torch.device("cpu")


def inputs(rows=3, heads=2, n=12, c=8):
    draw = torch.Generator().manual_seed(0)
    return [torch.randn(rows, heads, n, c, dtype=torch.float64, generator=draw).requires_grad_() for _ in range(3)]


class Leaving(Dense):
    leaves = True


def allowed(rows=3, n=12):
    """Any pairs, and each with itself."""
    return (torch.rand(rows, n, n, generator=torch.Generator().manual_seed(1)) > 0.5) | torch.eye(n, dtype=torch.bool)


def test_offsets_by_their_definition():
    bias, where = Offsets(2, reach=2).double(), grid_places((3, 4), (3, 4), CPU)
    q, k, v = inputs()
    found = attend(q, k, v, bias=bias, where=where)
    table = bias.table.view(5, 5, 2)
    added = torch.empty(2, 12, 12, dtype=torch.float64)
    for i, here in enumerate(where[0].tolist()):
        for j, there in enumerate(where[0].tolist()):
            down, right = (max(-2, min(2, b - a)) for a, b in zip(here, there, strict=True))
            added[:, i, j] = table[down + 2, right + 2].detach()
    torch.testing.assert_close(found, (q @ k.mT * 8**-0.5 + added).softmax(-1) @ v)


def test_offsets_keep_shifts_and_leave_tokens_without_a_place_alone():
    bias, where = Offsets(2, reach=3).double(), grid_places((3, 4), (3, 4), CPU)
    q, k, v = inputs()
    out = attend(q, k, v, bias=bias, where=where)
    torch.testing.assert_close(attend(q, k, v, bias=bias, where=where + torch.tensor([5, -2])), out)
    assert (attend(q, k, v, bias=bias, where=where.flip(1)) - out).abs().max() > 1e-6
    lost = where.double().clone()
    lost[:, 3] = torch.nan
    terms = bias.scores(q, *sides(lost, 12, 12, 3, CPU))
    assert not terms[:, :, 3].any() and not terms[:, :, :, 3].any() and terms.any()


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("kernel", ["reference", "fused", "tiled"])
def test_kernels_agree(kernel, masked):
    bias, where = Offsets(2, reach=3).double(), grid_places((3, 4), (3, 4), CPU)
    mask, plain = (Leaving(allowed()), Dense(allowed())) if masked else (None, None)
    q, k, v = inputs()
    with kernels.only("reference"):
        true = attend(q, k, v, bias=bias, where=where, mask=plain)
    if kernel == "fused":
        with torch.no_grad(), kernels.only(kernel):
            torch.testing.assert_close(attend(q, k, v, bias=bias, where=where, mask=mask), true)
        return
    with kernels.only(kernel):
        found = attend(q, k, v, bias=bias, where=where, mask=mask)
    torch.testing.assert_close(found, true)
    wanted = (q, k, v, bias.table)
    for grad, other in zip(*(torch.autograd.grad(y.sin().sum(), wanted) for y in (found, true)), strict=True):
        torch.testing.assert_close(grad, other)


def test_many_short_windows_are_done_plainly():
    """Their scores take no more room than keys and values, however many windows there are."""
    bias, where = Offsets(4, reach=6), grid_places((7, 7), (7, 7), CPU)
    q = torch.zeros(2048, 4, 49, 32, requires_grad=True)
    assert explain(q, q, q, bias=bias, where=where).name == "plain"
    long = torch.zeros(64, 4, 400, 8, requires_grad=True)
    assert explain(long, long, long, bias=bias, where=grid_places((20, 20), (20, 20), CPU)).name == "tiled"


def test_bad_places():
    q, k, v = inputs()
    with pytest.raises(ValueError, match="Offsets.*axes.*where.*1"):
        attend(q, k, v, bias=Offsets(2, reach=3).double())
    with pytest.raises(ValueError, match="Offsets.*3 heads.*queries.*2"):
        attend(q, k, v, bias=Offsets(3, reach=3).double(), where=grid_places((3, 4), (3, 4), CPU))
    with pytest.raises(ValueError, match="reach.*0.*more.*-1"):
        Offsets(3, reach=-1)
