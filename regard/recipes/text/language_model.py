"""Models of plain text as problems: what comes next, what is masked, and tokens in any order."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from torch import nn

from regard.data.array import Array
from regard.data.chat_template import FILE as CHAT_TEMPLATE
from regard.data.dialect import TableConfig
from regard.data.tokenizer import Tokenizer, load
from regard.errors import RegardError
from regard.generation.generate import check_generates, generate
from regard.generation.writer import Writer
from regard.look.reader import Reader
from regard.models.attentions import note_attention
from regard.recipes.describe import describe_data, format_count, format_splits
from regard.recipes.evaluation import Evaluation
from regard.recipes.job import DataContext, Job, Split
from regard.recipes.prediction import Prediction
from regard.recipes.problem import Problem
from regard.recipes.settings import Settings, path_of
from regard.recipes.text.chats import load_template
from regard.recipes.text.config import TextConfig, TextEvaluateOptions
from regard.recipes.text.dataset import Corpus, encode_corpus, make_source
from regard.recipes.text.embed import embed
from regard.recipes.text.fast_weights import load_to_write
from regard.recipes.text.generate import GenerateOptions, write
from regard.recipes.text.many_texts import write_many
from regard.recipes.text.reader import RunTextReader
from regard.recipes.text.tokenizer import RunTokenizer, attach_tokenizer, fit_sizes, inherit_tokenizer
from regard.runs.load import load_model
from regard.runs.run import Run
from regard.training.config import TrainConfig
from regard.training.permuted_task import PermutedToken
from regard.training.stream_task import StreamedToken
from regard.training.tasks import MaskedToken, NextToken, Task

OPENING, SAMPLE = 24, 160  # tokens of the prompt, from the validation split, and of the sample after it
TO_START = "with --from {run} to start from this encoder"
LARGEST_LOSS = 700.0  # e to more than that is no float


class TextProblem(Problem):
    """What all models of text without labels share: a tokenizer, writing, and pages."""

    options: ClassVar[type[Any] | None] = TextEvaluateOptions
    generate_options: ClassVar[type[Any] | None] = GenerateOptions
    reads_first: ClassVar[bool] = False
    unit: ClassVar[str] = "tokens"  # of what an evaluation counts
    perplexity_of: ClassVar[str | None] = "loss"  # the measure to which e is raised
    instead_of_predict: ClassVar[str] = "or use regard generate"

    def next_command(self, run: Run) -> str:
        return f'regard generate {run.quoted} --prompt "..."'

    # ── using a run

    def load(self, run: Run) -> nn.Module:
        """The model, with its tokenizer as `model.tokenizer`."""
        model: nn.Module = attach_tokenizer(run, load_model(run))
        return model

    def settings_of(self, run: Run, options: TextEvaluateOptions | None = None) -> Settings:
        settings = super().settings_of(run)
        return settings if options is None else options.apply(settings)

    def predict(self, run: Run, inputs: Sequence[Any], options: Any = None) -> Iterator[Prediction]:
        advice = self.instead_of_predict.format(run=run.quoted)
        raise RegardError(
            f"{run.path} is not a classifier; train a classifier on labelled text (.csv or .jsonl), {advice}"
        )

    def evaluate(
        self, run: Run, data: Any, context: DataContext, options: TextEvaluateOptions | None = None
    ) -> Evaluation:
        """Measures, and the perplexity, e^loss."""
        if (run.config.model or {}).get("head") == "none":
            raise RegardError(f"{run.path} has no head: it predicts nothing that could be measured")
        found = replace(super().evaluate(run, data, context, options), unit=self.unit)
        of = self.perplexity_of
        if of is None or found.measures[of] > LARGEST_LOSS:
            return found
        perplexity = math.exp(found.measures[of])
        return replace(found, measures=found.measures | {of.replace("loss", "perplexity"): perplexity})

    def embed(
        self, run: Run, inputs: Sequence[str], column: str | None, tables: TableConfig, note: Callable[[str], None]
    ) -> tuple[list[str], Array]:
        return embed(run, inputs, column, tables, note)

    def reader(self, run: Run, model: nn.Module) -> Reader:
        return RunTextReader(run, model)

    # ── writing

    def generate(self, run: Run, options: GenerateOptions, note: Callable[[str], None]) -> Iterator[str]:
        if options.prompts is not None:
            return write_many(self.open_writer(run, options.weights, note), options, note)
        _check_tokenizer(run)
        template = load_template(run) if options.chat else None
        return write(self.load_to_write(run, options.weights, note), options, note, template)

    def load_to_write(self, run: Run, weights: str, note: Callable[[str], None]) -> Any:
        model = load_to_write(run, weights, note, lambda: load_model(run))  # type: ignore[arg-type]
        return attach_tokenizer(run, model)

    def open_writer(self, run: Run, weights: str, note: Callable[[str], None]) -> Writer:
        _check_tokenizer(run)
        model = self.load_to_write(run, weights, note)
        check_generates(model)
        template = load_template(run) if (run.path / CHAT_TEMPLATE).exists() else None
        return Writer(model, model.tokenizer, template)


class PlainText(TextProblem):
    """What is learned from windows of a text: a subclass says with which task."""

    config: type[TextConfig] = TextConfig
    writes: ClassVar[bool] = True  # does the model write a sample of text while it trains?

    @abstractmethod
    def fit_model(self, model: Any, tokenizer: Tokenizer, context: int, old: Run | None) -> Any:
        """The config of the model for these tokens. context: tokens of a window; old: the run that it starts from"""

    @abstractmethod
    def make_task(self, model: Any, tokenizer: Tokenizer, context: int, train: TrainConfig) -> Task:
        """The task of a model that fits the tokenizer."""

    def prepare(self, settings: Settings, kind: str, context: DataContext) -> Job:
        train, data = settings.train, settings.data
        refuse_compiled_memory(settings)
        if getattr(settings.model, "head", None) == "none":
            raise RegardError(
                "this model has no head that predicts tokens (head='none'); give a table of texts and labels, or "
                "start from a masked LM"
            )
        tokenizer = inherit_tokenizer(context.old, data)
        seed = data.seed_of(train.seed)
        corpus = encode_corpus(data, cache=context.cache, seed=seed, note=context.note, tokenizer=tokenizer)
        tokenizer = corpus.tokenizer
        model = self.fit_model(settings.model, tokenizer, data.context, context.old)
        source = corpus.source(train.batch, data.context, train.seed, getattr(model, "memory", 0))
        counts, processor = corpus.counts, RunTokenizer.of(tokenizer)
        test = Split(name="test", count=counts["test"], unit="tokens", batches=source.test)
        return Job(
            kind=kind,
            model=model,
            task=self.make_task(model, tokenizer, data.context, train),
            source=source,
            test=test if counts["test"] else None,
            processor=processor,
            counts=counts,
            source_name=corpus.path,
            keep=processor.save,
            validation=counts["validation"],
            examples="tokens",
            sample=_writer(corpus, train.seed) if self.writes else None,
            notes=note_attention(model, data.context),
        )

    def describe(self, job: Job) -> str:
        counts = job.counts
        figures = [format_count(counts[name], name) for name in ("files", "characters")]
        splits = format_splits(counts["train"], counts["validation"], counts["test"])
        return describe_data(job.source_name, *figures, splits, job.processor.describe())

    def read_other(
        self, run: Run, data: Any, context: DataContext, options: TextEvaluateOptions | None = None
    ) -> tuple[Task, Split, None]:
        """Another text, read with the tokenizer of the run: every token but the first is predicted."""
        path = str(path_of(data, "text"))
        settings, tokenizer = self.settings_of(run, options), load(run.verify("tokenizer.json"))
        train, config = settings.train, replace(settings.data, path=path)
        corpus = encode_corpus(config, cache=context.cache, seed=train.seed, note=context.note, tokenizer=tokenizer)
        if len(corpus.ids) < 2:
            raise RegardError(
                f"{path} has {len(corpus.ids)} token, but a prediction needs at least two; give more text"
            )
        memory = getattr(settings.model, "memory", 0)
        source = make_source(corpus.ids, 1, train.batch, config.context, train.seed, memory=memory)
        split = Split(name=path, count=len(corpus.ids) - 1, unit="tokens", batches=source.validation)
        return self.make_task(settings.model, tokenizer, config.context, train), split, None


class LanguageModel(PlainText):
    """What comes next: a causal LM. With a memory, texts are read segment by segment."""

    name = "next"

    def fit_model(self, model: Any, tokenizer: Tokenizer, context: int, old: Run | None) -> Any:
        return fit_sizes(model, tokenizer.size, context, old)

    def make_task(self, model: Any, tokenizer: Tokenizer, context: int, train: TrainConfig) -> Task:
        memory = getattr(model, "memory", 0)
        return StreamedToken(memory, context) if memory else NextToken()


class MaskedLM(PlainText):
    """What is masked: an encoder, whose vocabulary has one id more than the tokenizer, the mask. That of others holds
    it."""

    name = "masked"
    unit = "tokens, some of them masked"
    perplexity_of = None
    instead_of_predict = TO_START
    writes = False

    def fit_model(self, model: Any, tokenizer: Tokenizer, context: int, old: Run | None) -> Any:
        return fit_sizes(model, tokenizer.size + 1, context, old)

    def make_task(self, model: Any, tokenizer: Tokenizer, context: int, train: TrainConfig) -> Task:
        mask = tokenizer.size
        if model.vocab <= mask:
            if tokenizer.mask is None:
                raise RegardError("the tokenizer has no [MASK], so no tokens can be masked")
            mask = tokenizer.mask
        return MaskedToken(mask=mask, vocab=tokenizer.size, seed=train.seed)

    def next_command(self, run: Run) -> str:
        return f"regard train text --data labelled.csv --from {run.quoted}"


class PermutationLM(PlainText):
    """Tokens in any order, the one of the text among them."""

    name = "permutation"
    unit = "tokens, some of them predicted"
    perplexity_of = "loss in order"
    instead_of_predict = TO_START

    def fit_model(self, model: Any, tokenizer: Tokenizer, context: int, old: Run | None) -> Any:
        return replace(model, vocab=tokenizer.size + 1, context=context)

    def make_task(self, model: Any, tokenizer: Tokenizer, context: int, train: TrainConfig) -> Task:
        return PermutedToken(model.predicted, seed=train.seed)

    def reader(self, run: Run, model: nn.Module) -> Reader:
        return RunTextReader(run, model, queries=True)


def refuse_compiled_memory(settings: Settings) -> None:
    """Raise for a memory in a compiled model: it grows and moves on with every segment, and each would be compiled
    anew."""
    memory = getattr(settings.model, "memory", 0)
    if memory and settings.train.compile:
        raise RegardError(
            f"--train.compile does not go with --model.memory {memory}, because every segment would be compiled anew; "
            "leave one of them out"
        )


def _check_tokenizer(run: Run) -> None:
    if run.config.imported is not None and not run.tokenizer_file.exists():
        raise RegardError(
            f"{run.path} has no tokenizer, so it cannot read a prompt; import it again with a "
            f"tokenizer.json beside its config.json, or call the model on ids: regard.load(...)(ids)"
        )


def _writer(corpus: Corpus, seed: int) -> Callable[[nn.Module], str]:
    unseen = corpus.validation if len(corpus.validation) else corpus.train
    opening = corpus.tokenizer.decode(unseen[:OPENING])

    def sample(model: nn.Module) -> str:
        """Text that the model generates now, after a prompt from the validation split."""
        pieces = generate(model, opening, tokenizer=corpus.tokenizer, max_new=SAMPLE, seed=seed)
        return opening + "".join(pieces)

    return sample
