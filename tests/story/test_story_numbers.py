"""Every number that the page computes is the library's."""

import pytest
import torch
from torch.testing import assert_close

from regard.attention.attend import attend
from regard.attention.masks import Causal, Full, Padding, Window
from regard.attention.positions import Rotary, Sinusoidal
from regard.models.autoencoder import VAE, VAEConfig
from regard.nn.convolve import filter_matrix, shift_matrix
from regard.nn.memory import Composite, Fading, Forgetting, Gated, Softmax
from regard.story.guests import EVERYBODY, QUERIES, tokens
from regard.symmetry.linear.birkhoff import decompose, permutation_matrix, sinkhorn

TOLERANCE = {"atol": 1e-6, "rtol": 0}
PIXELS = 7  # of what stands for portraits
GATE = [0.4, -1.3, 2.1]
QUERY = [2.0, -0.7]


def same(found, wanted):
    assert_close(torch.tensor(found, dtype=torch.float64), wanted.detach().double(), **TOLERANCE)


def memory_of(kind, *how):
    """A memory of [token; portrait] that keeps the portrait. Gates read the token."""
    memory = kind(2 + PIXELS, PIXELS, *how).double()
    with torch.no_grad():
        memory.value.weight.copy_(torch.cat((torch.zeros(PIXELS, 2), torch.eye(PIXELS)), 1))
        memory.value.bias.zero_()
        if hasattr(memory, "gate"):
            memory.gate.weight.zero_()
            memory.gate.weight[:, :2] = torch.tensor(GATE[1:])
            memory.gate.bias.fill_(GATE[0])
        if hasattr(memory, "query"):
            memory.query.copy_(torch.tensor([*QUERY, *[0.0] * PIXELS]))
    return memory


MEMORIES = {
    "composite": (lambda: memory_of(Composite), None),
    "fading": (lambda: memory_of(Fading, 0.63), 0.63),
    "forgetting": (lambda: memory_of(Forgetting), GATE),
    "gated": (lambda: memory_of(Gated), GATE),
    "softmax": (lambda: memory_of(Softmax), QUERY),
}


@pytest.mark.parametrize("name", MEMORIES)
def test_memories(window, name):
    make, how = MEMORIES[name]
    memory = make()
    x = torch.randn(6, 2 + PIXELS, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    code = """([name, x, values, how]) => {
        const weights = story.memories[name](x, how);
        return [weights, story.blend(weights, values)];
    }"""
    weights, kept = window.evaluate(code, [name, x[:, :2].tolist(), x[:, 2:].tolist(), how])
    wanted = memory.weights(x[None])[0]
    same(weights, wanted if wanted.dim() == 1 else wanted[:, 0])
    same(kept, memory(x[None])[0])


MASKS = {
    "none": Full(),
    "causal": Causal(),
    "window": Window(1),
    "both": Causal() & Window(1),
    "padding": Padding(torch.tensor([[True, True, False, True, True]])),
}


@pytest.mark.parametrize("name", MASKS)
def test_attention_with_masks(window, name):
    q, k, v = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    code = "([q, k, v, name]) => story.attend(q, k, v, {allowed: story.masks[name]})"
    found = window.evaluate(code, [q.tolist(), k.tolist(), v.tolist(), name])
    same(found, attend(q[None, None], k[None, None], v[None, None], mask=MASKS[name])[0, 0])


def test_a_row_with_nothing_allowed_is_zero(window):
    assert window.evaluate("story.attend([[1]], [[1]], [[5]], {allowed: () => false})") == [[0]]


@pytest.mark.parametrize("where", [0, 1, 7.5, 123])
def test_positions(window, where):
    x = torch.randn(8, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    at = torch.tensor([where])
    found = window.evaluate("([x, where]) => story.rotate(x, where)", [x.tolist(), where])
    same(found, Rotary(8).turn(x.view(1, 1, 1, 8), at)[0, 0, 0])
    found = window.evaluate("(where) => story.sinusoidal(where, 8)", where)
    same(found, Sinusoidal(8).code(at[None])[0, 0])


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [3, 0, 4, 1, 2]])
@pytest.mark.parametrize("position", ["none", "sinusoidal", "rotary"])
def test_what_guests_hear_by_seats(window, position, order):
    x = 2 * tokens()[order]
    if position == "sinusoidal":
        x = Sinusoidal(2).double().place(x[None])[0]
    q = x[None, None]
    if position == "rotary":
        q = Rotary(2).turn(q)
    code = "([order, position]) => story.heard(order.map((k) => story.guests[k]), position)"
    same(window.evaluate(code, [order, position]), attend(q, q, x[None, None])[0, 0])


def test_the_clocks_know_differences_only(window):
    scores = window.evaluate("[[6, 2], [106, 102], [2, 6]].map(([m, n]) => story.rotaryScore(m, n))")
    hands = torch.tensor([1.0, 1, 1, 1, 0, 0, 0, 0], dtype=torch.float64).view(1, 1, 1, 8)
    q, k = (Rotary(8).turn(hands, torch.tensor([place])) for place in (6, 2))
    same(scores, (q * k).sum().expand(3))


def test_circulant_matrices(window):
    taps = [0.5, 1.0, -0.25]
    w, s = window.evaluate("(taps) => [story.circulant(taps, 8), story.shiftMatrix(8, 3)]", taps)
    same(w, filter_matrix(torch.tensor([[taps]]), (8,)))
    same(s, shift_matrix((8,), (3,)))


def test_doubly_stochastic_matrices(window):
    scores = torch.randn(3, 3, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    found = window.evaluate("(scores) => story.sinkhorn(scores, 0.4)", scores.tolist())
    same(found, sinkhorn(scores, temperature=0.4).matrix)
    orders = [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
    code = "(orders) => story.mean([0.6, 0.3, 0.1], orders.map(story.permutationMatrix))"
    matrix = torch.tensor(window.evaluate(code, orders), dtype=torch.float64)
    shares = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64)
    same(matrix.tolist(), torch.einsum("k,kij->ij", shares, permutation_matrix(torch.tensor(orders)).double()))
    assert_close(decompose(matrix).weights, shares, **TOLERANCE)  # so the triangle holds all of its points


@pytest.mark.parametrize("base", [2, 3, 4, 5])
@pytest.mark.parametrize("counts", [[1, 0, 1, 0, 0, 0], [0, 4, 0, 0, 0, 0], [4, 4, 4, 4, 4, 4], [0, 0, 0, 0, 0, 0]])
def test_sets_as_numbers(window, base, counts):
    from fractions import Fraction

    wanted = sum((count * Fraction(1, base**place) for place, count in enumerate(counts, 1)), Fraction(0))
    code = """([counts, base]) => {
        const code = story.codeOf(counts, base);
        return [story.fraction(code, base, counts.length), story.digitsOf(code, base, counts.length)];
    }"""
    written, read = window.evaluate(code, [counts, base])
    assert written == str(wanted)
    digits = sum(Fraction(digit, base**place) for place, digit in enumerate(read["digits"], 1))
    assert read["whole"] + digits == wanted
    assert (read["digits"] == counts and read["whole"] == 0) == (max(counts) < base)


def test_the_decoder(window, built):
    """The layers that the page carries, in the library's own decoder."""
    model = VAE(VAEConfig(shape=(built[0]["side"] ** 2,), latent=2, hidden=48, depth=2)).double()
    linear = [layer for layer in model.body.decoder if isinstance(layer, torch.nn.Linear)]
    carried = window.evaluate("story.layers")
    with torch.no_grad():
        for layer, given in zip(linear, carried, strict=True):
            layer.weight.copy_(torch.tensor(given["weight"], dtype=torch.float64))
            layer.bias.copy_(torch.tensor(given["bias"], dtype=torch.float64))
        for code in ([0.0, 0.0], [1.3, -0.6], [-2.0, 2.0]):
            found = window.evaluate("(code) => story.decode(story.layers, code)", code)
            same(found, model.decode_mean(torch.tensor([code], dtype=torch.float64))[0])


def weights_shown(window, figure):
    return [float(each) for each in window.locator(f"{figure} .share:visible .value").all_inner_texts()]


def test_the_weights_of_a_question_as_they_are_shown(fresh):
    """Both questions, with and without the sixth guest."""
    values = torch.eye(6, dtype=torch.float64)[None, None]
    keys = tokens(EVERYBODY)[None, None]
    keys[0, 0, 5] = torch.tensor([0.5**0.5, 0.5**0.5])
    for guests in (5, 6):
        if guests == 6:
            fresh.get_by_role("group", name="figure: Keys").get_by_role("button", name="A sixth guest").click()
        for query in QUERIES:
            fresh.locator("#keys").get_by_label(query.words).check()
            q = 4 * torch.tensor(query.direction, dtype=torch.float64).view(1, 1, 1, 2)
            wanted = attend(q, keys[:, :, :guests], values[:, :, :guests, :guests])[0, 0, 0]
            assert weights_shown(fresh, "#keys") == [round(weight, 2) for weight in wanted.tolist()]


def test_a_wrong_formula_would_be_seen(window):
    """The comparison itself: a mask with swapped indices, and a softmax over the wrong axis, are other numbers."""
    x = tokens()
    causal = attend(x[None, None], x[None, None], x[None, None], mask=Causal())[0, 0]
    swapped = window.evaluate("(x) => story.attend(x, x, x, {allowed: (i, j) => j >= i})", x.tolist())
    with pytest.raises(AssertionError):
        same(swapped, causal)
