"""Training with torch.compile: the same losses, and one line when it cannot work."""

import pytest
import torch
from torch import nn

from regard.models.decoder import Decoder, DecoderConfig
from tests.training.cases import VOCAB, Tiny, losses, tiny, train


def test_compiled_learns_the_same_and_is_undone(tmp_path):
    """With the real compiler: slow the first time on a machine, and from its cache later. Evaluations and samples are not
    compiled, so there is one graph."""
    from torch._dynamo.utils import counters

    seen = {}
    for compile in (False, True):
        torch.manual_seed(0)
        model = Decoder(DecoderConfig(vocab=VOCAB, context=16, dim=16, depth=1, heads=2))
        counters.clear()
        run, _ = train(
            tmp_path / str(compile),
            model=model,
            compile=compile,
            steps=3,
            evaluate_every=2,
            sample=lambda model: str(model(torch.tensor([[1, 2, 3]])).shape),
        )
        seen[compile] = losses(run) + losses(run, "validation")
        assert counters["stats"]["unique_graphs"] == int(compile)
        assert model._compiled_call_impl is None
    assert [step for step, _ in seen[True]] == [1, 2, 3, 2, 3]
    torch.testing.assert_close(torch.tensor(seen[True]), torch.tensor(seen[False]), rtol=1e-4, atol=0)


def no_compiler():
    from torch._inductor.exc import InvalidCxxCompiler

    return InvalidCxxCompiler()


def wrong_code():
    from torch._inductor.exc import CppCompileError

    return CppCompileError(["g++"], "a page of words")


@pytest.mark.parametrize(
    "error, words",
    [(no_compiler, r"torch\.compile.*g\+\+.*CXX"), (wrong_code, r"torch\.compile.*CppCompileError.*--debug")],
    ids=["no compiler", "wrong code"],
)
def test_a_compiler_that_fails_is_one_line(tmp_path, monkeypatch, error, words):
    def backend(graph, inputs):
        raise error()

    monkeypatch.setattr(Tiny, "compile", lambda self: nn.Module.compile(self, backend=backend))
    model = tiny()
    with pytest.raises(ValueError, match=f"train.compile.*{words}"):
        train(tmp_path / "run", model=model, compile=True, steps=2)
    assert model._compiled_call_impl is None


def test_an_error_of_the_task_is_not_the_compilers(tmp_path, monkeypatch):
    def fail(model, batch):
        model(batch["tokens"])
        raise RuntimeError("mine")

    monkeypatch.setattr(Tiny, "compile", lambda self: nn.Module.compile(self, backend="eager"))
    with pytest.raises(RuntimeError, match="^mine$"):
        train(tmp_path / "run", compile=True, steps=2, task=fail)
