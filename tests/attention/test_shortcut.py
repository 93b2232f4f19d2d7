"""The shortcut past `prepared` and `choose`: taken only where they would have led to the same call of SDPA."""

import pytest
import torch

from regard.attention import kernels, tap
from regard.attention.attend import attend, explain, is_plain_sdpa, validate
from regard.attention.kernels.choose import SDPA_ALONE
from regard.attention.masks import Causal, Full, Window


def tensors(dtype=torch.float32, n=33, heads=4, grad=False):
    return [torch.randn(2, heads, n, 16).to(dtype).requires_grad_(grad) for _ in range(3)]


@pytest.mark.parametrize("mask", [None, Causal()], ids=str)
@pytest.mark.parametrize("n", [1, 33, 300])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("grad", [False, True])
def test_where_it_is_taken_nothing_else_would_have_happened(mask, n, dtype, grad):
    q, k, v = tensors(dtype, n, grad=grad)
    if not is_plain_sdpa(q, k, v, mask, None, 0.0):
        half = dtype in (
            torch.bfloat16,
            torch.float16,
        )  # on a processor with units for it, or in float32 on one without
        assert half or explain(q, k, v, mask=mask).name == "stairs"
        return
    assert explain(q, k, v, mask=mask) is SDPA_ALONE
    with kernels.only("fused"):
        long_way = attend(q, k, v, mask=mask)
    assert torch.equal(attend(q, k, v, mask=mask), long_way)
    assert torch.equal(attend(q, k, v, mask=mask, scale=0.3), SDPA_ALONE.kernel(q, k, v, terms(q, k, v, mask, 0.3)))


def terms(q, k, v, mask, scale):
    return validate(q, k, v, mask, None, None, scale, 0.0)[-1]


def test_it_is_taken_for_plain_sequences_and_only_for_them():
    q, k, v = tensors()
    taken = (q, k, v, Causal(), None, 0.0)
    assert is_plain_sdpa(*taken)

    class MyCausal(Causal):
        """May define its tiles anew."""

    other = {
        3: [Full(), Window(3), Causal() & Window(3), MyCausal()],
        4: [2, torch.tensor(2.0)],
        5: [0.5],
        1: [k[:, :2], k[:, :, :7], k.double()],
        2: [v[..., :8]],
        0: [q[0], q[:, :, :0]],
    }
    for place, values in other.items():
        for value in values:
            arguments = list(taken)
            arguments[place] = value
            assert not is_plain_sdpa(*arguments), (place, value)
    with kernels.only("reference"):
        assert not is_plain_sdpa(*taken)
    with tap.listen(lambda heard: None):
        assert not is_plain_sdpa(*taken)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not is_plain_sdpa(*taken)
