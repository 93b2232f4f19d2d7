"""Embeddings: torch's numbers, padding that may be anything, and a clear word about an id that does not exist."""

import pytest
import torch

from regard.nn.embed import StepEmbedding, TokenEmbedding


@pytest.fixture
def ids():
    torch.manual_seed(0)
    return torch.randint(0, 7, (2, 5))


REAL = torch.tensor([[1, 1, 1, 0, 0], [0, 1, 0, 1, 1]]).bool()


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_same_as_torch(ids, dtype):
    ours = TokenEmbedding(7, 4)
    theirs = torch.nn.Embedding.from_pretrained(ours.weight.detach().clone(), freeze=False)
    torch.testing.assert_close(ours(ids.to(dtype)), theirs(ids))
    ours(ids).sin().sum().backward()
    theirs(ids).sin().sum().backward()
    torch.testing.assert_close(ours.weight.grad, theirs.weight.grad)


def test_begins_small_and_scale_multiplies_by_the_root_of_the_width(ids):
    torch.manual_seed(0)
    plain = TokenEmbedding(1000, 16)
    assert 0.019 < plain.weight.std() < 0.021
    scaled = TokenEmbedding(1000, 16, scale=True)
    scaled.load_state_dict(plain.state_dict())
    torch.testing.assert_close(scaled(ids), 4 * plain(ids))
    assert repr(scaled) == "TokenEmbedding(1000, 16, scale=4)"
    assert repr(plain) == "TokenEmbedding(1000, 16)"


def test_padded_ids_may_be_anything(ids):
    embed = TokenEmbedding(7, 4, scale=True)
    expected = embed(ids) * REAL[..., None]
    (grad,) = torch.autograd.grad(expected.sin().sum(), embed.weight)
    ids[~REAL] = torch.tensor([-1, 99, -100, 7])
    out = embed(ids, REAL)
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(torch.autograd.grad(out.sin().sum(), embed.weight)[0], grad)


@pytest.mark.parametrize("bad, row, place", [(7, 1, 2), (-1, 0, 4), (1000, 0, 0)])
def test_an_id_out_of_range_is_named_with_its_place(ids, bad, row, place):
    ids[row, place] = bad
    ids[1, 4] = 50  # a later one
    words = f"ids must be from 0 to 6, got {bad} in row {row} at place {place}; use the vocabulary"
    with pytest.raises(ValueError, match=words):
        TokenEmbedding(7, 4)(ids)


def test_words_of_other_errors(ids):
    embed = TokenEmbedding(7, 4)
    with pytest.raises(ValueError, match="ids.*int64.*int32.*torch.float32.*ids.long"):
        embed(ids.float())
    with pytest.raises(ValueError, match="ids.*'b n'.*shape .5,."):
        embed(ids[0])
    with pytest.raises(ValueError, match="real.*'b n'.*b=2, n=5"):
        embed(ids, REAL[:, :4])
    with pytest.raises(ValueError, match="vocab.*dim.*1.*vocab=0.*dim=4"):
        TokenEmbedding(0, 4)
    with pytest.raises(ValueError, match="x.*'b n inputs'.*inputs=3.*shape .2, 5, 4."):
        StepEmbedding(3, 4)(torch.zeros(2, 5, 4))
    with pytest.raises(ValueError, match="real must be a bool tensor"):
        StepEmbedding(3, 4)(torch.zeros(2, 5, 3), torch.ones(2, 5))


def test_no_ids_are_no_error():
    assert TokenEmbedding(7, 4)(torch.zeros(2, 0, dtype=torch.long)).shape == (2, 0, 4)


def test_steps_are_a_linear_map():
    embed, x = StepEmbedding(3, 4).double(), torch.randn(2, 5, 3, dtype=torch.float64)
    torch.testing.assert_close(embed(x), x @ embed.linear.weight.T + embed.linear.bias)
    assert StepEmbedding(3, 4, bias=False).linear.bias is None


@pytest.mark.parametrize("junk", [0.0, torch.nan, torch.inf])
def test_padded_steps_give_zeros_and_reach_no_gradient(junk):
    torch.manual_seed(0)
    embed, x = StepEmbedding(3, 4).double(), torch.randn(2, 5, 3, dtype=torch.float64)
    parameters = list(embed.parameters())
    kept = embed(x)[REAL]
    expected = torch.autograd.grad(kept.sin().sum(), parameters)
    x[~REAL] = junk
    x.requires_grad_()
    out = embed(x, REAL)
    torch.testing.assert_close(out[REAL], kept)
    assert (out[~REAL] == 0).all()
    dx, *rest = torch.autograd.grad(out.sin().sum(), [x, *parameters])
    assert (dx[~REAL] == 0).all()
    torch.testing.assert_close(rest, list(expected))


def test_both_compile_in_one_graph(ids):
    tokens, steps, x = TokenEmbedding(7, 4), StepEmbedding(3, 4), torch.randn(2, 5, 3)
    for embed, given in ((tokens, ids), (steps, x)):
        whole = torch.compile(embed, fullgraph=True, backend="eager")
        torch.testing.assert_close(whole(given, REAL), embed(given, REAL))
