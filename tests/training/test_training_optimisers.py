"""Optimisers beside torch's own and beside the singular value decomposition; the schedule; who is moved by which rule."""

import copy

import pytest
import torch
from torch import nn

from regard.nn.ngram_logistic import BagOfNGrams
from regard.training.config import TrainConfig
from regard.training.muon import POLYNOMIALS, Muon, orthogonalise
from regard.training.optimisers import SPARSE_LR, last_before_decay, make, schedule, split
from regard.training.rules import SGD, Adam, AdamW
from tests.training.cases import tiny

SHAPES = [(24, 24), (24, 96), (96, 24), (5, 7), (1, 9)]


# ── orthogonalise ───────────────────────────────────────────────────────────────────────────────────────────


def with_singular_values(m, n, values):
    """Matrices 1 m n with these singular values and random directions."""
    torch.manual_seed(0)
    u, _ = torch.linalg.qr(torch.randn(m, m, dtype=torch.float64))
    v, _ = torch.linalg.qr(torch.randn(n, n, dtype=torch.float64))
    k = len(values)
    return (u[:, :k] * torch.tensor(values, dtype=torch.float64)) @ v[:, :k].T, u[:, :k] @ v[:, :k].T


@pytest.mark.parametrize("m, n", SHAPES)
@pytest.mark.parametrize("size", [1e-20, 1.0, 1e15])
def test_singular_values_become_one(m, n, size):
    """Between one and a thirtieth of the largest: directions as in the SVD, singular values 1 ± 0.3."""
    values = torch.logspace(0, -1.5, min(m, n)).tolist()
    x, exact = with_singular_values(m, n, values)
    made = orthogonalise((x * size).float()[None])[0].double()
    assert torch.linalg.svdvals(made).sub(1).abs().max() < 0.3
    assert torch.linalg.matrix_norm(made - exact, ord=2) < 0.3


def test_the_polynomials_do_what_is_said_of_them():
    x = torch.logspace(-8, 0, 20_000, dtype=torch.float64)
    y = x.clone()
    for a, b, c in POLYNOMIALS:
        y = a * y + b * y**3 + c * y**5
    assert (y[x >= 0.01] - 1).abs().max() < 0.3
    small = x < 0.003
    assert (75 * x[small] < y[small]).all() and (y[small] < 80 * x[small]).all()


@pytest.mark.parametrize("x", [torch.zeros(2, 3, 4), torch.zeros(2, 3, 9), torch.ones(1, 8, 8), torch.ones(1, 8, 40)])
def test_matrices_without_full_rank(x):
    made = orthogonalise(x)
    assert made.isfinite().all()
    assert torch.linalg.matrix_norm(made, ord=2).max() < 1.3


def test_half_precision_is_near():
    torch.manual_seed(0)
    x = torch.randn(1, 8, 16)
    torch.testing.assert_close(orthogonalise(x.bfloat16()).float(), orthogonalise(x), atol=0.05, rtol=0)


# ── rules ───────────────────────────────────────────────────────────────────────────────────────────────────


def moved(rule, parameters, steps=4):
    """The parameters after a few steps with gradients drawn by a seed."""
    torch.manual_seed(1)
    for _ in range(steps):
        for p in parameters.values():
            p.grad = torch.randn_like(p)
        rule()
    return [p.detach() for p in parameters.values()]


def parameters(shapes=SHAPES):
    torch.manual_seed(0)
    return {f"p{i}": nn.Parameter(torch.randn(shape)) for i, shape in enumerate(shapes)}


def test_muon_is_near_torchs():
    ours, theirs = parameters(SHAPES[:3]), parameters(SHAPES[:3])
    before = [p.detach().clone() for p in ours.values()]
    rule = Muon(ours, 0.02, 0.1, 0.95)
    other = torch.optim.Muon(theirs.values(), lr=0.02, weight_decay=0.1, momentum=0.95)
    for mine, its, start in zip(moved(lambda: rule.step(0.02), ours), moved(other.step, theirs), before, strict=True):
        mine, its = (mine - start).flatten(), (its - start).flatten()
        assert torch.cosine_similarity(mine, its, 0) > 0.95
        # torch's singular values, too, are anything from 0.7 to 1.2
        assert 0.8 < mine.norm() / its.norm() < 1.25


def test_adamw_is_torchs():
    ours, theirs = parameters(), parameters()
    rule, other = (
        AdamW(ours, 0.01, 0.1),
        torch.optim.AdamW(theirs.values(), lr=0.01, weight_decay=0.1, betas=(0.9, 0.95)),
    )
    torch.testing.assert_close(moved(lambda: rule.step(0.01), ours), moved(other.step, theirs))


def test_adam_is_torchs():
    ours, theirs = parameters(), parameters()
    rule, other = Adam(ours, 0.01, 0.1), torch.optim.Adam(theirs.values(), lr=0.01, weight_decay=0.1)
    torch.testing.assert_close(moved(lambda: rule.step(0.01), ours), moved(other.step, theirs))


@pytest.mark.parametrize("optimiser", ["muon", "adamw", "adam", "sgd"])
def test_linear_maps_of_sparse_features_have_gradient_descent_with_a_penalty(optimiser):
    model = nn.Sequential(nn.Linear(2, 2), BagOfNGrams(5, 2))
    model[1].penalty = 0.25
    assert set(split(model).sparse) == {"1.table"}
    rules = [
        rule for rule in make(model, TrainConfig(optimiser=optimiser)).rules if set(rule.parameters) == {"1.table"}
    ]
    assert [type(rule) for rule in rules] == [SGD]
    assert rules[0].weight_decay == 0.25 and rules[0].lr == SPARSE_LR


def test_sgd_is_torchs():
    ours, theirs = parameters(), parameters()
    rule, other = (SGD(ours, 0.01, 0.1, 0.8), torch.optim.SGD(theirs.values(), lr=0.01, weight_decay=0.1, momentum=0.8))
    torch.testing.assert_close(moved(lambda: rule.step(0.01), ours), moved(other.step, theirs))


def test_stacked_projections_are_separate_matrices():
    whole, parts = nn.Parameter(torch.zeros(12, 4)), [nn.Parameter(torch.zeros(4, 4)) for _ in range(3)]
    torch.manual_seed(0)
    whole.grad = torch.randn(12, 4)
    for part, gradient in zip(parts, whole.grad.chunk(3), strict=True):
        part.grad = gradient.clone()
    Muon({"in_proj_weight": whole}, stacked={"in_proj_weight": 3}).step(0.1)
    Muon({str(i): part for i, part in enumerate(parts)}).step(0.1)
    torch.testing.assert_close(whole.data, torch.cat([part.data for part in parts]))


def test_a_convolution_is_a_matrix():
    kernel, matrix = nn.Parameter(torch.zeros(4, 3, 2, 2)), nn.Parameter(torch.zeros(4, 12))
    torch.manual_seed(0)
    kernel.grad = torch.randn(4, 3, 2, 2).to(memory_format=torch.channels_last)
    matrix.grad = kernel.grad.reshape(4, 12).clone()
    for p in (kernel, matrix):
        Muon({"p": p}).step(0.1)
    torch.testing.assert_close(kernel.data.reshape(4, 12), matrix.data)


def test_a_parameter_without_gradient_stays():
    rule = AdamW(parameters(), 0.1, 0.1)
    before = {name: p.detach().clone() for name, p in rule.parameters.items()}
    rule.parameters["p0"].grad = torch.ones(SHAPES[0])
    rule.step(0.1)
    assert [name for name, p in rule.parameters.items() if not torch.equal(p, before[name])] == ["p0"]


# ── who is moved by which rule ──────────────────────────────────────────────────────────────────────────────


def test_the_body_is_what_is_repeated():
    parts = split(tiny())
    assert set(parts.body) == {f"blocks.{i}.{j}.weight" for i in range(2) for j in (1, 3)}
    assert set(parts.matrices) == {"head.weight"}
    assert "embed.weight" in parts.rest and "blocks.0.0.weight" in parts.rest and "head.bias" in parts.rest


def test_without_lists_the_body_is_all_but_the_first_and_last():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Conv1d(4, 4, 3), nn.Linear(4, 2))
    parts = split(model)
    assert (set(parts.body), set(parts.matrices)) == ({"2.weight", "4.weight"}, {"0.weight", "5.weight"})


def test_a_tied_head_is_an_embedding():
    model = tiny()
    model.head.weight = model.embed.weight
    parts = split(model)
    assert "embed.weight" in parts.rest and not parts.matrices


def test_frozen_parameters_are_left_alone():
    model = tiny()
    model.blocks.requires_grad_(False)
    parts = split(model)
    assert set(parts.body | parts.matrices | parts.rest) == {"embed.weight", "head.weight", "head.bias"}
    with pytest.raises(ValueError, match="Tiny.*parameters.*train"):
        make(model.requires_grad_(False), TrainConfig())


@pytest.mark.parametrize(
    "optimiser, rates",
    [
        ({"optimiser": "muon"}, {0.02, 0.3 * 0.02}),
        ({"optimiser": "muon", "lr": 0.1, "adam_lr": 0.001}, {0.1, 0.001}),
        ({"optimiser": "adamw"}, {0.001}),
        ({"optimiser": "adam"}, {0.001}),
        ({"optimiser": "sgd"}, {0.1}),
    ],
)
def test_learning_rates(optimiser, rates):
    assert {rule.lr for rule in make(tiny(), TrainConfig(**optimiser)).rules} == rates


@pytest.mark.parametrize("everything", [False, True])
@pytest.mark.parametrize("optimiser", ["muon", "adamw", "adam", "sgd"])
def test_weight_decay_spares_norms_biases_and_embeddings(optimiser, everything):
    """With gradients of zero only weight decay moves anything."""
    model = tiny()
    before = copy.deepcopy(model.state_dict())
    for p in model.parameters():
        p.data += 1
        p.grad = torch.zeros_like(p)
    make(model, TrainConfig(optimiser=optimiser, decay_all=everything, lr=0.1)).step(1.0)
    stayed = {name for name, p in model.named_parameters() if torch.equal(p, before[name] + 1)}
    assert stayed == (set() if everything else set(split(model).rest))


@pytest.mark.parametrize("optimiser", ["muon", "adamw", "adam", "sgd"])
def test_the_state_goes_there_and_back(optimiser):
    config = TrainConfig(optimiser=optimiser)
    first, second = tiny(), tiny()
    one, two = make(first, config), make(second, config)

    def step(model, made, seed):
        torch.manual_seed(seed)
        for p in model.parameters():
            p.grad = torch.randn_like(p)
        made.step(0.5)

    step(first, one, 1)
    second.load_state_dict(first.state_dict())
    two.load({name: tensor.clone() for name, tensor in one.tensors().items()})
    step(first, one, 2)
    step(second, two, 2)
    for name, p in first.named_parameters():
        assert torch.equal(p, second.state_dict()[name])
    with pytest.raises(ValueError, match="state.*optimiser.*model: 'mean/nothing'"):
        two.load(one.tensors() | {"mean/nothing": torch.zeros(1)})


# ── the schedule ────────────────────────────────────────────────────────────────────────────────────────────


def test_schedule_rises_holds_and_falls():
    values = [schedule(step, step / 20, warmup=4, decay=0.5) for step in range(20)]
    assert values[:4] == [0.25, 0.5, 0.75, 1.0]
    assert values[4:11] == [1.0] * 7
    torch.testing.assert_close(values[10:], [1 - i / 10 for i in range(10)])


def test_schedule_without_rise_or_fall():
    assert {schedule(step, step / 9, warmup=0, decay=0.0) for step in range(9)} == {1.0}
    assert schedule(0, 0.0, warmup=0, decay=1.0) == 1.0


@pytest.mark.parametrize("steps", [1, 2, 7, 100, 999])
@pytest.mark.parametrize("decay", [0.0, 0.1, 0.3, 0.6, 0.9])
def test_before_the_fall_the_number_of_steps_does_not_matter(steps, decay):
    last = last_before_decay(steps, decay)
    for step in range(min(last + 1, steps)):
        done = step / steps
        assert schedule(step, done, warmup=5, decay=decay) == schedule(step, 0.0, warmup=5, decay=decay)
    if last + 1 < steps:
        assert schedule(last + 1, (last + 1) / steps, warmup=0, decay=decay) < 1
