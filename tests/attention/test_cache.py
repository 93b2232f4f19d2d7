"""Step by step equals all at once: for every position, bias and mask that makes sense with a cache."""

import pytest
import torch

from regard.attention.attend import attend
from regard.attention.cache import Cache, WindowCache
from regard.attention.masks import BigBird, Causal, Padding, Prefix, Window
from regard.attention.positions import Concatenated, Learned, Nothing, Rotary, Sinusoidal
from regard.nn.block import Stack
from tests.attention.cases import BIASES, CHANNELS, HEADS, made

WIDTH, N, B, DEPTH = HEADS * CHANNELS, 17, 3, 2
POSITIONS = {
    "none": Nothing,
    "sinusoidal": lambda: Sinusoidal(WIDTH),
    "learned": lambda: Learned(N, WIDTH),
    "concatenated": lambda: Concatenated(Sinusoidal(8)),
    "rotary": lambda: Rotary(CHANNELS),
    "rotary interleaved": lambda: Rotary(CHANNELS, interleaved=True),
}
MASKS = {
    "causal": Causal(),
    "window": Causal() & Window(4),
    "bigbird": Causal() & BigBird(block=2, random=1),
    "prefix": Prefix(5) & Window(100),  # all of its prefix comes in the first chunk
}
CHUNKS = {
    "one by one": [1] * N,
    "a prompt, then one by one": [9] + [1] * 8,
    "a prompt, steps, and more": [9, 1, 1, 6],
    "chunks": [6, 5, 6],
}


def stack(position="none", bias="no bias", **options):
    torch.manual_seed(0)
    made_bias = made(bias, torch.float32)
    return Stack(DEPTH, WIDTH, HEADS, kv_heads=2, position=POSITIONS[position](), bias=made_bias, **options).eval()


def tokens(model, n=N):
    width = WIDTH - model.position.widens
    return torch.randn(B, n, width, generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def stepwise(model, x, chunks, mask, caches):
    outs, at = [], 0
    for size in chunks:
        outs.append(model(x[:, at : at + size], mask=mask, caches=caches))
        at += size
    return torch.cat(outs, 1)


def gap(a, b):
    return ((a - b).abs().max() / b.abs().max()).item()


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("bias", BIASES)
def test_step_by_step_equals_all_at_once(position, bias):
    model = stack(position, bias)
    x = tokens(model)
    for mask_name, mask in MASKS.items():
        with torch.no_grad():
            whole = model(x, mask=mask)
        chunks = CHUNKS["a prompt, steps, and more" if mask_name == "prefix" else "chunks"]
        # how large it is made has nothing to do with masks
        for length in (None, N) if mask_name == "causal" else (None,):
            caches = [Cache(length) for _ in range(DEPTH)]
            assert gap(stepwise(model, x, chunks, mask, caches), whole) < 1e-5, (mask_name, length)


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("position, bias", [("rotary", "alibi"), ("learned", "buckets"), ("none", "relative")])
def test_a_window_cache_forgets_and_nothing_changes(position, bias, chunks):
    model = stack(position, bias)
    x, mask = tokens(model), Causal() & Window(4)
    with torch.no_grad():
        whole = model(x, mask=mask)
    caches = [WindowCache(4) for _ in range(DEPTH)]
    assert gap(stepwise(model, x, CHUNKS[chunks], mask, caches), whole) < 1e-5
    assert caches[0].store["k"].shape[2] == 5


@pytest.mark.parametrize("kind", ["cache", "window"])
@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("position", ["rotary", "learned"])
def test_rows_of_different_length(kind, side, position):
    """Padded prompts of 9, 6 and 2 tokens, then steps: each row is what it is alone, without padding."""
    model = stack(position, "alibi")
    mask = Causal() & Window(4)
    lengths, steps, size = [9, 6, 2], 6, 9
    x = tokens(model)
    prompt, real = torch.full((B, size, WIDTH), torch.nan), torch.zeros(B, size, dtype=torch.bool)
    for i, length in enumerate(lengths):
        span = slice(0, length) if side == "right" else slice(size - length, size)
        prompt[i, span], real[i, span] = x[i, :length], True
    caches = [Cache() if kind == "cache" else WindowCache(4) for _ in range(DEPTH)]
    with torch.no_grad():
        first = model(prompt, mask=mask, real=real, caches=caches)
        later = [
            model(
                torch.stack([x[i, length + t] for i, length in enumerate(lengths)])[:, None], mask=mask, caches=caches
            )
            for t in range(steps)
        ]
        for i, length in enumerate(lengths):
            alone = model(x[i : i + 1, : length + steps], mask=mask)[0]
            assert gap(first[i][real[i]], alone[:length]) < 1e-5
            assert gap(torch.cat(later, 1)[i], alone[length:]) < 1e-5


@pytest.mark.parametrize("make", [lambda: Cache(64), lambda: WindowCache(7)])
def test_a_step_allocates_no_new_memory(make):
    cache = make()
    k = torch.randn(2, 2, 1, 4)
    cache.add(k, k)
    held = {name: x.data_ptr() for name, x in cache.store.items()}
    for _ in range(30):
        past = cache.add(k, k)
        assert {name: x.data_ptr() for name, x in cache.store.items()} == held
        assert past.k.untyped_storage().data_ptr() == cache.store["k"].untyped_storage().data_ptr()


def test_a_growing_cache_copies_rarely():
    cache, places, k = Cache(), set(), torch.randn(1, 1, 1, 4)
    for _ in range(500):
        cache.add(k, k)
        places.add((cache.store["k"].data_ptr(), cache.store["k"].shape[2]))
    assert len(places) <= 5 and cache.count == 500


def test_places_may_be_given_and_tokens_may_have_none():
    q, k, v = torch.randn(3, 1, 1, 6, 8)
    where = torch.tensor([torch.nan, 3.0, 4.0, 7.0, 8.0, 20.0])
    whole = attend(q, k, v, mask=Causal() & Window(3), where=where)
    cache, outs = Cache(), []
    for a, z in ((0, 3), (3, 4), (4, 6)):
        past = cache.add(k[:, :, a:z], v[:, :, a:z], where[a:z])
        outs.append(attend(q[:, :, a:z], past.k, past.v, mask=past.mask(Causal() & Window(3)), where=past.where))
    # the token without a place sees all there is, so its own output is another one while the rest has not come yet
    torch.testing.assert_close(torch.cat(outs, 2)[:, :, 1:], whole[:, :, 1:])


def test_a_token_without_a_place_may_come_after_places_were_counted():
    cache, k = Cache(), torch.randn(1, 1, 2, 4)
    cache.add(k, k)
    past = cache.add(k, k, torch.tensor([torch.nan, 9.0]))
    assert past.where[1][0, :, 0].tolist()[:2] == [0, 1] and past.where[1][0, 2, 0].isnan()


def test_words_of_errors():
    k = torch.zeros(1, 1, 3, 4)
    cache = Cache(4)
    cache.add(k, k)
    with pytest.raises(ValueError, match=r"cache.*4 tokens.*6.*length=6.*Cache\(\)"):
        cache.add(k, k)
    assert cache.count == 3  # nothing was lost
    with pytest.raises(ValueError, match=r"length.*1.*0; Cache\(\)"):
        Cache(0)
    with pytest.raises(ValueError, match="reach.*0.*more.*-1"):
        WindowCache(-1)
    with pytest.raises(ValueError, match=r"2 blocks.*cache.*1.*\[Cache\(\).*_.*stack.blocks\]"):
        stack()(torch.zeros(1, 2, WIDTH), caches=[Cache()])


def test_what_would_be_wrong_in_silence_is_refused():
    model = stack()
    x = tokens(model)[:, :2]
    same = Cache()
    with pytest.raises(ValueError, match="needs.*cache.*own.*1"):
        model(x, caches=[same, same])
    with pytest.raises(ValueError, match="cache.*gradients.*torch.no_grad"):
        model(x, mask=Causal(), caches=[Cache(), Cache()])
    with torch.no_grad():
        with pytest.raises(ValueError, match="lengths.*Padding.*slots.*cache.*real.*real="):
            model(x, mask=Causal() & Padding([2, 1, 1]), caches=[Cache(), Cache()])
        for mask in (Causal(), Causal() & Window(9), Causal() & (Window(3) | Window(7))):
            with pytest.raises(ValueError, match="cache.*4.*mask looks"):
                model(x, mask=mask, caches=[WindowCache(4), WindowCache(4)])


def test_a_planted_offset_error_is_caught():
    """A cache that is off by one in its places must not pass."""

    class Late(Cache):
        def upcoming(self, b, n, device, where=None, real=None):
            here = torch.arange(n, device=device)[None, :, None] + self.count + (self.count > 0)
            return here.expand(b, n, 1)

    model = stack("rotary", "alibi")
    x = tokens(model)
    with torch.no_grad():
        whole = model(x, mask=Causal())
    assert gap(stepwise(model, x, CHUNKS["chunks"], Causal(), [Late() for _ in range(DEPTH)]), whole) > 1e-3
