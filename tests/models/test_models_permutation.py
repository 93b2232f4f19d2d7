"""The permutation LM (XLNet): both streams against a loop over tokens, each of which sees only its past in the order."""

from __future__ import annotations

import pytest
import torch

from regard.attention.places import sides
from regard.data.batch import IGNORE, Batch
from regard.models.attentions import PerformerAttention, WindowAttention
from regard.models.permutation_lm import PermutationConfig, PermutationLM
from regard.symmetry.check import check
from regard.training.permuted_task import PermutedToken
from tests.models.sequences import SMALL, VOCAB, B, gap, orders, ready, some_tokens

N = 9
PARTS = [("rotary", "none"), ("none", "alibi"), ("none", "relative"), ("sinusoidal", "buckets"), ("none", "none")]


def permutation(dtype=torch.float64, **options):
    return ready(PermutationLM, PermutationConfig(**SMALL | options), dtype)


def tokens_and_rank():
    tokens = some_tokens(n=N) % (VOCAB - 1)  # the last id is the mask
    return tokens, orders(n=N).argsort(1)


def by_a_loop(model, tokens, places, rank):
    """Token after token in the order: its content from the contents up to it, its query from those before it.   n vocab-1"""
    stack, found = model.stack, torch.empty(len(tokens), model.config.vocab - 1, dtype=torch.float64)
    contents: list[list] = [[] for _ in range(len(stack.blocks))]  # of each block: (key, value, place), in the order
    for i in rank.argsort().tolist():
        where = places[i].view(1, 1)
        mask_id = torch.tensor([[model.config.vocab - 1]])
        both = [model.embed(tokens[i].view(1, 1)), model.embed(mask_id)]
        content, query = (stack.position.place(x, where) for x in both)
        for number, block in enumerate(stack.blocks):
            attention, norm, bias = block.attention.f, block.attention.norm, stack.bias_of(number)
            k, v = attention._project(norm(content))
            contents[number].append((stack.position.turn(k, where), v, places[i]))
            past = {"content": contents[number], "query": contents[number][:-1]}
            moved = {}
            for stream, x in (("content", content), ("query", query)):
                q = attention.norm_q(attention.to_q(norm(x)).unflatten(-1, (attention.heads, -1))).transpose(1, 2)
                q, seen = stack.position.turn(q, where), past[stream]
                out = torch.zeros_like(q)
                if seen:
                    keys, values = (torch.cat([each[part] for each in seen], 2) for part in (0, 1))
                    there = torch.stack([each[2] for each in seen])
                    out = weigh(q, keys, values, bias, places[i], there)
                moved[stream] = block.mlp(x + attention.mix(out.transpose(1, 2).flatten(2)))
            content, query = moved["content"], moved["query"]
        found[i] = model.head(stack.norm(query), model.embed.weight)[0, 0, :-1]
    return found


def weigh(q, keys, values, bias, here, there):
    """Softmax over what is seen, by hand; a bias is told the distance by places of its own."""
    scores = q @ keys.mT * q.shape[-1] ** -0.5
    if bias is None:
        return scores.softmax(-1) @ values
    rows, columns = sides((here.view(1), there), 1, len(there), 1, q.device)
    weights = (scores + bias.scores(q, rows, columns)).softmax(-1)
    out = weights @ values
    return out + bias.values(weights, rows, columns) if bias.gives_values else out


@pytest.mark.parametrize("position, bias", PARTS)
def test_the_streams_are_a_loop_over_tokens(position, bias):
    model = permutation(position=position, bias=bias)
    tokens, rank = tokens_and_rank()
    places = torch.stack([torch.randperm(30, generator=torch.Generator().manual_seed(s))[:N] for s in range(B)])
    weights = torch.randn(B, N, VOCAB - 1, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    found = model(tokens, rank=rank, where=places)
    wanted = torch.stack([by_a_loop(model, *row) for row in zip(tokens, places, rank, strict=True)])
    assert gap(found, wanted) < 1e-10
    (found * weights).sum().backward()
    mine = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    (wanted * weights).sum().backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(mine[name], parameter.grad, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("position, bias", PARTS)
def test_what_comes_later_in_the_order_and_the_token_itself_matter_to_nobody(position, bias):
    model = permutation(position=position, bias=bias)
    tokens, rank = tokens_and_rank()
    asked = rank.argsort(1)[:, 3:7]
    with torch.no_grad():
        plain = model(tokens, rank=rank, asked=asked)
        for column in range(asked.shape[1]):
            known = rank < rank.gather(1, asked[:, column : column + 1])
            other = torch.where(known, tokens, (tokens + 1) % (VOCAB - 1))
            assert torch.equal(model(other, rank=rank, asked=asked)[:, column], plain[:, column])
            forgotten = torch.where(known, (tokens + 1) % (VOCAB - 1), tokens)
            assert gap(model(forgotten, rank=rank, asked=asked)[:, column], plain[:, column]) > 1e-6


def test_without_an_order_it_is_that_of_the_places():
    model, (tokens, _) = permutation(), tokens_and_rank()
    rank, asked = torch.arange(N).expand(B, N), torch.arange(1, N).expand(B, N - 1)
    with torch.no_grad():
        assert gap(model(tokens)[:, :-1], model(tokens, rank=rank, asked=asked)) < 1e-12
        assert model(tokens).shape == (B, N, VOCAB - 1)  # the mask is never predicted


@pytest.mark.parametrize(
    "options", [{}, {"position": "none", "bias": "relative", "attention": WindowAttention(width=4)}, {"kv_heads": 1}]
)
def test_laws(options):
    model = permutation(**options)
    tokens, _ = tokens_and_rank()
    report = check(model, {"tokens": tokens})
    assert report.ok, [finding for finding in report if finding.measured == "broken"]
    for law in ("causality", "cache", "neighbours", "padding", "shift", "reordering"):
        assert report[law].measured == "holds"


@pytest.mark.parametrize("make, words", [
    (lambda: PermutationConfig(**SMALL, ngrams=3), "ngrams=3.*ngrams=1"),
    (lambda: PermutationConfig(**SMALL, position="learned"), "learned.*rotary"),
    (lambda: PermutationConfig(**SMALL, predicted=0.0), "predicted.*0"),
    (lambda: PermutationLM(PermutationConfig(**SMALL | {"vocab": 1})), "vocab.*2.*got 1"),
    (lambda: permutation()(some_tokens(), asked=torch.zeros(B, 1, dtype=torch.long)), "asked needs rank"),
    (lambda: (m := permutation())(some_tokens(), rank=orders(), caches=m.caches()), "caches.*rank"),
    (lambda: PermutationConfig(**SMALL, attention=PerformerAttention()), "goes with.*attention=performer"),
    (lambda: PermutedToken(share=1.5), "share.*1.5"),
])  # fmt: skip
def test_words_of_errors(make, words):
    with pytest.raises(ValueError, match=words):
        make()


# ── the task


def test_the_last_of_each_order_is_predicted_and_padding_never():
    task, tokens = PermutedToken(share=0.25), some_tokens(n=12)
    real = torch.ones(B, 12, dtype=torch.bool)
    real[1, 8:], real[2, 1:] = False, False
    drawn = Batch({"tokens": tokens, "real": real}, tokens)
    batch = task.permute(drawn, torch.Generator().manual_seed(0))
    assert batch.target.shape == batch["asked"].shape == (B, 3)
    assert torch.equal(batch["rank"].sort(1).values, torch.arange(12).expand(B, 12))
    assert torch.equal(batch["rank"].gather(1, batch["asked"]), torch.arange(9, 12).expand(B, 3))
    predicted = batch.target != IGNORE
    assert predicted.sum(1).tolist() == [3, 3, 1]
    assert torch.equal(batch.target[predicted], tokens.gather(1, batch["asked"])[predicted])
    assert real.gather(1, batch["asked"])[predicted].all()
    assert not torch.equal(batch["rank"][0], batch["rank"][1])


def test_evaluation_draws_the_same_orders_and_tells_the_loss_in_order():
    model, task = permutation(torch.float32), PermutedToken(share=0.5, seed=3)
    batches = [
        Batch({"tokens": some_tokens(seed=s) % (VOCAB - 1)}, some_tokens(seed=s + 9) % (VOCAB - 1)) for s in range(2)
    ]
    with torch.no_grad():
        found = [task.measure(model, iter(batches)) for _ in range(2)]
        logits = model(torch.cat([batch["tokens"] for batch in batches]))
    assert found[0] == found[1]
    wanted = torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.cat([b.target for b in batches]).flatten())
    assert found[0]["loss in order"] == pytest.approx(wanted.item(), rel=1e-5)
    assert found[0]["loss"] != found[0]["loss in order"]
    assert task.measure(model, []) == {}
