"""Formulas of the pages as KaTeX typesets them, at development time: no script runs in a page.

`website/formulas.json` has the HTML of each formula, with MathML for those who listen. After a
change of a formula in docs/: `python website/typeset.py`, which needs Node.js.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from html import unescape
from pathlib import Path

TYPESET = Path(__file__).with_name("formulas.json")
# What pymdownx.arithmatex makes of $...$ and of a paragraph $$...$$.
INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>([.,;:!?)]*)', re.DOTALL)
BLOCK = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)
DISPLAYED = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)
SHORT = 60  # characters of LaTeX that are not broken over two lines
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)
WRITTEN = re.compile(r"\$\$(.+?)\$\$|\$([^$\s](?:[^$]*[^$\s])?)\$", re.DOTALL)


def typeset(html: str) -> str:
    """A page's HTML with its formulas typeset. Raises ValueError for a formula that is not in
    formulas.json, so that the build stops."""
    html = BLOCK.sub(lambda match: f'<div class="formula">{typeset_of(match[1], "$$")}</div>', html)
    return INLINE.sub(lambda match: inline(match[1], match[2]), html)


def inline(tex: str, punctuation: str) -> str:
    """A formula in a line, and what stands close behind it. A short one keeps it on its line."""
    made = typeset_of(tex, "$") + punctuation
    return f'<span class="together">{made}</span>' if len(tex) <= SHORT else made


def typeset_of(tex: str, mark: str) -> str:
    """The HTML of escaped LaTeX; mark: $ in a line of text, $$ on a line of its own."""
    key = key_of(unescape(tex), mark)
    if key not in known():
        raise ValueError(f"{key}: not typeset yet; run python website/typeset.py")
    return known()[key]


def key_of(tex: str, mark: str) -> str:
    """A formula as formulas.json names it; white space does not matter."""
    return f"{mark}{' '.join(tex.split())}{mark}"


@cache
def known() -> dict[str, str]:
    """The HTML of each formula."""
    formulas: dict[str, str] = json.loads(TYPESET.read_text("utf-8"))
    return formulas


def paragraphs(text: str) -> str:
    """Markdown with each displayed formula in a paragraph of its own, on one line."""
    return DISPLAYED.sub(lambda match: f"\n\n$${' '.join(match[1].split())}$$\n\n", text)


def written(text: str) -> Iterator[str]:
    """The formulas of Markdown, as formulas.json names them."""
    for match in WRITTEN.finditer(CODE.sub("", text)):
        yield key_of(match[1], "$$") if match[1] else key_of(match[2], "$")
