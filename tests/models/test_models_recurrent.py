"""Recurrent and convolutional models: equal to torch.nn's, blind to padding, causal, and the same step by step."""

from dataclasses import fields, replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.config import from_json, to_json
from regard.errors import RegardError
from regard.models.conv import Conv, ConvConfig
from regard.models.recurrent import GRU, LSTM, GRUConfig, LSTMConfig
from regard.nn.convolve import GatedConv
from regard.nn.padding import line_up
from regard.nn.recurrent import Recurrent
from regard.nn.recurrent_decoder import RecurrentCells
from tests.models.sequences import moved, orders

TORCH = {"lstm": nn.LSTM, "gru": nn.GRU}
CASES = [(cell, both, depth) for cell in TORCH for both in (False, True) for depth in (1, 2)]
LENGTHS = torch.tensor([7, 4, 1, 0])
REAL = torch.arange(7) < LENGTHS[:, None]


def pair(cell, both, depth, inputs=5, hidden=6, dtype=torch.float64):
    torch.manual_seed(0)
    theirs = TORCH[cell](inputs, hidden, depth, batch_first=True, bidirectional=both).to(dtype)
    ours = Recurrent(cell, inputs, hidden, depth, bidirectional=both).to(dtype)
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


def grads(y, inputs):
    return torch.autograd.grad(y.sin().sum(), inputs)


@pytest.mark.parametrize("cell, both, depth", CASES)
@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-10), (torch.float32, 1e-5)])
def test_outputs_and_gradients_are_torchs(cell, both, depth, dtype, tolerance):
    ours, theirs = pair(cell, both, depth, dtype=dtype)
    x = torch.randn(3, 7, 5, dtype=dtype, requires_grad=True)
    state = torch.randn(3, depth, 2 if both else 1, 6, dtype=dtype)
    first = state.flatten(1, 2).transpose(0, 1).contiguous()
    for given, start in ((None, None), ((first, first) if cell == "lstm" else first, state)):
        own = None if start is None else [(s.flatten(1),) * (2 if cell == "lstm" else 1) for s in start.unbind(1)]
        out, ends = ours(x, own)
        true, last = theirs(x, given)
        torch.testing.assert_close(out, true, rtol=tolerance, atol=tolerance)
        for i, h in enumerate(last if cell == "lstm" else (last,)):
            found = torch.stack([end[i] for end in ends], 1).unflatten(2, (-1, 6)).flatten(1, 2).transpose(0, 1)
            torch.testing.assert_close(found, h, rtol=tolerance, atol=tolerance)
        ours_grads, true_grads = grads(out, [x, *ours.parameters()]), grads(true, [x, *theirs.parameters()])
        names = dict(theirs.named_parameters())
        order = [0] + [1 + list(names).index(name) for name, _ in ours.named_parameters()]
        for grad, at in zip(ours_grads, order, strict=True):
            torch.testing.assert_close(grad, true_grads[at], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("cell, both, depth", CASES)
def test_padding_is_passed_as_packing_passes_it(cell, both, depth):
    """Outputs at real tokens, last states and gradients are those of torch's packed sequences; padding may hold NaN."""
    ours, theirs = pair(cell, both, depth)
    x = torch.randn(4, 7, 5, dtype=torch.float64)
    x[~REAL] = torch.nan
    x.requires_grad_()
    out, ends = ours(x, None, REAL)
    packed = nn.utils.rnn.pack_padded_sequence(x[:3], LENGTHS[:3], batch_first=True)
    true, last = theirs(packed)
    true, _ = nn.utils.rnn.pad_packed_sequence(true, batch_first=True)
    torch.testing.assert_close(out[:3][REAL[:3]], true[REAL[:3]])
    for i, h in enumerate(last if cell == "lstm" else (last,)):
        found = torch.stack([end[i] for end in ends], 1).unflatten(2, (-1, 6)).flatten(1, 2).transpose(0, 1)
        torch.testing.assert_close(found[:, :3], h)
        assert not found[:, 3].any()  # a row with nothing real has read nothing
    one, two = grads(out[REAL], x)[0], grads(true[REAL[:3]], x)[0]
    torch.testing.assert_close(one, two)


@pytest.mark.parametrize("cell, both, depth", CASES)
def test_padding_keeps_a_given_state_in_both_directions(cell, both, depth):
    """The backward direction enters the last real token with the given state, as in torch's packed sequences."""
    ours, theirs = pair(cell, both, depth)
    x = torch.randn(4, 7, 5, dtype=torch.float64, requires_grad=True)
    parts = 2 if cell == "lstm" else 1
    state = torch.randn(parts, depth, 2 if both else 1, 4, 6, dtype=torch.float64)
    given = [tuple(h.transpose(0, 1).flatten(1) for h in state[:, layer]) for layer in range(depth)]
    out, ends = ours(x, given, REAL)
    packed = nn.utils.rnn.pack_padded_sequence(x[:3], LENGTHS[:3], batch_first=True)
    first = state.flatten(1, 2)[:, :, :3].contiguous()
    true, last = theirs(packed, tuple(first) if cell == "lstm" else first[0])
    true, _ = nn.utils.rnn.pad_packed_sequence(true, batch_first=True)
    torch.testing.assert_close(out[:3][REAL[:3]], true[REAL[:3]])
    for i, h in enumerate(last if cell == "lstm" else (last,)):
        found = torch.stack([end[i] for end in ends], 1).unflatten(2, (-1, 6)).flatten(1, 2).transpose(0, 1)
        torch.testing.assert_close(found[:, :3], h)
        torch.testing.assert_close(found[:, 3], state[i].flatten(0, 1)[:, 3])
    for grad, expected in zip(grads(out[REAL], [x]), grads(true[REAL[:3]], [x]), strict=True):
        torch.testing.assert_close(grad, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_padding_shuts_the_gates_to_the_last_bit(dtype):
    """A state that goes through a thousand padded tokens is the same one."""
    for cell in TORCH:
        layers, x = Recurrent(cell, 3, 8).to(dtype), torch.randn(2, 1000, 3).to(dtype)
        start = [tuple(torch.randn(2, 8).to(dtype) for _ in layers.empty(2, x)[0])]
        with torch.no_grad():
            (end,) = layers(x, start, torch.zeros(2, 1000, dtype=torch.bool))[1]
        assert all(torch.equal(one, two) for one, two in zip(end, start[0], strict=True))


@pytest.mark.parametrize("cell, depth", [("lstm", 1), ("lstm", 2), ("gru", 1), ("gru", 2)])
def test_one_step_at_a_time_is_the_whole_call(cell, depth):
    layers = Recurrent(cell, 5, 6, depth).double()
    x, fed = torch.randn(3, 7, 3).double(), torch.randn(3, 7, 2).double()
    whole, ends = layers(torch.cat((x, fed), -1))
    cells, state, tops = RecurrentCells(layers, x), layers.empty(3, x), []
    for t in range(7):
        state = cells.step(t, fed[:, t], state)
        tops.append(state[-1][0])
    torch.testing.assert_close(torch.stack(tops, 1), whole)
    for end, true in zip(state, ends, strict=True):
        torch.testing.assert_close(end, true)


@pytest.mark.parametrize("causal", [True, False])
def test_a_gated_convolution_is_torchs(causal):
    layer, x = GatedConv(4, 3, causal=causal).double(), torch.randn(2, 6, 4).double()
    weight = layer.linear.weight.view(8, 4, 3)
    given = F.pad(layer.norm(x).mT, (2, 0) if causal else (1, 1))
    true = x + F.glu(F.conv1d(given, weight, layer.linear.bias).mT, -1)
    torch.testing.assert_close(layer(x), true)


def test_tokens_are_lined_up_by_their_places():
    x, order = torch.arange(8.0).expand(2, 8)[..., None], orders(2, 8)
    line = line_up(moved(x, order), order, None)
    torch.testing.assert_close(line.take(moved(x, order)), x)
    torch.testing.assert_close(line.put_back(x), moved(x, order))
    assert line_up(x, None, None).order is line_up(x, None, torch.arange(8) < torch.tensor([[8], [3]])).order is None
    real = torch.tensor([[False, True, False, True]])
    line = line_up(torch.zeros(1, 4), None, real)
    assert line.take(torch.tensor([[5, 6, 7, 8]]))[:, :2].tolist() == [[6, 8]]
    assert line.real.tolist() == [[True, True, False, False]]
    with pytest.raises(RegardError, match="NaN"):
        line_up(torch.zeros(1, 2), torch.tensor([0.0, torch.nan]), None)


MODELS = [(LSTM, LSTMConfig), (GRU, GRUConfig), (Conv, ConvConfig)]
SMALL = {"vocab": 11, "context": 40, "dim": 12, "depth": 2}
OTHER = {"vocab": 12, "dim": 16, "depth": 3, "dropout": 0.5, "softcap": 2.0, "classes": 3, "pool": "max", "kernel": 3}
TOKENS = torch.randint(11, (3, 9), generator=torch.Generator().manual_seed(0))


def made(cls, config):
    torch.manual_seed(0)
    return cls(config).double().eval()


@pytest.mark.parametrize("cls, kind", MODELS)
def test_every_option_does_something(cls, kind):
    for field in fields(kind):
        config = kind(**SMALL)
        if field.name == "context":  # says how much it is shown in training, and nothing else
            continue
        if field.name in ("pool", "bidirectional"):
            config = replace(config, classes=4)
        changed = replace(config, **{field.name: OTHER.get(field.name, not getattr(config, field.name))})
        assert from_json(kind, to_json(changed)) == changed
        outs = []
        for each in (config, changed):
            model = made(cls, each).train()
            torch.manual_seed(1)
            outs.append(([x.shape for x in model.parameters()], model(TOKENS)))
        assert outs[0][0] != outs[1][0] or not torch.equal(outs[0][1], outs[1][1]), field.name


@pytest.mark.parametrize("cls, kind", MODELS)
@pytest.mark.parametrize("side", ["left", "right"])
def test_ragged_prompts_go_on_step_by_step_as_each_alone(cls, kind, side):
    model, lengths, size = made(cls, kind(**SMALL)), (5, 3, 1), 6
    prompt, real = torch.full((3, size), -1), torch.zeros(3, size, dtype=torch.bool)
    for i, length in enumerate(lengths):
        span = slice(0, length) if side == "right" else slice(size - length, size)
        prompt[i, span], real[i, span] = TOKENS[i, :length], True
    caches = model.caches(20)
    with torch.no_grad():
        first = model(prompt, real=real, caches=caches)
        torch.testing.assert_close(first[real], model(prompt, real=real)[real])
        caches.take(torch.tensor([2, 0, 1, 1]))
        for t in range(3):
            new = torch.stack([TOKENS[i, lengths[i] + t] for i in (2, 0, 1, 1)])[:, None]
            step = model(new, caches=caches)
            for row, i in enumerate((2, 0, 1, 1)):
                alone = model(TOKENS[i : i + 1, : lengths[i] + t + 1])[0, -1]
                torch.testing.assert_close(step[row, 0], alone)


@pytest.mark.parametrize("cls, kind", MODELS)
def test_a_classifier_reads_both_ways_and_no_padding(cls, kind):
    both = {"bidirectional": True} if kind is not ConvConfig else {}
    model = made(cls, kind(**SMALL, classes=3, **both))
    padded, real = torch.full((3, 12), -1), torch.zeros(3, 12, dtype=torch.bool)
    for i, length in enumerate((9, 4, 2)):
        padded[i, i : i + length], real[i, i : i + length] = TOKENS[i, :length], True
    alone = torch.cat([model(TOKENS[i : i + 1, :length]) for i, length in enumerate((9, 4, 2))])
    torch.testing.assert_close(model(padded, real=real), alone)
    with pytest.raises(RegardError, match="classifier"):
        model.caches()


def test_a_convolution_sees_as_far_as_it_says():
    model = made(Conv, ConvConfig(**SMALL, kernel=3))
    seen = []
    model.embed.register_forward_hook(lambda module, given, out: seen.append(out))
    out = model(TOKENS)
    (grad,) = torch.autograd.grad(out[:, 7].sin().sum(), seen[0])
    assert (grad.abs().amax((0, 2)) > 0).tolist() == [3 <= i <= 7 for i in range(9)]  # depth 2 · (kernel − 1)


@pytest.mark.parametrize(
    "wrong, words",
    [
        (lambda: LSTMConfig(**SMALL, bidirectional=True), "bidirectional.*classifiers"),
        (lambda: GRUConfig(**SMALL | {"dim": 5}, classes=2, bidirectional=True), "dim.*even.*5.*6"),
        (lambda: ConvConfig(**SMALL, classes=2, kernel=4), "kernel.*odd.*4"),
        (lambda: Recurrent("rnn", 2, 2), "lstm, gru.*'rnn'"),
        (lambda: Recurrent("gru", 2, 0), "hidden=0"),
        (lambda: GatedConv(4, 2, causal=False), "kernel.*odd.*2"),
        (lambda: made(LSTM, LSTMConfig(**SMALL))(TOKENS, caches=[]), "model.caches.*list"),
    ],
)
def test_words_of_errors(wrong, words):
    with pytest.raises(RegardError, match=words):
        wrong()


def test_a_state_refuses_gradients():
    model = made(LSTM, LSTMConfig(**SMALL))
    with pytest.raises(RegardError, match="gradients.*no_grad"):
        model(TOKENS, caches=model.caches())
