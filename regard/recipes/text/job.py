"""Text: a corpus and its tokenizer become a task, batches, and a model config that fits them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import nn

from regard.data import tokenizer as tokenizers
from regard.data.splits import SPLITS, TEST, note_missing
from regard.data.targets import Numbers
from regard.errors import RegardError
from regard.generation.generate import generate
from regard.models.additive import Additive, AdditiveConfig
from regard.models.attentions import note_attention
from regard.models.encoder import Encoder, EncoderConfig
from regard.models.permutation_lm import PermutationConfig
from regard.models.token_model import TokenConfig
from regard.nn.ngram_logistic import ALONE
from regard.recipes.job import DataContext, Job, Split
from regard.recipes.settings import Settings
from regard.recipes.text.dataset import Corpus, TextConfig, encode_corpus, prepare
from regard.recipes.text.defaults import has_bag, is_classifier, is_language_model, is_permutation, kind_of
from regard.recipes.text.fill_bag import fill_bag, usual_lengths
from regard.recipes.text.labelled import (
    LabelledConfig,
    LabelledCorpus,
    LabelledInfo,
    looks_labelled,
    prepare_labelled,
    read_other_labelled,
)
from regard.recipes.text.labelled_texts import LabelledTexts
from regard.recipes.text.streams import make_source
from regard.runs.run import Run
from regard.training.config import TrainConfig
from regard.training.permuted_task import PermutedToken
from regard.training.stream_task import StreamedToken
from regard.training.tasks import Classify, MaskedToken, NextToken, Regress, Task

OPENING, SAMPLE = 24, 160  # tokens of the prompt, from the validation split, and of the sample after it


def prepare_job(settings: Settings, context: DataContext) -> Job:
    """Read the text, then make the task, the source and a model config that fits it."""
    train, length = settings.train, settings.data.context
    how: dict[str, Any] = {
        "seed": settings.data.seed_of(train.seed),
        "note": context.note,
        "tokenizer": tokenizer_of(context.old, settings.data),
    }
    if isinstance(settings.model, AdditiveConfig) and not looks_labelled(settings.data.path):
        raise RegardError(
            "an additive model predicts the label of a text, and plain text has none; give a table of texts and "
            "labels, such as --data reviews.csv"
        )
    if isinstance(settings.data, LabelledConfig):
        rows = prepare_labelled(settings.data, **how)
        return _classify(rows, settings.model, settings.data, train, context.old)
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
        "keep": keep_tokenizer(corpus.tokenizer),
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


def _classify(
    rows: LabelledCorpus,
    model: EncoderConfig | TokenConfig | AdditiveConfig,
    data: LabelledConfig,
    train: TrainConfig,
    old: Run | None = None,
) -> Job:
    def fill(model: nn.Module) -> None:
        if isinstance(model, Encoder) and model.bag is not None:
            fill_bag(model.bag, rows, share=ALONE)
            model.gate.penalty = 1 / rows.info.train
        if isinstance(model, Additive) and model.bag is not None:
            fill_bag(model.bag, rows)
            model.lengths.copy_(usual_lengths(model.bag, rows))

    if rows.numbers is not None and isinstance(model, EncoderConfig):
        model = replace(model, bag=False)  # its gate is made for classes: numbers are learned far better without
    outputs = len(rows.labels) or 1
    sizes: dict[str, Any] = {"vocab": rows.tokenizer.size, "context": data.context, "classes": outputs}
    if isinstance(model, TokenConfig):
        kind = kind_of(model)
    elif isinstance(model, AdditiveConfig):
        kind = "additive"
        sizes = {"vocab": rows.tokenizer.size + 1, "context": data.context, "outputs": outputs}
        sizes["contrast"] = outputs > 1
    else:  # one more id than the tokenizer has: the mask
        kind, sizes["vocab"] = "encoder", rows.tokenizer.size + 1
    if kind == "encoder":
        fitted = fit_sizes(model, sizes["vocab"], data.context, old)
        sizes |= {"vocab": fitted.vocab, "context": fitted.context}
    spelled = bool(getattr(model, "bag", False))
    test = None
    if rows.info.test:
        test = Split(
            name="test",
            count=rows.info.test,
            unit="rows",
            batches=lambda: rows.batches(TEST, train.batch, data.context, spelled),
        )
    table = LabelledTexts(data, rows.info.rows)
    return Job(
        kind=kind,
        model=replace(model, **sizes),
        task=_task_of(data, rows.numbers),
        source=rows.source(train.batch, data.context, train.seed, spelled),
        test=test,
        notes=(
            *rows.notes,
            *note_missing(rows.splits, rows.target, rows.labels, "row"),
            *note_attention(model, data.context),
        ),
        info=rows.info,
        labels=rows.labels or None,
        fill=fill,
        keep=keep_tokenizer(rows.tokenizer),
        validation=rows.info.validation,
        examples="rows",
        rows=lambda split: rows.rows_of(SPLITS[split], data.context),
        show=lambda split, place: table.show(int(rows.rows_of(SPLITS[split], data.context)[place])),
        number=rows.numbers,
    )


def _task_of(data: LabelledConfig, numbers: Numbers | None) -> Task:
    """Classes, or a number whose errors are told in the units of the data."""
    if numbers is None:
        return Classify(data.smoothing)
    return Regress((numbers.scale,), (numbers.name,))


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
    """Another text, or another table with labels, read with the tokenizer of the run. memory: of a causal LM,
    the tokens that it sees before a segment"""
    train, tokenizer = run.section(TrainConfig, "train"), tokenizers.load(run.verify("tokenizer.json"))
    if is_classifier(run.config):
        data, info = run.section(LabelledConfig, "data"), run.section(LabelledInfo, "corpus")
        rows = read_other_labelled(replace(data, path=path), info, tokenizer, context.note)
        spelled = has_bag(run.config)
        split = Split(
            name=path,
            count=len(rows.target),
            unit="rows",
            batches=lambda: rows.batches(TEST, train.batch, data.context, spelled),
            rows=lambda: rows.rows_of(TEST, data.context),
            notes=rows.notes,
        )
        return _task_of(data, info.numbers), split, info.labels or None
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


def fit_sizes(model: Any, vocab: int, context: int, old: Run | None) -> Any:
    """The model for so many ids and so many tokens. That of an earlier run keeps its tables, which may be
    larger: those of others often have rows to spare."""
    before = (old.config.model or {}) if old is not None else {}
    if old is not None and old.config.imported is not None:
        least = vocab - 1 if isinstance(model, EncoderConfig) else vocab
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


def tokenizer_of(run: Run | None, data: Any) -> tokenizers.Tokenizer | None:
    """The tokenizer of the run that is resumed or started from; None if it was killed before it saved one."""
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
    return tokenizers.load(run.verify("tokenizer.json"))


def keep_tokenizer(tokenizer: tokenizers.Tokenizer) -> Callable[[Run], None]:
    def keep(run: Run) -> None:
        if not run.tokenizer_file.exists():
            run.write("tokenizer.json", tokenizer.to_json())

    return keep
