"""The model of a run with weights as they were asked for: packed for the native step where that can be, else in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from regard import registry
from regard.data.cache import cache_folder
from regard.generation import Weights
from regard.generation.native.compile import NoNative
from regard.generation.native.model import open_native
from regard.models.decoder import DecoderConfig
from regard.nn.quantise import Quantised, quantise
from regard.pretrained.gguf import is_gguf
from regard.pretrained.gguf_quantised import read_quantised
from regard.runs.run import Run

Note = Callable[[str], None]
LARGE = 64_000_000  # bytes of a model in float32 from which on `auto` takes int8: PyTorch is quick with smaller ones
OF_A_FILE = {"int8": ("int8",), "int4": ("int4", "int4_min")}  # what stays as it is in a GGUF file


def load_to_write(run: Run, weights: Weights, note: Note, load: Callable[[], nn.Module]) -> Any:
    """A model that writes text, without its tokenizer. load: that of PyTorch, in float32

    auto: what a GGUF file has; of others int8 if they are large, and float32 in PyTorch if they are small.
    """
    of_gguf = run.source is not None and is_gguf(run.source)
    if weights == "auto" and not of_gguf:
        large = run.model_file.exists() and run.model_file.stat().st_size >= LARGE
        if not large or not issubclass(_config_class(run), DecoderConfig):
            return load()
        weights = "int8"
    config = run.section(_config_class(run), "model")

    def read_state() -> Mapping[str, Tensor | Quantised]:
        if of_gguf:
            assert run.source is not None
            return _state_of_gguf(run, weights, note)
        return load().state_dict()

    try:
        return open_native(
            config,
            read_state,
            "int8" if weights == "auto" else weights,
            cache=cache_folder(),
            key=f"{_key(run)} {weights}",
            note=note,
        )
    except NoNative as error:
        return _load_eager(weights, error, note, load)


def _config_class(run: Run) -> type[Any]:
    found: type[Any] = registry.find("models", run.config.kind or "decoder").Config
    return found


def _key(run: Run) -> str:
    """What weights these are."""
    if run.source is not None:
        return run.path.name  # in the cache of imports: it has the size and the time of the file
    return " ".join(each.sha256 for each in run.manifest.read().get(run.model_file.name, ()))


def _state_of_gguf(run: Run, weights: str, note: Note) -> dict[str, Tensor | Quantised]:
    """Matrices as the file has them, as far as they are what was asked for."""
    assert run.source is not None
    _, state, notes = read_quantised(run.source)
    if weights == "auto":
        kept: tuple[str, ...] = ("int8", "int4", "int4_min")
    else:
        kept = OF_A_FILE.get(weights, ())
    anew = 0
    for name, tensor in state.items():
        if isinstance(tensor, Quantised) and tensor.kind not in kept:
            state[name] = tensor.dequantise()
            anew += 1
    for each in notes if weights in ("auto", *OF_A_FILE) else ():
        note(each)
    if anew and weights in OF_A_FILE:
        note(f"{anew} matrices of {run.source.name} have another type than {weights} and are quantised anew")
    return state


def _load_eager(weights: str, error: NoNative, note: Note, load: Callable[[], nn.Module]) -> nn.Module:
    """The same weights in PyTorch, which multiplies in bfloat16 unless float32 was asked for."""
    model = load()
    if weights == "float32" or not isinstance(getattr(model, "config", None), DecoderConfig):
        note(f"PyTorch writes in float32, without the native step: {error}")
        return model
    if weights in OF_A_FILE:
        round_weights(model, weights)
    note(f"PyTorch writes in bfloat16, without the native step: {error}")
    return model.bfloat16()


def round_weights(model: nn.Module, kind: str) -> None:
    """Each matrix becomes what it is after quantising. Tables of places and of n-grams stay as they are."""
    for name, parameter in model.named_parameters():
        small = name.startswith(("stack.position", "stack.bias", "ngrams"))
        if parameter.dim() == 2 and not small:
            parameter.data = quantise(parameter.data, kind).dequantise()
