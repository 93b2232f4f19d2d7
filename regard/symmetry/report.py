"""What was declared and what was measured, for people, for notebooks and for machines."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

MEANT = {  # by what stands in the column of what is declared, where it may be misread
    "broken": "declared broken: the architecture cannot keep this law, and says so; measured broken is then as declared",
    "not promised": "not promised: the model says nothing of this law, and nothing follows from what is measured",
}


@dataclass(frozen=True)
class Finding:
    """One law: what the model promises and what it does."""

    law: str
    declared: str | None  # invariant, equivariant, holds, broken, not promised, or None: nothing was said
    measured: str  # holds, broken, vacuous, unknown
    error: float | None = None  # the largest |f(gx) − g f(x)| / max |f(x)| of all trials
    tolerance: float | None = None
    worst: str | None = None  # the trial that gave it
    layer: str | None = None  # dotted name of the first submodule at which it breaks; "" is the model itself
    exact: bool | None = None  # False: it breaks somewhere inside that layer
    reason: str | None = None  # why the layer, or why unknown or vacuous
    dtype: str | None = None  # in which it was decided
    seconds: float = 0.0
    # of a symmetry, where that is less than its name says: multiples of 4 pixels, quarter turns
    by: str | None = None
    named: bool = False  # the law was asked for by its name
    length: int | None = None  # the most tokens that were tried; None: there are no tokens
    rows: int | None = None  # the most rows of a batch that were tried; None: there are no rows
    after: bool = False  # not exact: it breaks in that layer, or in one after it

    @property
    def title(self) -> str:
        """The law with what was tried of it."""
        return law_title(self.law, self.by)

    @property
    def ok(self) -> bool:
        """As declared; where nothing was declared, a law that was asked for by its name must be measured."""
        if self.declared in (None, "not promised"):
            return not self.unmeasured
        return self.measured == ("broken" if self.declared == "broken" else "holds")

    @property
    def unmeasured(self) -> bool:
        """Asked for by its name, declared by nobody, and not measured."""
        return self.named and self.declared in (None, "not promised") and self.measured == "unknown"

    @property
    def place(self) -> str:
        """The layer as a reader wants to see it."""
        if self.layer is None:
            return ""
        name = self.layer or "the model itself"
        if self.exact:
            return name
        if self.after:
            return f"in or after {name}"
        if self.layer:
            return f"in {name}"
        return "somewhere in the model"

    def sentence(self) -> str:
        """What is wrong, or right, in words."""
        said = "nothing was declared" if self.declared is None else f"declared {self.declared}"
        words = f"{self.title}: {said}, measured {self.measured}"
        if self.length is not None and self.measured == "holds":
            words += f" up to {self.length} tokens"
        if self.rows is not None and self.rows > 1 and self.measured == "holds":
            words += f"{' and' if self.length is not None else ' up to'} {self.rows} rows"
        if self.error is not None and self.tolerance is not None:
            words += f" (error {number(self.error)}, tolerance {number(self.tolerance)}"
            words += f" in {self.dtype}" * bool(self.dtype) + f"; {self.worst}" * bool(self.worst) + ")"
        if self.layer is not None:
            where = "at" if self.exact else "somewhere in"
            if self.after:
                where = "in or after"
            words += f"; it breaks {where} {self.layer or 'the model itself'}"
        return words + (f": {self.reason}" if self.reason else "")


@dataclass(frozen=True)
class Report:
    """All laws that were measured. `assert report.ok` shows what is wrong when it fails."""

    findings: tuple[Finding, ...]
    seed: int
    name: str = ""
    notes: tuple[str, ...] = ()  # what a reader should know of the model: that its weights are random

    @property
    def ok(self) -> bool:
        """Every law that was declared is measured so, and every law that was named is measured."""
        return all(finding.ok for finding in self.findings)

    def __getitem__(self, law: str) -> Finding:
        for finding in self.findings:
            if finding.law == law:
                return finding
        raise KeyError(
            f"{law!r} was not measured; this report has {', '.join(f.law for f in self.findings) or 'no law'}"
        )

    def __contains__(self, law: str) -> bool:
        return any(finding.law == law for finding in self.findings)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    @property
    def verdict(self) -> str:
        """All of it in a few words."""
        if not any(finding.measured != "unknown" for finding in self.findings):
            return "nothing was measured"
        unmeasured = sum(finding.unmeasured for finding in self.findings)
        wrong = len(self.wrong) - unmeasured
        parts = []
        if wrong:
            parts.append(f"{wrong} law{'s' * (wrong > 1)} not as declared")
        if unmeasured:
            parts.append(f"{unmeasured} law{'s' * (unmeasured > 1)} not measured")
        return ", ".join(parts) or "as declared"

    @property
    def wrong(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if not finding.ok)

    def to_json(self) -> dict[str, Any]:
        """Plain data: {"ok", "seed", "laws": [{"law", "declared", "measured", ...}]}."""
        laws = []
        for finding in self.findings:
            line = asdict(finding) | {"ok": finding.ok}
            if line["error"] is not None and not math.isfinite(line["error"]):
                line["error"] = str(line["error"])  # JSON knows no infinity
            laws.append(line)
        notes = {"notes": list(self.notes)} if self.notes else {}
        return {"ok": self.ok, "seed": self.seed, "model": self.name, "laws": laws, **notes}

    def rows(self) -> list[list[str]]:
        return [
            [
                finding.title,
                finding.declared or "",
                finding.measured,
                "" if finding.length is None else str(finding.length),
                "" if finding.error is None else number(finding.error),
                "" if finding.tolerance is None else number(finding.tolerance),
                finding.worst or "",
                finding.place,
            ]
            for finding in self.findings
        ]

    def reasons(self) -> list[str]:
        """Why a law breaks that was not promised, each reason once: the table says only where."""
        laws: dict[str, list[str]] = {}
        for finding in self.findings:
            if finding.ok and finding.measured == "broken" and finding.reason:
                laws.setdefault(finding.reason, []).append(finding.title)
        return [f"{', '.join(names)}: {reason}" for reason, names in laws.items()]

    def words(self) -> list[str]:
        """What is meant by words in the column of what is declared, as far as they stand there."""
        return [
            meant for declared, meant in MEANT.items() if any(finding.declared == declared for finding in self.findings)
        ]

    def __str__(self) -> str:
        lines = [HEADERS, *self.rows()]
        widths = [min(44, max(len(line[k]) for line in lines)) for k in range(len(HEADERS) - 1)]
        shown = []
        for *cells, layer in lines:  # whose name is needed whole
            fitting = [_clipped(cell, width).ljust(width) for cell, width in zip(cells, widths, strict=True)]
            shown.append("  ".join([*fitting, layer]).rstrip())
        for finding in self.findings:
            if not finding.ok or (finding.measured in ("unknown", "vacuous") and finding.reason):
                shown.append(finding.sentence())
        shown += [*self.reasons(), *self.words()]
        shown += [f"note: {note}" for note in self.notes]
        return "\n".join(shown)

    def __repr__(self) -> str:
        """Short, the worst first: it is what a test suite shows of a failed `assert report.ok`."""
        if self.verdict == "as declared":
            good = f"{len(self)} law{'s' * (len(self) != 1)} as declared"
        else:
            good = self.verdict
        return "<" + ("; ".join(finding.sentence() for finding in self.wrong) or good) + ">"

    def _repr_html_(self) -> str:
        colours = {"holds": "#1a7f37", "broken": "#cf222e", "vacuous": "#9a6700", "unknown": "#6e7781"}
        head = "".join(f"<th style='text-align:left;padding:2px 10px'>{escape(h)}</th>" for h in HEADERS)
        body = ""
        for finding, row in zip(self.findings, self.rows(), strict=True):
            cells = [escape(cell) for cell in row]
            weight = "normal" if finding.ok else "bold"
            cells[2] = f"<span style='color:{colours[finding.measured]};font-weight:{weight}'>{cells[2]}</span>"
            title = escape(finding.reason or "", quote=True)
            body += (
                f"<tr title='{title}'>"
                + "".join(f"<td style='text-align:left;padding:2px 10px'>{c}</td>" for c in cells)
                + "</tr>"
            )
        name = f"{escape(self.name)}: " if self.name else ""
        return f"<div><b>{name}{self.verdict}</b><table style='border-collapse:collapse'><tr>{head}</tr>{body}</table></div>"


HEADERS = ["law", "declared", "measured", "tokens", "error", "tolerance", "worst case", "breaks at"]


def law_title(law: str, by: str | None) -> str:
    return f"{law} by {by}" if by else law


def number(x: float) -> str:
    if x == 0:
        return "0"
    if math.isfinite(x):
        return f"{x:.1e}"
    return "not finite"


def _clipped(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
