"""Pairs and their tokens become a task, batches, and a model config that fits them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from torch import nn

from regard.data.array import Array
from regard.data.splits import SPLITS, TEST, VALIDATION
from regard.data.table_formats import is_table
from regard.data.tables import names_of
from regard.errors import RegardError
from regard.models.seq2seq import Seq2Seq
from regard.recipes.evaluation import Evaluation
from regard.recipes.job import DataContext, Job, ShownExample, Split
from regard.recipes.settings import Settings
from regard.recipes.translation.batches import PairSource
from regard.recipes.translation.bleu_judge import check_keep, make_judge, tell_part
from regard.recipes.translation.dataset import Corpus, PairsConfig, PairsInfo, prepare_pairs, read_other_pairs
from regard.recipes.translation.defaults import CONFIGS
from regard.recipes.translation.evaluation import Shown, evaluate_pairs
from regard.recipes.translation.search import SearchOptions, translate
from regard.recipes.translation.task import Translate
from regard.recipes.translation.vocabulary import FILE, Vocabulary, load_vocabulary
from regard.runs.run import Run
from regard.training.config import TrainConfig

SAMPLED = 3  # translations of a sample
AT_THE_END = 2000  # pairs that are translated at the end of training, at most
# tokens of their sources, at most: a model that has learned little writes on and on
TOKENS_AT_THE_END, AT_LEAST = 30_000, 50


def prepare_job(settings: Settings, context: DataContext) -> Job:
    """Read the pairs, then make the task, the source and a model config that fits them."""
    corpus = read_corpus(settings.data, settings.train, context)
    check_keep(corpus, settings.data.bleu_pairs, settings.train.keep)
    return make_job(settings, corpus)


def make_job(settings: Settings, corpus: Corpus) -> Job:
    """The task, the source and a model config that fits the pairs."""
    data, train = settings.data, settings.train
    vocabulary = corpus.vocabulary
    source = PairSource(corpus, tokens=data.batch_tokens, rows=train.batch, seed=train.seed)
    judge = make_judge(corpus, data.bleu_pairs)
    task = Translate(vocabulary.begin, data.smoothing, judge)
    kind = next(name for name, cls in CONFIGS.items() if type(settings.model) is cls)
    test = None
    if corpus.info.test:
        test = Split(name="test", count=corpus.info.test, unit="pairs", batches=source.test)

    def evaluate(model: nn.Module, split: Split) -> Evaluation:
        rows = corpus.rows(SPLITS[split.name])
        return evaluate_pairs(model, task, corpus, split, rows, SearchOptions(), most=_most(corpus, rows))

    return Job(
        kind=kind,
        model=replace(
            settings.model,
            vocab=vocabulary.size,
            source_vocab=None if vocabulary.shared else vocabulary.source_size,
            shared=vocabulary.shared,
            context=data.context,
        ),
        task=task,
        source=source,
        info=corpus.info,
        test=test,
        notes=corpus.notes if judge is None else (*corpus.notes, *tell_part(corpus, data.bleu_pairs)),
        keep=partial(_keep, vocabulary),
        validation=corpus.info.validation,
        examples="pairs",
        sample=_sampler(corpus),
        evaluate=evaluate,
        rows=lambda split: source.rows_of(SPLITS[split]),
        show=lambda split, place: _show(corpus, int(source.rows_of(SPLITS[split])[place])),
    )


def read_corpus(data: PairsConfig, train: TrainConfig, context: DataContext) -> Corpus:
    """The pairs, with the tokens of the run that is resumed, evaluated or started from."""
    vocabulary = _vocabulary_of(context.old, data)
    return prepare_pairs(data, seed=data.seed_of(train.seed), note=context.note, vocabulary=vocabulary)


def other_corpus(run: Run, path: str) -> Corpus:
    """Other pairs, read with the tokens of the run. The names of columns and languages are those that were asked
    for, or those of the training; a table that has others is guessed anew."""
    config, info = run.section(PairsConfig, "data"), run.section(PairsInfo, "corpus")
    source: str | None = config.source or info.source
    target: str | None = config.target or info.target
    assert source is not None and target is not None
    if not run.asked & {"source", "target"} and _has_other_names(path, source, target):
        source = target = None
    beside = config.beside if "beside" in run.asked else None
    other = replace(config, path=path, beside=beside, source=source, target=target)
    corpus = read_other_pairs(other, load_vocabulary(run), config.seed or 0)
    # how long translations may get was learned in training: what they should be says nothing about it
    return replace(corpus, info=replace(corpus.info, ratio=info.ratio))


def _has_other_names(path: str, source: str, target: str) -> bool:
    """Is this a table without these two columns? Or a folder or file, for a run of made pairs?"""
    if not (is_table(path) and os.path.isfile(path)):
        return (source, target) == ("source", "target")
    return not {source, target} <= set(names_of(path))


def split_of(run: Run, corpus: Corpus, name: str) -> tuple[Translate, Split]:
    """The task, and all of other pairs as a split."""
    data, train = run.section(PairsConfig, "data"), run.section(TrainConfig, "train")
    longest = max(max(map(len, corpus.sources)), max(map(len, corpus.targets)))
    source = PairSource(corpus, tokens=max(data.batch_tokens, longest), rows=train.batch, seed=train.seed)
    split = Split(
        name=name,
        count=len(corpus.texts),
        unit="pairs",
        batches=source.test,
        notes=corpus.notes,
        rows=lambda: source.rows_of(TEST),
    )
    return Translate(corpus.vocabulary.begin, data.smoothing), split


def _most(corpus: Corpus, rows: Array) -> int:
    """How many of these pairs are translated at the end of training."""
    mean = sum(len(corpus.sources[row]) for row in rows) / max(1, len(rows))
    return min(AT_THE_END, max(AT_LEAST, int(TOKENS_AT_THE_END / max(1.0, mean))))


def _show(corpus: Corpus, row: int) -> ShownExample:
    pair = corpus.texts[row]
    name = f"line {pair.line:,}" if pair.line else f"pair {row + 1:,}"
    return ShownExample(name=name, text=f"{pair.source}\n{pair.target}")


def _keep(vocabulary: Vocabulary, run: Run) -> None:
    if not run.tokenizer_file.exists():
        run.write(FILE, vocabulary.to_json())


def _vocabulary_of(run: Run | None, data: PairsConfig) -> Vocabulary | None:
    """The tokens of an earlier run; None if there is none, or it was killed before it saved them."""
    if run is None or not run.tokenizer_file.exists():
        return None
    own = run.config.data or {}
    for name, default in (("tokens", "auto"), ("vocabularies", "shared")):
        asked = getattr(data, name)
        if asked not in (default, own.get(name)):
            raise RegardError(
                f"the tokens come from {run.path}, so --data.{name} {asked} has no effect; leave it out, or "
                "train without --from"
            )
    return load_vocabulary(run)


def _sampler(corpus: Corpus) -> Callable[[nn.Module], str]:
    rows = corpus.rows(VALIDATION)[:SAMPLED]
    if not len(rows):
        rows = corpus.rows(SPLITS["train"])[:SAMPLED]

    def sample(model: nn.Module) -> str:
        """What the model translates now, greedily."""
        assert isinstance(model, Seq2Seq)
        sources = [corpus.sources[row] for row in rows]
        found = translate([model], corpus.vocabulary, sources, SearchOptions(beams=1), corpus.info.ratio)
        pairs = [corpus.texts[row] for row in rows]
        shown = [Shown(pair.source, several[0].text, pair.target) for pair, several in zip(pairs, found, strict=True)]
        return "\n".join(each.format() for each in shown)

    return sample
