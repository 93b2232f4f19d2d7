"""Models of Hugging Face: how one is opened from its directory, what inputs it takes, and what each of them
is.

Nothing here names one model after another. What a model is follows from its configuration, from the signature
of its forward and from flags that its attention carries; the few exceptions are tables. What it promises is
in `promises.py`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import RegardError, did_you_mean
from regard.files import open_regular, read_json
from regard.models.memory_estimate import TO_USE, check_fits
from regard.nn.eval_mode import eval_mode
from regard.symmetry.model_under_test import first_line
from regard.symmetry.output import main_tensor
from regard.symmetry.roles import Inputs, Roles, Stream
from regard.targets.hugging_face_weights import load_weights
from regard.targets.promises import CACHES, is_causal, promises, sides

RANDOM = "{} has no weights (*.safetensors) in it, so they are random (seed {}): what it learned cannot be seen here."
ROWS, TOKENS = 3, 12  # what is made unless more is asked for
SAMPLES, FRAMES, PIXELS = (4000, 96, (64, 224))  # sound as it is heard, as a spectrogram; images of models of any size
LAYERS = re.compile(r"layers?\b|_layers?_|depths?\b|stages\b|blocks\b", re.IGNORECASE)  # counts of modules
MOST_LAYERS, LARGEST_SIZE = 1024, 2**40
SPECIAL = re.compile(r".*_token_(id|ids|index)|(pad|bos|eos|unk|mask|sep|cls)_(index|id)")
Found = tuple[Inputs, Roles]


# ---- from a directory


def open_directory(path: Path, seed: int = 0) -> tuple[nn.Module, tuple[str, ...]]:
    """The model of a directory with its weights from safetensors, or with random ones if there are none; and
    what a reader should know of them."""
    transformers = library()
    with _silent(transformers):
        config = _configuration(path)
    name = (config.architectures or [None])[0]
    found = getattr(transformers, name, None) if isinstance(name, str) else None
    if inspect.isclass(found) and issubclass(found, nn.Module):
        cls: Any = found
    else:
        cls = transformers.AutoModel
    safe = has_weights(path)
    pickled = sorted(each.name for pattern in ("*.bin", "*.pt", "*.pth", "*.ckpt") for each in path.glob(pattern))
    if pickled and not safe:
        raise RegardError(
            f"{path} has its weights only in {pickled[0]}, a pickle, which is never opened; save them as "
            f"safetensors, or give a directory with config.json alone to check random weights"
        )

    def make() -> nn.Module:
        return cls.from_config(config) if cls is transformers.AutoModel else cls(config)

    try:
        with torch.random.fork_rng(devices=[]), _silent(transformers):
            _check_fits(make, path)
            torch.manual_seed(seed)
            if safe:
                model, notes = load_weights(cls, path, config)
            else:
                model, notes = make(), (RANDOM.format(path.resolve().name, seed),)
            return model.float().eval(), notes
    except RegardError:
        raise
    except Exception as error:
        raise RegardError(f"{path}: {cls.__name__} cannot be made from it: {first_line(error)}") from error


def _check_fits(make: Callable[[], nn.Module], path: Path) -> None:
    """Raise if a model does not fit into the memory; of one that cannot be built without memory nothing is
    known."""
    with suppress(RuntimeError, NotImplementedError, TypeError):
        check_fits(make, f"{path}: the model of its config.json", copies=TO_USE, lower="its sizes")


def _check_sizes(plain: Any, path: Path, key: str = "") -> None:
    """Raise for a number in config.json that would hang whatever is built from it."""
    if isinstance(plain, dict):
        for name, value in plain.items():
            _check_sizes(value, path, str(name))
    elif isinstance(plain, list):
        for value in plain[:MOST_LAYERS]:
            _check_sizes(value, path, key)
    elif type(plain) is int:
        largest = MOST_LAYERS if LAYERS.search(key) else LARGEST_SIZE
        if abs(plain) > largest:
            raise RegardError(f"{path / 'config.json'}: {key} is {plain:.3g}; at most {largest:,} is read")


def has_weights(path: Path) -> bool:
    """Does a directory hold weights that would be opened?"""
    return any(path.glob("*.safetensors"))


@contextmanager
def _silent(transformers: Any) -> Iterator[None]:
    """Without the bars and remarks that the library shows while it loads: they would stand between a user and
    the answer."""
    logging = transformers.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    try:
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def library() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise RegardError(
            "a Hugging Face model needs transformers; install it with: pip install 'regard[hf]'"
        ) from error
    return transformers


def _configuration(path: Path) -> Any:
    """config.json as the class that it names. Code that comes with a model is never run."""
    transformers = library()
    for each in path.iterdir():  # the library would wait for ever at a pipe
        if not each.is_dir() and each.exists():
            open_regular(each).close()
    plain = read_json(path / "config.json")
    if not isinstance(plain, dict):
        raise RegardError(f"{path / 'config.json'} holds no settings of a model")
    _check_sizes(plain, path)
    model_type = plain.get("model_type")
    known = transformers.CONFIG_MAPPING
    if model_type not in known:
        if "auto_map" in plain:
            raise RegardError(
                f"{path} needs code of its own ('auto_map' in its config.json), which is never run; build "
                f"the model in a function and give package.module:function"
            )
        version = transformers.__version__
        raise RegardError(
            f"{path}: transformers {version} knows no model_type {model_type!r}{near(model_type, known.keys())}"
        )
    try:
        return transformers.AutoConfig.from_pretrained(path, trust_remote_code=False, local_files_only=True)
    except Exception as error:
        raise RegardError(
            f"{path / 'config.json'} cannot be read as a {model_type} model: {first_line(error)}"
        ) from error


def near(name: Any, known: Any) -> str:
    """; did you mean …?"""
    found = did_you_mean(str(name), known).rstrip()
    return found and f"; {found}"


# ---- inputs that it takes, and what each of them is


def describe(model: nn.Module, *, seed: int = 0, tokens: int | None = None, rows: int | None = None) -> Found:
    """Inputs made from the configuration, with their roles: the first of several guesses that the model
    accepts."""
    if getattr(model, "config", None) is None or not hasattr(model, "main_input_name"):
        raise RegardError(
            f"{type(model).__name__} is no model of Hugging Face; use check(model, inputs) with your own inputs"
        )
    making = Making(model, seed, tokens or TOKENS, rows or ROWS)
    problem: Exception | None = None
    with eval_mode(model), torch.random.fork_rng(devices=[]):
        for inputs, roles in making.guesses():
            try:
                with torch.no_grad():
                    output = model(**inputs)
                return inputs, making.settled(roles, output)
            except Exception as error:
                problem = problem or error
    taken = ", ".join(name for name in making.names if name not in ("kwargs", "labels", "return_dict"))
    why = first_line(problem) if problem else f"it takes {taken[:120]}"
    raise RegardError(
        f"no inputs could be made for {type(model).__name__} ({why}); build model and inputs in a function "
        f"and give package.module:function"
    )


class Making:
    """Inputs for one model."""

    def __init__(self, model: nn.Module, seed: int, tokens: int, rows: int) -> None:
        self.model, self.tokens, self.rows = model, tokens, rows
        self.config: Any = model.config
        self.names = list(inspect.signature(model.forward).parameters)
        self.draw = torch.Generator().manual_seed(seed)
        main = model.main_input_name
        self.main = str(main[0] if isinstance(main, list | tuple) else main)

    def guesses(self) -> Iterator[Found]:
        """Likely inputs, the most natural ones first."""
        if "decoder_input_ids" in self.names:
            for inputs, streams in self.sources():
                yield self.translating(inputs, streams)
            if {"input_ids", "pixel_values"} <= set(self.names):
                # a question about an image: what such a model returns is of the image
                asked = self.text()[0] | self.text("decoder_")[0]
                for signal in self.signals():
                    yield asked | signal, Roles(grid="pixel_values")
        elif self.main == "pixel_values" or "input_ids" not in self.names:
            for inputs in self.signals():
                grid = "pixel_values" if "pixel_values" in inputs else None
                if grid is not None and inputs[grid].dim() == 4:
                    patch = self.field("patch_size", None)
                else:
                    patch = None
                yield inputs, Roles(grid=grid, patch=patch if isinstance(patch, int) else None)
        if "input_ids" in self.names and "decoder_input_ids" not in self.names:
            text, stream = self.text()
            yield text, self.reading(stream)
            plain = {"input_ids": text["input_ids"]}
            yield plain, self.reading(Stream("input_ids", places=stream.places))
            for inputs in self.signals():
                yield text | inputs, self.reading(stream)

    # ---- text

    def text(self, prefix: str = "", more: int = 0) -> tuple[Inputs, Stream]:
        """Ids, their mask, their types, and the name of their places."""
        size = (self.rows, self.tokens + more)
        inputs: Inputs = {f"{prefix}input_ids": self.ids(size)}
        mask, places, types = f"{prefix}attention_mask", f"{prefix}position_ids", "token_type_ids"
        if mask in self.names:
            inputs[mask] = torch.ones(size, dtype=torch.long)
        token_types = getattr(self.config, "type_vocab_size", 0)
        along = not prefix and types in self.names and isinstance(token_types, int) and token_types > 1
        if along:
            inputs[types] = torch.randint(2, size, generator=self.draw)
        stream = Stream(
            f"{prefix}input_ids",
            mask=mask if mask in self.names else None,
            places=places if places in self.names else None,
            along=(types,) if along else (),
            sides=sides(self.model, places in self.names),
        )
        return inputs, stream

    def ids(self, size: tuple[int, int]) -> Tensor:
        """Ordinary words: none of those that mean padding, an end or an image."""
        plain = self.config.to_dict()
        words = min(
            [*self.embedding(), *(value for name, value in _walk(plain) if _is_vocabulary(name, value))], default=2
        )
        special = {number for name, value in _walk(plain) if SPECIAL.fullmatch(name) for number in _numbers(value)}
        ordinary = [i for i in range(words) if i not in special] or list(range(words))
        return torch.tensor(ordinary)[torch.randint(len(ordinary), size, generator=self.draw)]

    def embedding(self) -> list[int]:
        """How many words its table has; nothing for a model without such a table."""
        try:
            return [int(self.model.get_input_embeddings().num_embeddings)]  # type: ignore[operator]
        except Exception:
            return []

    def reading(self, stream: Stream) -> Roles:
        causal = is_causal(self.model)
        return Roles(streams=(stream,), step=self.step(stream) if causal else None)

    def translating(self, inputs: Inputs, streams: tuple[Stream, ...]) -> Found:
        """The decoder's tokens are what the output follows; what the encoder reads comes second."""
        text, stream = self.text("decoder_")
        return inputs | text, Roles(streams=(stream, *streams), step=self.step(stream))

    def sources(self) -> Iterator[tuple[Inputs, tuple[Stream, ...]]]:
        """What an encoder may read: text, or an image or sound."""
        if "input_ids" in self.names and self.main == "input_ids":
            inputs, stream = self.text(more=3)  # not as many as the decoder's, so that they can be told apart
            yield inputs, (stream,)
        for inputs in self.signals():
            yield inputs, ()

    def step(self, stream: Stream) -> Callable[[nn.Module, Inputs, Any], tuple[Any, Any]] | None:
        """Decoding with a cache; None for a model that has none."""
        name = next((each for each in CACHES if each in self.names), None)
        if name is None:
            return None
        mask = stream.mask or ""
        how = {"use_cache": True} if "use_cache" in self.names else {}

        def step(model: nn.Module, inputs: Inputs, state: Any) -> tuple[Any, Any]:
            """The past is what the model returned; its mask has to cover old and new tokens. An encoder reads
            all again."""
            past, seen = state if state is not None else (None, None)
            new = dict(inputs)
            # a recurrence keeps no tokens to be hidden
            if mask in new and seen is not None and name != "cache_params":
                new[mask] = torch.cat([seen, new[mask]], 1)
            output = model(**new, **{name: past}, **how)
            after = getattr(output, name, None)
            if after is None:
                raise RegardError(f"{type(model).__name__} takes {name} and returns none")
            return output, (after, new.get(mask))

        return step

    # ---- images and sound

    def signals(self) -> Iterator[Inputs]:
        """Images b c h w and videos b t c h w, waves b n, spectrograms b n m or b m n: whichever has a
        name."""
        if "pixel_values" in self.names:
            for height, width in self.image_sizes():
                yield {"pixel_values": self.noise(self.rows, self.channels(), height, width)}
            frames = self.field("num_frames", 4)
            for height, width in self.image_sizes():
                yield {"pixel_values": self.noise(self.rows, frames, self.channels(), height, width)}
        if "pixel_values_videos" in self.names and "pixel_values" not in self.names:
            for height, width in self.image_sizes():
                frames = self.field("num_frames", 4)
                yield {"pixel_values_videos": self.noise(self.rows, frames, self.channels(), height, width)}
        if "input_values" in self.names:
            longest, bins = self.field("max_length", FRAMES), self.field("num_mel_bins", 80)
            if hasattr(self.config, "num_mel_bins") and hasattr(self.config, "max_length"):
                yield {"input_values": self.noise(self.rows, longest, bins)}
            yield {"input_values": self.noise(self.rows, SAMPLES)}
            yield {"input_values": self.noise(self.rows, 1, SAMPLES)}
        if "input_features" in self.names:
            for bins in dict.fromkeys(
                (self.field("num_mel_bins", 80), self.field("feature_projection_input_dim", 160), 128)
            ):
                yield {"input_features": self.noise(self.rows, FRAMES, bins)}
                yield {
                    "input_features": self.noise(self.rows, bins, 2 * self.field("max_source_positions", FRAMES // 2))
                }
                yield {"input_features": self.noise(self.rows, bins, FRAMES)}

    def image_sizes(self) -> list[tuple[int, int]]:
        given = self.field("image_size", None)
        if isinstance(given, Mapping):
            given = list(given.values())
        if isinstance(given, int):
            return [(given, given)]
        if isinstance(given, list | tuple) and len(given) >= 2:
            return [(int(given[-2]), int(given[-1]))]
        return [(size, size) for size in PIXELS]

    def channels(self) -> int:
        return int(self.field("num_channels", self.field("in_channels", 3)) or 3)

    def field(self, name: str, default: Any) -> Any:
        """A field of the configuration, or of its part for vision or sound."""
        inner = ("vision_config", "audio_config", "encoder", "encoder_config")
        parts = [self.config, *(getattr(self.config, part, None) for part in inner)]
        return next((value for part in parts if (value := getattr(part, name, None)) is not None), default)

    def noise(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self.draw)

    # ---- when it ran

    def settled(self, roles: Roles, output: Any) -> Roles:
        """The roles with what of the output counts, and with what the model promises once that is known."""
        read = _reader(output)
        counts = main_tensor(output) if read is None else read(output)
        follows = counts is not None and counts.dim() > 2 and counts.shape[1] == self.tokens
        streams = roles.streams
        if not follows:  # it was pooled, perhaps from its first token, so padding may not come before that
            streams = tuple(replace(stream, sides=("right",)) for stream in streams)
        roles = replace(roles, streams=streams, step=roles.step if follows else None, read=read)
        return replace(roles, promises=promises(self.model, roles, follows))


def _reader(output: Any) -> Callable[[Any], Tensor] | None:
    """How to find what counts in an output that has neither logits nor hidden states; None where it has.

    Of a text and an image: what each became. Their products compare every row with every other one, on
    purpose. Of anything else: the largest of its tensors.
    """
    if not isinstance(output, Mapping) or {"logits", "last_hidden_state", "prediction_logits"} & set(output):
        return None
    if {"text_embeds", "image_embeds"} <= set(output):
        return lambda output: torch.cat([output[name].flatten(1) for name in ("text_embeds", "image_embeds")], 1)
    sizes = {name: x.numel() for name, x in output.items() if isinstance(x, Tensor) and x.is_floating_point()}
    largest = max(sizes, key=lambda name: sizes[name], default=None)
    if largest is None:
        return None
    return lambda output: output[largest]


def _is_vocabulary(name: str, value: Any) -> bool:
    return name.endswith("vocab_size") and not name.startswith("type_") and isinstance(value, int) and value > 0


def _walk(plain: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every field of a configuration and of the configurations inside it."""
    for name, value in plain.items():
        if isinstance(value, Mapping):
            yield from _walk(value)
        yield str(name), value


def _numbers(value: Any) -> list[int]:
    return [each for each in (value if isinstance(value, list | tuple) else [value]) if isinstance(each, int)]
