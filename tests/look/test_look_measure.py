"""Measures give the known answer where there is one."""

import math

import pytest
import torch
from torch import nn

from regard.attention.positions import Learned, Nothing, Rotary, Sinusoidal
from regard.look import measure
from regard.look.contribution import TOGETHER, gradient_times_input, leave_one_out
from regard.look.probe import head_scores, repeated_tokens
from regard.look.record import record
from regard.look.views.filters import filters
from regard.models.decoder import Decoder, DecoderConfig
from regard.models.vit import ViT

UNIFORM = torch.full((1, 2, 6, 6), 1 / 6)
ITSELF = torch.eye(6).expand(1, 2, 6, 6)
# each looks at the token before it
BEFORE = torch.cat([torch.eye(6)[:1], torch.eye(6)[:-1]]).expand(1, 2, 6, 6)


def close(mine, theirs, tolerance=1e-6):
    torch.testing.assert_close(
        torch.as_tensor(mine), torch.as_tensor(theirs), atol=tolerance, rtol=0, check_dtype=False
    )


def test_entropy():
    close(measure.entropy(UNIFORM), torch.full((1, 2, 6), math.log(6)))
    close(measure.entropy(ITSELF), torch.zeros(1, 2, 6))
    close(measure.entropy(torch.tensor([0.5, 0.25, 0.25]).expand(1, 1, 1, 3)).item(), 1.5 * math.log(2))


def test_distance():
    close(measure.distance(ITSELF), torch.zeros(1, 2, 6))
    close(measure.distance(BEFORE)[0, 0], [0, 1, 1, 1, 1, 1])
    close(measure.distance(UNIFORM)[0, 0, 0], 2.5)
    close(measure.distance(BEFORE[:, :, -2:])[0, 0], [1, 1])  # the last two queries of six


def test_received():
    close(measure.attention_received(UNIFORM), torch.full((1, 2, 6), 1 / 6))
    close(measure.attention_received(BEFORE)[0, 0], [2 / 6, 1 / 6, 1 / 6, 1 / 6, 1 / 6, 0])


def test_rollout_of_two_layers_by_hand():
    a = torch.tensor([[1.0, 0.0], [1.0, 0.0]]).expand(1, 3, 2, 2)
    b = torch.tensor([[0.0, 1.0], [0.0, 1.0]]).expand(1, 3, 2, 2)
    # ½a + ½I = [1 0; ½ ½], ½b + ½I = [½ ½; 0 1]; the second layer comes from the left
    close(measure.rollout([a, b])[0], [[0.75, 0.25], [0.5, 0.5]])
    close(measure.rollout([ITSELF, ITSELF])[0], torch.eye(6))
    close(measure.rollout([torch.rand(2, 3, 5, 5).softmax(-1) for _ in range(4)]).sum(-1), torch.ones(2, 5))
    with pytest.raises(ValueError, match=r"matrices.*size.*\(1, 2, 2\) after \(1, 6, 6\)"):
        measure.rollout([ITSELF, a])
    with pytest.raises(ValueError, match="rollout.*0 entries"):
        measure.rollout([])


def test_rollout_of_a_recording():
    torch.manual_seed(0)
    model = Decoder(DecoderConfig(vocab=17, dim=32, depth=3)).eval()
    with torch.no_grad(), record(model) as seen:
        model(torch.randint(17, (2, 7)))
    rolled = measure.rollout(seen)
    close(rolled.sum(-1), torch.ones(2, 7), 1e-5)
    close(rolled.triu(1), torch.zeros(2, 7, 7))  # causal in every layer, so through all of them
    close(rolled, measure.rollout([entry.weights for entry in seen]))


def test_a_class_token_that_asks_alone_in_the_last_layer():
    model, inputs = ViT.tiny()
    with torch.no_grad(), record(model.eval()) as seen:
        model(**inputs)
    first, last = (entry.weights.mean(1) for entry in seen)
    n = first.shape[-1]
    by_hand = (0.5 * last + 0.5 * torch.eye(n)[:1]) @ (0.5 * first + 0.5 * torch.eye(n))
    rolled = measure.rollout(seen, query=0)
    assert rolled.shape == (2, 1, n)
    close(rolled, by_hand, 1e-6)
    close(rolled.sum(-1), torch.ones(2, 1), 1e-5)
    with pytest.raises(ValueError, match=f"{n} tokens.*query=0"):
        measure.rollout(seen)
    with pytest.raises(ValueError, match=r"matrices.*size.*\(2, 1"):
        measure.rollout([seen[1], seen[0]], query=0)  # one that asks alone can only be the last
    for query in (-1, n):
        with pytest.raises(ValueError, match=f"query.*{n} tokens.*{query}"):
            measure.rollout(seen, query=query)
    with pytest.raises(ValueError, match=r"measure.*entry.*2.*seen\[0\]"):
        measure.entropy(seen)


def test_head_similarity():
    different = torch.cat([ITSELF[:, :1], ITSELF[:, :1].roll(3, -1), ITSELF[:, :1]], 1)
    close(measure.head_similarity(different), [[1, 0, 1], [0, 1, 0], [1, 0, 1]])
    assert measure.head_similarity([ITSELF, UNIFORM]).shape == (4, 4)
    halves = torch.tensor([[1.0, 0.0], [0.5, 0.5]])[None, :, None]
    expected = 1 - (0.75 * math.log(4 / 3) + 0.25 * math.log(4) - 0.5 * math.log(2)) / math.log(2)
    close(measure.head_similarity(halves)[0, 1], expected)
    with pytest.raises(ValueError, match="heads of different shapes"):
        measure.head_similarity([ITSELF, halves])


def test_previous_token_and_induction():
    close(measure.previous_token(BEFORE), torch.ones(1, 2))
    close(measure.previous_token(ITSELF), torch.zeros(1, 2))
    close(measure.previous_token(UNIFORM), torch.full((1, 2), 1 / 6))
    # i looks at i − 2: what followed its twin at i − 3
    after_the_same = torch.eye(6).roll(2, 0).expand(1, 1, 6, 6)
    close(measure.induction(after_the_same, 3), torch.ones(1, 1))
    close(measure.induction(ITSELF, 3), torch.zeros(1, 2))
    with pytest.raises(ValueError, match="period.*1.*6 tokens.*6"):
        measure.induction(ITSELF, 6)
    with pytest.raises(ValueError, match="two tokens or more"):
        measure.previous_token(torch.ones(1, 1, 1, 1))


class Induces(nn.Module):
    """Head 0 looks at the token before, head 1 at what came after the last occurrence of the same token."""

    def __init__(self, vocab):
        super().__init__()
        self.embedding, self.vocab = nn.Embedding(vocab, 8), vocab

    def forward(self, ids):
        n = ids.shape[1]
        before = torch.full((n, n), -1e4)
        before[range(1, n), range(n - 1)] = 0
        followed = torch.full((n, n), -1e4).repeat(len(ids), 1, 1)
        same = (ids[:, :, None] == ids[:, None]).tril(-1)
        followed[:, :, 1:][same[:, :, :-1]] = 0
        scores = torch.stack((before.expand_as(followed), followed), 1)
        scores = scores.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), -torch.inf)
        return scores.softmax(-1) @ self.embedding(ids)[:, None]


def test_head_scores_find_a_planted_head():
    best, other = head_scores(Induces(50), 50, period=12)
    assert (best.head, other.head) == (1, 0)
    assert best.induction > 0.99 and best.previous_token < 0.1
    assert other.previous_token > 0.99 and other.induction < 0.1
    torch.manual_seed(0)
    model = Decoder(DecoderConfig(vocab=50, dim=32, depth=2, heads=4))
    scores = head_scores(model, 50, period=12)
    assert len(scores) == 8 and all(score.induction < 0.3 for score in scores)
    with pytest.raises(ValueError, match="48 tokens.*heard"):
        head_scores(nn.Embedding(50, 4), 50)


def test_repeated_tokens():
    ids = repeated_tokens(50, 12, rows=3)
    assert ids.shape == (3, 24) and torch.equal(ids[:, :12], ids[:, 12:])
    assert all(len(set(row.tolist())) == 12 for row in ids)
    assert torch.equal(ids, repeated_tokens(50, 12, rows=3)) and not torch.equal(
        ids, repeated_tokens(50, 12, rows=3, seed=1)
    )
    assert repeated_tokens(2, 12).shape == (4, 24)


def test_effective_rank():
    close(measure.effective_rank(torch.eye(5)), 5.0, 1e-5)
    close(measure.effective_rank(torch.ones(5, 3)), 1.0, 1e-4)
    close(measure.effective_rank(torch.diag(torch.tensor([1.0, 1.0, 0.0]))), 2.0, 1e-5)
    assert measure.effective_rank(torch.randn(2, 3, 6, 4)).shape == (2, 3)


def test_similarity_of_positions():
    rotary = Rotary(16)
    angles = 10_000.0 ** (-torch.arange(0, 16, 2) / 16)
    apart = torch.arange(12)[:, None] - torch.arange(12)
    close(measure.position_similarity(rotary, 12), (apart[..., None] * angles).cos().mean(-1), 1e-5)
    fading = measure.by_distance(measure.position_similarity(rotary, 12))
    close(fading, (torch.arange(12)[:, None] * angles).cos().mean(-1), 1e-5)
    sines = measure.position_similarity(Sinusoidal(16), 12)
    close(sines, measure.position_similarity(rotary, 12), 1e-5)  # the same angles, so the same cosines
    learned = Learned(20, 8)
    close(measure.position_similarity(learned, 5).diagonal(), torch.ones(5), 1e-5)
    close(measure.position_similarity(learned, 5), measure.position_similarity(learned.table, 5))
    with pytest.raises(ValueError, match="positions.*Nothing"):
        measure.position_similarity(Nothing(), 5)


class Linear(nn.Module):
    """An answer that is linear in its tokens: both ways to tell contributions agree, and add up to the answer."""

    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(11, 8), nn.Linear(8, 3, bias=False)

    def forward(self, x):
        x = x if x.is_floating_point() else self.embedding(x)
        return self.head(x.sum(1))


@pytest.mark.parametrize("ids", [True, False])
def test_contributions_to_a_linear_answer(ids):
    torch.manual_seed(0)
    model = Linear()
    x = torch.randint(11, (2, 5)) if ids else torch.randn(2, 5, 8)
    vectors = model.embedding(x) if ids else x
    largest = model(x).argmax(-1)
    expected = model.head(vectors).detach().gather(2, largest[:, None, None].expand(2, 5, 1))[..., 0]
    close(leave_one_out(model, x), expected, 1e-5)
    close(gradient_times_input(model, x), expected, 1e-5)
    if not ids:
        close(leave_one_out(model, x, fill=0.0), expected, 1e-5)
    second = leave_one_out(model, x, read=lambda out: out[:, 1])
    close(second, model.head(vectors).detach()[..., 1], 1e-5)
    assert all(not m._forward_hooks for m in model.modules())


def test_contribution_is_not_attention():
    """A token that is looked at as much as the others, and whose value is zero, contributes nothing."""

    class Looks(nn.Module):
        def forward(self, x):
            return (x[..., 0].mul(0).softmax(-1)[:, None] @ x)[:, 0]

    model, x = Looks(), torch.ones(1, 4, 3)
    x[:, 2] = 0
    with record(model) as seen:
        model(x)
    # three values are alike, so the output cannot prove how much weight each has
    close(seen[0].get_weights(unproved=True)[0, 0, 0], [0.25] * 4)
    close(gradient_times_input(model, x)[0], [0.25, 0.25, 0, 0.25])
    close(leave_one_out(model, x, fill=0.0)[0], [0.25, 0.25, 0, 0.25])


def test_contributions_of_a_language_model():
    torch.manual_seed(0)
    model = Decoder(DecoderConfig(vocab=17, dim=32, depth=2)).eval()
    ids = torch.randint(17, (2, 7))
    for way in (leave_one_out, gradient_times_input):
        found = way(model, ids)
        assert found.shape == (2, 7) and found.abs().max() > 0 and not found.requires_grad
    first = gradient_times_input(model, ids, read=lambda out: out[:, 2, 0])
    # what comes later contributes nothing to it
    assert first[:, 3:].abs().max() == 0 < first[:, :3].abs().min()


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: leave_one_out(Linear(), torch.randn(3)), "ids b n or vectors b n d, got"),
        (lambda: leave_one_out(Linear(), torch.randn(2, 1, 8)), "left.*token"),
        (lambda: leave_one_out(lambda x: {}, torch.randn(2, 2, 8)), "model.*read="),
        (
            lambda: gradient_times_input(nn.Sequential(nn.Flatten()), torch.ones(2, 2, dtype=torch.long)),
            "makes vectors of the ids",
        ),
        (lambda: filters(Linear()), "Linear has no convolution"),
    ],
)
def test_errors_say_what_to_do(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_filters():
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Conv2d(3, 4, 5), nn.Conv2d(4, 4, 3)))
    name, weight = filters(model)
    assert name == "1.0" and torch.equal(weight, model[1][0].weight) and not weight.requires_grad


def test_measures_take_entries_and_refuse_edges():
    geometric = pytest.importorskip("torch_geometric.nn")
    layer = geometric.GATConv(4, 4)
    with record(layer) as seen:
        layer(torch.randn(5, 4), torch.randint(5, (2, 9)))
    with pytest.raises(ValueError, match=r"along edges \(h e\).*measure.*weights b h n m"):
        measure.entropy(seen[0])


@pytest.mark.parametrize("fill", [None, 0.0])
@pytest.mark.parametrize("rows", [1, 3, 20])
def test_rows_that_are_asked_together_are_as_if_alone(fill, rows):
    """Each with a largest logit of its own; more of them than are asked at once."""
    torch.manual_seed(0)
    body, x, asked = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 5)), torch.randn(rows, 7, 4), []

    def model(x):
        asked.append(len(x))
        return body(x).mean(1)

    found = leave_one_out(model, x, fill=fill)
    assert max(asked) <= max(TOGETHER, rows) and len(asked) == {1: 2, 3: 3, 20: 8}[rows]
    for b in range(rows):
        best = body(x[b]).mean(0).argmax()
        for i in range(7):
            kept = torch.cat((x[b, :i], x[b, i + 1 :])) if fill is None else x[b].index_fill(0, torch.tensor(i), fill)
            true = (body(x[b]).mean(0) - body(kept).mean(0))[best]
            assert found[b, i].item() == pytest.approx(true.item(), abs=1e-6)
