"""Text: a corpus and its tokenizer become a task, batches, and a model config that fits them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import nn

from regard.data import tokenizer as tokenizers
from regard.data.targets import Numbers
from regard.errors import RegardError
from regard.generation.generate import generate
from regard.models.additive import Additive, AdditiveConfig
from regard.models.encoder import Encoder, EncoderConfig
from regard.recipes.job import DataContext, Job, Split
from regard.recipes.settings import Settings
from regard.recipes.text.dataset import Corpus, TextConfig, TextSource, encode_corpus, prepare
from regard.recipes.text.defaults import is_classifier, is_decoder
from regard.recipes.text.labelled import (
    LabelledConfig,
    LabelledCorpus,
    LabelledInfo,
    looks_labelled,
    prepare_labelled,
    read_other_labelled,
)
from regard.recipes.text.spelling import fill_bag, usual_lengths
from regard.runs.run import Run
from regard.training.config import TrainConfig
from regard.training.tasks import Classify, MaskedToken, NextToken, Regress, Task

OPENING, SAMPLE = 24, 160  # tokens of the prompt, from the validation split, and of the sample after it


def prepare_job(settings: Settings, context: DataContext) -> Job:
    """Read the text, then make the task, the source and a model config that fits it."""
    train, length = settings.train, settings.data.context
    how: dict[str, Any] = {
        "seed": train.seed,
        "note": context.note,
        "tokenizer": _tokenizer_of(context.old, settings.data),
    }
    if isinstance(settings.model, AdditiveConfig) and not looks_labelled(settings.data.path):
        raise RegardError(
            "an additive model predicts the label of a text, and plain text has none; give a table of texts and "
            "labels, such as --data reviews.csv"
        )
    if isinstance(settings.data, LabelledConfig):
        return _classify(prepare_labelled(settings.data, **how), settings.model, settings.data, train)
    corpus = prepare(settings.data, cache=context.cache, **how)
    size = corpus.tokenizer.size
    known: dict[str, Any] = {
        "source": corpus.source(train.batch, length, train.seed),
        "info": corpus.info,
        "keep": _keep_tokenizer(corpus.tokenizer),
        "validation": len(corpus.validation),
        "examples": "tokens",
    }
    if isinstance(settings.model, EncoderConfig):  # one more id than the tokenizer has: the mask
        encoder = replace(settings.model, vocab=size + 1, context=length)
        return Job(
            kind="encoder", model=encoder, task=MaskedToken(mask=size, vocab=size, seed=train.seed), **known
        )
    decoder = replace(settings.model, vocab=size, context=length)
    return Job(kind="decoder", model=decoder, task=NextToken(), sample=_writer(corpus, train.seed), **known)


def _classify(
    rows: LabelledCorpus, model: EncoderConfig | AdditiveConfig, data: LabelledConfig, train: TrainConfig
) -> Job:
    def fill(model: nn.Module) -> None:
        if isinstance(model, Encoder | Additive) and model.bag is not None:
            fill_bag(model.bag, rows)
            if isinstance(model, Additive):
                model.lengths.copy_(usual_lengths(model.bag, rows))

    sizes: dict[str, Any] = {"vocab": rows.tokenizer.size + 1, "context": data.context}
    outputs = len(rows.labels) or 1
    if isinstance(model, AdditiveConfig):
        kind, sizes = "additive", sizes | {"outputs": outputs, "contrast": outputs > 1}
    else:
        kind, sizes = "encoder", sizes | {"classes": outputs}
    return Job(
        kind=kind,
        model=replace(model, **sizes),
        task=_task_of(data, rows.numbers),
        source=rows.source(train.batch, data.context, train.seed),
        info=rows.info,
        labels=rows.labels or None,
        notes=rows.notes,
        fill=fill,
        keep=_keep_tokenizer(rows.tokenizer),
        validation=rows.info.validation,
        examples="rows",
    )


def _task_of(data: LabelledConfig, numbers: Numbers | None) -> Task:
    """Classification, or regression with errors in the units of the data."""
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


def other_split(run: Run, path: str, context: DataContext) -> tuple[Task, Split, tuple[str, ...] | None]:
    """Another text, or another table with labels, read with the tokenizer of the run."""
    train, tokenizer = run.section(TrainConfig, "train"), tokenizers.load(run.verify("tokenizer.json"))
    if is_classifier(run.config):
        data, info = run.section(LabelledConfig, "data"), run.section(LabelledInfo, "corpus")
        rows = read_other_labelled(replace(data, path=path), info, tokenizer, context.note)
        split = Split(
            name=path,
            count=len(rows.target),
            unit="rows",
            batches=lambda: rows.held_batches(train.batch, data.context),
        )
        return _task_of(data, info.numbers), split, info.labels or None
    config = replace(run.section(TextConfig, "data"), path=path)
    corpus = encode_corpus(
        config, cache=context.cache, seed=train.seed, note=context.note, tokenizer=tokenizer
    )
    if len(corpus.ids) < 2:
        raise RegardError(
            f"{path} has {len(corpus.ids)} token, but a prediction needs at least two; give more text"
        )
    # every token but the first is predicted
    source = TextSource(corpus.ids, 1, train.batch, config.context, train.seed)
    split = Split(name=path, count=len(corpus.ids) - 1, unit="tokens", batches=source.validation)
    size = tokenizer.size
    if is_decoder(run.config):
        return NextToken(), split, None
    return MaskedToken(mask=size, vocab=size, seed=train.seed), split, None


def _tokenizer_of(run: Run | None, data: TextConfig | LabelledConfig) -> tokenizers.Tokenizer | None:
    """The tokenizer of the run that is resumed or started from; None if it was killed before it saved one."""
    if run is None or not run.tokenizer_file.exists():
        return None
    own = run.config.data or {}
    for name, default in (("tokens", "auto"), ("tokenizer", None)):
        asked = getattr(data, name)
        if asked not in (default, own.get(name)):
            raise RegardError(
                f"the tokenizer comes from {run.path}, so --data.{name} {asked} has no effect; leave it "
                "out, or "
                f"train without --from"
            )
    return tokenizers.load(run.verify("tokenizer.json"))


def _keep_tokenizer(tokenizer: tokenizers.Tokenizer) -> Callable[[Run], None]:
    def keep(run: Run) -> None:
        if not run.tokenizer_file.exists():
            run.write("tokenizer.json", tokenizer.to_json())

    return keep
