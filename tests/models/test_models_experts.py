"""Models whose MLPs are experts: their laws, their padding, their caches, and one graph for the compiler."""

import pytest
import torch

from regard.errors import RegardError
from regard.models.decoder import Decoder, DecoderConfig
from regard.models.encoder import Encoder, EncoderConfig
from regard.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from regard.models.experts import ExpertsMLP
from regard.models.permutation_lm import PermutationConfig, PermutationLM
from regard.models.set_transformer import SetTransformerConfig
from regard.models.vit import ViTConfig
from regard.nn.moe import Experts, find_experts, hear_routes
from regard.symmetry.check import check

SMALL = {"vocab": 13, "context": 32, "dim": 16, "depth": 2, "heads": 2}
FOUR = {**SMALL, "mlp": ExpertsMLP(count=4)}
CASES = {
    "decoder": (Decoder, DecoderConfig(**FOUR)),
    "decoder, parallel and tied": (
        Decoder,
        DecoderConfig(**SMALL, placement="parallel", tied=True, mlp=ExpertsMLP(count=4, activation="swiglu")),
    ),
    "classifier": (
        Encoder,
        EncoderConfig(
            **SMALL, classes=3, pool="class", position="none", bias="alibi", mlp=ExpertsMLP(count=4, chosen=1)
        ),
    ),
    "encoder-decoder": (EncoderDecoder, EncoderDecoderConfig(**FOUR, dropout=0.0)),
    "permutation LM": (PermutationLM, PermutationConfig(**FOUR)),
}


def build(name):
    cls, config = CASES[name]
    torch.manual_seed(0)
    return cls(config).eval()


@pytest.mark.parametrize("name", CASES)
def test_a_token_depends_on_no_neighbour_and_on_no_padding(name):
    model = build(name)
    report = check(model, model.sample_inputs(), trials=3)
    assert report.ok, report
    for law in ("neighbours", "padding", "reordering", "neighbours in training", "padding in training"):
        assert report[law].measured == "holds", report
    assert report["precision"].declared == "not promised"  # a rounding may choose another expert


def hear(model, *given, **inputs):
    heard = {}
    with hear_routes(model, lambda name, layer, routing: heard.__setitem__(name, routing)):
        model(*given, **inputs)
    return heard


def test_only_real_tokens_count_in_the_balance_of_a_model():
    model = build("decoder")
    tokens, real = torch.randint(13, (2, 9)), torch.ones(2, 9, dtype=torch.bool)
    real[1, 4:] = False
    padded = hear(model, tokens, real=real)
    alone = [hear(model, tokens[:1]), hear(model, tokens[1:, :4])]
    assert len(padded) == 2
    for name, routing in padded.items():
        counts = [part[name].hits() for part in alone]
        assert routing.hits().tolist() == sum(counts).tolist() and routing.hits().sum() == 2 * 13
        assert torch.equal(routing.real, real)


def test_source_and_target_have_their_own_padding():
    model = build("encoder-decoder")
    source, target = torch.randint(13, (2, 7)), torch.randint(13, (2, 5))
    source_real, target_real = (torch.arange(7) < torch.tensor([[7], [3]]), torch.arange(5) < torch.tensor([[2], [5]]))
    heard = hear(model, source, target, source_real=source_real, target_real=target_real)
    counted = {name: int(routing.hits().sum()) for name, routing in heard.items()}
    assert {name.partition(".")[0]: count for name, count in counted.items()} == {"encoder": 20, "decoder": 14}


def test_every_block_of_both_stacks_has_experts():
    assert len(find_experts(build("encoder-decoder"))) == 4
    layer = find_experts(build("decoder"))[0][1]
    assert isinstance(layer, Experts) and layer.hidden == 32 and layer.chosen == 2


def test_blocks_that_begin_at_zero_and_deepnorm_reach_every_expert():
    zero = Decoder(DecoderConfig(**FOUR, zero_start=True))
    assert not any(layer.down.weight.any() for _, layer in find_experts(zero))
    torch.manual_seed(0)
    deep = Decoder(DecoderConfig(**FOUR, placement="deepnorm"))
    for _, layer in find_experts(deep):
        spread = layer.up.weight.std(dim=(1, 2))
        assert spread.max() / spread.min() < 1.3 and spread.mean() < 0.17  # Xavier of each, times β = (8·2)^(−¼)


def test_the_compiler_makes_one_graph_of_it():
    torch.manual_seed(0)
    layer, x = Experts(16, activation="swiglu"), torch.randn(2, 6, 16)
    graph = torch.compile(layer, fullgraph=True, backend="aot_eager")
    one, two = graph(x), layer(x)
    torch.testing.assert_close(one, two)
    gradients = [torch.autograd.grad(out.square().sum(), list(layer.parameters())) for out in (one, two)]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("make", [lambda: ViTConfig(classes=3, mlp="experts"), lambda: SetTransformerConfig(
    features=3, outputs=2, mlp="experts")])  # fmt: skip
def test_models_without_experts_say_so(make):
    with pytest.raises(RegardError, match=r"mlp.*'experts'"):
        make()
