"""Conversations: their tokens and their chat template become a task, batches, and a decoder that fits them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from torch import nn

from regard.data import tokenizer as tokenizers
from regard.data.chat_template import FILE, PLAIN, ChatTemplate, read_chat_template, try_template
from regard.data.splits import TEST, VALIDATION
from regard.errors import RegardError
from regard.generation.generate import generate
from regard.models.attentions import note_attention
from regard.models.decoder import check_documents
from regard.recipes.job import DataContext, Job, Split
from regard.recipes.settings import Settings
from regard.recipes.text.chats import ChatCorpus, ChatSource, prepare_chats
from regard.recipes.text.config import ChatConfig
from regard.recipes.text.tokenizer import fit_sizes, inherit_tokenizer, keep_tokenizer
from regard.runs.run import Run
from regard.training.config import TrainConfig
from regard.training.tasks import NextToken, Task

SAMPLE = 160  # tokens of the answer that is written as training goes on
UNIT = "tokens of answers"


def prepare_chat_job(settings: Settings, context: DataContext) -> Job:
    """Read the conversations, then make the task, the source and a model config that fits them."""
    train, data = settings.train, settings.data
    check_documents(settings.model)
    template = choose_template(data, context.old)
    corpus = prepare_chats(
        data, template, seed=data.seed_of(train.seed), note=context.note, tokenizer=inherit_tokenizer(context.old, data)
    )
    source = ChatSource(corpus, train.batch, train.seed)
    test = None
    if corpus.info.test:
        test = Split(name="test", count=corpus.count_answers(TEST), unit=UNIT, batches=source.test)
    return Job(
        kind="decoder",
        model=fit_sizes(settings.model, corpus.tokenizer.size, data.context, context.old),
        task=NextToken(),
        source=source,
        test=test,
        info=corpus.info,
        keep=_keep_all(corpus, template),
        validation=corpus.count_answers(VALIDATION),
        examples=UNIT,
        sample=_answerer(corpus, template, train.seed),
        notes=(*corpus.notes, *note_attention(settings.model, data.context)),
    )


def other_chats(run: Run, path: str, context: DataContext) -> tuple[Task, Split, None]:
    """Other conversations, read with the tokenizer and the template of the run."""
    train, data = run.section(TrainConfig, "train"), run.section(ChatConfig, "data")
    corpus = prepare_chats(
        replace(data, path=path),
        load_template(run),
        seed=train.seed,
        note=context.note,
        tokenizer=tokenizers.load(run.verify("tokenizer.json")),
        only=TEST,
    )
    split = Split(
        name=path,
        count=corpus.count_answers(TEST),
        unit=UNIT,
        batches=lambda: corpus.batches(TEST, train.batch),
        notes=corpus.notes,
    )
    return NextToken(), split, None


# ── the template


def choose_template(data: ChatConfig, old: Run | None) -> ChatTemplate:
    """The template that is asked for, that of the run that is resumed or started from, or the plain one."""
    own = None if old is None else (old.config.data or {}).get("template")
    if data.template is not None and data.template != own:
        return read_chat_template(data.template)
    if old is not None and (old.path / FILE).exists():
        return load_template(old)
    if data.template is not None:
        return read_chat_template(data.template)
    return PLAIN


def load_template(run: Run) -> ChatTemplate:
    """The template that a run keeps; one that is not ours is tried first."""
    found = run.read(FILE)
    if found is None:
        raise RegardError(
            f"{run.path} has no chat template, because it was not trained on conversations; use --prompt, or train it "
            f"on some: regard train text --from {run.quoted} --data chats.jsonl"
        )
    template = ChatTemplate.from_json(found)
    if template != PLAIN:
        try_template(template)
    return template


def _keep_all(corpus: ChatCorpus, template: ChatTemplate) -> Callable[[Run], None]:
    def keep(run: Run) -> None:
        keep_tokenizer(run, corpus.tokenizer)
        if not (run.path / FILE).exists():
            run.write(FILE, template.to_json())

    return keep


# ── answers while it learns


def _answerer(corpus: ChatCorpus, template: ChatTemplate, seed: int) -> Callable[[nn.Module], str]:
    prompt = template.prompt(corpus.question, corpus.tokenizer)
    stop = (template.end,) if template.end else ()

    def sample(model: nn.Module) -> str:
        """What the model answers now to a question of the data."""
        pieces = generate(model, prompt, tokenizer=corpus.tokenizer, max_new=SAMPLE, seed=seed, stop=stop)
        return prompt + "".join(pieces)

    return sample
