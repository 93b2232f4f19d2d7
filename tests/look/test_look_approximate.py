"""What a recorder is told of approximations and of sparse weights: proved, and marked as what it is."""

import pytest
import torch

from regard.look.ablation import silenced
from regard.look.model_input import ModelInput, Tokens
from regard.look.record import record
from regard.look.token_streams import Streams
from regard.look.views.attention import attention
from regard.models.attentions import LinformerAttention
from tests.models.sequences import ATTENTIONS, CAUSAL_ATTENTIONS, N, decoder, encoder, some_tokens

IMPLIED = ("performer", "linformer", "lsh")


def recorded(model):
    with torch.no_grad(), record(model) as seen:
        out = model(some_tokens())
    return seen, out


@pytest.mark.parametrize("name", ATTENTIONS)
def test_every_attention_is_recorded_and_proved(name):
    model = encoder(torch.float32, **ATTENTIONS[name])
    seen, out = recorded(model)
    with torch.no_grad():
        assert torch.equal(out, model(some_tokens()))  # watching changes nothing
    assert len(seen.entries) == 2
    for entry in seen:
        assert entry.proved, entry.reason
        assert (entry.implied is not None) == (name in IMPLIED)
        weights = entry.weights
        keys = 4 if name == "linformer" else N
        assert weights.shape == (3, 2, N, keys)
        torch.testing.assert_close(weights.sum(-1), torch.ones(3, 2, N))
        if entry.implied is not None:
            assert f"implied weights: {entry.implied}" in entry.note
            assert entry.kind == ("cross" if name == "linformer" else "self")
    assert "over projected keys" in (seen[0].implied or "") or name != "linformer"


@pytest.mark.parametrize("name", CAUSAL_ATTENTIONS)
def test_a_decoder_gives_the_future_no_weight(name):
    seen, _ = recorded(decoder(torch.float32, **CAUSAL_ATTENTIONS[name]))
    for entry in seen:
        assert entry.proved, entry.reason
        assert not entry.weights.triu(1).any()


@pytest.mark.parametrize("name", ["sparsemax", "entmax"])
def test_sparse_weights_are_recorded_with_their_zeros(name):
    model = encoder(torch.float32, **ATTENTIONS[name])
    with torch.no_grad():  # larger scores, so that some keys have none
        for block in model.stack.blocks:
            block.attention.f.norm_q.scale.mul_(4)
    seen, _ = recorded(model)
    assert all(entry.proved and (entry.weights == 0).float().mean() > 0.2 for entry in seen)


def test_a_planted_error_is_not_proved():
    model = encoder(torch.float32, **ATTENTIONS["performer"])
    layer = model.stack.blocks[0].attention.f.approximate
    tell = layer._tell

    def tell_wrongly(q, k, v, out, *more):
        tell(q, k, v, out + 0.1, *more)

    layer._tell = tell_wrongly
    seen, _ = recorded(model)
    assert not seen[0].proved and seen[1].proved


@pytest.mark.parametrize("projected", [4, N])
def test_projected_keys_are_not_called_tokens(projected):
    """Even where there are as many of them."""
    seen, _ = recorded(encoder(torch.float32, attention=LinformerAttention(projected=projected)))
    tokens = Tokens("tokens", tuple("abcdefghijklmn"[:N]), "text")
    streams = Streams(ModelInput(inputs={}, streams=(tokens,)))
    queries, keys = (streams.found[number] for number in streams.of(seen[0]))
    assert queries is tokens
    assert keys.name == "projected keys" and len(keys.labels) == projected
    layer = attention(seen.entries, streams)["layers"][0]
    assert layer["implied"] and layer["note"].startswith("implied weights: softmax over projected keys")
    assert streams.found[streams.find(projected)].name != "projected keys"


@pytest.mark.parametrize("name", ATTENTIONS)
def test_a_head_can_be_silenced_by_the_name_it_is_recorded_under(name):
    model = encoder(**ATTENTIONS[name], depth=1)
    seen, out = recorded(model)
    with torch.no_grad():
        with silenced(model, [(seen[0].name, 0)]):
            one = model(some_tokens())
        with silenced(model, [(seen[0].name, 0), (seen[0].name, 1)]):
            both = model(some_tokens())
        model.stack.blocks[0].attention.f.mix.weight.zero_()
        without = model(some_tokens())
    assert not torch.allclose(one, out) and not torch.allclose(one, both)
    torch.testing.assert_close(both, without)
