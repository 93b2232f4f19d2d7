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
from regard.models.token_model import TokenConfig
from regard.nn.gate import ALONE
from regard.recipes.job import DataContext, Job, Split
from regard.recipes.settings import Settings
from regard.recipes.text.dataset import Corpus, TextConfig, TextSource, encode_corpus, prepare
from regard.recipes.text.defaults import has_bag, is_classifier, is_language_model, kind_of
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
from regard.runs.run import Run
from regard.training.config import TrainConfig
from regard.training.tasks import Classify, MaskedToken, NextToken, Regress, Task

OPENING, SAMPLE = 24, 160  # tokens of the prompt, from the validation split, and of the sample after it


def prepare_job(settings: Settings, context: DataContext) -> Job:
    """Read the text, then make the task, the source and a model config that fits it."""
    train, length = settings.train, settings.data.context
    how: dict[str, Any] = {
        "seed": settings.data.seed_of(train.seed),
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
    source = corpus.source(train.batch, length, train.seed)
    test = None
    if len(corpus.test):
        test = Split(name="test", count=len(corpus.test), unit="tokens", batches=source.test)
    known: dict[str, Any] = {
        "source": source,
        "test": test,
        "info": corpus.info,
        "keep": _keep_tokenizer(corpus.tokenizer),
        "validation": len(corpus.validation),
        "examples": "tokens",
        "notes": note_attention(settings.model, length),
    }
    if isinstance(settings.model, EncoderConfig):  # one more id than the tokenizer has: the mask
        encoder = replace(settings.model, vocab=size + 1, context=length)
        return Job(
            kind="encoder", model=encoder, task=MaskedToken(mask=size, vocab=size, seed=train.seed), **known
        )
    language_model = replace(settings.model, vocab=size, context=length)
    kind = "decoder"
    if isinstance(language_model, TokenConfig):
        kind = kind_of(language_model)
    sample = _writer(corpus, train.seed)
    return Job(kind=kind, model=language_model, task=NextToken(), sample=sample, **known)


def _classify(
    rows: LabelledCorpus,
    model: EncoderConfig | TokenConfig | AdditiveConfig,
    data: LabelledConfig,
    train: TrainConfig,
) -> Job:
    def fill(model: nn.Module) -> None:
        if isinstance(model, Encoder) and model.bag is not None:
            fill_bag(model.bag, rows, share=ALONE)
            model.gate.penalty = 1 / rows.info.train
        if isinstance(model, Additive) and model.bag is not None:
            fill_bag(model.bag, rows)
            model.lengths.copy_(usual_lengths(model.bag, rows))

    if rows.numbers is not None and isinstance(model, EncoderConfig):
        model = replace(
            model, bag=False
        )  # its gate is made for classes: numbers are learned far better without
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
        keep=_keep_tokenizer(rows.tokenizer),
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


def other_split(run: Run, path: str, context: DataContext) -> tuple[Task, Split, tuple[str, ...] | None]:
    """Another text, or another table with labels, read with the tokenizer of the run."""
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
    if is_language_model(run.config):
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
