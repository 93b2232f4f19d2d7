"""Default settings for text: a language model (or a masked one) for plain text, a classifier for labelled text.

Sizes that depend on the data (the size of the vocabulary) are filled in when the data is read.
"""

from __future__ import annotations

from typing import Any

from regard.data.text_files import find
from regard.models.additive import AdditiveConfig
from regard.models.conv import ConvConfig
from regard.models.decoder import DecoderConfig
from regard.models.encoder import EncoderConfig
from regard.models.permutation_lm import PermutationConfig
from regard.models.recurrent import GRUConfig, LSTMConfig
from regard.models.token_model import TokenConfig
from regard.recipes.settings import Settings, check_choice, path_of, settings_class
from regard.recipes.text.chat_rows import looks_like_chats
from regard.recipes.text.chats import ChatConfig
from regard.recipes.text.dataset import CHARACTERS_UP_TO, TextConfig
from regard.recipes.text.labelled import LabelledConfig, looks_labelled
from regard.runs.run_config import RunConfig
from regard.training.config import TrainConfig

UNKNOWN = 1  # stands for a size that follows from the data
JUDGED = 120_000  # bytes of text that are enough to evaluate a small model; at most a tenth of the text

# Up to this size, a table of labelled texts (10,000 reviews, 50,000 titles) teaches blocks little that a bag of
# n-grams does not know, and they would learn it by heart: one block, which learns slowly.
FEW_LABELLED = 4_000_000  # bytes
# Up to a size (in bytes), a table of labelled texts has a budget in steps: a bag of n-grams has then learned what
# it can. Larger ones have minutes.
STEPS_OF_LABELLED = {20_000: 300, 400_000: 600}
MINUTES_OF_LABELLED = 1.0

DecoderSettings = settings_class(
    "DecoderSettings", "A causal LM: predicts each token from those before it.", data=TextConfig, model=DecoderConfig
)
EncoderSettings = settings_class(
    "EncoderSettings",
    "A masked LM: predicts masked tokens from all others. A good start (--from) for classifiers with few labels.",
    data=TextConfig,
    model=EncoderConfig,
)
PermutationSettings = settings_class(
    "PermutationSettings",
    "A permutation LM (XLNet): predicts tokens from those before them in a random order. It generates text, and is a "
    "good start (--from) for classifiers with few labels.",
    data=TextConfig,
    model=PermutationConfig,
)
ClassifierSettings = settings_class(
    "ClassifierSettings", "A classifier of texts.", data=LabelledConfig, model=EncoderConfig
)
AdditiveSettings = settings_class(
    "AdditiveSettings",
    "Evidence of each token alone, which sums to the logit (or the number) exactly.",
    data=LabelledConfig,
    model=AdditiveConfig,
)
ChatSettings = settings_class(
    "ChatSettings",
    "A causal LM of conversations: predicts the answers of the assistant, each from what comes before it.",
    data=ChatConfig,
    model=DecoderConfig,
)
SIZES: dict[str, Any] = {"vocab": UNKNOWN, "context": UNKNOWN}

# Models without self-attention: language models of plain text, classifiers of labelled text.
KINDS: dict[str, type[TokenConfig]] = {"lstm": LSTMConfig, "gru": GRUConfig, "conv": ConvConfig}
LANGUAGE_MODELS = ("decoder", *KINDS)
MODELS = ("decoder", "encoder", "permutation", *KINDS, "additive")
PLAIN_MODELS = ("decoder", "encoder", "permutation", *KINDS)
# what a model of plain text learns (--task) -> the kinds of model that can, the default first
TASKS = {"next": LANGUAGE_MODELS, "masked": ("encoder",), "permutation": ("permutation",)}
CHAT_MODELS = ("decoder",)  # only its mask keeps conversations in one row apart
LABELLED_MODELS = ("encoder", *KINDS, "additive")
PLAIN = {
    kind: settings_class(f"{kind.upper()}Settings", cls.__doc__ or "", data=TextConfig, model=cls)
    for kind, cls in KINDS.items()
}
LABELLED = {
    kind: settings_class(f"{kind.upper()}ClassifierSettings", "A classifier of texts.", data=LabelledConfig, model=cls)
    for kind, cls in KINDS.items()
}
# a classifier reads both ways: a recurrent one in two directions, a convolution around each token
BOTH_WAYS: dict[str, dict[str, Any]] = {
    "lstm": {"bidirectional": True, "depth": 1},
    "gru": {"bidirectional": True, "depth": 1},
    "conv": {"depth": 2},
}


def defaults(data: Any = None, kind: str | None = None, columns: bool = False) -> Settings:
    """A decoder (or encoder) for plain text, a classifier for labelled text (.csv, .jsonl), a decoder for
    conversations (.jsonl). columns: those of text and label are named, so there are labels"""
    path = path_of(data, "text")
    if path is not None and not columns and looks_like_chats(path):
        check_choice("kind of model for conversations", kind or "decoder", CHAT_MODELS)
        return _chat_defaults(path)
    if kind == "additive":
        return _additive_defaults(path)
    if path is not None and looks_labelled(path):
        check_choice("kind of model for labelled text", kind or "encoder", LABELLED_MODELS)
        if kind in KINDS:
            return _labelled(path, kind)
        size = sum(file.size for file in find(path))
        few, steps = size <= FEW_LABELLED, _steps_for(size)
        model = EncoderConfig(dim=128, depth=1 if few else 3, heads=4, dropout=0.2, bag=True, zero_start=True, **SIZES)
        return ClassifierSettings(
            data=LabelledConfig(path=path, smoothing=0.1),
            model=model,
            # keep: of smoothed labels the loss falls to the end, where few rows' accuracy is chance
            train=TrainConfig(minutes=MINUTES_OF_LABELLED, steps=steps, batch=32, lr=0.01, adam_lr=0.001),
        )
    kind = kind or "decoder"
    check_choice("kind of model for plain text", kind, PLAIN_MODELS)
    total = sum(file.size for file in find(path))
    small = total <= CHARACTERS_UP_TO
    # characters: many short windows; subwords: a wider model with a longer context
    share = min(0.1, round(JUDGED / total, 4))
    texts = TextConfig(path=path, context=64 if small else 256, validation=share)
    # (in a few minutes two blocks with n-grams learn more than four blocks without)
    if small:
        shape: dict[str, Any] = {"dim": 128, "depth": 2, "heads": 4}
    else:
        shape = {"dim": 256, "depth": 6, "heads": 8}
    # (16 rows per step in two halves, because the logits of thousands of subwords need most of the memory)
    large = TrainConfig(minutes=10.0, batch=8, accumulate=2)
    if small:
        train = TrainConfig(minutes=2.0, batch=32, adam_lr=0.012, warmup=10)
    else:
        train = large
    if kind in KINDS:
        return _plain(kind, texts, small, train)
    if kind == "encoder":
        return EncoderSettings(data=texts, model=EncoderConfig(zero_start=True, **shape, **SIZES), train=train)
    if kind == "permutation":
        return PermutationSettings(data=texts, model=PermutationConfig(zero_start=True, **shape, **SIZES), train=train)
    decoder = DecoderConfig(ngrams=5 if small else 2, zero_start=True, **shape, **SIZES)
    return DecoderSettings(data=texts, model=decoder, train=train)


def _chat_defaults(path: str) -> Settings:
    """A decoder for conversations; bytes are enough for small files, as characters are for plain text."""
    small = sum(file.size for file in find(path)) <= CHARACTERS_UP_TO
    if small:
        shape: dict[str, Any] = {"dim": 128, "depth": 2, "heads": 4, "ngrams": 5}
        train = TrainConfig(minutes=2.0, batch=8, adam_lr=0.012, warmup=10)
    else:
        shape = {"dim": 256, "depth": 6, "heads": 8, "ngrams": 2}
        train = TrainConfig(minutes=10.0, batch=8, accumulate=2)
    model = DecoderConfig(zero_start=True, **shape, **SIZES)
    return ChatSettings(data=ChatConfig(path=path), model=model, train=train)


def _plain(kind: str, texts: TextConfig, small: bool, train: TrainConfig) -> Settings:
    """A language model without self-attention."""
    if kind == "conv":
        size: dict[str, Any] = {"dim": 128, "depth": 6} if small else {"dim": 384, "depth": 8}
    else:
        size = {"dim": 256, "depth": 2} if small else {"dim": 512, "depth": 2}
    return PLAIN[kind](data=texts, model=KINDS[kind](**size, **SIZES), train=train)


def _labelled(path: str, kind: str) -> Settings:
    """A classifier without self-attention."""
    return LABELLED[kind](
        data=LabelledConfig(path=path, smoothing=0.1),
        model=KINDS[kind](dim=128, dropout=0.3, pool="max", classes=UNKNOWN, **BOTH_WAYS[kind], **SIZES),
        train=TrainConfig(minutes=1.0, batch=32, lr=0.01, adam_lr=0.003),
    )


def _steps_for(size: int) -> int | None:
    """The steps of a table of labelled texts of so many bytes; None: its budget is in minutes."""
    return next((steps for most, steps in STEPS_OF_LABELLED.items() if size <= most), None)


def _additive_defaults(path: str | None) -> Settings:
    """For a table of texts and labels; what is wrong with another path is said when it is read."""
    size = 0
    if path is not None and looks_labelled(path):
        size = sum(file.size for file in find(path))
    return AdditiveSettings(
        data=LabelledConfig(path=path or "", smoothing=0.1),
        model=AdditiveConfig(outputs=UNKNOWN, bag=True, dropout=0.2, **SIZES),
        train=TrainConfig(
            minutes=MINUTES_OF_LABELLED,
            steps=_steps_for(size),
            batch=32,
            lr=0.001 if size <= FEW_LABELLED else 0.01,
            adam_lr=0.0003,
        ),
    )


def settings_class_of(config: RunConfig) -> type[Settings]:
    """The class of the settings of a run with this config.json."""
    if config.kind in KINDS:
        return (LABELLED if is_classifier(config) else PLAIN)[config.kind]
    if is_chat(config):
        return ChatSettings
    if is_language_model(config):
        return DecoderSettings
    if is_additive(config):
        return AdditiveSettings
    if is_classifier(config):
        return ClassifierSettings
    if is_permutation(config):
        return PermutationSettings
    return EncoderSettings


def kind_of(model: TokenConfig) -> str:
    """The kind of model that a config builds."""
    return next(kind for kind, cls in KINDS.items() if type(model) is cls)


def is_language_model(config: RunConfig) -> bool:
    """Does it predict the next token?"""
    return config.kind in LANGUAGE_MODELS and not is_classifier(config)


def is_chat(config: RunConfig) -> bool:
    """Was it trained on conversations?"""
    return config.kind in CHAT_MODELS and "template" in (config.data or {})


def is_permutation(config: RunConfig) -> bool:
    """Does it predict tokens in any order, the one of the text among them?"""
    return config.kind == "permutation"


def is_additive(config: RunConfig) -> bool:
    return config.kind == "additive"


def is_classifier(config: RunConfig) -> bool:
    """Does it predict labels, or a number, of whole texts?"""
    if is_additive(config):
        return True
    return config.model is not None and config.model.get("classes") is not None


def has_bag(config: RunConfig) -> bool:
    """Does the model read what tokens are made of, see BagOfNGrams?"""
    return config.model is not None and bool(config.model.get("bag"))
