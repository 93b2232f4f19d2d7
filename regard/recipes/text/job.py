"""Text: a corpus and its tokenizer become a task, batches, and a model config that fits them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import nn

from regard.data import tokenizer as tokenizers
from regard.errors import RegardError
from regard.generation.generate import generate
from regard.models.attentions import note_attention
from regard.models.encoder import EncoderConfig
from regard.models.permutation_lm import PermutationConfig
from regard.models.token_model import TokenConfig
from regard.recipes.job import DataContext, Job, Split
from regard.recipes.settings import Settings
from regard.recipes.text.config import TextConfig
from regard.recipes.text.dataset import Corpus, encode_corpus, prepare
from regard.recipes.text.defaults import is_language_model, is_permutation, kind_of
from regard.recipes.text.streams import make_source
from regard.recipes.text.tokenizer import fit_sizes, inherit_tokenizer, keep_tokenizer
from regard.runs.run import Run
from regard.training.config import TrainConfig
from regard.training.permuted_task import PermutedToken
from regard.training.stream_task import StreamedToken
from regard.training.tasks import MaskedToken, NextToken, Task

OPENING, SAMPLE = 24, 160  # tokens of the prompt, from the validation split, and of the sample after it


def prepare_job(settings: Settings, context: DataContext) -> Job:
    """Read the text, then make the task, the source and a model config that fits it."""
    train, length = settings.train, settings.data.context
    how: dict[str, Any] = {
        "seed": settings.data.seed_of(train.seed),
        "note": context.note,
        "tokenizer": inherit_tokenizer(context.old, settings.data),
    }
    if getattr(settings.model, "head", None) == "none":
        raise RegardError(
            "this model has no head that predicts tokens (head='none'); give a table of texts and labels, or "
            "start from a masked LM"
        )
    corpus = prepare(settings.data, cache=context.cache, **how)
    size = corpus.tokenizer.size
    memory = getattr(settings.model, "memory", 0)
    source = make_source(corpus.ids, corpus.split, train.batch, length, train.seed, corpus.end, memory=memory)
    test = None
    if len(corpus.test):
        test = Split(name="test", count=len(corpus.test), unit="tokens", batches=source.test)
    known: dict[str, Any] = {
        "source": source,
        "test": test,
        "info": corpus.info,
        "keep": lambda run: keep_tokenizer(run, corpus.tokenizer),
        "validation": len(corpus.validation),
        "examples": "tokens",
        "notes": note_attention(settings.model, length),
    }
    if isinstance(settings.model, EncoderConfig):  # one more id than the tokenizer has: the mask
        encoder = fit_sizes(settings.model, size + 1, length, context.old)
        return Job(kind="encoder", model=encoder, task=_masked_task(encoder.vocab, corpus.tokenizer, train), **known)
    sample = _writer(corpus, train.seed)
    if isinstance(settings.model, PermutationConfig):
        permutation = replace(settings.model, vocab=size + 1, context=length)
        permuted = PermutedToken(permutation.predicted, seed=train.seed)
        return Job(kind="permutation", model=permutation, task=permuted, sample=sample, **known)
    language_model = fit_sizes(settings.model, size, length, context.old)
    kind = "decoder"
    if isinstance(language_model, TokenConfig):
        kind = kind_of(language_model)
    task = _next_token(memory, length)
    return Job(kind=kind, model=language_model, task=task, sample=sample, **known)


def refuse_compiled_memory(settings: Settings) -> None:
    """Raise for a memory in a compiled model: it grows and moves on with every segment, and each would be compiled
    anew."""
    memory = getattr(settings.model, "memory", 0)
    if memory and settings.train.compile:
        raise RegardError(
            f"--train.compile does not go with --model.memory {memory}, because every segment would be compiled anew; "
            "leave one of them out"
        )


def _next_token(memory: int, context: int) -> Task:
    """With a memory, texts are read segment by segment."""
    if memory:
        return StreamedToken(memory, context)
    return NextToken()


def _writer(corpus: Corpus, seed: int) -> Callable[[nn.Module], str]:
    if len(corpus.validation):
        unseen = corpus.validation
    else:
        unseen = corpus.train
    opening = corpus.tokenizer.decode(unseen[:OPENING])

    def sample(model: nn.Module) -> str:
        """Text that the model generates now, after a prompt from the validation split."""
        pieces = generate(model, opening, tokenizer=corpus.tokenizer, max_new=SAMPLE, seed=seed)
        return opening + "".join(pieces)

    return sample


def other_split(
    run: Run, path: str, context: DataContext, memory: int = 0
) -> tuple[Task, Split, tuple[str, ...] | None]:
    """Another text, read with the tokenizer of the run. memory: of a causal LM, the tokens that it sees before a
    segment"""
    train, tokenizer = run.section(TrainConfig, "train"), tokenizers.load(run.verify("tokenizer.json"))
    config = replace(run.section(TextConfig, "data"), path=path)
    corpus = encode_corpus(config, cache=context.cache, seed=train.seed, note=context.note, tokenizer=tokenizer)
    if len(corpus.ids) < 2:
        raise RegardError(f"{path} has {len(corpus.ids)} token, but a prediction needs at least two; give more text")
    # every token but the first is predicted
    source = make_source(corpus.ids, 1, train.batch, config.context, train.seed, memory=memory)
    split = Split(name=path, count=len(corpus.ids) - 1, unit="tokens", batches=source.validation)
    if is_language_model(run.config):
        return _next_token(memory, config.context), split, None
    if is_permutation(run.config):
        model = run.section(PermutationConfig, "model")
        return PermutedToken(model.predicted, seed=train.seed), split, None
    return _masked_task(int((run.config.model or {})["vocab"]), tokenizer, train), split, None


def _masked_task(vocab: int, tokenizer: tokenizers.Tokenizer, train: TrainConfig) -> MaskedToken:
    """Ours have one more id than the tokenizer, the mask; the vocabulary of others holds it."""
    mask = tokenizer.size
    if vocab <= mask:
        if tokenizer.mask is None:
            raise RegardError("the tokenizer has no [MASK], so no tokens can be masked")
        mask = tokenizer.mask
    return MaskedToken(mask=mask, vocab=tokenizer.size, seed=train.seed)
