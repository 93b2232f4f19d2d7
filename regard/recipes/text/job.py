"""Text: corpora and tokenizers in, language models and classifiers out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import nn

from regard.data import tokenizer as tokenizers
from regard.generation import generate
from regard.models.decoder import Decoder
from regard.models.encoder import Encoder
from regard.recipes.job import Job, Reading
from regard.recipes.text.dataset import prepare
from regard.recipes.text.defaults import ClassifierRecipe, DecoderRecipe, EncoderRecipe
from regard.recipes.text.labelled import prepare_labelled
from regard.runs.run import Run
from regard.training.tasks import Classify, MaskedToken, NextToken

OPENING, SAMPLE = 24, 160  # tokens of the validation text that a sample goes on from, and of the sample


def prepared(recipe: DecoderRecipe | EncoderRecipe | ClassifierRecipe, reading: Reading) -> Job:
    """Read the text, then make model, task and source to its measure."""
    seed, batch, context = recipe.train.seed, recipe.train.batch, recipe.data.context
    how: dict[str, Any] = {"seed": seed, "note": reading.note, "tokenizer": tokenizer_of(reading.old)}
    if isinstance(recipe, ClassifierRecipe):
        rows = prepare_labelled(recipe.data, **how)
        config = replace(
            recipe.model, vocab=rows.tokenizer.size + 1, context=context, classes=len(rows.labels)
        )
        return Job(
            kind="encoder",
            model=Encoder(config),
            task=Classify(),
            source=rows.source(batch, context, seed),
            about=rows.describe() | {"labels": list(rows.labels)},
            keep=keeping(rows.tokenizer),
        )
    corpus = prepare(recipe.data, cache=reading.cache, **how)
    size = corpus.tokenizer.size
    known: dict[str, Any] = {
        "source": corpus.source(batch, context, seed),
        "about": corpus.describe(),
        "keep": keeping(corpus.tokenizer),
    }
    if isinstance(recipe, EncoderRecipe):  # one id more than the tokenizer has: the mask
        encoder = Encoder(replace(recipe.model, vocab=size + 1, context=context))
        return Job(kind="encoder", model=encoder, task=MaskedToken(mask=size, vocab=size, seed=seed), **known)
    decoder = Decoder(replace(recipe.model, vocab=size, context=context))
    unseen = corpus.validation if len(corpus.validation) else corpus.train
    opening = corpus.tokenizer.decode(unseen[:OPENING])

    def sample(model: nn.Module) -> str:
        """What it writes by now, after a few words it has never seen."""
        return opening + "".join(
            generate.generate(model, opening, tokenizer=corpus.tokenizer, max_new=SAMPLE, seed=seed)
        )

    return Job(kind="decoder", model=decoder, task=NextToken(), sample=sample, **known)


def tokenizer_of(run: Run | None) -> tokenizers.Tokenizer | None:
    """The tokenizer of a run; None after a kill at its very start."""
    return tokenizers.load(run.tokenizer_file) if run is not None and run.tokenizer_file.exists() else None


def keeping(tokenizer: tokenizers.Tokenizer) -> Any:
    def keep(run: Run) -> None:
        if not run.tokenizer_file.exists():
            tokenizers.save(tokenizer, run.tokenizer_file)

    return keep


# ── answers ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def then(run: Run) -> str:
    """What to type after a training."""
    if run.config["kind"] == "decoder":
        return f'regard generate {run.path} --prompt "..."'
    if run.config["model"].get("classes") is not None:
        return f'regard predict {run.path} "..."'
    return f"regard train text --data labelled.csv --from {run.path}"
