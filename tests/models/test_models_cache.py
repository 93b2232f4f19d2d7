"""Step by step equals all at once, for every position and bias, windows and rows of different length included."""

import pytest
import torch

from regard.attention.cache import Cache
from regard.models.attentions import WindowAttention
from tests.models.sequences import CAUSAL_ATTENTIONS, CONTEXT, PARTS, B, N, decoder, gap, some_tokens, within

TOLERANCE = 1e-5
ALL = [{"position": position, "bias": bias, "ngrams": 3, "kv_heads": 1} for position, bias in PARTS]


@torch.no_grad()
def stepwise(model, tokens, chunks, caches):
    outs, at = [], 0
    for size in chunks:
        outs.append(model(tokens[:, at : at + size], caches=caches))
        at += size
    return torch.cat(outs, 1)


@pytest.mark.parametrize("how, window", [(how, None) for how in ALL] + [(how, 4) for how in ALL[::3]])
def test_step_by_step_equals_all_at_once(how, window):
    model, tokens = decoder(torch.float32, attention=within(window), **how), some_tokens()
    with torch.no_grad():
        whole = model(tokens)
    for length, chunks in ((None, [5, 4, N - 9]), (N, [N - 2, 1, 1])):
        caches = model.caches(length)
        assert gap(stepwise(model, tokens, chunks, caches), whole) < TOLERANCE
        assert [cache.count for cache in caches] == [N] * 2
        assert caches[0].store["k"].shape[2] == (4 if window else N if length else caches[0].store["k"].shape[2])


RAGGED = [(how, (None, 4)[i % 2], ("right", "left")[i // 2 % 2]) for i, how in enumerate(ALL)]


@pytest.mark.parametrize("how, window, side", RAGGED)
def test_rows_of_different_length(how, window, side):
    """Padded prompts of 8, 5 and 1 tokens, then steps: each row is what it is alone."""
    model, tokens = decoder(torch.float32, attention=within(window), **how), some_tokens()
    lengths, size, steps = (8, 5, 1), 8, 3
    prompt, real = torch.full((B, size), -1), torch.zeros(B, size, dtype=torch.bool)
    for i, length in enumerate(lengths):
        span = slice(0, length) if side == "right" else slice(size - length, size)
        prompt[i, span], real[i, span] = tokens[i, :length], True
    caches = model.caches(size + steps)
    with torch.no_grad():
        first = model(prompt, real=real, caches=caches)
        # padding without a cache means the same
        assert gap(first[real], model(prompt, real=real)[real]) < TOLERANCE
        later = [
            model(torch.stack([tokens[i, length + t] for i, length in enumerate(lengths)])[:, None], caches=caches)
            for t in range(steps)
        ]
        for i, length in enumerate(lengths):
            alone = model(tokens[i : i + 1, : length + steps])[0]
            assert gap(torch.cat(later, 1)[i], alone[length:]) < TOLERANCE


def test_places_may_be_given_with_a_cache():
    model, tokens, where = (
        decoder(torch.float32, ngrams=3),
        some_tokens(),
        torch.arange(N) + torch.arange(N).ge(9) * 3,
    )
    caches = model.caches()
    with torch.no_grad():
        whole = model(tokens, where=where)
        parts = [model(tokens[:, a:z], where=where[a:z], caches=caches) for a, z in ((0, 5), (5, 11), (11, N))]
    assert gap(torch.cat(parts, 1), whole) < TOLERANCE


@pytest.mark.parametrize("window", [None, 4])
@pytest.mark.parametrize("size", [2, 9])
def test_rows_may_be_taken_anew(window, size):
    """As a beam search does: rows go on from other rows, fewer or more of them."""
    model, tokens = decoder(torch.float32, attention=within(window), ngrams=3), some_tokens()
    for rows in ([2, 2, 0], [1], [0, 1, 1, 2, 0]):
        caches = model.caches(N)
        with torch.no_grad():
            model(tokens[:, :size], caches=caches)
            held = caches[0].store["k"].data_ptr()
            caches.take(torch.tensor(rows))
            assert (caches[0].store["k"].data_ptr() == held) == (len(rows) == B)
            new = some_tokens(len(rows), 1, seed=4)
            assert gap(model(new, caches=caches), model(torch.cat((tokens[rows, :size], new), 1))[:, -1:]) < TOLERANCE


def test_a_step_takes_no_new_memory():
    model, tokens = decoder(torch.float32, ngrams=3), some_tokens()
    caches = model.caches(N)
    with torch.no_grad():
        model(tokens[:, :3], caches=caches)
        held = [{name: x.data_ptr() for name, x in cache.store.items()} for cache in caches]
        for t in range(3, N):
            model(tokens[:, t : t + 1], caches=caches)
    assert [{name: x.data_ptr() for name, x in cache.store.items()} for cache in caches] == held


@torch.no_grad()
def test_beyond_the_context():
    """A learned table ends, and says so, with a cache too; the others go on."""
    tokens = some_tokens(n=CONTEXT + 1)
    model = decoder(position="learned")
    words = f"place {CONTEXT} is outside the {CONTEXT} that were learned .* use a longer table, or Rotary"
    with pytest.raises(ValueError, match=words):
        model(tokens)
    caches = model.caches()
    model(tokens[:, :-1], caches=caches)
    with pytest.raises(ValueError, match=words):
        model(tokens[:, -1:], caches=caches)
    for position in ("none", "sinusoidal", "concatenated", "rotary"):
        assert decoder(position=position)(tokens).isfinite().all()


def test_limit_says_how_much_to_show_at_once():
    assert (
        decoder().limit
        == decoder(bias="alibi").limit
        == decoder(attention=WindowAttention(width=4), position="learned").limit
        == CONTEXT
    )
    assert (
        decoder(attention=WindowAttention(width=4)).limit
        is decoder(attention=WindowAttention(width=4), position="none", bias="buckets").limit
        is None
    )
    assert decoder(attention=within(2 * CONTEXT)).limit == CONTEXT
    assert (
        decoder(attention=WindowAttention(width=4), bias="relative").limit == CONTEXT
    )  # with rotary it knows where a text begins


@torch.no_grad()
def test_words_of_errors():
    with pytest.raises(ValueError, match=r"caches.*model.caches\(\).*list"):
        decoder()(some_tokens(), caches=[Cache(), Cache()])
    with pytest.raises(ValueError, match="cache.*4 tokens.*14"):
        decoder()(some_tokens(), caches=decoder().caches(4))


# ── every attention ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("how", CAUSAL_ATTENTIONS.values(), ids=CAUSAL_ATTENTIONS)
def test_every_attention_goes_step_by_step(how):
    model, tokens = decoder(**how), some_tokens()
    with torch.no_grad():
        whole = model(tokens)
    for chunks in ([1] * N, [5, 4, N - 9], [N - 2, 1, 1]):
        assert gap(stepwise(model, tokens, chunks, model.caches()), whole) < 1e-10


@pytest.mark.parametrize("how", CAUSAL_ATTENTIONS.values(), ids=CAUSAL_ATTENTIONS)
@torch.no_grad()
def test_every_attention_takes_rows_of_different_length_and_new_rows(how):
    model, tokens, lengths = decoder(**how), some_tokens(), (6, 4, 1)
    prompt, real = torch.full((B, 6), -1), torch.zeros(B, 6, dtype=torch.bool)
    for i, length in enumerate(lengths):
        prompt[i, 6 - length :], real[i, 6 - length :] = tokens[i, :length], True
    caches = model.caches()
    model(prompt, real=real, caches=caches)
    rows = [2, 0, 0, 1, 2]  # as a beam search goes on
    caches.take(torch.tensor(rows))
    more = some_tokens(len(rows), 2, seed=4)
    later = torch.cat([model(more[:, i : i + 1], caches=caches) for i in range(2)], 1)
    for i, row in enumerate(rows):
        alone = model(torch.cat((tokens[row, : lengths[row]], more[i]))[None])[0]
        assert gap(later[i], alone[lengths[row] :]) < 1e-10


@torch.no_grad()
def test_the_cache_of_a_performer_does_not_grow():
    model, tokens = decoder(**CAUSAL_ATTENTIONS["performer"]), some_tokens()
    sizes = []
    caches = model.caches()
    for i in range(N):
        model(tokens[:, i : i + 1], caches=caches)
        sizes.append(sum(x.numel() for cache in caches for x in cache.store.values()))
    assert len(set(sizes)) == 1
    assert caches[0].store["state"].shape == (B, 2, 8, 8 + 1)
