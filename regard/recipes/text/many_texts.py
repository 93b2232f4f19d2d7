"""The prompts of a file, all continued at once: `regard generate RUN --prompts FILE`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path

from regard.data.text_files import read_lines
from regard.errors import RegardError
from regard.files import json_text, write_stream
from regard.generation.generate import Written, write_texts
from regard.generation.sampling import Sampling
from regard.generation.scheduler import Counts
from regard.generation.writer import Writer
from regard.recipes.text.generate import GenerateOptions

EVERY = 0.2  # seconds between two words about how far it is


def write_many(writer: Writer, options: GenerateOptions, note: Callable[[str], None]) -> Iterator[str]:
    """The prompts and their continuations, in order; or one line that says in which file they are. Raises at
    the end if some prompts could not be continued: the others are."""
    lines = _read_prompts(str(options.prompts))
    prompts = list(lines.values())
    failed: set[int] = set()
    if options.out is not None and not Path(options.out).absolute().parent.is_dir():
        raise RegardError(f"cannot write {options.out}: there is no folder {Path(options.out).parent}")
    sampling = Sampling(**{field.name: getattr(options, field.name) for field in fields(Sampling)})
    progress = _Progress(len(prompts) * sampling.samples)

    def told() -> Iterator[Written]:
        """What is written; what cannot be is said."""
        for each in write_texts(writer, prompts, sampling, tell=progress.tell):
            if each.error is not None and each.prompt not in failed:
                failed.add(each.prompt)
                progress.clear()
                note(f"line {list(lines)[each.prompt]} of {options.prompts}: {each.error}")
            yield each

    written = told()
    if options.out is not None:

        def write(part: Path) -> None:
            with part.open("w", encoding="utf-8", newline="\n") as file:
                for each in written:
                    file.write(_line(each, prompts, options))

        write_stream(options.out, write)
        progress.clear()
        yield f"{options.out}: {(len(prompts) - len(failed)) * sampling.samples:,} texts\n"
        _refuse_failed(failed, prompts)
        return
    for number, each in enumerate(written, 1):
        progress.clear()
        if each.error is not None:
            continue
        yield f"── {number} ──\n{prompts[each.prompt]}{each.text}\n"
    progress.clear()
    _refuse_failed(failed, prompts)


def _refuse_failed(failed: set[int], prompts: list[str]) -> None:
    if failed:
        raise RegardError(
            f"{len(failed):,} of {len(prompts):,} prompts could not be continued, for the reasons above; the others were"
        )


def _read_prompts(path: str) -> dict[int, str]:
    """The lines of a file that are not empty, by their numbers."""
    lines = enumerate(read_lines(path), 1)
    prompts = {number: line.rstrip("\r\n") for number, line in lines if line.strip()}
    if not prompts:
        raise RegardError(f"{path} has no prompt; write one in each line")
    return prompts


def _line(written: Written, prompts: list[str], options: GenerateOptions) -> str:
    sample = {"sample": written.sample} if options.samples > 1 else {}
    error = {} if written.error is None else {"error": written.error}
    return (
        json_text(
            {"prompt": prompts[written.prompt], **sample, "text": written.text, "finish": written.finish, **error}
        )
        + "\n"
    )


class _Progress:
    """One line on a terminal that says how far it is."""

    def __init__(self, texts: int) -> None:
        self.texts, self.began, self.said, self.live = texts, time.monotonic(), 0.0, False

    def tell(self, counts: Counts) -> None:
        now = time.monotonic()
        if not sys.stderr.isatty() or now - self.said < EVERY:
            return
        self.said, self.live = now, True
        share = counts.finished / self.texts
        bar = "█" * round(20 * share)
        speed = counts.written / max(now - self.began, 1e-9)
        sys.stderr.write(f"\r\033[K{bar:░<20} {counts.finished:,} of {self.texts:,} texts · {speed:,.0f} tokens/s")
        sys.stderr.flush()

    def clear(self) -> None:
        if self.live:
            sys.stderr.write("\r\033[K")
            self.live = False
