"""Default settings for pairs: small models for made pairs, larger ones for sentences.

Sizes that depend on the data (the size of the vocabulary) are filled in when the data is read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from regard.models.conv import ConvSeq2SeqConfig
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.models.recurrent import GRUSeq2SeqConfig, LSTMSeq2SeqConfig
from regard.models.seq2seq import Seq2SeqConfig
from regard.recipes.settings import Settings, check_choice, path_of, settings_class
from regard.recipes.translation.dataset import PairsConfig
from regard.runs.run_config import RunConfig
from regard.training.config import TrainConfig

UNKNOWN = 1  # stands for a size that follows from the data

# what a person types -> the name in the registry
KINDS = {"transformer": "encoderdecoder", "lstm": "lstmseq2seq", "gru": "gruseq2seq", "conv": "convseq2seq"}
CONFIGS: dict[str, type[Seq2SeqConfig]] = {
    "encoderdecoder": EncoderDecoderConfig,
    "lstmseq2seq": LSTMSeq2SeqConfig,
    "gruseq2seq": GRUSeq2SeqConfig,
    "convseq2seq": ConvSeq2SeqConfig,
}
SENTENCES = {
    "encoderdecoder": "A transformer: encoder, decoder, and attention between them.",
    "lstmseq2seq": "An LSTM encoder and decoder, with attention between them.",
    "gruseq2seq": "A GRU encoder and decoder, with attention between them.",
    "convseq2seq": "Gated convolutions, with attention in each layer of the decoder.",
}
SETTINGS = {
    kind: settings_class(f"{kind.title()}Settings", SENTENCES[kind], data=PairsConfig, model=cls)
    for kind, cls in CONFIGS.items()
}

# of made pairs, whose rule a small model learns whole
SMALL: dict[str, dict[str, Any]] = {
    "encoderdecoder": {"dim": 128, "depth": 2, "heads": 4, "dropout": 0.0, "zero_start": True},
    "lstmseq2seq": {"dim": 128, "depth": 1, "dropout": 0.0},
    "gruseq2seq": {"dim": 128, "depth": 1, "dropout": 0.0},
    "convseq2seq": {"dim": 128, "depth": 4, "dropout": 0.0, "position": "sinusoidal"},
}
# of sentences, of which there are never enough (of Multi30k the smallest model wins)
LARGE: dict[str, dict[str, Any]] = {
    "encoderdecoder": {"dim": 128, "depth": 4, "heads": 4, "dropout": 0.1, "zero_start": True},
    "lstmseq2seq": {"dim": 256, "depth": 1, "dropout": 0.3},
    "gruseq2seq": {"dim": 256, "depth": 1, "dropout": 0.3},
    "convseq2seq": {"dim": 256, "depth": 4, "dropout": 0.3},
}


def registry_name(kind: str | None) -> str:
    """The name in the registry of a kind of model, which may be given by either name."""
    if kind is None:
        return "encoderdecoder"
    if kind in CONFIGS:
        return kind
    check_choice("kind of model for pairs", kind, tuple(KINDS))
    return KINDS[kind]


def defaults(data: Any = None, kind: str | None = None) -> Settings:
    """Settings for these pairs and this kind of model."""
    path = path_of(data, "translation")
    pairs = PairsConfig(path=path)
    # (tested on longer lists than it learned from, a recurrent model goes on where a transformer fails)
    usual = "lstm" if pairs.made == "reverse" else "transformer"
    name = registry_name(kind or usual)
    sizes: dict[str, Any] = {"vocab": UNKNOWN, "context": UNKNOWN}
    if pairs.made is not None:
        return SETTINGS[name](
            data=replace(pairs, context=64, batch_tokens=2048, smoothing=0.0, validation=0.025, test=0.025),
            model=CONFIGS[name](**SMALL[name], **sizes),
            train=TrainConfig(minutes=2.0, batch=128),
        )
    return SETTINGS[name](
        data=pairs,
        model=CONFIGS[name](**LARGE[name], **sizes),
        train=TrainConfig(minutes=15.0, batch=256, average=0.998, warmup=100),
    )


def settings_class_of(config: RunConfig) -> type[Settings]:
    """The class of the settings of a run with this config.json."""
    return SETTINGS[registry_name(config.kind)]
