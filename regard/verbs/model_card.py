"""The README.md of an exported model: what it is, what it learned from, how good it is, which laws it keeps."""

from __future__ import annotations

from typing import Any

from regard.runs.number_format import say_measure
from regard.runs.run import Run
from regard.verbs.look import read_laws

COUNTS = ("files", "pictures", "rows", "train", "validation", "test", "tokens", "vocabulary")


def model_card(run: Run, plain: dict[str, Any]) -> str:
    """In Markdown, with the head that Hugging Face reads."""
    name = plain["architectures"][0]
    lines = ["---", "library_name: transformers", "tags:", "- regard", "---", "", f"# {run.path.resolve().name}", ""]
    lines += [f"Kind: {run.config.kind} of regard {run.config.regard}, exported as {name}.", ""]
    if run.config.imported is not None:
        lines += [f"It began with weights of others, a model of the type {run.config.imported}.", ""]
    lines += [*_data(run), *_figures(run), *_laws(run)]
    lines += [
        "## Use",
        "",
        "```python",
        f"from transformers import {name}",
        "",
        f'model = {name}.from_pretrained(".")',
        "```",
        "",
    ]
    return "\n".join(lines)


def _data(run: Run) -> list[str]:
    corpus = run.config.counts or run.config.corpus or {}
    counts = [f"- {name}: {corpus[name]:,}" for name in COUNTS if type(corpus.get(name)) is int and corpus[name]]
    labels = run.config.labels
    if not counts and not labels:
        return ["## Data", "", "Nothing is recorded about its data.", ""]
    if labels:
        counts.append(f"- classes: {', '.join(labels[:20])}")
    return ["## Data", "", *counts, ""]


def _figures(run: Run) -> list[str]:
    test = run.config.test
    if not test:
        return ["## Figures", "", "It was not evaluated on a test split.", ""]
    figures = [f"- {say_measure(name, value)}" for name, value in test.items()]
    return ["## Figures", "", "On the test split of its data:", "", *figures, ""]


def _laws(run: Run) -> list[str]:
    found = (read_laws(run) or {}).get("laws") or []
    if not found:
        return ["## Laws", "", "Its laws were not measured; `regard check` measures them.", ""]
    rows = [f"| {law['law']} | {law['declared'] or ''} | {law['measured']} |" for law in found]
    return ["## Laws", "", "| law | declared | measured |", "|---|---|---|", *rows, ""]
