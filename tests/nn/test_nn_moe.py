"""Experts: fast equals the definition, every token has the experts it chose, and padding does not count."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.errors import RegardError
from regard.nn import linear
from regard.nn.linear import loop_over_groups, multiply_groups
from regard.nn.lora import ExpertLoRA, add_lora, merge
from regard.nn.mlp import ACTIVATIONS, MLP
from regard.nn.moe import Experts, Routing, count_active, find_experts, hear_routes, say_parameters


def make(dim=16, **options):
    torch.manual_seed(0)
    return Experts(dim, **options)


def by_definition(layer, x):
    """Every expert computes every token; the gates leave all but the chosen out."""
    routing, out = layer.route(x), torch.zeros_like(x)
    for e in range(layer.up.experts):
        hidden = F.linear(x, layer.up.weight[e])
        if layer.gate is None:
            hidden = ACTIVATIONS[layer.activation](hidden)
        else:
            hidden = F.silu(F.linear(x, layer.gate.weight[e])) * hidden
        gate = (routing.gates * (routing.chosen == e)).sum(-1, keepdim=True)
        out = out + gate * F.linear(hidden, layer.down.weight[e])
    return out


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"activation": "swiglu", "experts": 5, "chosen": 3},
        {"chosen": 1},
        {"hidden": 10, "gate": "all"},  # 40 bytes: torch has no grouped product for it
        {"experts": 1, "chosen": 1},
        {"experts": 60, "activation": "gelu"},  # most have no token
    ],
)
def test_it_is_the_sum_over_the_chosen_experts_with_its_gradients(options, dtype):
    layer, x = make(**options).to(dtype), torch.randn(2, 9, 16, dtype=dtype, requires_grad=True)
    found, true = layer(x), by_definition(layer, x)
    torch.testing.assert_close(found, true)
    inputs = (x, *layer.parameters())
    weight = torch.randn_like(x)
    one, two = (torch.autograd.grad((out * weight).sum(), inputs) for out in (found, true))
    for a, b in zip(one, two, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_one_expert_is_an_mlp():
    layer, mlp = make(experts=1, chosen=1, activation="gelu"), MLP(16, bias=False)
    mlp.up.weight.data, mlp.down.weight.data = layer.up.weight[0].data, layer.down.weight[0].data
    x = torch.randn(3, 5, 16)
    torch.testing.assert_close(layer(x), mlp(x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("ends", [[3, 3, 7], [0, 0, 7], [7, 7, 7], [1, 2, 7]])
def test_one_product_equals_the_loop(ends, dtype):
    torch.manual_seed(1)
    x, weight = torch.randn(7, 16, dtype=dtype), torch.randn(3, 8, 16, dtype=dtype)
    limits = torch.tensor(ends, dtype=torch.int32)
    fast, slow = (f(x, weight, limits) for f in (multiply_groups, loop_over_groups))
    torch.testing.assert_close(fast, slow)


def test_a_torch_without_grouped_products_takes_the_loop(monkeypatch):
    layer, x = make(), torch.randn(1, 6, 16)
    fast = layer(x)
    monkeypatch.delattr(linear.F, "grouped_mm")
    torch.testing.assert_close(layer(x), fast)


def test_the_gradient_of_a_plain_sum_is_taken():
    layer, x = make(), torch.randn(1, 6, 16, requires_grad=True)
    layer(x).sum().backward()
    assert x.grad.isfinite().all() and layer.up.weight.grad.any()


def test_no_tokens_are_no_error():
    layer = make()
    assert layer(torch.randn(2, 0, 16)).shape == (2, 0, 16)


def test_all_tokens_may_choose_the_same_experts():
    layer = make()
    with torch.no_grad():
        layer.route.router.weight.zero_()[:2] = 1.0
    x = torch.rand(4, 50, 16)
    torch.testing.assert_close(layer(x), by_definition(layer, x))
    routing = layer.route(x)
    assert routing.hits().tolist() == [200, 200, 0, 0, 0, 0, 0, 0]


def routing_of(scores, k=1, real=None):
    return Routing(scores, scores.topk(k, -1).indices, scores.softmax(-1).topk(k, -1).values, real)


def test_the_balance_is_1_for_equal_shares_and_e_over_k_for_none():
    equal = routing_of(100.0 * torch.eye(4)[None])
    assert equal.balance().item() == pytest.approx(1.0)
    one = routing_of(100.0 * torch.eye(4)[None, [0, 0, 0, 0]])
    assert one.balance().item() == pytest.approx(4.0)
    half = torch.tensor([50.0, 50.0, -50.0, -50.0]).expand(1, 6, 4)
    assert routing_of(half, k=2).balance().item() == pytest.approx(2.0)


def test_padding_does_not_count():
    torch.manual_seed(0)
    scores, real = torch.randn(2, 6, 4), torch.tensor([[1, 1, 1, 1, 0, 0], [1, 1, 0, 0, 0, 0]]).bool()
    alone = routing_of(scores[real][None], k=2)
    for padding in (0.0, 1e4, float("nan")):
        given = scores.masked_fill(~real[..., None], padding)
        padded = routing_of(given, k=2, real=real)
        torch.testing.assert_close(padded.balance(), alone.balance())
        assert padded.hits().tolist() == alone.hits().tolist()
    none = routing_of(scores, k=2, real=torch.zeros_like(real))
    assert none.balance().item() == 0 and none.hits().sum() == 0


def test_the_balance_takes_work_from_the_busiest():
    layer, x = make(balance=0.1), torch.rand(2, 30, 16)
    with torch.no_grad():
        layer.route.router.weight[3] += 0.5
    busy = int(layer.route(x).hits().argmax())
    before = layer.route(x).scores.softmax(-1)[..., busy].mean()
    layer.route(x).balance().backward()
    with torch.no_grad():
        layer.route.router.weight -= 0.5 * layer.route.router.weight.grad
    assert layer.route(x).scores.softmax(-1)[..., busy].mean() < before


def test_the_router_gets_a_gradient_even_with_one_expert_each():
    layer, x = make(chosen=1), torch.randn(1, 6, 16)
    layer(x).square().sum().backward()
    assert layer.route.router.weight.grad.any()
    with pytest.raises(RegardError, match=r"gate must be all where one expert is chosen"):
        make(chosen=1, gate="chosen")


def test_routes_are_heard_with_their_names_and_only_inside():
    model = nn.Sequential(nn.Linear(16, 16), make(), make())
    heard = []
    with hear_routes(model, lambda name, layer, routing: heard.append((name, routing.chosen.shape))):
        model(torch.randn(2, 3, 16))
    model(torch.randn(2, 3, 16))
    assert heard == [("1", (2, 3, 2)), ("2", (2, 3, 2))]


def test_active_parameters_are_those_of_the_chosen():
    layer = make(experts=8, chosen=2)
    each = 2 * 16 * layer.hidden
    assert count_active(layer) == 2 * each + 8 * 16
    assert say_parameters(layer) == f"{8 * each + 128:,} parameters, of which a token passes {2 * each + 128:,}"
    assert say_parameters(nn.Linear(3, 3)) == "12 parameters"


def test_lora_begins_as_it_was_and_merges_into_one():
    model, x = nn.ModuleList([make(activation="swiglu")]), torch.randn(1, 7, 16)
    before = model[0](x)
    add_lora(model, 3)
    layer = model[0]
    assert isinstance(layer.up, ExpertLoRA) and find_experts(model)
    torch.testing.assert_close(layer(x), before)
    with torch.no_grad():
        for part in (layer.gate, layer.up, layer.down):
            part.lora_up.normal_(std=0.1)
    assert not torch.allclose(layer(x), before)
    plain = make(activation="swiglu")
    plain.load_state_dict(merge(layer.state_dict()))
    torch.testing.assert_close(plain(x), layer(x), rtol=1e-4, atol=1e-5)


def test_autocast_computes_products_in_half_and_scores_in_full():
    layer, x = make(64, activation="swiglu"), torch.randn(2, 9, 64)
    with torch.autocast("cpu", torch.bfloat16):
        out, routing = layer(x), layer.route(x)
    assert routing.scores.dtype == torch.float32
    assert torch.equal(routing.chosen, layer.route(x).chosen)
    torch.testing.assert_close(out.float(), layer(x), rtol=0.05, atol=0.02)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"chosen": 9}, "chosen.*experts, 8.*9"),
        ({"experts": 0}, "experts.*0"),
        ({"activation": "swish"}, "activation.*swiglu.*'swish'"),
        ({"gate": "top"}, "gate.*chosen, all.*'top'"),
    ],
)
def test_what_does_not_go_together_is_one_line(options, words):
    with pytest.raises(RegardError, match=words):
        make(**options)
