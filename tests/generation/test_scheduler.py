"""Texts come and go at any time, and each is what it would be alone."""

import random
import threading
import time

import numpy as np
import pytest
import torch

from regard.data.fast_tokenizers import Bytes
from regard.errors import RegardError
from regard.generation.generate import generate_texts, write_texts
from regard.generation.model_slots import make_slots
from regard.generation.request import Request
from regard.generation.sampling import Sampling, candidates, draw_tokens
from regard.generation.scheduler import Busy, Scheduler
from regard.generation.slot_keeper import SlotKeeper
from regard.generation.writer import Writer
from regard.models.decoder import Decoder, DecoderConfig
from regard.models.recurrent import LSTM

VOCAB = 256


class Recited:
    """Slots of no model: the next token follows from all before it. It keeps to the protocol to the letter, and
    writes down what is asked of it."""

    def __init__(self, count=3, capacity=40):
        self.count, self.capacity = count, capacity
        self.held = [[] for _ in range(count)]
        self.reads, self.copies, self.spoilt = [], [], None

    def read(self, slots, tokens):
        assert len(set(slots)) == len(slots) == len(tokens)
        self.reads.append({slot: len(new) for slot, new in zip(slots, tokens, strict=True)})
        rows = []
        for slot, new in zip(slots, tokens, strict=True):
            assert len(new) >= 1
            self.held[slot] = self.held[slot] + list(new)
            assert len(self.held[slot]) <= self.capacity
            if self.spoilt in self.held[slot]:
                raise RuntimeError("this token breaks the model")
            rows.append(logits_after(self.held[slot]))
        return torch.stack(rows)

    def length(self, slot):
        return len(self.held[slot])

    def truncate(self, slot, length):
        assert 0 <= length <= len(self.held[slot])
        self.held[slot] = self.held[slot][:length]

    def copy(self, source, target, length):
        assert source != target and 0 <= length <= len(self.held[source])
        self.copies.append((source, target, length))
        self.held[target] = self.held[source][:length]


def logits_after(ids):
    return torch.tensor(np.random.default_rng(ids).normal(size=VOCAB) * 3, dtype=torch.float32)


def alone(prompt, sampling, number=0, capacity=10**9):
    """The text of one request, from nothing but the logits: the definition."""
    rng = np.random.default_rng([abs(sampling.seed), int(sampling.seed < 0), number])
    ids, begin = list(prompt), max(0, len(prompt) - capacity)
    while len(ids) < len(prompt) + sampling.max_new:
        logits = logits_after(ids[begin:]).double()
        place = rng.random()
        if sampling.temperature == 0:
            ids.append(int(logits.argmax()))
        else:
            sums = (logits / sampling.temperature).softmax(-1).cumsum(-1)
            ids.append(int((sums <= place * sums[-1]).sum()))
        if len(ids) - begin > capacity:
            begin = len(ids) - max(1, capacity // 2)
    return ids[len(prompt) :]


class Drawn:
    """A request, and what was told of it."""

    def __init__(self, prompt, number=0, logprobs=None, **how):
        self.pieces = []
        how = {"seed": 1, "temperature": 1.0, "max_new": 5, **how}
        self.sampling = Sampling(**how)
        stream = Bytes().stream()
        self.request = Request(prompt, self.sampling, stream, self.pieces.append, number=number, logprobs=logprobs)

    @property
    def ids(self):
        return self.request.ids[len(self.request.prompt) :]

    @property
    def finish(self):
        return self.pieces[-1].finish if self.pieces else None

    @property
    def text(self):
        return "".join(piece.text for piece in self.pieces)


def run(scheduler, *drawn, most=10_000):
    scheduler.submit([each.request for each in drawn])
    for _ in range(most):
        if not scheduler.step():
            return
    raise AssertionError("it does not end")


def random_requests(draw, count, longest):
    begins = [[draw.randrange(VOCAB) for _ in range(longest)] for _ in range(3)]
    found = []
    for _ in range(count):
        prompt = draw.choice(begins)[: draw.randint(1, longest)] + [draw.randrange(VOCAB)] * draw.randint(0, 2)
        how = {"temperature": draw.choice([0, 0.7, 1.0]), "max_new": draw.randint(1, 12)}
        found.append(Drawn(prompt, draw.randint(0, 2), seed=draw.randint(-3, 3), **how))
    return found


# ── every text is its own


@pytest.mark.parametrize("seed", range(6))
def test_a_text_is_the_same_whatever_runs_beside_it(seed):
    """Random requests, slots, chunks and times; prompts that share beginnings; contexts that are too short."""
    draw = random.Random(seed)
    slots = Recited(draw.randint(1, 5), draw.choice([1, 2, 9, 60]))
    scheduler = Scheduler(slots, chunk=draw.choice([1, 3, 64]))
    asked = random_requests(draw, 20, 20)
    left = list(asked)
    while left or scheduler.step():
        if left and draw.random() < 0.4:
            scheduler.submit([left.pop().request])
        scheduler.step()
    for each in asked:
        assert each.ids == alone(each.request.prompt, each.sampling, number_of(each), slots.capacity)
        assert each.finish == "length"
    counts = scheduler.snapshot()
    assert (counts.requests, counts.finished, counts.running, counts.waiting) == (20, 20, 0, 0)
    assert counts.written == sum(len(each.ids) for each in asked)


def number_of(drawn):
    """Which sample it was: the generator says so by what it draws."""
    state = drawn.request.random.bit_generator.seed_seq.entropy
    return state[2]


def tiny_writer(cls=None):
    torch.manual_seed(0)
    if cls is None:
        model = Decoder(DecoderConfig(vocab=VOCAB + 3, context=32, dim=32, depth=1, heads=4)).eval()
    else:
        model = cls(cls.Config(vocab=VOCAB + 3, dim=16)).eval()
    with torch.no_grad():
        model.head.weight.mul_(20)  # far from ties, which rounding would decide
    return Writer(model, Bytes())


@pytest.mark.parametrize("cls, slots", [(None, 1), (None, 3), (LSTM, 2)])
def test_a_model_writes_what_generate_writes(cls, slots):
    """Over real models, beyond their context, with all that sampling has."""
    writer = tiny_writer(cls)
    prompts = ["", "hé 🙂" * 12, "the same", "the same text"]
    options = [
        {"temperature": 0, "max_new": 34},
        {"top_p": 0.9, "samples": 2, "stop": ("a", "bé")},
        {"top_k": 5, "min_p": 0.1, "repetition": 1.3},
    ]
    for how in options:
        sampling = Sampling(**{"seed": 4, "max_new": 9, **how})
        found = list(write_texts(writer, prompts, sampling, slots=slots))
        wanted = [
            text
            for prompt in prompts
            for text in generate_texts(writer.model, prompt, tokenizer=writer.tokenizer, sampling=sampling)
        ]
        assert [each.text for each in found] == wanted
        assert [each.prompt for each in found] == [i for i in range(4) for _ in range(sampling.samples)]
        assert {each.finish for each in found} <= {"stop", "length"}


@pytest.mark.parametrize("kind", ["peaked", "flat", "equal"])
def test_a_large_vocabulary_is_sorted_in_part_only(kind, monkeypatch):
    """Top-p of the likeliest tokens alone, against all of them sorted; ties go to the lower id."""
    draw = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 5000, generator=draw, dtype=torch.float64)
    logits = {"peaked": (4 * logits).round(decimals=0), "flat": logits, "equal": logits * 0}[kind]
    sampling, numbers = Sampling(temperature=1.0, top_p=0.7), [0.0, 0.5, 0.999]
    found = candidates(logits, sampling)
    monkeypatch.setattr("regard.generation.sampling.HEAD", 5000)
    wanted = candidates(logits, sampling)
    assert found[0].shape[-1] == (1024 if kind == "peaked" else 5000)
    kept = int((wanted[0] > 0).sum(-1).max())
    assert torch.equal(found[1][:, :kept], wanted[1][:, :kept])
    torch.testing.assert_close(found[0][:, :kept], wanted[0][:, :kept], rtol=1e-12, atol=0)
    assert draw_tokens(*found, numbers) == draw_tokens(*wanted, numbers)


# ── beginnings that are known


def test_a_prompt_that_begins_as_an_earlier_one_reads_the_rest_only():
    slots = Recited(count=2)
    scheduler = Scheduler(slots)
    first = Drawn([1, 2, 3, 4, 5, 6], max_new=3)
    run(scheduler, first)
    goes_on = Drawn([1, 2, 3, 4, 5, 6, *first.ids, 9], max_new=2)  # the next question of a chat
    slots.reads.clear()
    run(scheduler, goes_on)
    assert goes_on.request.reused == 8 and sum(slots.reads[0].values()) == 2  # (the last token is never read)
    assert slots.copies == []  # in its place
    branch = Drawn([1, 2, 3, 7], max_new=2)
    run(scheduler, branch)
    assert branch.request.reused == 3 and slots.copies == [(0, 1, 3)]
    again = Drawn([1, 2, 3, 7], max_new=2)
    run(scheduler, again)
    assert again.request.reused == 3 and again.ids == branch.ids  # all but the last, after which a token is drawn
    assert goes_on.ids == alone(goes_on.request.prompt, goes_on.sampling)
    assert scheduler.snapshot().reused == 8 + 3 + 3


def test_texts_after_one_prompt_read_it_once():
    slots = Recited(count=4, capacity=200)
    scheduler = Scheduler(slots, chunk=20)
    prompt = list(range(100))
    samples = [Drawn(prompt, number, max_new=4) for number in range(4)]
    run(scheduler, *samples)
    assert sum(sum(read.values()) for read in slots.reads) == 100 + 4 * 3
    assert [each.ids for each in samples] == [alone(prompt, samples[0].sampling, i) for i in range(4)]
    assert len({tuple(each.ids) for each in samples}) == 4


def test_the_slot_used_longest_ago_goes_first():
    slots = Recited(count=3)
    keeper = SlotKeeper(slots)
    for ids in ([1, 1], [2, 2], [3, 3]):
        slot, _ = keeper.take(ids)
        keeper.read([slot], [ids])
        keeper.release(slot)
    assert keeper.take([1, 1, 1]) == (0, 2)  # used now
    keeper.release(0)
    assert keeper.take([4, 4]) == (1, 0)
    assert slots.held == [[1, 1], [], [3, 3]] and slots.length(1) == 0
    assert keeper.take([5]) == (2, 0) and keeper.free == {0}


# ── others go on


def test_a_long_prompt_is_read_in_parts_while_others_go_on():
    slots = Recited(count=2, capacity=300)
    scheduler = Scheduler(slots, chunk=20)
    short, long = Drawn([1], max_new=30), Drawn([7] * 200, max_new=2)
    scheduler.submit([short.request])
    scheduler.step()
    run(scheduler, long)
    both = [read for read in slots.reads if len(read) == 2 and max(read.values()) == 20]
    assert len(both) == 10  # each step read twenty tokens of the one and one of the other
    assert max(max(read.values()) for read in slots.reads) == 20
    assert short.finish == long.finish == "length"


def test_who_comes_first_is_served_first():
    scheduler = Scheduler(Recited(count=1))
    asked = [Drawn([i], max_new=3) for i in range(5)]
    order = []
    for i, each in enumerate(asked):
        each.request.tell = lambda piece, i=i: order.append(i)
    run(scheduler, *asked)
    assert order == sorted(order) and len(set(order)) == 5


def test_who_asks_for_many_does_not_stop_who_asks_for_one():
    scheduler = Scheduler(Recited(count=1))
    many, one, two = [Drawn([i], max_new=2) for i in range(6)], Drawn([8], max_new=2), Drawn([9], max_new=2)
    order = []
    for each in (*many, one, two):
        each.request.tell = lambda piece, first=each.request.prompt[0]: piece.finish and order.append(first)
    scheduler.submit([each.request for each in many])
    scheduler.submit([one.request])
    run(scheduler, two)
    assert order == [0, 1, 8, 2, 9, 3, 4, 5]


def test_too_many_are_refused_all_or_none():
    scheduler = Scheduler(Recited(count=1), queue=3)
    scheduler.submit([Drawn([1]).request, Drawn([2]).request])
    with pytest.raises(Busy, match="2 requests wait, and 3 may"):
        scheduler.submit([Drawn([3]).request, Drawn([4]).request])
    assert scheduler.snapshot().waiting == 2
    scheduler.submit([Drawn([3]).request])
    while scheduler.step():
        pass
    assert scheduler.snapshot().finished == 3


def test_who_is_gone_frees_a_slot():
    slots = Recited(count=1)
    scheduler = Scheduler(slots)
    gone, waits, next_one = Drawn([1], max_new=1000), Drawn([2]), Drawn([3])
    scheduler.submit([gone.request, waits.request, next_one.request])
    for _ in range(4):
        scheduler.step()
    scheduler.cancel([gone.request, waits.request])
    read = len(slots.reads)
    while scheduler.step():
        pass
    assert gone.finish == waits.finish == "cancelled" and len(gone.ids) == 4
    assert next_one.ids == alone([3], next_one.sampling)
    assert len(slots.reads) - read == 5  # nothing was read for who is gone


# ── what goes wrong for one


def test_a_model_that_breaks_at_one_text_goes_on_with_the_others():
    slots = Recited(count=3)
    slots.spoilt = 250
    scheduler = Scheduler(slots)
    fine, broken, also = Drawn([1], temperature=0), Drawn([5, 250]), Drawn([2], temperature=0)
    run(scheduler, fine, broken, also)
    assert broken.finish == "error" and "this token breaks the model" in broken.pieces[-1].error
    assert fine.ids == alone([1], fine.sampling) and also.ids == alone([2], also.sampling)
    assert slots.length(broken.request.slot) == 0  # nothing of it is taken over


def test_slots_that_cannot_copy_end_one_text(monkeypatch):
    slots = Recited(count=2)
    scheduler = Scheduler(slots)
    first = Drawn([1, 2, 3, 4])
    run(scheduler, first)
    monkeypatch.setattr(slots, "copy", lambda *asked: 1 / 0)
    branch, other = Drawn([1, 2, 9]), Drawn([7])
    run(scheduler, branch, other)
    assert branch.finish == "error" and "ZeroDivisionError" in branch.pieces[-1].error
    assert other.ids == alone([7], other.sampling)
    assert scheduler.keeper.free == {0, 1}


def test_log_probabilities_are_those_of_the_model():
    """Before the penalty for repeated tokens, and before temperature."""
    drawn = Drawn([1, 2], logprobs=0, repetition=5.0, temperature=0.5, max_new=3)
    run(Scheduler(Recited()), drawn)
    told = [token for piece in drawn.pieces for token in piece.tokens]
    for i, token in enumerate(told):
        wanted = logits_after([1, 2, *drawn.ids[:i]]).double().log_softmax(-1)
        assert token.logp == pytest.approx(float(wanted[token.id])) and token.best == ()


def test_logits_that_are_no_numbers_end_one_text(monkeypatch):
    slots = Recited(count=2)
    right = logits_after
    monkeypatch.setattr(
        f"{__name__}.logits_after", lambda ids: right(ids) * float("nan") if 9 in ids[:1] else right(ids)
    )
    fine, broken = Drawn([1], temperature=0), Drawn([9])
    run(Scheduler(slots), fine, broken)
    assert broken.finish == "error" and "NaN" in broken.pieces[-1].error
    assert fine.ids == alone([1], fine.sampling)


def test_a_listener_or_a_stream_that_raises_ends_its_text_only(capsys):
    deaf, dumb, fine = Drawn([1]), Drawn([2]), Drawn([3])
    deaf.request.tell = lambda piece: 1 / 0
    dumb.request.stream = None
    run(Scheduler(Recited()), deaf, dumb, fine)
    assert deaf.request.finish == dumb.finish == "error"
    assert fine.ids == alone([3], fine.sampling)
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_what_is_no_request():
    with pytest.raises(RegardError, match="at least one token"):
        Drawn([])
    with pytest.raises(RegardError, match="one sample without beams"):
        Drawn([1], samples=2)
    with pytest.raises(RegardError, match="at least 1"):
        Scheduler(Recited(), chunk=0)


# ── pieces


class Spelled:
    """A stream that adds a given text for each token."""

    def __init__(self, *texts):
        self.texts = list(texts)

    def add(self, id):
        return self.texts.pop(0)

    def rest(self):
        return "end"


def test_pieces_hold_back_stop_texts_and_their_tokens():
    drawn = Drawn([1], max_new=6, stop=("bcd",), logprobs=2)
    drawn.request.stream = Spelled("a", "b", "", "cx", "b", "cde")
    run(Scheduler(Recited()), drawn)
    assert drawn.text == "abcx" and drawn.finish == "stop"
    told = [token for piece in drawn.pieces for token in piece.tokens]
    assert [token.id for token in told] == drawn.ids[:4]  # those of the stop text are left out
    for i, token in enumerate(told):
        wanted = logits_after([1, *drawn.ids[:i]]).double().log_softmax(-1)
        assert token.logp == pytest.approx(float(wanted[token.id]))
        assert [id for id, _ in token.best] == wanted.topk(2).indices.tolist()


def test_what_was_held_back_is_told_at_the_end():
    drawn = Drawn([1], max_new=2, stop=("abc",))
    drawn.request.stream = Spelled("x", "a")
    run(Scheduler(Recited()), drawn)
    assert drawn.text == "xaend" and drawn.finish == "length"
    assert [len(piece.tokens) for piece in drawn.pieces] == [1, 1]


# ── the thread


def test_many_threads_at_once():
    """Requests from eight threads, some of which go away; every other one gets its text."""
    with Scheduler(Recited(count=4, capacity=80), chunk=8) as scheduler:
        asked, errors = [], []

        def ask(seed):
            draw = random.Random(seed)
            try:
                for each in random_requests(draw, 6, 20):
                    done = threading.Event()
                    each.request.tell = lambda piece, each=each, done=done: (
                        each.pieces.append(piece),
                        piece.finish and done.set(),
                    )
                    scheduler.submit([each.request])
                    if draw.random() < 0.3:
                        scheduler.cancel([each.request])
                    assert done.wait(30)
                    asked.append(each)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert not errors and len(asked) == 48
    whole = [each for each in asked if each.finish == "length"]
    assert len(whole) > 20 and {each.finish for each in asked} <= {"length", "cancelled"}
    for each in whole:
        assert each.ids == alone(each.request.prompt, each.sampling, number_of(each), 80)


def test_the_end_cancels_what_is_left():
    scheduler = Scheduler(Recited(count=1))
    drawn = [Drawn([1], max_new=10**6), Drawn([2])]
    scheduler.start()
    scheduler.submit([each.request for each in drawn])
    while not drawn[0].pieces:
        time.sleep(0.001)
    scheduler.close()
    assert [each.finish for each in drawn] == ["cancelled", "cancelled"]
    with pytest.raises(Busy, match="ending"):
        scheduler.submit([Drawn([3]).request])


def test_a_bug_in_a_step_is_told_and_the_next_request_is_served(monkeypatch, capsys):
    scheduler = Scheduler(Recited())
    right, calls = scheduler._draw, []

    def wrong(ready):
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("planted")
        right(ready)

    monkeypatch.setattr(scheduler, "_draw", wrong)
    with scheduler:
        for finish in ("error", "length"):
            drawn, done = Drawn([1]), threading.Event()
            drawn.request.tell = lambda piece, drawn=drawn, done=done: (
                drawn.pieces.append(piece),
                piece.finish and done.set(),
            )
            scheduler.submit([drawn.request])
            assert done.wait(10)
            assert drawn.finish == finish
    assert "planted" in capsys.readouterr().err


def test_slots_of_a_model_go_with_it():
    """The scheduler asks real slots for nothing but the protocol."""
    slots = make_slots(tiny_writer().model, 2, 16)
    drawn = [Drawn([1, 2, 3], max_new=20), Drawn([1, 2, 3, 4], max_new=4)]
    run(Scheduler(slots, ids=VOCAB), *drawn)
    assert [len(each.ids) for each in drawn] == [20, 4]
