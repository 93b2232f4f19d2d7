"""Numbers come out of a page as they went in, or within what the page says."""

import numpy as np
import pytest
import torch

from regard.look import encode_arrays


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float16", "float32"])
def test_packed_comes_back(dtype):
    x = (np.arange(60).reshape(3, 4, 5) % 7).astype(dtype)
    np.testing.assert_array_equal(encode_arrays.unpack_array(encode_arrays.pack_array(x), dtype, 3, 4, 5), x)


def weights(h=3, n=40, m=50):
    scores = torch.randn(h, n, m, generator=torch.Generator().manual_seed(0)) * 4
    return scores.masked_fill(
        torch.rand(h, n, m, generator=torch.Generator().manual_seed(1)) < 0.3, -torch.inf
    ).softmax(-1)


@pytest.mark.parametrize("count", [1, 24, 50, 80])
def test_what_is_not_listed_is_below_what_is(count):
    w = weights()
    found = encode_arrays.largest(w, count)
    kept = min(count, 50)
    assert found["count"] == kept and found["all"] == (count >= 50)
    columns = encode_arrays.unpack_array(found["columns"], "uint16", 3, 40, kept)
    values = encode_arrays.unpack_array(found["weights"], "float16", 3, 40, kept)
    exact = encode_arrays.unpack_array(encode_arrays.largest(w, count, exact=True)["weights"], "float32", 3, 40, kept)
    np.testing.assert_array_equal(exact.astype(np.float16), values)
    assert found["exact"] is False and not np.array_equal(exact, values)
    listed = columns != encode_arrays.NOTHING
    assert (
        np.diff(np.where(listed, columns, 70_000).astype(int), axis=-1)[listed[..., 1:]] > 0
    ).all()  # in their order
    for h, i in np.ndindex(3, 40):
        mine = columns[h, i][listed[h, i]].astype(int)
        np.testing.assert_allclose(values[h, i][listed[h, i]], w[h, i, mine], rtol=1e-3, atol=1e-7)
        rest = np.delete(w[h, i].numpy(), mine)
        smallest = values[h, i][listed[h, i]].min() if len(mine) == kept else 0.0
        assert rest.size == 0 or rest.max() <= smallest * 1.001 + 1e-7


def test_an_ordinary_large_page_keeps_24_of_each_row_and_a_small_one_all():
    assert encode_arrays.kept_of_each_row(12 * 12 * 512, 512) == 24
    assert encode_arrays.kept_of_each_row(4 * 4 * 64, 64) == 64
    assert 1 <= encode_arrays.kept_of_each_row(12 * 12 * 4096, 4096) < 24


def test_more_keys_than_a_column_has_numbers_for_is_an_error():
    with pytest.raises(ValueError, match="at most 65,534 keys, got 65,535"):
        encode_arrays.largest(torch.ones(1, 1, 65_535), 1)


def test_a_thin_diagonal_stays_visible_in_a_small_map():
    small = encode_arrays.thumbnails(torch.eye(480)[None], side=48)
    assert (small["height"], small["width"]) == (48, 48)
    np.testing.assert_array_equal(encode_arrays.unpack_array(small["data"], "uint8", 48, 48), 255 * np.eye(48))


def test_a_small_map_is_the_root_in_8_bits():
    small = encode_arrays.thumbnails(torch.tensor([[[0.25, 0.75], [1.0, 0.0]]]))
    np.testing.assert_array_equal(encode_arrays.unpack_array(small["data"], "uint8", 2, 2), [[128, 221], [255, 0]])


def test_levels_span_what_is_finite():
    x = torch.tensor([[-2.0, 3.0], [0.5, torch.nan]])
    found = encode_arrays.levels(x)
    assert (found["low"], found["high"], found["shape"]) == (-2.0, 3.0, [2, 2])
    np.testing.assert_array_equal(encode_arrays.unpack_array(found["data"], "uint8", 2, 2), [[0, 255], [128, 0]])
    assert encode_arrays.unpack_array(encode_arrays.levels(torch.ones(3))["data"], "uint8", 3).tolist() == [0, 0, 0]


def test_rounded_is_short_and_knows_no_infinity():
    assert encode_arrays.round_digits(torch.tensor([[1 / 3, torch.inf]])) == [[0.3333, None]]
