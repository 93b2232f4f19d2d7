"""What every model promises: the symmetry it declares is measured; padding, neighbours and the future do not matter."""

import pytest
import torch

from regard import registry
from regard.models.attentions import WindowAttention
from regard.models.experts import PlainMLP
from regard.models.sequence_model import SequenceConfig
from regard.symmetry.groups import EVERYTHING, Permutations, Shifts, Trivial
from tests.models.sequences import (
    ATTENTIONS,
    CAUSAL_ATTENTIONS,
    CONTEXT,
    PARTS,
    VOCAB,
    B,
    N,
    awake,
    decoder,
    encoder,
    gap,
    moved,
    orders,
    some_tokens,
)

REGISTERED = list(registry.entries("models"))
SEQUENCES = [name for name in REGISTERED if issubclass(registry.find("models", name).Config, SequenceConfig)]
EXTRAS = [
    {"attention": WindowAttention(width=4), "ngrams": 3},
    {"placement": "post", "norm": "layernorm", "embedding_norm": True, "offset": True, "qk_norm": False},
    {
        "placement": "deepnorm",
        "mlp": PlainMLP(activation="swiglu"),
        "kv_heads": 1,
        "softcap": 3.0,
        "tied": True,
        "position": "concatenated",
    },
    {"zero_start": True, "embedding_scale": True, "position": "sinusoidal", "mlp": PlainMLP(activation="leaky")},
    {"position": "none", "bias": "none"},
]
CLASSIFIERS = [
    {"classes": 3, "pool": pool, "position": "none", "bias": b}
    for pool in ("mean", "max", "attention", "class")
    for b in ("none", "alibi")
] + [
    {"classes": 3, "pool": "class", "position": "concatenated"},
    {"classes": 3, "pool": "class", "position": "rotary"},
    *({"classes": 3, "pool": "class", "position": "none"} | how for how in ATTENTIONS.values()),
]


def variants():
    for name in SEQUENCES:
        yield pytest.param(lambda name=name: tiny(name), id=f"{name} tiny")
    for make in (decoder, encoder):
        for position, bias in PARTS if make is decoder else PARTS[::4]:
            how = {"position": position, "bias": bias}
            yield pytest.param(lambda make=make, how=how: make(**how), id=f"{make.__name__} {position} {bias}")
        for i, how in enumerate(EXTRAS):
            yield pytest.param(lambda make=make, how=how: make(**how), id=f"{make.__name__} extras {i}")
        for name, how in (CAUSAL_ATTENTIONS if make is decoder else ATTENTIONS).items():
            for position in ("none", "rotary"):
                given = how | {"position": position}
                yield pytest.param(
                    lambda make=make, given=given: make(**given), id=f"{make.__name__} {name} {position}"
                )
    for how in CLASSIFIERS:
        yield pytest.param(lambda how=how: encoder(**how), id=f"classifier {how['pool']} {how['position']}")


def tiny(name):
    return awake(registry.find("models", name).tiny()[0]).double()


VARIANTS = list(variants())


def tokens_for(model):
    return some_tokens() % model.config.vocab


@pytest.mark.parametrize("make", VARIANTS)
def test_the_declared_symmetry_is_the_one_measured(make):
    model, order = make(), orders()
    tokens, where = tokens_for(model), torch.arange(N)
    out = model(tokens)
    pooled = out.dim() == 2
    torch.testing.assert_close(model(tokens, where=where), out)  # None means consecutive
    shifted = gap(model(tokens, where=where + 11), out)
    permuted = gap(model(moved(tokens, order), where=where), out if pooled else moved(out, order))
    for error, group in ((shifted, Shifts()), (permuted, Permutations())):
        assert error < 1e-10 if group <= model.symmetry else error > 1e-6, (error, str(model.symmetry))


@pytest.mark.parametrize("make", VARIANTS)
def test_moving_tokens_with_their_places_moves_the_output(make):
    model, order = make(), orders()
    tokens, where, real = (
        tokens_for(model),
        torch.arange(N).expand(B, N),
        torch.arange(N) < torch.tensor([[N], [9], [3]]),
    )
    out = model(tokens, where=where, real=real)
    again = model(moved(tokens, order), where=moved(where, order), real=moved(real, order))
    if out.dim() == 2:
        assert gap(again, out) < 1e-10
    else:
        assert gap(again[moved(real, order)], moved(out, order)[moved(real, order)]) < 1e-10


PADDED = [(("left", "right")[i % 2], each) for i, each in enumerate(VARIANTS)]


@pytest.mark.parametrize(
    "side, make", [pytest.param(side, *each.values, id=f"{side} {each.id}") for side, each in PADDED]
)
def test_padding_and_neighbours_do_not_matter(make, side):
    """Any ids in the padding, on either side, any other rows: each row is what it is alone, and so are the gradients."""
    model, lengths = make(), (N, 9, 4)
    tokens, size = tokens_for(model), N + 3
    padded = torch.tensor([-1, 10**6, -100]).repeat(B, size)[:, :size].clone()
    real = torch.zeros(B, size, dtype=torch.bool)
    for i, length in enumerate(lengths):
        span = slice(0, length) if side == "right" else slice(size - length, size)
        padded[i, span], real[i, span] = tokens[i, :length], True
    out = model(padded, real=real)
    alone = [model(tokens[i : i + 1, :length])[0] for i, length in enumerate(lengths)]
    together = torch.cat(alone) if out.dim() == 3 else torch.stack(alone)
    found = out[real] if out.dim() == 3 else out
    assert gap(found, together) < 1e-10
    grads, true = (torch.autograd.grad(y.sin().sum(), model.parameters(), allow_unused=True) for y in (found, together))
    for grad, other in zip(grads, true, strict=True):
        torch.testing.assert_close(grad, other)


@pytest.mark.parametrize("how", [{"position": p, "bias": b, "ngrams": 3} for p, b in PARTS[::3]] + EXTRAS)
def test_the_future_does_not_matter_to_a_decoder(how):
    model = decoder(**how)
    tokens = some_tokens()
    out = model(tokens)
    for cut in (1, 5, N - 1):
        changed = tokens.clone()
        changed[:, cut:] = (changed[:, cut:] + 1) % VOCAB
        other = model(changed)
        assert torch.equal(other[:, :cut], out[:, :cut])
        assert gap(other[:, cut:], out[:, cut:]) > 1e-6


@pytest.mark.parametrize("how", CAUSAL_ATTENTIONS.values(), ids=CAUSAL_ATTENTIONS)
def test_the_future_does_not_matter_whatever_the_attention(how):
    """Not bit for bit: where a token is in the sorted order of lsh depends on all."""
    model, tokens = decoder(**how), some_tokens()
    out = model(tokens)
    for cut in (1, 5, N - 1):
        changed = tokens.clone()
        changed[:, cut:] = (changed[:, cut:] + 1) % VOCAB
        other = model(changed)
        assert gap(other[:, :cut], out[:, :cut]) < 1e-12
        assert gap(other[:, cut:], out[:, cut:]) > 1e-6


@pytest.mark.parametrize(
    "how", [{}, {"attention": WindowAttention(width=4)}, {"position": "learned", "bias": "relative"}]
)
def test_no_gradient_comes_from_the_future(how):
    model, seen = decoder(**how), []
    model.embed.register_forward_hook(lambda module, given, out: seen.append(out))
    out = model(some_tokens())
    for i in (0, 6, N - 1):
        (grad,) = torch.autograd.grad(out[:, i].sin().sum(), seen[0], retain_graph=True)
        reached = grad.abs().amax((0, 2)) > 0
        # two blocks, three tokens back each
        oldest = max(0, i - 2 * (how["attention"].width - 1)) if "attention" in how else 0
        assert reached.tolist() == [oldest <= j <= i for j in range(N)]


def test_a_planted_look_ahead_is_caught():
    model = decoder()
    model.mask = None
    tokens = some_tokens()
    changed = tokens.clone()
    changed[:, -1] = (changed[:, -1] + 1) % VOCAB
    assert not torch.equal(model(changed)[:, :5], model(tokens)[:, :5])
    assert model.symmetry == Shifts()  # and without a mask it would keep more than that, had it no position
    bare = encoder(position="none")
    assert bare.symmetry == EVERYTHING
    assert decoder(position="learned").symmetry == Trivial()


@pytest.mark.parametrize("name", REGISTERED)
def test_compiles_in_one_graph(name):
    torch.compiler.reset()
    model, inputs = registry.find("models", name).tiny()
    inputs = {key: x.double() if x.is_floating_point() else x for key, x in inputs.items()}
    whole = torch.compile(model.double(), fullgraph=True, backend="eager")
    found, true = whole(**inputs), model(**inputs)
    torch.testing.assert_close(found, true)
    grads = (torch.autograd.grad(y.sin().sum(), model.parameters(), allow_unused=True) for y in (found, true))
    for grad, other in zip(*grads, strict=True):
        torch.testing.assert_close(grad, other)


@pytest.mark.parametrize(
    "make, how",
    [
        (decoder, {"attention": WindowAttention(width=4), "bias": "alibi", "ngrams": 3, "embedding_norm": True}),
        (
            encoder,
            {
                "classes": 3,
                "pool": "class",
                "mlp": PlainMLP(activation="swiglu"),
                "attention": WindowAttention(width=3),
            },
        ),
        *((decoder, ATTENTIONS[name]) for name in ("performer", "lsh", "entmax")),
        (encoder, ATTENTIONS["linformer"]),
    ],
)
def test_options_and_padding_compile_too(make, how):
    torch.compiler.reset()
    model, tokens = make(**how, depth=1), some_tokens()
    real = torch.arange(N) > torch.tensor([[-1], [2], [7]])
    whole = torch.compile(model, fullgraph=True, backend="eager")
    outs = whole(tokens, real=real), model(tokens, real=real)
    loss, other = ((out[real] if out.dim() == 3 else out).sin().sum() for out in outs)
    for grad, true in zip(
        *(torch.autograd.grad(y, model.parameters(), allow_unused=True) for y in (loss, other)), strict=True
    ):
        torch.testing.assert_close(grad, true)


@pytest.mark.parametrize("name", REGISTERED)
def test_tiny_is_the_same_every_time_and_leaves_others_their_random_numbers(name):
    torch.manual_seed(3)
    before = torch.get_rng_state()
    (one, inputs), (two, _) = (registry.find("models", name).tiny() for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(one(**inputs), two(**inputs))
    if name in SEQUENCES:
        assert one.config.context >= inputs["tokens"].shape[1] and CONTEXT > 2 * N
