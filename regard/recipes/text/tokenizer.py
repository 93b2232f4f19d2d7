"""The tokenizer of a run: one that a user names, one that is learned from texts, or that of the run to start from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Self

from regard.config import Vocab, config
from regard.data.batch import generator
from regard.data.learn_tokenizer import learn
from regard.data.text_files import sample_sizes
from regard.data.tokenizer import Tokenizer, load
from regard.errors import RegardError
from regard.models.encoder import EncoderConfig
from regard.runs.run import Run


def load_given_tokenizer(path: str) -> Tokenizer:
    """The tokenizer at this path: a tokenizer.json, or the folder of a run or of a model that holds one. That of a run
    only if it is as it was written."""
    folder = Path(path)
    if folder.name == "tokenizer.json" and not folder.is_dir():
        folder = folder.parent
    if Run.exists(folder):
        return load(Run.open(folder).verify("tokenizer.json"))
    return load(path)


def learn_subwords(texts: Sequence[str], vocabulary: int, sample: float, seed: int) -> Tokenizer:
    """A tokenizer of bpe, from at most so many megabytes of these texts."""
    chosen = sample_sizes([len(text.encode()) for text in texts], sample * 1e6, generator(seed, 0))
    return learn("bpe", ["\n".join(texts[place] for place in chosen)], vocabulary)


def inherit_tokenizer(run: Run | None, data: Any) -> Tokenizer | None:
    """The tokenizer of the run that is resumed or started from; None if it was killed before it saved one. data: the
    section of the settings, which must not ask for another"""
    if run is not None and run.config.imported is not None and not run.tokenizer_file.exists():
        raise RegardError(
            f"{run.path} has no tokenizer, so its model cannot read text; import it again with a "
            f"tokenizer.json beside its config.json"
        )
    if run is None or not run.tokenizer_file.exists():
        return None
    own = run.config.data or {}
    for name, default in (("tokens", "auto"), ("tokenizer", None)):
        asked = getattr(data, name)
        if asked not in (default, own.get(name)):
            raise RegardError(
                f"the tokenizer comes from {run.path}, so --data.{name} {asked} has no effect; leave it out, "
                "or train without --from"
            )
    return load(run.verify("tokenizer.json"))


@config
class RunTokenizer:
    """The tokenizer of a run: config.json has its kind and size, a file beside the weights the rest."""

    kind: str  # of the tokens
    vocabulary: Vocab
    tokenizer: Any = field(default=None, metadata={"file": "tokenizer.json"})

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Self:
        return cls(kind=tokenizer.name, vocabulary=tokenizer.size, tokenizer=tokenizer)

    def store(self) -> dict[str, Any]:
        """For config.json."""
        return {"kind": self.kind, "vocabulary": self.vocabulary}

    def describe(self) -> str:
        return f"tokens: {self.vocabulary:,} {self.kind}"

    def save(self, run: Run) -> None:
        """Write the tokenizer beside the weights, once."""
        if not run.tokenizer_file.exists():
            run.write("tokenizer.json", self.tokenizer.to_json())


def attach_tokenizer(run: Run, model: Any) -> Any:
    """A model with the tokenizer of its run as `model.tokenizer`. Weights of others may come without one."""
    if run.config.imported is None or run.tokenizer_file.exists():
        model.tokenizer = load(run.verify("tokenizer.json"))
    return model


def fit_sizes(model: Any, vocab: int, context: int, old: Run | None) -> Any:
    """The config of a transformer for so many ids and so many tokens. That of an earlier run keeps its tables, which may
    be larger: those of others often have rows to spare."""
    before = (old.config.model or {}) if old is not None else {}
    if old is not None and old.config.imported is not None:
        least = vocab - 1 if isinstance(model, EncoderConfig) else vocab  # theirs has the mask among its ids
        if before["vocab"] < least:
            raise RegardError(
                f"the tokenizer of {old.path} has {least} ids, but the model knows {before['vocab']} only"
            )
        vocab = before["vocab"]
        if before["position"] == "learned":
            if context > before["context"]:
                raise RegardError(
                    f"the model of {old.path} has {before['context']} places, got --data.context {context}; "
                    f"give at most {before['context']}"
                )
            context = before["context"]
    return replace(model, vocab=vocab, context=context)
