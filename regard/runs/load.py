"""The model of a run: built from its config, with its best weights."""

from __future__ import annotations

from torch import nn

from regard import files, registry
from regard.errors import RegardError
from regard.models.memory_estimate import build_within_memory
from regard.runs.run import Run


def build(run: Run) -> nn.Module:
    """A new model of the run's kind and config, with initial weights."""
    if run.config.kind is None:
        raise RegardError(
            f"{run.path} holds the weights of a module of your own ({run.config.module or 'unknown'}); "
            "build it, then "
            f"load_weights(Run.open({str(run.path)!r}), module) puts them into it (from regard.runs.load "
            "import load_weights)"
        )
    cls = registry.find("models", run.config.kind)
    try:
        return build_within_memory(cls, run.section(cls.Config, "model"))
    except RegardError as error:
        raise RegardError(f"{run.path}: {error}") from error


def load_model(run: Run) -> nn.Module:
    """The run's model with its best weights, ready for use (eval mode, on the CPU)."""
    model = build(run)
    load_weights(run, model)
    return model.eval()


def load_weights(run: Run, model: nn.Module) -> None:
    """Put the run's best weights into a module."""
    if not run.model_file.exists():
        raise FileNotFoundError(
            f"{run.path} has no model.safetensors yet: training writes it at the first evaluation on the "
            "validation split"
        )
    tensors = files.read_tensors(run.verify(run.model_file.name))
    wanted = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    for name in sorted(wanted.keys() | found.keys()):
        if wanted.get(name) != found.get(name):
            raise RegardError(
                f"{run.model_file} does not fit {type(model).__name__}: '{name}' is "
                f"{found.get(name, 'missing')} in the file and {wanted.get(name, 'unknown')} in the model"
            )
    for name, _ in model.named_parameters():
        if name in tensors and not bool(tensors[name].isfinite().all()):
            raise RegardError(
                f"{run.model_file} cannot be used: '{name}' holds NaN or infinity; train it again with a "
                "smaller --train.lr, or see: regard verify"
            )
    model.load_state_dict(tensors)
