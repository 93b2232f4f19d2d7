"""Layer-wise learning rates beside tables written by hand, in all optimisers, and through a checkpoint."""

import copy

import pytest
import torch
from torch import nn

from regard.errors import RegardError
from regard.models.conv import Conv
from regard.models.decoder import Decoder, DecoderConfig
from regard.models.encoder import Encoder, EncoderConfig
from regard.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from regard.models.graph_transformer import GraphTransformer
from regard.models.recurrent import LSTM
from regard.models.swin import Swin
from regard.models.vit import ViT, ViTConfig
from regard.training.config import TrainConfig
from regard.training.optimisers import layer_rates, make
from tests.training.cases import At, interrupt, losses, says, tiny, train

SMALL = {"dim": 16, "heads": 2}
OPTIMISERS = ["muon", "adamw", "adam", "sgd"]


def by_part(rates):
    """The rates of each part: of blocks by their number, of others by their first name."""
    found = {}
    for name, rate in rates.items():
        words = name.split(".")
        if "blocks" in words:
            part = ".".join(words[: words.index("blocks") + 2])
        else:
            part = ".".join(words[:-1]) or name
        assert found.setdefault(part, rate) == pytest.approx(rate), name
    return found


def check_table(model, table, decay=0.5):
    assert by_part(layer_rates(model, decay)) == pytest.approx(table)


# ── tables


def test_decoder():
    """The head is tied: it moves as the embedding does."""
    model = Decoder(DecoderConfig(vocab=11, context=8, depth=3, ngrams=1, tied=True, **SMALL))
    table = {"embed": 1 / 16, "stack.blocks.0": 1 / 8, "stack.blocks.1": 1 / 4, "stack.blocks.2": 1 / 2}
    check_table(model, table | {"stack.norm": 1.0})


def test_decoder_with_a_head_of_its_own():
    model = Decoder(DecoderConfig(vocab=11, context=8, depth=2, ngrams=1, tied=False, **SMALL))
    table = {"embed": 0.512, "stack.blocks.0": 0.64, "stack.blocks.1": 0.8, "stack.norm": 1.0, "head": 1.0}
    check_table(model, table, decay=0.8)


def test_encoder_classifier():
    """Token types and positions are embeddings; the pool, which is made for the labels, is part of the head."""
    config = EncoderConfig(
        vocab=11, context=8, depth=2, classes=3, position="learned", token_types=2, pool="first", **SMALL
    )
    table = {"types": 1 / 8, "embed": 1 / 8, "stack.position.of": 1 / 8, "stack.blocks.0": 1 / 4}
    table |= {"stack.blocks.1": 1 / 2, "stack.norm": 1.0, "head": 1.0}
    found = by_part(layer_rates(Encoder(config), 0.5))
    assert {name: rate for name, rate in found.items() if not name.startswith("pool")} == pytest.approx(table)
    assert {rate for name, rate in found.items() if name.startswith("pool")} == {1.0}


def test_vit():
    config = ViTConfig(size=8, patch=4, colours=1, classes=3, depth=4, registers=2, pool="class", **SMALL)
    blocks = {f"stack.blocks.{i}": 0.9 ** (4 - i) for i in range(4)}
    found = by_part(layer_rates(ViT(config), 0.9))
    below = dict.fromkeys(("registers", "embed.linear", "pool", "position"), 0.9**5)
    assert found == pytest.approx(below | blocks | {"stack.norm": 1.0, "head": 1.0})


def test_an_encoder_and_a_decoder_count_each_on_its_own():
    model = EncoderDecoder(EncoderDecoderConfig(vocab=11, depth=3, decoder_depth=1, **SMALL))
    found = by_part(layer_rates(model, 0.5))
    assert found["embed"] == 1 / 16
    assert [found[f"encoder.blocks.{i}"] for i in range(3)] == [1 / 8, 1 / 4, 1 / 2]
    assert [found["decoder.blocks.0"], found["encoder.norm"], found["decoder.norm"]] == [1 / 2, 1.0, 1.0]


def test_stages_are_one_after_the_other():
    """Two blocks, a merge that belongs to the second, one block."""
    rates = layer_rates(Swin.tiny()[0], 0.5)
    found = {name: rate for name, rate in rates.items() if name.startswith(("stages", "merges", "embed."))}
    expected = {
        "stages.0.0": 1 / 8,
        "stages.0.1": 1 / 4,
        "stages.1.0": 1 / 2,
        "merges.0": 1 / 4,
        "embed.linear": 1 / 16,
    }
    for start, rate in expected.items():
        assert {each for name, each in found.items() if name.startswith(f"{start}.")} == {rate}, start


def test_biases_of_blocks_go_with_their_blocks():
    rates = layer_rates(GraphTransformer.tiny()[0], 0.5)
    for list_name in ("blocks", "biases"):
        for i, rate in enumerate((1 / 4, 1 / 2)):
            assert {each for name, each in rates.items() if name.startswith(f"{list_name}.{i}.")} == {rate}


def test_a_head_that_is_made_before_the_blocks_is_a_head():
    rates = layer_rates(Conv.tiny()[0], 0.5)
    assert {name: rate for name, rate in rates.items() if "layers" not in name} == {
        "embed.weight": 1 / 8,
        "head.weight": 1.0,
        "norm.scale": 1.0,
    }


# ── rules


@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_every_parameter_has_its_rate_once(optimiser):
    model = tiny()
    plain, made = (make(model, TrainConfig(optimiser=optimiser, layer_decay=decay)) for decay in (1.0, 0.5))
    before = {name: rule.lr for rule in plain.rules for name in rule.parameters}
    rates = [(name, rule.lr) for rule in made.rules for name in rule.parameters]
    expected = {"embed": 1 / 8, "blocks.0": 1 / 4, "blocks.1": 1 / 2, "head": 1.0}
    assert sorted(name for name, _ in rates) == sorted(before)
    for name, rate in rates:
        factor = next(factor for start, factor in expected.items() if name.startswith(start))
        assert rate == pytest.approx(before[name] * factor), name
    assert made.tensors().keys() == plain.tensors().keys()


@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_a_step_is_so_much_shorter(optimiser):
    """Without weight decay the first step of every rule is its learning rate times a direction."""
    moved = []
    for decay in (1.0, 0.5):
        model = tiny()
        start = copy.deepcopy(model.state_dict())
        torch.manual_seed(1)
        for p in model.parameters():
            p.grad = torch.randn_like(p)
        config = TrainConfig(optimiser=optimiser, layer_decay=decay, weight_decay=0.0, lr=0.1)
        make(model, config).step(1.0)
        moved.append({name: p.detach() - start[name] for name, p in model.named_parameters()})
    rates = layer_rates(tiny(), 0.5)
    for name, whole in moved[0].items():
        torch.testing.assert_close(moved[1][name], rates[name] * whole, atol=1e-3 * 0.1, rtol=1e-3)


def test_stacked_projections_are_found_in_each_group():
    class Attending(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList(nn.MultiheadAttention(8, 2) for _ in range(2))

    rules = make(Attending(), TrainConfig(layer_decay=0.5)).rules
    stacked = [rule for rule in rules if getattr(rule, "stacked", None)]
    assert [(rule.lr, len(rule.stacked)) for rule in stacked] == [(0.02 / 4, 1), (0.02 / 2, 1)]


def test_a_model_without_blocks_is_refused():
    with pytest.raises(RegardError, match=says("layer_decay", "blocks", "LSTM")) as error:
        make(LSTM.tiny()[0], TrainConfig(layer_decay=0.8))
    assert "\n" not in str(error.value)
    make(LSTM.tiny()[0], TrainConfig(layer_decay=1.0))


@pytest.mark.parametrize("value", [0.0, -0.5, 1.01, float("nan"), float("inf")])
def test_values_out_of_range(value):
    with pytest.raises(RegardError, match=says("layer_decay")):
        TrainConfig(layer_decay=value)


# ── runs


@pytest.mark.parametrize("optimiser", ["muon", "adamw"])
def test_a_run_that_goes_on_keeps_its_rates(tmp_path, optimiser):
    options = {"optimiser": optimiser, "layer_decay": 0.5}
    whole, _ = train(tmp_path / "whole", **options)
    train(tmp_path / "broken", observers=[At(5, interrupt)], **options)
    broken, _ = train(tmp_path / "broken", resume=True, **options)
    plain, _ = train(tmp_path / "plain", optimiser=optimiser)
    assert losses(broken) == losses(whole)
    assert losses(plain) != losses(whole)
    assert broken.config.train["layer_decay"] == 0.5
