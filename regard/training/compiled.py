"""torch.compile for the steps of a training, undone after it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from regard.errors import RegardError


@contextmanager
def compiled(model: nn.Module) -> Iterator[None]:
    """Inside, calls of the model are compiled. What the compiler cannot do is an error of one line."""
    model.compile()
    try:
        yield
    except RuntimeError as error:
        from torch._dynamo.exc import BackendCompilerFailed  # here: importing it takes a second

        if not isinstance(error, BackendCompilerFailed):
            raise
        raise RegardError(f"--train.compile cannot be used here: {_why(error.inner_exception)}") from error
    finally:
        model._compiled_call_impl = None


def _why(error: Exception) -> str:
    from torch._inductor.exc import InvalidCxxCompiler

    if isinstance(error, InvalidCxxCompiler):
        return "torch.compile found no C++ compiler; install g++ (or name yours in CXX), or train without it"
    words = str(error).strip().split("\n")[0]
    return f"torch.compile failed ({type(error).__name__}: {words}); train without it, or add --debug to see where"
