"""Translations of many sentences by beam search: sorted by length, so that a batch has little padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from pydantic import Field

from regard.config import Weight, config
from regard.data.array import Array
from regard.data.batch import pad_rows
from regard.errors import RegardError
from regard.generation.source_reader import generate_targets
from regard.models.seq2seq import Seq2Seq
from regard.recipes.describe import format_count
from regard.recipes.translation.processor import PairProcessor

TOKENS_AT_ONCE = 4096  # of the sources in a batch, times beams
LONGEST = 4  # times the longest side of training: a translation has no more tokens


@config
class SearchOptions:
    """How translations are searched."""

    # likeliest beginnings that each step goes on with; 1: greedy search
    beams: Annotated[int, Field(ge=1, le=2**12)] = 5
    n_best: Annotated[int, Field(ge=1, le=2**12)] = 1  # translations of each sentence, the best first
    # α of Σ log p / length^α: 0 prefers short translations, more prefers long ones
    length_penalty: Weight = 1.0
    ensemble: tuple[str, ...] = ()  # other runs with the same tokens: the mean of all probabilities counts

    def __post_init__(self) -> None:
        if self.n_best > self.beams:
            raise RegardError(
                f"{format_count(self.beams, 'beams')} cannot give the {self.n_best} best; use --beams {self.n_best} or more"
            )


class Candidate(NamedTuple):
    """One translation: score = logp / tokens^length_penalty."""

    text: str
    score: float
    logp: float


def translate(
    models: Sequence[Seq2Seq], processor: PairProcessor, sources: Sequence[Array], options: SearchOptions
) -> list[list[Candidate]]:
    """The n best translations of each source (ids with the end), in the order of the sources."""
    limit = limit_of(models)
    longest = longest_tokens(models)
    vocabulary = processor.vocabulary
    found: list[list[Candidate]] = [[] for _ in sources]
    for places in batches_by_length([len(source) for source in sources], options.beams):
        ids, real = pad_rows([_shorten(sources[place], limit) for place in places])
        most = [min(processor.most_tokens(len(sources[place])), longest) for place in places]
        device = next(models[0].parameters()).device
        hypotheses = generate_targets(
            models,
            ids.to(device),
            None if real is None else real.to(device),
            begin=vocabulary.begin,
            end=vocabulary.end,
            max_new=most,
            beams=options.beams,
            length_penalty=options.length_penalty,
            n_best=options.n_best,
        )
        for place, several in zip(places, hypotheses, strict=True):
            found[place] = [Candidate(vocabulary.decode(each.ids), each.score, each.logp) for each in several]
    return found


def limit_of(models: Sequence[Seq2Seq]) -> int | None:
    """How many tokens of a source all models can read; None: any number."""
    return min((model.limit for model in models if model.limit is not None), default=None)


def longest_tokens(models: Sequence[Seq2Seq]) -> int:
    """How many tokens any translation may have. A model that has learned little ends none by itself, and each token of a
    long one takes its time."""
    most, limit = LONGEST * min(model.config.context for model in models), limit_of(models)
    return most if limit is None else min(most, limit)


def _shorten(ids: Array, limit: int | None) -> Array:
    """The first tokens of a source that is longer than the model can read, and its end."""
    if limit is None or len(ids) <= limit:
        return ids
    kept: Array = ids[-limit:].copy()
    kept[:-1] = ids[: limit - 1]
    return kept


def batches_by_length(lengths: Sequence[int], beams: int) -> list[list[int]]:
    """Numbers of sources that are translated together: sorted, so that there is little padding."""
    found: list[list[int]] = []
    for place in sorted(range(len(lengths)), key=lambda place: lengths[place]):
        rows = max(1, TOKENS_AT_ONCE // (beams * lengths[place]))
        if not found or len(found[-1]) >= rows:
            found.append([])
        found[-1].append(place)
    return found
