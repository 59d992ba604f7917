"""Where the source cites the papers.

A citation is written for people and read by this module. Without a paper's name it is of the
thesis; the other papers are named as in `grads.equations.papers`.

| written | in | cites |
|---|---|---|
| `# c_t = ...  (2.36)`, `(2.47-2.50)`, `(2.35, 2.38)` | a comment or docstring | equations |
| `(4.2.1 dot)`, `(Bahdanau 7)`, `(4.7; Bahdanau A.1.2 score)` | the same | formulas, other papers |
| `Eq. 2.21`, `Eqs. 2.3 and 2.24-2.30`, `Bahdanau Eq. 7` | the same | equations |
| `Algorithm 2`, `Algorithm 4 lines 13-17`, `lines 5-8 of Algorithm 1` | the same | algorithms |
| `# line 3`, `# (2.41), line 7` | a comment | lines of the function's algorithm |

A function's algorithm is the first one that its docstring names. A range stands for all that the
paper numbers in it. A number of three parts without a word is a section, and no citation. The
algorithm of somebody else is "their Algorithm 1".
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from grads.equations.papers import PAPERS, THESIS, Item

Items = Mapping[tuple[str, str], Item]


class Citation(NamedTuple):
    """One number at one place of the source."""

    paper: str
    number: str
    file: str  # relative to the repository, with slashes
    line: int
    owner: str  # function, method or class that holds the place; "" in a module's own text
    in_comment: bool  # a line's comment, not a docstring
    does: tuple[int, int]  # first and last line of what it is about: a statement or the owner


class Owner(NamedTuple):
    """A function, class or constant of a module, and where its lines are."""

    name: str  # qualified, as in `Translator.loss`
    first: int
    last: int
    docstring: str = ""
    is_class: bool = False


_NUMBER = r"\d{1,2}\.\d{1,2}(?!\.?\d)"
_RANGE = rf"{_NUMBER}(?:\s*-\s*{_NUMBER})?"
_JOIN = r"(?:,\s+and\s+|\s+and\s+|,\s+)"
_OTHERS = "|".join(name for name in PAPERS if name != THESIS)
_LINES = rf"\d+(?:-\d+)?(?:{_JOIN}\d+(?:-\d+)?(?!\.?\d|-))*"
_EQUATIONS = re.compile(
    rf"(?:(?P<paper>{_OTHERS})\s+)?\bEqs?\.\s+(?P<list>(?:{_RANGE}|\d+\b)(?:{_JOIN}{_RANGE})*)")
_GROUP = re.compile(r"\(([^()]+)\)")
_PART = re.compile(rf"(?:{_RANGE}|\d\.\d{{1,2}}\.\d{{1,2}}\s[a-z-]+)\Z")
_ALGORITHMS = re.compile(rf"(?<!their )\bAlgorithms?\s+(\d(?:-\d\b|{_JOIN}\d\b)*)")
_LINES_AFTER = re.compile(rf"\bAlgorithm\s+(\d),?\s+\(?lines?\s+({_LINES})")
_LINES_BEFORE = re.compile(rf"\b[Ll]ines?\s+({_LINES})\s+of\s+Algorithm\s+(\d)")
_THEN_LINES = re.compile(r",?\s+\(?lines?\b")  # after "Algorithm 2": a part of it only
_LINES_OF = re.compile(r"\b[Ll]ines?\s[\d\s,and-]+\sof\s+$")  # before it, likewise
_BARE_LINES = re.compile(rf"(?:^#\s*|,\s+)lines?\s+({_LINES})\s*$")


# --- one text -----------------------------------------------------------------------------------


def find_in_text(text: str, items: Items, algorithm: str = "") -> Iterator[tuple[str, str, int]]:
    """Paper, number and position of every citation in a comment or docstring.

    Arguments: algorithm, what a bare `line 3` at the end of a comment belongs to, "" for none.
    Numbers that no paper has are yielded as they stand.
    """
    for match in _EQUATIONS.finditer(text):
        paper = match["paper"] or THESIS
        for part in re.split(_JOIN, match["list"]):
            for number in expand(paper, part, items):
                yield paper, number, match.start()
    for match in _GROUP.finditer(text):
        for paper, number in _in_group(match[1], items):
            yield paper, number, match.start()
    for match in _ALGORITHMS.finditer(text):
        if not (_THEN_LINES.match(text, match.end()) or _LINES_OF.search(text[: match.start()])):
            for which in _line_numbers(match[1]):
                yield THESIS, f"Algorithm {which}", match.start()
    for pattern, number_first in ((_LINES_AFTER, True), (_LINES_BEFORE, False)):
        for match in pattern.finditer(text):
            digit, lines = match.groups() if number_first else match.groups()[::-1]
            for line in _line_numbers(lines):
                yield THESIS, f"Algorithm {digit} line {line}", match.start()
    bare = _BARE_LINES.search(text) if algorithm else None
    if bare and not _LINES_AFTER.search(text):
        for line in _line_numbers(bare[1]):
            yield THESIS, f"{algorithm} line {line}", bare.start()


def _in_group(content: str, items: Items) -> Iterator[tuple[str, str]]:
    """Citations of one pair of parentheses: nothing unless all of it is citations."""
    found: list[tuple[str, str]] = []
    for part in re.split(r"[;,]\s+", " ".join(content.split())):
        name, _, rest = part.partition(" ")
        if name in PAPERS and _is_section(name, rest, items):
            continue
        if name in PAPERS and rest and not re.search(r"\b(19|20)\d\d\b|^et al|^and ", rest):
            found += [(name, number) for number in expand(name, rest, items)]
        elif _PART.match(part):
            found += [(THESIS, number) for number in expand(THESIS, part, items)]
        elif not re.match(r"(Algorithm \d )?lines? \d", part):
            return
    yield from found


def _is_section(paper: str, number: str, items: Items) -> bool:
    """Whether a number names a section: three parts, or an item only together with a word."""
    return re.fullmatch(r"\d\.\d\.\d", number) is not None or any(
        key == paper and item.startswith(f"{number} ") for key, item in items)


def expand(paper: str, part: str, items: Items) -> list[str]:
    """The numbers of `2.36` or `2.35-2.50`, a range in the paper's order."""
    part = " ".join(part.split())
    first, _, last = part.partition("-")
    if not last or (paper, part) in items or not re.fullmatch(r"[\d. ]+", last):
        return [part]
    first, last = first.strip(), last.strip()
    equations = [number for key, number in items if key == paper
                 and re.fullmatch(r"[\d.]+", number)]
    if first not in equations or last not in equations:
        return [number for number in (first, last) if number not in equations]
    return equations[equations.index(first) : equations.index(last) + 1]


def _line_numbers(text: str) -> list[int]:
    """`5-8`, `14, 15` or `14 and 15` as numbers."""
    numbers: list[int] = []
    for part in re.split(_JOIN, text):
        first, _, last = part.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    return numbers


# --- one file -----------------------------------------------------------------------------------


def find_in_source(source: str, file: str, items: Items) -> list[Citation]:
    """All citations of a Python source, by line; `file` is its name in them.

    Comments on the fields of a class are about data, not about an equation: they are left out.
    """
    tree = ast.parse(source)
    owners, statements = list(_owners(tree)), list(_statements(tree))
    found: list[Citation] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            line = token.start[0]
            owner = innermost(owners, line)
            if owner is None or not owner.is_class:
                name, algorithm = (owner.name, _algorithm(owner)) if owner else ("", "")
                span = min((s for s in statements if s[0] <= line <= s[1]),
                           key=lambda s: s[1] - s[0], default=(line, line))
                found += [Citation(paper, number, file, line, name, True, span)
                          for paper, number, _ in find_in_text(token.string, items, algorithm)]
    for text in filter(None, map(_docstring, ast.walk(tree))):
        owner = innermost(owners, text.lineno)
        name, span = (owner.name, (owner.first, owner.last)) if owner else ("", (0, 0))
        raw = ast.get_source_segment(source, text) or ""
        found += [Citation(paper, number, file, text.lineno + raw.count("\n", 0, position), name,
                           False, span)
                  for paper, number, position in find_in_text(raw, items)]
    return sorted(set(found), key=lambda c: (c.line, not c.in_comment))


def _docstring(node: ast.AST) -> ast.Constant | None:
    """The docstring's own node."""
    if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) or not node.body:
        return None
    first = node.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) \
            and isinstance(first.value.value, str):
        return first.value
    return None


def _owners(tree: ast.AST, prefix: str = "") -> Iterator[Owner]:
    """Functions, methods, classes, and a module's constants."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            name = prefix + node.name
            yield Owner(name, node.lineno, node.end_lineno or 0, ast.get_docstring(node) or "",
                        isinstance(node, ast.ClassDef))
            yield from _owners(node, f"{name}.")
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(tree, ast.Module):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name):
                yield Owner(target.id, node.lineno, node.end_lineno or 0)


def innermost(owners: list[Owner], line: int) -> Owner | None:
    """The function, class or constant around a line."""
    around = [owner for owner in owners if owner.first <= line <= owner.last]
    return min(around, key=lambda owner: owner.last - owner.first, default=None)


def _statements(tree: ast.AST) -> Iterator[tuple[int, int]]:
    """First and last line of every statement; of a compound one, of its head."""
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            last = max(node.lineno, body[0].lineno - 1) if body else node.end_lineno or 0
            yield node.lineno, last


def _algorithm(owner: Owner) -> str:
    """`Algorithm 2` for a docstring that names Algorithm 2 before any other."""
    match = _ALGORITHMS.search(owner.docstring)
    return f"Algorithm {match[1][0]}" if match else ""


# --- all files ----------------------------------------------------------------------------------

PACKAGES = ("backend", "lstm", "attention", "nmt", "grads")
DERIVATIONS = "grads/derivations/"


def find_in_repository(root: Path, items: Items) -> list[Citation]:
    """All citations of all packages, in the order of files and lines."""
    return [citation for package in PACKAGES for path in sorted((root / package).rglob("*.py"))
            for citation in find_in_source(
                path.read_text(encoding="utf-8"), path.relative_to(root).as_posix(), items)]


def unknown(citations: list[Citation], items: Items) -> list[str]:
    """A message for each citation of a number that its paper's list does not have."""
    return [f"{c.file}:{c.line}: {PAPERS[c.paper].name} has no {c.number!r} "
            "(grads/equations/papers.py)" for c in citations if (c.paper, c.number) not in items]
