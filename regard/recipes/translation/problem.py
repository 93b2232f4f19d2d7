"""Translation as a problem: the verbs of training on pairs, and of using a run that has learned them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, ClassVar

import numpy as np
from torch import nn

from regard.data.splits import TRAIN
from regard.errors import RegardError
from regard.look.reader import Reader
from regard.models.seq2seq import Seq2Seq
from regard.recipes.answers import check_answers_file
from regard.recipes.describe import describe_data, format_count, format_splits
from regard.recipes.evaluation import Evaluation
from regard.recipes.example import Examples
from regard.recipes.job import DataContext, Job, Split
from regard.recipes.prediction import Prediction
from regard.recipes.prepare import judge_splits
from regard.recipes.problem import Output, Problem
from regard.recipes.settings import Settings
from regard.recipes.translation.config import PairsConfig
from regard.recipes.translation.evaluation import Shown, evaluate_pairs
from regard.recipes.translation.pairs import find_filled, pair_of, split_pairs
from regard.recipes.translation.prediction import Translation, write_lines
from regard.recipes.translation.processor import PairProcessor, inherit_vocabulary
from regard.recipes.translation.reader import PairReader
from regard.recipes.translation.search import SearchOptions, limit_of, longest_tokens, translate
from regard.recipes.translation.source import PairSource
from regard.recipes.translation.task import Judge, TranslationTask
from regard.recipes.translation.vocabulary import check_same, describe_unknown
from regard.runs.load import load_model
from regard.runs.run import Run
from regard.training.config import TrainConfig
from regard.training.tasks import Task

SPLITS = ("train", "validation", "test")
SAMPLED = 3  # translations of a sample
TOGETHER = 512  # sentences that are read ahead, so that those of similar length are translated together
AT_THE_END = 2000  # pairs that are translated at the end of training, at most
# tokens of their sources, at most: a model that has learned little writes on and on
TOKENS_AT_THE_END, AT_LEAST = 30_000, 50


class Translate(Problem):
    """To write the target of each source."""

    name = "translate"
    config = PairsConfig
    options: ClassVar[type[Any] | None] = SearchOptions

    # ── training

    def read(self, config: PairsConfig, given: Any = None) -> Examples:
        return PairProcessor(config).read(config.path if given is None else given, want="learn")

    def prepare(self, settings: Settings, kind: str, context: DataContext) -> Job:
        data, train = settings.data, settings.train
        note = context.note or (lambda what, share: None)
        examples: Examples | None = context.examples
        if examples is None:
            note("reading", None)
            examples = self.read(data, context.given)
        seed, drawn = data.seed_of(train.seed), examples.draw is not None
        if examples.draw is not None:
            examples = examples.draw(seed)
        splits, on_splits = split_pairs(examples, data, seed, drawn=drawn)
        note("learning the tokens", None)
        processor = PairProcessor(data).fit_pairs(examples, splits, inherit_vocabulary(context.old, data))
        note("encoding", None)
        pairs, splits, on_lengths = processor.encode_pairs(examples, splits, longest=data.context)
        learned = [pairs[row] for row in np.flatnonzero(splits == TRAIN)]
        if not learned:
            raise RegardError(f"{examples.what} has no pairs to learn from; give more pairs")
        source = PairSource(
            examples=examples,
            processor=processor.measure_ratio(learned),
            pairs=pairs,
            splits=splits,
            tokens=data.batch_tokens,
            most=train.batch,
            seed=train.seed,
        )
        judge = Judge(source, data.bleu_pairs)
        judge.check_keep(train.keep)
        notes = (*examples.notes, *on_splits, *on_lengths, *judge.notes())
        return self._job(settings, kind, source, judge, notes)

    def _job(self, settings: Settings, kind: str, source: PairSource, judge: Judge, notes: tuple[str, ...]) -> Job:
        processor, examples = source.processor, source.examples
        task = TranslationTask(processor.vocabulary.begin, settings.data.smoothing, judge)
        counts = {split: len(source.rows(split)) for split in SPLITS}

        def evaluate(model: nn.Module, split: Split) -> Evaluation:
            assert isinstance(model, Seq2Seq)
            rows = source.rows(split.name)
            mean = sum(len(source.pairs[row]["source"]) for row in rows) / max(1, len(rows))
            most = min(AT_THE_END, max(AT_LEAST, int(TOKENS_AT_THE_END / max(1.0, mean))))
            return evaluate_pairs([model], task, source, split, rows, SearchOptions(), most=most)

        test = None
        if counts["test"]:
            test = Split(name="test", count=counts["test"], unit="pairs", batches=lambda: source.of("test"))
        return Job(
            kind=kind,
            model=processor.model_config(settings.model),
            task=task,
            source=source,
            processor=processor,
            counts=counts,
            source_name=settings.data.path or examples.what,
            test=test,
            notes=notes,
            keep=processor.save,
            validation=counts["validation"],
            examples="pairs",
            sample=partial(_sample, source),
            evaluate=evaluate,
            rows=source.order,
            show=lambda split, place: processor.show(examples[int(source.order(split)[place])]),
        )

    def describe(self, job: Job) -> str:
        fitted, counts = job.processor.fitted, job.counts
        sides = None if fitted.source == "source" else f"{fitted.source} → {fitted.target}"
        pairs = format_count(sum(counts.values()), "pairs")
        return describe_data(job.source_name, pairs, sides, format_splits(**counts), job.processor.describe())

    def next_command(self, run: Run) -> str:
        return f'regard predict {run.quoted} "..."'

    # ── a run

    def open(self, run: Run) -> PairProcessor:
        """The processor of a run. Other data than its own has the columns and languages that were asked for now, or else
        those of the training if it has these."""
        config = run.section(PairsConfig, "data")
        anew: dict[str, Any] = dict.fromkeys({"source", "target", "beside"} - run.asked)
        return PairProcessor(replace(config, **anew)).restore(run)

    def load_models(self, run: Run, processor: PairProcessor, options: SearchOptions) -> list[Seq2Seq]:
        """The model of a run, with those of an ensemble."""
        models = [_load(run)]
        for path in options.ensemble:
            other = Run.open(path)
            models.append(_load(other))
            check_same(processor.vocabulary, self.open(other).vocabulary, (str(run.path), str(other.path)))
        return models

    def predict(self, run: Run, inputs: Sequence[Any], options: SearchOptions | None = None) -> Iterator[Prediction]:
        """The translation of each text, of each line of each file, and of each row of each table, in order."""
        options, processor = options or SearchOptions(), self.open(run)
        models = self.load_models(run, processor, options)
        for given in inputs:
            try:
                examples = processor.read(given, want="use")
                yield from _translate_examples(models, processor, examples, options)
            except (ValueError, OSError) as error:
                yield Translation(input=str(given), error=str(error))

    def evaluate(self, run: Run, data: Any, context: DataContext, options: SearchOptions | None = None) -> Evaluation:
        """Measures of whole translations by beam search, and of each next token."""
        options = options or SearchOptions()
        models = self.load_models(run, self.open(run), options)
        if data is None:
            job = self.prepare_again(run, context)
            task, source, split, part = job.task, job.source, job.best_split, job.best_split.name
        else:
            task, source, split = self._read_other(run, data)
            part = "test"
        assert isinstance(source, PairSource)
        return evaluate_pairs(models, task, source, split, source.rows(part), options, all=True)

    def read_other(
        self, run: Run, data: Any, context: DataContext, options: SearchOptions | None = None
    ) -> tuple[Task, Split, tuple[str, ...] | None]:
        task, _, split = self._read_other(run, data)
        return task, split, None

    def _read_other(self, run: Run, data: Any) -> tuple[Task, PairSource, Split]:
        """Other pairs, all of them in the test split; of data with a test split only that."""
        processor, train = self.open(run), run.section(TrainConfig, "train")
        config = processor.config
        examples = processor.read(data, want="judge")
        if examples.draw is not None:
            examples = examples.draw(config.seed or 0)
        there, notes = find_filled(examples, config.wrong)
        splits = judge_splits(examples, there)
        # nothing is left out of a figure because it is long: a model reads it as far as it can
        pairs, splits, _ = processor.encode_pairs(examples, splits, longest=2**22)
        source = PairSource(
            examples=examples,
            processor=processor,
            pairs=pairs,
            splits=splits,
            tokens=max(config.batch_tokens, *(max(map(len, pair.values()), default=0) for pair in pairs)),
            most=train.batch,
            seed=train.seed,
        )
        split = Split(
            name=str(data) if isinstance(data, str) else examples.what,
            count=len(source.rows("test")),
            unit="pairs",
            batches=lambda: source.of("test"),
            notes=(*examples.notes, *notes),
            rows=lambda: source.order("test"),
        )
        return TranslationTask(processor.vocabulary.begin, config.smoothing), source, split

    def check_output(self, run: Run, inputs: Sequence[Any], out: Output) -> None:
        if os.path.isdir(out):
            raise RegardError(f"--out {out} is a folder; give the name of a file, such as {out}/output.txt")
        check_answers_file(out, [each for each in inputs if isinstance(each, str)])

    def draw(
        self, run: Run, inputs: Sequence[Any], predictions: Iterator[Prediction], out: Output
    ) -> Iterator[Prediction]:
        """A line of text for each input."""
        return write_lines(predictions, out)

    def reader(self, run: Run, model: nn.Module) -> Reader:
        return PairReader(run, model, self.open(run))


def _load(run: Run) -> Seq2Seq:
    model = load_model(run)
    if not isinstance(model, Seq2Seq):
        raise RegardError(f"{run.path} does not translate; give a run of regard train translation")
    return model


def _sample(data: PairSource, model: nn.Module) -> str:
    """What the model translates now, greedily."""
    assert isinstance(model, Seq2Seq)
    rows = data.rows("validation" if len(data.rows("validation")) else "train")[:SAMPLED].tolist()
    sources = [data.pairs[row]["source"] for row in rows]
    found = translate([model], data.processor, sources, SearchOptions(beams=1))
    shown = []
    for row, several in zip(rows, found, strict=True):
        source, target = pair_of(data.examples, row)
        shown.append(Shown(source, several[0].text, target))
    return "\n".join(each.format() for each in shown)


def _translate_examples(
    models: Sequence[Seq2Seq], processor: PairProcessor, examples: Examples, options: SearchOptions
) -> Iterator[Translation]:
    """The translation of each example, in the same order. An empty one stays empty."""
    places = iter(range(len(examples)))
    while some := list(islice(places, TOGETHER)):
        real = [i for i in some if examples.inputs(i)["source"]]
        sources = [processor.encode(examples[i])["source"] for i in real]
        best = dict(zip(real, translate(models, processor, sources, options), strict=True))
        for i in some:
            text = examples.inputs(i)["source"]
            notes = [*_notes(models, processor, examples, i), *(examples.notes if i == len(examples) - 1 else ())]
            yield Translation(
                input=text,
                kind="text",
                source=examples.source,
                row=examples.row_of(i),
                truth=examples.plain[i],
                best=tuple(best.get(i, ())),
                notes=tuple(notes),
            )


def _notes(models: Sequence[Seq2Seq], processor: PairProcessor, examples: Examples, i: int) -> list[str]:
    """What is unknown in a text, and whether it is too long."""
    text, limit, most = examples.inputs(i)["source"], limit_of(models), longest_tokens(models)
    count = len(processor.vocabulary.encode_source(text))
    found = [describe_unknown(processor.vocabulary.source, text)]
    if limit is not None and count > limit:
        found.append(f"the model reads only the first {limit - 1:,} of {count - 1:,} tokens")
    if limit is None and count > most:
        found.append(
            f"of {count - 1:,} tokens, far more than in training; its translation ends after {most:,} tokens at the "
            "latest; give each sentence a line of its own"
        )
    assert examples.places is not None
    return [f"{examples.places(i)[:40]}: {note}" for note in found if note]
