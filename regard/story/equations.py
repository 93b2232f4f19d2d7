"""Equations as MathML, which browsers draw by themselves, from a few words of TeX.

Known are letters, numbers and signs, `_` and `^`, groups in braces, `\\frac`, `\\sqrt`, `\\bar`, `\\mbox`, `\\op` (the name
of a function), Greek letters and the symbols below. Anything else raises.
"""

from __future__ import annotations

import re
from html import escape

from regard.errors import RegardError

SYMBOLS = {
    "theta": "θ", "lambda": "λ", "gamma": "γ", "sigma": "σ", "mu": "μ", "beta": "β", "pi": "π", "phi": "φ", "rho": "ρ",
    "Delta": "Δ", "epsilon": "ε", "alpha": "α",
}  # fmt: skip
OPERATORS = {
    "sum": "∑", "prod": "∏", "odot": "⊙", "cdot": "·", "le": "≤", "ge": "≥", "ne": "≠", "in": "∈", "to": "→",
    "langle": "⟨", "rangle": "⟩", "top": "⊤", "mid": "|", "infty": "∞", "sim": "∼", "times": "×", "ldots": "…",
}  # fmt: skip
LARGE = ("∑", "∏")  # what has its limits below and above
WORD = re.compile(r"\\[a-zA-Z]+|\\,|[0-9]+(?:\.[0-9]+)?|[a-zA-Z]|\S")


def mathml(tex: str, *, display: bool = False) -> str:
    """<math> … </math>; `display`: on a line of its own."""
    words = WORD.findall(tex)
    rest = list(reversed(words))
    inside = _row(rest, tex)
    if rest:
        raise RegardError(f"an equation has a brace or a parenthesis too many: {tex}")
    kind = ' display="block"' if display else ""
    return f"<math{kind}>{inside}</math>"


def _row(rest: list[str], tex: str) -> str:
    """All up to the end, or up to what closes it."""
    found: list[str] = []
    while rest and rest[-1] not in ("}", ")"):
        found.append(_with_scripts(rest, tex))
    return f"<mrow>{''.join(found)}</mrow>"


def _with_scripts(rest: list[str], tex: str) -> str:
    base = _atom(rest, tex)
    scripts: dict[str, str] = {}
    while rest and rest[-1] in ("_", "^"):
        mark = rest.pop()
        scripts[mark] = _atom(rest, tex)
    if not scripts:
        return base
    limits = any(sign in base for sign in LARGE)
    names = ("munder", "mover", "munderover") if limits else ("msub", "msup", "msubsup")
    if "^" not in scripts:
        return f"<{names[0]}>{base}{scripts['_']}</{names[0]}>"
    if "_" not in scripts:
        return f"<{names[1]}>{base}{scripts['^']}</{names[1]}>"
    return f"<{names[2]}>{base}{scripts['_']}{scripts['^']}</{names[2]}>"


def _atom(rest: list[str], tex: str) -> str:
    if not rest:
        raise RegardError(f"an equation ends too early: {tex}")
    word = rest.pop()
    if word == "{":
        inside = _row(rest, tex)
        if not rest or rest.pop() != "}":
            raise RegardError(f"a brace of an equation is not closed: {tex}")
        return inside
    if word == "(":  # a row of its own, so that it is as high as what it holds
        inside = _row(rest, tex)
        if not rest or rest.pop() != ")":
            raise RegardError(f"a parenthesis of an equation is not closed: {tex}")
        return f"<mrow><mo>(</mo>{inside}<mo>)</mo></mrow>"
    if word.startswith("\\"):
        return _command(word[1:], rest, tex)
    if word[0].isdigit():
        return f"<mn>{word}</mn>"
    if word.isalpha():
        return f"<mi>{word}</mi>"
    return f"<mo>{escape('−' if word == '-' else word)}</mo>"


def _command(name: str, rest: list[str], tex: str) -> str:
    if name in SYMBOLS:
        return f"<mi>{SYMBOLS[name]}</mi>"
    if name in OPERATORS:
        return f"<mo>{OPERATORS[name]}</mo>"
    if name == "frac":
        return f"<mfrac>{_atom(rest, tex)}{_atom(rest, tex)}</mfrac>"
    if name == "sqrt":
        return f"<msqrt>{_atom(rest, tex)}</msqrt>"
    if name == "bar":
        return f'<mover accent="true">{_atom(rest, tex)}<mo>¯</mo></mover>'
    if name == ",":
        return '<mspace width="0.25em"></mspace>'
    if name in ("mbox", "op"):
        words = _letters(rest, tex)
        if name == "op":
            return f'<mi mathvariant="normal">{words}</mi>'
        return f"<mtext>&nbsp;{words}&nbsp;</mtext>"
    raise RegardError(
        f"an equation has \\{name}, which is not known; known are {', '.join(SYMBOLS | OPERATORS)}"
    )


def _letters(rest: list[str], tex: str) -> str:
    """The words in braces; ~ is a space."""
    if not rest or rest.pop() != "{":
        raise RegardError(f"\\mbox and \\op need braces: {tex}")
    found = []
    while rest and rest[-1] != "}":
        found.append(rest.pop())
    if not rest:
        raise RegardError(f"a brace of an equation is not closed: {tex}")
    rest.pop()
    return escape("".join(found)).replace("~", " ")
