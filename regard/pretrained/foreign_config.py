"""A config.json of Hugging Face, read key by key: what is not understood is refused by its name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from regard.errors import RegardError

# keys that say nothing about what a model computes when it is used
WITHOUT_EFFECT = frozenset(
    {
        "_name_or_path", "_attn_implementation_autoset", "architectures", "auto_map", "bos_token_id",
        "classifier_dropout", "dtype", "eos_token_id", "finetuning_task", "gradient_checkpointing",
        "id2label", "initializer_factor", "initializer_range", "keys_to_ignore_at_inference", "label2id",
        "language", "mask_token_id", "model_type", "num_labels", "pad_token_id", "problem_type", "sep_token_id",
        "task_specific_params", "tokenizer_class", "torch_dtype", "transformers.js_config",
        "transformers_version", "unk_token_id", "unsloth_fixed", "unsloth_version", "use_cache",
    }
)  # fmt: skip


class ForeignConfig:
    """The keys of a config.json. Each is asked for once; at the end, `finish` names those that nobody asked for."""

    def __init__(self, plain: Mapping[str, Any], where: str, tensors: Iterable[str] = ()) -> None:
        self.plain, self.where = plain, where
        self.tensors = frozenset(tensors)  # names of the weights that come with it
        self.left = set(plain) - WITHOUT_EFFECT

    def get(self, name: str, default: Any) -> Any:
        """A value; their default if the key is missing."""
        self.left.discard(name)
        return self.plain.get(name, default)

    def whole(self, name: str, default: int | None = None) -> int:
        """A whole number above zero."""
        value = self.get(name, default)
        if type(value) is not int or value < 1:
            raise RegardError(f"{self.where}: {name} must be a whole number above zero, got {value!r}")
        return value

    def number(self, name: str, default: float) -> float:
        value = self.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise RegardError(f"{self.where}: {name} must be a number, got {value!r}")
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        value = self.get(name, default)
        if not isinstance(value, bool):
            raise RegardError(f"{self.where}: {name} must be true or false, got {value!r}")
        return value

    def require(self, name: str, *accepted: Any) -> None:
        """Raise unless a key is missing or has one of these values."""
        value = self.get(name, accepted[0])
        if value not in accepted:
            raise self.refuse(name, value, f"only {' or '.join(repr(each) for each in accepted)}")

    def choice(self, name: str, default: str, known: Mapping[str, str]) -> Any:
        """A name of theirs as ours."""
        value = self.get(name, default)
        if not isinstance(value, str) or value not in known:
            raise self.refuse(name, value, f"only {', '.join(known)}")
        return known[value]

    def ignore(self, *names: str) -> None:
        """Keys that change nothing when the model is used: shares of dropout and the like."""
        self.left -= set(names)

    def refuse(self, name: str, value: Any, why: str) -> RegardError:
        return RegardError(
            f"{self.where}: {name}={value!r} cannot be represented; {self.plain.get('model_type')} models are "
            f"read with {why}"
        )

    def finish(self) -> None:
        """Raise for a key that nobody asked for, unless it is empty."""
        unknown = sorted(name for name in self.left if self.plain[name] not in (None, False, {}, []))
        if unknown:
            name = unknown[0]
            more = f", and {len(unknown) - 1} more" if len(unknown) > 1 else ""
            raise RegardError(
                f"{self.where}: {name}={self.plain[name]!r} is not known{more}; if it changes nothing of what "
                f"the model computes, remove it"
            )


ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "relu": "relu",
}
ACTIVATION_NAMES = {"gelu": "gelu", "gelu_tanh": "gelu_new", "relu": "relu"}
