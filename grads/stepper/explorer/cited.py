"""What a line cites, in full: the thesis's remarks, lemma and corollary, footnotes, errata.

A wheel does not hold docs/errata.md; `write` makes `assets/errata.json` from it:
`python -c "from grads.stepper.explorer.cited import write; write()"`.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from grads.derivations import calculus
from grads.stepper.explorer.formulas import ASSETS
from grads.stepper.tracing.source import EQUATION
from nmt.files import write_text

ERRATA = Path(__file__).resolve().parents[3] / "docs" / "errata.md"
NOTES = {
    "footnote 5": "Of the score location, whose a_t has one length for all sentences: a short "
                  "sentence uses the top part of it, and in a long one the words near the end are "
                  "ignored.",
    "footnote 7": "Of a window that crosses the sentence's edge the part outside is ignored.",
    "footnote 14": "In the reported results of the score concat, the part of W_a that belongs to "
                   "hbar_s was the identity.",
    "remark (b)": "Of backpropagation through time: dx_t are the gradients of the words that "
                  "occur, and W_e is updated in their places alone.",
}
HELPERS = (calculus.remark_1, calculus.lemma_1, calculus.corollary_1, calculus.remark_2,
           calculus.remark_3)
NAMED = re.compile(r"\b(Remark|Lemma|Corollary) (\d)|\b(footnote \d+|remark \(\w\))|"
                   r"\berrat(?:um|a) (\d+)(?: and (\d+))?|(?<![\d.])(2\.1\d)(?!\d)")
MARKED = re.compile(r"\*\*|(?<!\w)\*(?=\w)|(?<=\w)\*(?!\w)|\[([^]]*)\]\([^)]*\)")
HEADING = re.compile(r"^### (\d+)\. (.*)$", re.MULTILINE)


@cache
def helpers() -> dict[str, str]:
    """The remarks, the lemma and the corollary, by name, as `grads.derivations.calculus` says
    them."""
    return {helper.__name__.replace("_", " ").capitalize(): statement(inspect.getdoc(helper) or "")
            for helper in HELPERS}


def statement(text: str) -> str:
    """The first sentence of a docstring, its equation numbers in brackets."""
    statement, _, remainder = text.partition(";")
    return f"{statement} ({', '.join(EQUATION.findall(remainder.partition(chr(10))[0]))})."


@cache
def by_equation() -> dict[str, str]:
    """The name of a remark, lemma or corollary, by the numbers of its equations."""
    return {number: name for name, text in helpers().items() for number in EQUATION.findall(text)}


@cache
def errata() -> dict[str, dict[str, Any]]:
    """By number: "title", and "text", its paragraphs."""
    known: dict[str, dict[str, Any]] = json.loads(
        (ASSETS / "errata.json").read_text(encoding="utf-8"))
    return known


def cited(text: str) -> list[str]:
    """The citations in a comment or a note, without repetition: "Corollary 1", "footnote 5",
    "erratum 4"."""
    return [name for name in dict.fromkeys(names(text)) if said(name)]


def names(text: str) -> Iterator[str]:
    """Citations in their order."""
    for match in NAMED.finditer(text):
        kind, number, note, first, second, equation = match.groups()
        if kind:
            yield f"{kind} {number}"
        elif note:
            yield note
        elif equation:
            yield by_equation().get(equation, "")
        else:
            yield from (f"erratum {erratum}" for erratum in (first, second) if erratum)


def said(name: str) -> dict[str, Any] | None:
    """The text of a citation, in the form of `errata`; None for an unknown name."""
    if name in helpers():
        return {"title": name, "text": [helpers()[name]]}
    if name in NOTES:
        return {"title": name.capitalize(), "text": [NOTES[name]]}
    erratum = errata().get(name.removeprefix("erratum "))
    return erratum and {"title": f"{name.capitalize()}: {erratum['title']}",
                        "text": erratum["text"]}


def all_said(lists: Iterable[list[str]]) -> dict[str, Any]:
    """The texts of everything that the lines of a page cite, by name."""
    return {name: said(name)
            for name in dict.fromkeys(name for citations in lists for name in citations)}


# --- docs/errata.md -----------------------------------------------------------------------------


def read(page: str) -> dict[str, dict[str, Any]]:
    """The errata of docs/errata.md, as `errata`, without the commands that test them."""
    parts = HEADING.split(re.sub(r"^## .*$", "", page, flags=re.MULTILINE))[1:]
    return {number: {"title": title, "text": list(paragraphs(text))}
            for number, title, text in zip(*[iter(parts)] * 3, strict=True)}


def paragraphs(text: str) -> Iterator[str]:
    """The paragraphs of a section; each row of a table, each item of a list is one."""
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        if block.startswith("    "):
            continue  # commands
        for paragraph in re.split(r"\n(?=[|-] ?)", block):
            line = " ".join(paragraph.split()).strip("| ")
            if not re.fullmatch(r"[-| ]+", line):
                yield MARKED.sub(r"\1", line).replace(" | ", ": ")


def write() -> None:
    """Make `assets/errata.json` anew."""
    write_text(ASSETS / "errata.json", json.dumps(
        read(ERRATA.read_text(encoding="utf-8")), ensure_ascii=False, indent=1) + "\n")
