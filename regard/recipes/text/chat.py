"""Answers in conversations as a problem."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import nn

from regard.data.chat_template import FILE, ChatTemplate
from regard.data.splits import TEST, VALIDATION
from regard.data.tokenizer import load
from regard.generation.generate import generate
from regard.models.attentions import note_attention
from regard.models.decoder import check_documents
from regard.recipes.describe import describe_data, format_count, format_splits
from regard.recipes.job import DataContext, Job, Split
from regard.recipes.settings import Settings, path_of
from regard.recipes.text.chats import ChatCorpus, ChatSource, choose_template, load_template, prepare_chats
from regard.recipes.text.config import ChatConfig, TextEvaluateOptions
from regard.recipes.text.language_model import TextProblem, refuse_compiled_memory
from regard.recipes.text.tokenizer import RunTokenizer, fit_sizes, inherit_tokenizer
from regard.runs.run import Run
from regard.training.tasks import NextToken, Task

SAMPLE = 160  # tokens of the answer that is written as training goes on
UNIT = "tokens of answers"


class Chat(TextProblem):
    """The answers of the assistant, each from what comes before it: a causal LM of conversations, several in a row."""

    name = "chat"
    config: type[ChatConfig] = ChatConfig
    unit = UNIT

    def prepare(self, settings: Settings, kind: str, context: DataContext) -> Job:
        train, data, old = settings.train, settings.data, context.old
        refuse_compiled_memory(settings)
        check_documents(settings.model)
        template, tokenizer = choose_template(data, old), inherit_tokenizer(old, data)
        seed = data.seed_of(train.seed)
        corpus = prepare_chats(data, template, seed=seed, note=context.note, tokenizer=tokenizer)
        source, counts = ChatSource(corpus, train.batch, train.seed), corpus.counts
        processor = RunTokenizer.of(corpus.tokenizer)
        test = Split(name="test", count=corpus.count_answers(TEST), unit=UNIT, batches=source.test)

        def keep(run: Run) -> None:
            processor.save(run)
            if not (run.path / FILE).exists():
                run.write(FILE, template.to_json())

        return Job(
            kind=kind,
            model=fit_sizes(settings.model, corpus.tokenizer.size, data.context, old),
            task=NextToken(),
            source=source,
            test=test if counts["test"] else None,
            processor=processor,
            counts=counts,
            source_name=corpus.path,
            keep=keep,
            validation=corpus.count_answers(VALIDATION),
            examples=UNIT,
            sample=_answerer(corpus, template, train.seed),
            notes=(*corpus.notes, *note_attention(settings.model, data.context)),
        )

    def describe(self, job: Job) -> str:
        counts = job.counts
        figures = [
            format_count(counts["conversations"], "conversations"),
            f"{format_count(counts['answers'], 'tokens')} of answers",
        ]
        splits = format_splits(counts["train"], counts["validation"], counts["test"])
        return describe_data(job.source_name, *figures, splits, job.processor.describe())

    def next_command(self, run: Run) -> str:
        return f'regard generate {run.quoted} --chat "..."'

    def read_other(
        self, run: Run, data: Any, context: DataContext, options: TextEvaluateOptions | None = None
    ) -> tuple[Task, Split, None]:
        """Other conversations, read with the tokenizer and the template of the run."""
        settings, path = self.settings_of(run, options), str(path_of(data, "text"))
        check_documents(settings.model)
        corpus = prepare_chats(
            replace(settings.data, path=path),
            load_template(run),
            seed=settings.train.seed,
            note=context.note,
            tokenizer=load(run.verify("tokenizer.json")),
            only=TEST,
        )
        split = Split(
            name=path,
            count=corpus.count_answers(TEST),
            unit=UNIT,
            batches=lambda: corpus.batches(TEST, settings.train.batch),
            notes=corpus.notes,
        )
        return NextToken(), split, None


def _answerer(corpus: ChatCorpus, template: ChatTemplate, seed: int) -> Callable[[nn.Module], str]:
    prompt = template.prompt(corpus.question, corpus.tokenizer)
    stop = (template.end,) if template.end else ()

    def sample(model: nn.Module) -> str:
        """What the model answers now to a question of the data."""
        pieces = generate(model, prompt, tokenizer=corpus.tokenizer, max_new=SAMPLE, seed=seed, stop=stop)
        return prompt + "".join(pieces)

    return sample
