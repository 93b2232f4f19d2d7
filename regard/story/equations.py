"""Equations as MathML, which browsers draw by themselves, from TeX."""

from __future__ import annotations

import re
from html import unescape
from xml.etree import ElementTree

from latex2mathml.converter import Converter

from regard.errors import RegardError


def mathml(tex: str, *, display: bool = False) -> str:
    """<math> … </math>; `display`: on a line of its own."""
    try:
        found = Converter(display="block" if display else "inline").convert_to_element(tex)
    except Exception as error:  # the library's errors have nothing in common
        raise RegardError(f"an equation cannot be read ({type(error).__name__}): {tex}") from error
    for part in found.iter():
        part.text = unescape(part.text or "")  # the library writes θ as the letters &#x003B8;
        if re.search(r"[\\{}]", part.text):
            raise RegardError(f"an equation has a command that is not known, or a brace too many: {tex}")
    return ElementTree.tostring(found, encoding="unicode")
