"""Formulas of the pages as MathML, which browsers draw themselves: no script, no font is loaded."""

from __future__ import annotations

import re
from html import unescape

from latex2mathml.converter import convert

# What pymdownx.arithmatex makes of $...$ and of a paragraph $$...$$.
INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
BLOCK = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)
DISPLAYED = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)


def typeset(html: str) -> str:
    """A page's HTML with its formulas as MathML. Raises latex2mathml's error for one that is no
    LaTeX, so that the build stops."""
    html = BLOCK.sub(lambda match: f'<div class="formula">{mathml(match[1], "block")}</div>', html)
    return INLINE.sub(lambda match: mathml(match[1], "inline"), html)


def mathml(tex: str, display: str) -> str:
    """The formula of escaped LaTeX."""
    made: str = convert(" ".join(unescape(tex).split()), display=display)
    return made


def paragraphs(text: str) -> str:
    """Markdown with each displayed formula in a paragraph of its own, on one line."""
    return DISPLAYED.sub(lambda match: f"\n\n$${' '.join(match[1].split())}$$\n\n", text)
