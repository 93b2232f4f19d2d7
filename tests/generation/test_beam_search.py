"""Beam search: equal to brute force and to Hugging Face, blind to neighbours and padding, and never wasteful."""

import itertools

import pytest
import torch

from regard.errors import RegardError
from regard.generation import beam_search as module
from regard.generation.beam_search import RUN, _log_sum, _top, beam_search
from regard.generation.continuations import search_continuations
from regard.generation.sampling import Sampling
from regard.generation.source_reader import SourceReader, generate_targets
from regard.generation.writer import Writer
from regard.models.attentions import WindowAttention
from regard.models.decoder import Decoder, DecoderConfig
from regard.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from regard.models.experts import PlainMLP
from regard.models.recurrent import GRUSeq2Seq, LSTMSeq2Seq

END, V, LONGEST = 0, 5, 5


class Tables:
    """A made model: the logits of row i after k tokens, of which the last is t, are a table's entry [i, k, t]."""

    def __init__(self, rows, longest=LONGEST, seed=0, spread=2.0):
        tables = [torch.randn(longest, V, V, generator=torch.Generator().manual_seed(seed + row)) for row in rows]
        self.tables, self.asked = spread * torch.stack(tables).double(), []

    def start(self):
        self.of, self.length = torch.arange(len(self.tables)), 0
        self.asked = [len(self.of)]
        return self.tables[:, 0, 0]

    def step(self, tokens):
        self.length += 1
        self.asked.append(len(tokens))
        assert len(tokens) == len(self.of)
        return self.tables[self.of, self.length, tokens]

    def reorder(self, rows):
        self.of = self.of[rows]

    def search(self, **how):
        how = {"beams": 3, "max_new": LONGEST, "end": END} | how
        return beam_search(self.start, self.step, self.reorder, **how)


def brute_force(table, longest, penalty):
    """Every sequence up to the end token, with its score, the best first."""
    steps, found = table.log_softmax(-1), {}
    for ids in itertools.product(range(V), repeat=longest):
        if END in ids:
            ids = ids[: ids.index(END) + 1]
        logp = sum(float(steps[k, last, token]) for k, (last, token) in enumerate(zip((0, *ids), ids, strict=False)))
        found[ids] = logp / len(ids) ** penalty
    return sorted(((score, list(ids)) for ids, score in found.items()), reverse=True)


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0, 2.0])
def test_wide_beams_find_what_brute_force_finds_whatever_the_length_penalty(penalty):
    """A search that stops as soon as enough have ended would miss longer sequences that are better."""
    longest = 4
    model = Tables(range(6), longest)
    found = model.search(beams=V**longest, n_best=4, length_penalty=penalty, max_new=longest)
    for table, each in zip(model.tables, found, strict=True):
        for hypothesis, (score, ids) in zip(each, brute_force(table, longest, penalty)[:4], strict=True):
            assert hypothesis.ids == ids and hypothesis.score == pytest.approx(score)
            assert hypothesis.logp == pytest.approx(score * len(ids) ** penalty)


def test_a_row_does_not_depend_on_its_neighbours():
    together = Tables(range(8)).search(n_best=3)
    assert [Tables([row]).search(n_best=3)[0] for row in range(8)] == together
    others = Tables([3, 20, 21]).search(n_best=3, max_new=[LONGEST, 1, 2])
    assert others[0] == together[3] and {len(each.ids) for each in others[1]} == {1}


def test_more_hypotheses_never_change_the_best():
    for beams in (2, 4):
        all_of_them = Tables(range(20)).search(beams=beams, n_best=beams)
        for n in range(1, beams):
            assert Tables(range(20)).search(beams=beams, n_best=n) == [each[:n] for each in all_of_them]


def test_one_beam_is_greedy():
    model = Tables(range(20))
    for table, (found,) in zip(model.tables, model.search(beams=1), strict=True):
        ids, last = [], 0
        while len(ids) < LONGEST and END not in ids:
            last = int(table[len(ids), last].argmax())
            ids.append(last)
        assert found.ids == ids


def test_nothing_is_computed_for_what_is_over():
    model = Tables(range(12))
    ones = [Tables([row]) for row in range(12)]
    model.search()
    for one in ones:
        one.search()
    longest = max(len(one.asked) for one in ones)
    rows = [sum(one.asked[k] for one in ones if k < len(one.asked)) for k in range(longest)]
    assert model.asked == rows and rows[-1] < rows[1]


def test_the_bound_is_safe_and_is_used():
    """Ending is sure from the first step on, and nothing longer can be as good: one step is enough."""
    model = Tables([0])
    model.tables[:, 0, 0, END] = 40.0
    assert model.search()[0][0].ids == [END] and model.asked == [1]
    model.tables[:, 0, 0] = torch.tensor([0.2, 0.0, -9, -9, -9])  # ending is likeliest, but then all is sure
    model.tables[:, 1:, 1] = torch.tensor([-40.0, 0, -40, -40, -40])
    assert model.search(length_penalty=0.0)[0][0].ids == [END]
    assert model.search(length_penalty=1.0)[0][0].ids == [1] * LONGEST


@pytest.mark.parametrize(
    "wrong, words",
    [
        ({"beams": 0}, "beams=0"),
        ({"n_best": 4}, "3 beams.*4 best.*beams=4"),
        ({"length_penalty": -1.0}, "length_penalty.*-1"),
        ({"max_new": [3]}, "max_new.*2 rows"),
        ({"max_new": 0}, "max_new.*at least 1"),
    ],
)
def test_words_of_errors(wrong, words):
    with pytest.raises(RegardError, match=words):
        Tables(range(2)).search(**wrong)


def test_logits_that_are_no_numbers_are_refused_and_what_cannot_come_is_left_out():
    for wrong in (torch.nan, torch.inf):
        model = Tables(range(2))
        model.tables[1, 1, :, 3] = wrong
        with pytest.raises(RegardError, match="NaN or infinite"):
            model.search()
    model = Tables(range(2))
    model.tables[..., 2:] = -torch.inf
    assert {token for row in model.search(n_best=3) for each in row for token in each.ids} <= {0, 1}
    model.tables[0, 1] = -torch.inf  # nothing can come after the first token
    assert [each.ids for each in model.search(n_best=3)[0]] == [[END]]


# ── models of ours


def sharp(model, scale=6.0):
    """Weights so large that sequences differ, in float64 so that no two are equal."""
    torch.manual_seed(0)
    model = model.double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
            else:
                parameter.copy_(torch.randn_like(parameter) * scale / parameter.shape[-1] ** 0.5)
    return model


SOURCES = [[3, 4, 5, 6, 7, 8], [4, 3], [9, 9, 2, 4], [5]]


def padded(sources, side="right", more=0):
    size = max(map(len, sources)) + more
    ids, real = torch.full((len(sources), size), -1), torch.zeros(len(sources), size, dtype=torch.bool)
    for i, source in enumerate(sources):
        span = slice(0, len(source)) if side == "right" else slice(size - len(source), size)
        ids[i, span], real[i, span] = torch.tensor(source), True
    return ids, real


PAIRS = [EncoderDecoder, LSTMSeq2Seq, GRUSeq2Seq]


@pytest.mark.parametrize("cls", PAIRS, ids=lambda cls: cls.__name__)
def test_translations_do_not_depend_on_padding_or_on_other_sentences(cls):
    model = sharp(cls.tiny()[0], 2.0)
    how = {"begin": 1, "end": 2, "max_new": 8, "beams": 3, "n_best": 2}
    together = generate_targets(model, *padded(SOURCES), **how)
    for side, more in (("left", 0), ("right", 3)):
        again = generate_targets(model, *padded(SOURCES, side, more), **how)
        assert [[each.ids for each in row] for row in again] == [[each.ids for each in row] for row in together]
    for source, found in zip(SOURCES, together, strict=True):
        (alone,) = generate_targets(model, torch.tensor([source]), **how)
        assert [each.ids for each in alone] == [each.ids for each in found]
        for each in found:  # the score is what the model says of the whole sequence
            target = torch.tensor([[1, *each.ids]])
            with torch.no_grad():
                steps = model(torch.tensor([source]), target[:, :-1]).log_softmax(-1)
            logp = float(steps[0].gather(1, target[0, 1:, None]).sum())
            assert each.logp == pytest.approx(logp) and each.score == pytest.approx(logp / len(each.ids))


def test_a_memory_is_shared_by_the_sequences_of_its_source_and_repeated_where_they_are_uneven():
    model, (ids, real) = sharp(EncoderDecoder.tiny()[0], 2.0), padded(SOURCES)
    steps = ([0, 0, 1, 1, 2, 2, 3, 3], [1, 1, 3, 2, 4, 5, 6, 7], [0, 1, 4, 5, 5, 6], [1, 0, 2, 3], [3, 2])
    held = (4, 4, 6, 2, 1)
    shared, plain = (SourceReader(model, ids, real, begin=1) for _ in range(2))
    plain.models = [sharp(EncoderDecoder.tiny()[0], 2.0)]
    plain.models[0].shares_memory = False
    torch.testing.assert_close(shared.start(), plain.start())
    for rows, count in zip(steps, held, strict=True):
        for reader in (shared, plain):
            reader.reorder(torch.tensor(rows))
        assert len(shared.memories[0].states) == count and len(plain.memories[0].states) == len(rows)
        tokens = torch.arange(len(rows)) % 5 + 3
        torch.testing.assert_close(shared.step(tokens), plain.step(tokens))


def test_a_target_that_fits_no_number_of_memories_is_refused():
    model = EncoderDecoder.tiny()[0]
    memory = model.encode(torch.tensor(SOURCES[:1] * 2))
    with torch.no_grad():
        twice = model.decode(torch.tensor([[1, 2]] * 4), memory)
    torch.testing.assert_close(twice[3], twice[0])
    with pytest.raises(RegardError, match="target"):
        model.decode(torch.tensor([[1, 2]] * 3), memory)


@pytest.mark.parametrize("width", [20 * RUN, 20 * RUN + 13, 5 * RUN])
@pytest.mark.parametrize("k", [1, 3, 10])
def test_the_largest_of_many_are_those_that_topk_finds(width, k):
    draw = torch.Generator().manual_seed(0)
    logits = torch.randn(7, width, generator=draw)
    logits[1, : width // 2] = -torch.inf
    logits[2, 3:] = -torch.inf
    logits[3, -1] = logits[4, 5] = 9.0
    values, places = _top(logits, k)
    assert torch.equal(values, logits.topk(k, -1).values)
    assert torch.equal(logits.gather(1, places), values)
    assert all(len(set(row)) == k for row in places.tolist())


def test_the_sum_of_exponentials_is_the_same_in_pieces(monkeypatch):
    logits = 5 * torch.randn(9, 40, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    logits[4, :30] = -torch.inf
    monkeypatch.setattr(module, "PIECE", 90)
    largest = logits.amax(-1, keepdim=True)
    torch.testing.assert_close(_log_sum(logits, largest), logits.logsumexp(-1, keepdim=True))


def test_an_ensemble_is_the_mean_of_probabilities():
    one, two = sharp(LSTMSeq2Seq.tiny()[0], 2.0), sharp(EncoderDecoder.tiny()[0], 2.0)
    source = torch.tensor([SOURCES[0]])
    both = SourceReader([one, two], source, begin=1)
    alone = [SourceReader(model, source, begin=1).start().softmax(-1) for model in (one, two)]
    torch.testing.assert_close(both.start().softmax(-1), sum(alone) / 2)
    how = {"begin": 1, "end": 2, "max_new": 6}
    assert generate_targets([one, one], source, **how)[0][0].ids == generate_targets(one, source, **how)[0][0].ids


# ── Hugging Face


def best_of_theirs(model, beams, penalty, n, **inputs):
    return model.generate(
        **inputs,
        num_beams=beams,
        num_return_sequences=n,
        length_penalty=penalty,
        early_stopping="never",
        max_new_tokens=8,
        do_sample=False,
        output_scores=True,
        return_dict_in_generate=True,
    )


def assert_same(theirs, found, skip, end, pad):
    """Token by token; what they fill up with after the end is the padding, or the end once more."""
    rows = [each for row in found for each in row]
    for ids, score, ours in zip(theirs.sequences, theirs.sequences_scores, rows, strict=True):
        new = ids[skip:].tolist()
        assert new[: len(ours.ids)] == ours.ids and set(new[len(ours.ids) :]) <= {pad, end}
        assert float(score) == pytest.approx(ours.score, rel=1e-4)
    assert any(each.ids[-1] == end for each in rows) and len({tuple(each.ids) for each in rows}) > 4


@pytest.fixture(scope="module")
def bart():
    transformers = pytest.importorskip("transformers")
    config = transformers.BartConfig(
        vocab_size=13, d_model=16, max_position_embeddings=20, encoder_layers=2, decoder_layers=1,
        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=24, decoder_ffn_dim=24,
        bos_token_id=1, eos_token_id=8, pad_token_id=0, decoder_start_token_id=1, forced_eos_token_id=None,
        tie_word_embeddings=True,
    )  # fmt: skip
    theirs = sharp(transformers.BartForConditionalGeneration(config), 3.0)
    theirs.generation_config.forced_eos_token_id = None
    return theirs, of_bart(theirs)


def of_bart(theirs):
    """BART is a choice of our parts."""
    ours = EncoderDecoder(
        EncoderDecoderConfig(
            vocab=13, context=20, dim=16, depth=2, decoder_depth=1, heads=2, mlp=PlainMLP(activation="gelu", hidden=24),
            position="learned", norm="layernorm", placement="post", qk_norm=False, offset=True, embedding_norm=True,
        )
    ).double().eval()  # fmt: skip
    weights = {"embed.weight": theirs.model.shared.weight}
    weights["source_embed.weight"] = theirs.model.shared.weight
    for side in ("encoder", "decoder"):
        stack = getattr(theirs.model, side)
        weights[f"{side}.position.of.table"] = stack.embed_positions.weight[2:]
        parts = {"position.norm": stack.layernorm_embedding}
        for i, layer in enumerate(stack.layers):
            block, names = f"blocks.{i}", [("attention", "self_attn", "self_attn_layer_norm")]
            names += [("cross", "encoder_attn", "encoder_attn_layer_norm")] if side == "decoder" else []
            for own, attention, norm in names:
                parts[f"{block}.{own}.norm"] = getattr(layer, norm)
                for to, their in (("to_q", "q_proj"), ("to_k", "k_proj"), ("to_v", "v_proj"), ("mix", "out_proj")):
                    parts[f"{block}.{own}.f.{to}"] = getattr(getattr(layer, attention), their)
            parts |= {
                f"{block}.mlp.norm": layer.final_layer_norm,
                f"{block}.mlp.f.up": layer.fc1,
                f"{block}.mlp.f.down": layer.fc2,
            }
        for name, part in parts.items():
            first, second = ("scale", "shift") if name.endswith("norm") else ("weight", "bias")
            weights |= {f"{side}.{name}.{first}": part.weight, f"{side}.{name}.{second}": part.bias}
    ours.load_state_dict({name: tensor.detach() for name, tensor in weights.items()}, strict=True)
    return ours


def test_a_bart_gives_hugging_faces_logits(bart):
    theirs, ours = bart
    ids, real = padded(SOURCES)
    target = torch.randint(13, (4, 7), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        true = theirs(input_ids=ids.clamp(min=0), attention_mask=real.long(), decoder_input_ids=target).logits
        torch.testing.assert_close(ours(ids, target, real), true)


@pytest.mark.parametrize("beams, penalty, n", [(4, 1.0, 3), (3, 0.0, 2), (5, 2.0, 5)])
def test_beams_of_an_encoder_decoder_are_hugging_faces(bart, beams, penalty, n):
    theirs, ours = bart
    ids, real = padded(SOURCES)
    true = best_of_theirs(theirs, beams, penalty, n, input_ids=ids.clamp(min=0), attention_mask=real.long())
    found = generate_targets(ours, ids, real, begin=1, end=8, max_new=8, beams=beams, length_penalty=penalty, n_best=n)
    assert_same(true, found, 1, 8, 0)


def test_beams_of_a_decoder_are_hugging_faces():
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        vocab_size=13, n_positions=20, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=2,
        pad_token_id=0, activation_function="gelu",
    )  # fmt: skip
    theirs = sharp(transformers.GPT2LMHeadModel(config), 1.5)
    prompts = [[4, 5, 6], [7, 3, 9], [1, 8, 8]]

    class Steps:
        """Hugging Face's own model as three functions: it reads everything again at each step."""

        def start(self):
            self.rows = torch.tensor(prompts)
            return theirs(self.rows).logits[:, -1].detach()

        def step(self, tokens):
            self.rows = torch.cat((self.rows, tokens[:, None]), 1)
            return theirs(self.rows).logits[:, -1].detach()

        def reorder(self, rows):
            self.rows = self.rows[rows]

    true = best_of_theirs(theirs, 4, 1.0, 3, input_ids=torch.tensor(prompts), attention_mask=torch.ones(3, 3).long())
    steps = Steps()
    found = beam_search(steps.start, steps.step, steps.reorder, beams=4, max_new=8, end=2, n_best=3)
    assert_same(true, found, 3, 2, 0)


def test_the_sum_of_a_search_is_that_of_the_whole_text():
    config = DecoderConfig(vocab=13, context=32, dim=16, depth=1, heads=2, attention=WindowAttention(width=4), ngrams=2)
    model = sharp(Decoder(config), 2.0)
    for prompt in ([1, 2, 3, 4, 5, 6], [7]):
        writer, sampling = Writer(model, None), Sampling(beams=3, max_new=6)
        best = search_continuations(writer, prompt, sampling, lambda ids: ids[-1] == 0)[0]
        whole = torch.tensor([[*prompt, *best.ids]])
        with torch.no_grad():
            steps = model(whole[:, :-1]).log_softmax(-1)[0, len(prompt) - 1 :]
        assert best.logp == pytest.approx(float(steps.gather(1, whole[0, len(prompt) :, None]).sum()))
