"""Writing: the laws of sampling on known distributions, beams against brute force, stop texts, caches and contexts."""

import itertools
from types import SimpleNamespace

import pytest
import tokenizers
import torch
from torch import nn

from regard.data.learn_tokenizer import learn
from regard.data.tokenizer import Tokenizer
from regard.generation.generate import generate, generate_samples, search_continuations
from regard.generation.request import Stops
from regard.generation.sampling import Sampling, candidates, draw_tokens, penalise_repeats
from regard.generation.slots import Slots
from regard.generation.writer import Writer
from regard.models.attentions import WindowAttention
from regard.models.decoder import Decoder, DecoderConfig

LETTERS = "abcdefgh"


class Letters:
    """One letter an id; `halves` gives letters in two halves, as bytes of a character come."""

    def __init__(self, letters=LETTERS):
        self.letters = letters

    def encode(self, text):
        for i, letter in enumerate(text):
            if letter not in self.letters:
                raise ValueError(f"unknown character {letter!r} at {i}")
        return torch.tensor([self.letters.index(letter) for letter in text], dtype=torch.uint8).numpy()

    def decode(self, ids):
        return "".join(self.letters[i] for i in ids)

    def stream(self):
        return SimpleNamespace(add=lambda i: self.letters[i], rest=lambda: "")


class Chain(nn.Module):
    """Logits of the next id from the last one, by a table: a Markov chain, whose best texts can be found by hand."""

    def __init__(self, table):
        super().__init__()
        self.table = nn.Parameter(torch.as_tensor(table, dtype=torch.float64))

    def forward(self, tokens):
        return self.table[tokens]


def model(**options):
    torch.manual_seed(0)
    small = {"vocab": 8, "context": 16, "dim": 16, "depth": 2, "heads": 2, "ngrams": 3}
    made = Decoder(DecoderConfig(**small | options))
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.dim() == 2:
                parameter.mul_(0).add_(torch.randn_like(parameter) * 0.5)
    made.tokenizer = Letters()
    return made.eval()


class Uncached(nn.Module):
    """The same model, without its caches."""

    def __init__(self, of):
        super().__init__()
        self.of, self.limit, self.tokenizer = of, of.limit, of.tokenizer

    def forward(self, tokens):
        return self.of(tokens)


def text(*args, **options):
    return "".join(generate(*args, **options))


def texts(*args, **options):
    found = [""] * options.get("samples", 1)
    for i, piece in generate_samples(*args, **options):
        found[i] += piece
    return found


# ── the laws of sampling ────────────────────────────────────────────────────────────────────────────────────

KNOWN = torch.tensor([[0.05, 0.4, 0.1, 0.25, 0.2]], dtype=torch.float64)  # by size: ids 1, 3, 4, 2, 0


@pytest.mark.parametrize(
    "how, kept",
    [
        ({}, [0, 1, 2, 3, 4]),
        ({"top_k": 1}, [1]),
        ({"top_k": 3}, [1, 3, 4]),
        ({"top_k": 99}, [0, 1, 2, 3, 4]),
        ({"top_p": 0.01}, [1]),
        ({"top_p": 0.4}, [1]),
        ({"top_p": 0.41}, [1, 3]),
        ({"top_p": 0.84}, [1, 3, 4]),
        ({"top_p": 1.0}, [0, 1, 2, 3, 4]),
        ({"min_p": 0.2}, [1, 2, 3, 4]),
        ({"min_p": 0.51}, [1, 3]),
        ({"min_p": 1.0}, [1]),
        ({"top_k": 2, "top_p": 0.6}, [1]),  # of what top-k left, 0.4 / 0.65 is enough
        ({"top_k": 4, "min_p": 0.5}, [1, 3, 4]),
        ({"top_p": 0.9, "min_p": 0.6}, [1, 3]),
    ],
)
def test_filters_keep_exactly_the_right_ids_and_their_shares(how, kept):
    probabilities, ids = candidates((KNOWN * 0.999999).log() + 3, Sampling(temperature=1.0, **how))
    found = {int(i): float(p) for p, i in zip(probabilities[0], ids[0], strict=True) if p > 0}
    assert sorted(found) == kept
    total = KNOWN[0, kept].sum()
    assert found == pytest.approx({i: float(KNOWN[0, i] / total) for i in kept})


def test_temperature():
    for t in (0.5, 1.0, 2.0):
        probabilities, _ = candidates(KNOWN.log(), Sampling(temperature=t))
        torch.testing.assert_close(probabilities, KNOWN ** (1 / t) / (KNOWN ** (1 / t)).sum())
    probabilities, ids = candidates(KNOWN.log(), Sampling(temperature=0))
    assert (probabilities.tolist(), ids.tolist()) == ([[1.0]], [[1]])


def test_drawing_follows_the_probabilities():
    """A grid of numbers in place of random ones: each id gets its share of them, and one of probability 0 gets none."""
    probabilities, ids = (torch.tensor([[0.0, 0.5, 0.0, 0.3, 0.2, 0.0]]).double(), torch.tensor([[9, 8, 7, 6, 5, 4]]))
    numbers = [(i + 0.5) / 1000 for i in range(1000)] + [0.0, 1 - 2**-53]
    drawn = [draw_tokens(probabilities, ids, [u])[0] for u in numbers]
    counts = {i: drawn[:1000].count(i) for i in set(drawn)}
    assert counts == {8: 500, 6: 300, 5: 200}
    assert drawn[-2:] == [8, 5]


def test_repetition_divides_what_is_positive_and_multiplies_what_is_negative():
    logits = torch.tensor([[2.0, -2.0, 0.0, 4.0]])
    seen = torch.tensor([[True, True, True, False]])
    assert penalise_repeats(logits, seen, 2.0).tolist() == [[1.0, -4.0, 0.0, 4.0]]


def test_repetition_counts_prompt_and_text():
    table = torch.zeros(4, 4)
    table += torch.tensor([4.0, 3.0, 2.5, 2.2])
    chain = Chain(table)
    assert text(chain, "d", tokenizer=Letters("abcd"), temperature=0, max_new=4, repetition=1.0) == "aaaa"
    # d counts as seen: 2.2/2; then each winner is halved, and after one round all of them are
    assert text(chain, "d", tokenizer=Letters("abcd"), temperature=0, max_new=4, repetition=2.0) == "abca"


# ── seeds ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_same_seed_gives_the_same_text_whatever_the_batch():
    m = model()
    one = text(m, "abc", seed=3, max_new=12)
    assert one == text(m, "abc", seed=3, max_new=12) != text(m, "abc", seed=4, max_new=12)
    three, five = (texts(m, "abc", seed=3, max_new=12, samples=s) for s in (3, 5))
    assert three == five[:3] and three[0] == one and len(set(five)) == 5
    assert text(m, "abc", seed=3, max_new=5) == one[:5]
    assert text(m, "abc", seed=-3, max_new=12) != one


def test_without_a_seed_texts_differ():
    m = model()
    assert len({text(m, "abc", max_new=12) for _ in range(3)}) > 1


def test_others_keep_their_random_numbers_and_the_model_its_mode():
    m = model(dropout=0.5).train()
    before = torch.get_rng_state()
    first = text(m, "abc", seed=1, max_new=10)
    assert torch.equal(before, torch.get_rng_state()) and m.training
    assert first == text(m.eval(), "abc", seed=1, max_new=10)


# ── caches and contexts ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "how",
    [
        {"position": "learned"},
        {"bias": "alibi"},
        {"attention": WindowAttention(width=5)},
        {"attention": WindowAttention(width=9), "bias": "relative"},
    ],
)
@pytest.mark.parametrize("prompt", ["abc", "abcdefgh" * 2])
def test_with_and_without_a_cache_beyond_the_context(how, prompt):
    """The prompt may be longer than the context of 8, and the text goes on after it."""
    m = model(**how, context=8 if how.get("window") != 9 else 10)
    for options in ({"seed": 0, "samples": 2}, {"temperature": 0, "repetition": 1.2}, {"beams": 3}):
        options = {"max_new": 12} | options
        found = texts(m, prompt, **options)
        assert found == texts(Uncached(m), prompt, **options)
        assert all(len(each) == options["max_new"] for each in found)


def test_no_more_than_the_context_is_shown(monkeypatch):
    shown = []
    read = Slots.read

    def watch(self, slots, tokens):
        found = read(self, slots, tokens)
        shown.append(self.length(slots[0]))
        return found

    monkeypatch.setattr(Slots, "read", watch)
    for m in (model(position="learned"), Uncached(model(position="learned"))):
        shown.clear()
        text(m, "b" * 40, max_new=12, seed=0)
        assert shown == [16, *range(8, 17), 8, 9]  # the older half is forgotten, then it fills up again


def test_an_empty_prompt_begins_a_line_or_at_the_first_id():
    m = model()
    assert text(m, "", seed=0, max_new=8) == text(m, "a", seed=0, max_new=8)
    lines = Letters("ab\ndefgh")
    assert text(m, "", tokenizer=lines, seed=0, max_new=8) == text(m, "\n", tokenizer=lines, seed=0, max_new=8)


def test_what_holds_a_model_and_a_tokenizer_will_do():
    m = model()
    held = SimpleNamespace(model=m, tokenizer=Letters())
    assert text(held, "abc", seed=0, max_new=9) == text(m, "abc", seed=0, max_new=9)


# ── stop texts ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "stop, whole, out",
    [
        (("cd",), "abcdef", "ab"),
        (("x",), "abcdef", "abcdef"),
        (("abc",), "abcdef", ""),
        (("cde", "bcd"), "abcdef", "a"),  # the one that is complete first
        (("abcX", "bc"), "abcX", "a"),
        (("ff",), "abcdef", "abcdef"),  # held back at the end, then let go
        (("aab",), "aaab", "a"),
    ],
)
def test_nothing_is_written_beyond_a_stop_text_however_it_is_cut(stop, whole, out):
    for cuts in itertools.product((0, 1), repeat=len(whole) - 1):
        stops, written, start = Stops(stop), "", 0
        for i, cut in enumerate([*cuts, 1]):
            if cut:
                written += stops.add(whole[start : i + 1])
                assert out.startswith(written)
                start = i + 1
        assert written + stops.rest() == out
        assert stops.done == any(s in whole for s in stop)


def test_a_stop_text_ends_one_sample_and_not_the_others():
    m = model()
    free = texts(m, "abc", seed=0, max_new=16, samples=4)
    stop = (free[0][5:7], free[1][8:10])
    found = texts(m, "abc", seed=0, max_new=16, samples=4, stop=stop)
    for short, long in zip(found, free, strict=True):
        first = min((long.find(s) for s in stop if s in long), default=len(long))
        assert short == long[:first]
    assert len(found[0]) <= 5 and len({len(each) for each in found}) > 1


def test_reading_stops_when_all_have_stopped():
    calls = []
    chain = Chain(torch.eye(3).roll(1, 1) * 50)  # a b c a b c ...
    chain.register_forward_hook(lambda *_: calls.append(1))
    assert text(chain, "a", tokenizer=Letters("abc"), max_new=100, stop=("ca",), temperature=0) == "b"
    assert len(calls) == 3


def test_half_characters_are_held_back_and_given_at_the_end():
    class Halves(Letters):
        def stream(self):
            held = []

            def add(i):
                held.append(i)
                return "" if len(held) % 2 else f"<{held[-2]}{held[-1]}>"

            return SimpleNamespace(add=add, rest=lambda: "?" if len(held) % 2 else "")

    chain = Chain(torch.eye(3).roll(1, 1) * 50)
    pieces = list(generate(chain, "a", tokenizer=Halves("abc"), max_new=5, temperature=0))
    assert pieces == ["<12>", "<01>", "?"]


def test_a_space_stands_between_a_prompt_and_the_next_word():
    words = learn("words", ["a b c d . "])  # the unknown, space, ., a, b, c, d
    table = torch.eye(words.size).roll(1, 1) * 50
    for how in ({"temperature": 0}, {"beams": 2}):
        for prompt, new in (("a", " b c d"), ("x y a", " b c d"), (" ", ".a b"), (".", "a b c")):
            assert text(Chain(table), prompt, tokenizer=words, max_new=3, **how) == new
        assert text(Chain(table), "", tokenizer=words, max_new=3, **how) == " .a"
    assert words.decode(words.encode("a b. c")) == "a b. c"


def test_pieces_of_words_join_a_prompt_as_they_join_each_other():
    inner = tokenizers.Tokenizer(
        tokenizers.models.WordPiece({"hello": 0, "wor": 1, "##ld": 2, "[UNK]": 3}, unk_token="[UNK]")
    )
    inner.pre_tokenizer, inner.decoder = (tokenizers.pre_tokenizers.Whitespace(), tokenizers.decoders.WordPiece())
    whole = Tokenizer(inner)
    ids, stream = whole.encode("hello world").tolist(), whole.stream()
    assert ids == [0, 1, 2]
    stream.follow(ids[0])
    assert "hello" + "".join(map(stream.add, ids[1:])) + stream.rest() == "hello world"


def test_one_stop_text_needs_no_list():
    assert Sampling(stop=".") == Sampling(stop=(".",)) == Sampling(stop=["."])


# ── beams ───────────────────────────────────────────────────────────────────────────────────────────────────


def brute_force(table, first, length, stop=None):
    """(mean log-probability, ids) of every text of this length, or shorter where it ends with the stop id; best first."""
    steps = torch.as_tensor(table, dtype=torch.float64).log_softmax(-1).tolist()
    found = {}
    for ids in itertools.product(range(len(steps)), repeat=length):
        if stop is not None and stop in ids:
            ids = ids[: ids.index(stop) + 1]
        found[ids] = sum(steps[a][b] for a, b in zip((first, *ids), ids, strict=False)) / len(ids)
    return sorted(((score, list(ids)) for ids, score in found.items()), reverse=True)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("stop", [None, 2])
def test_wide_beams_find_what_brute_force_finds(seed, stop):
    table = 2 * torch.randn(4, 4, generator=torch.Generator().manual_seed(seed))
    sampling = Sampling(beams=4**4, max_new=4, samples=3)
    found = search_continuations(Writer(Chain(table), Letters("abcd")), [0], sampling, lambda ids: ids[-1] == stop)
    for each, (true, best) in zip(found, brute_force(table, 0, 4, stop)[:3], strict=True):
        assert each.ids == best and each.score == pytest.approx(true)


def test_two_beams_find_what_greedy_misses():
    """a leads to b a little more likely than to c, but after b all is equal, and after c one is sure."""
    table = torch.tensor([[-9.0, 0.1, 0.0, -9.0], [0.0] * 4, [-9.0, -9.0, -9.0, 5.0], [0.0] * 4])
    letters = Letters("abcd")
    assert text(Chain(table), "a", tokenizer=letters, temperature=0, max_new=2)[0] == "b"
    assert text(Chain(table), "a", tokenizer=letters, beams=2, max_new=2) == "cd"


def test_length_is_taken_out_of_the_score():
    """Ending at once is likelier as a whole than the long text, but worse for each token."""
    table = torch.tensor([[-99.0, 0.0, 0.8], [-99.0, 3.0, -3.0], [0.0, 0.0, 0.0]])  # c ends it
    best = text(Chain(table), "a", tokenizer=Letters("abc"), beams=3, max_new=6, stop=("c",))
    assert best == "bbbbbb"
    assert brute_force(table, 0, 6, 2)[0][1] == [1] * 6
    short = torch.tensor([[-99.0, 0.0, 4.0], [-99.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    assert text(Chain(short), "a", tokenizer=Letters("abc"), beams=3, max_new=6, stop=("c",)) == ""


def test_beams_give_several_texts_best_first():
    m = model()
    best = texts(m, "abc", beams=4, samples=3, max_new=8)
    assert len(set(best)) == 3 and best[0] == text(m, "abc", beams=4, max_new=8)


# ── errors ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "wrong, words",
    [
        ({"stop": ("",)}, "stop.*text.*''"),
        ({"stop": ""}, "stop.*text.*''"),
        ({"stop": 3}, "stop.*list.*text.*3"),
        ({"beams": 2, "seed": 1}, "seed.*sampling.*beams=2"),
        ({"beams": 2, "temperature": 1.5}, "temperature.*sampling.*beams=2"),
        ({"beams": 2, "samples": 3}, "2 beams.*3 samples.*beams=3"),
        ({"length_penalty": 2.0}, "length_penalty.*beams=1.*2.0"),
    ],
)
def test_a_wrong_option_is_told_what_is_wrong(wrong, words):
    with pytest.raises(ValueError, match=words):
        Sampling(**wrong)
    with pytest.raises(ValueError, match=words):  # at the call, not at the first piece
        generate_samples(model(), "abc", **wrong)


def test_words_of_other_errors():
    m = model()
    with pytest.raises(ValueError, match="unknown option 'temprature'.*'temperature'"):
        generate(m, "abc", temprature=1)
    with pytest.raises(ValueError, match="samples=2.*regard.generation.generate.generate_samples"):
        generate(m, "abc", samples=2)
    with pytest.raises(ValueError, match="unknown character 'z' at 1"):
        generate(m, "az")
    del m.tokenizer
    with pytest.raises(ValueError, match="Decoder.*tokenizer.*tokenizer="):
        generate(m, "abc")
    broken = Chain(torch.full((3, 3), torch.nan))
    with pytest.raises(ValueError, match="logits.*model.*NaN"):
        text(broken, "a", tokenizer=Letters("abc"))
