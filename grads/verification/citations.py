"""The papers' equation numbers, listed in `equations.txt`, and their citations in comments and
docstrings.

| written | cites |
|---|---|
| `# c_t = ...  (2.36)`, `(2.47-2.50)`, `(2.35, 2.38)` | equations of the thesis |
| `(4.2.1 dot)`, `(Bahdanau 7)`, `(4.7; Bahdanau A.1.2 score)` | formulas, other papers |
| `Eq. 2.21`, `Eqs. 2.3 and 2.24-2.30`, `Bahdanau Eq. 7` | equations |
| `Algorithm 2`, `Algorithm 4 lines 13-17`, `lines 5-8 of Algorithm 1` | algorithms |
| `# line 3`, `# (2.41), line 7` | lines of the first algorithm of the docstring |

The number of a section (three parts without a word) is not a citation. Nor is "their Algorithm 1".
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

Key = tuple[str, str]  # paper, number
THESIS = "thesis"


class Item(NamedTuple):
    """One equation, algorithm or line of an algorithm."""

    title: str
    same_as: Key | None = None  # the item that this item repeats
    algorithm: bool = True  # False for background, an intermediate step, or an "end"


class Citation(NamedTuple):
    """A citation of a number in the source."""

    key: Key
    file: str  # relative to the repository, with slashes
    line: int
    owner: str  # the function, or the class with the docstring, that contains it; "" for none
    in_comment: bool  # False: it is in the owner's docstring


# --- the list -------------------------------------------------------------------------------------


def read_list(text: str) -> tuple[dict[str, str], dict[Key, Item]]:
    """The titles of papers by name, and the items by paper and number, in the papers' order.

    A paper is `# name: title`, an item `number: title`. A title `= NUMBER`, or `= PAPER NUMBER`,
    repeats another item; `~` marks what is no algorithm.
    """
    papers: dict[str, str] = {}
    items: dict[Key, Item] = {}
    algorithm = ""
    for line in text.splitlines():
        number, _, title = line.partition(": ")
        if number.startswith("# "):
            paper = number[2:]
            papers[paper] = title
            continue
        if number.startswith("Algorithm"):
            algorithm = number
        marked = title[1] == " " and title[0] in "=~"
        mark, description = (title[0], title[2:]) if marked else ("", title)
        name, _, other_number = description.partition(" ")
        repeated = (name, other_number) if name in papers else (paper, description)
        number = f"{algorithm} {number}" if number.startswith("line ") else number
        items[paper, number] = Item("", repeated) if mark == "=" else Item(
            description, None, mark != "~")
    return papers, items


PAPERS, ITEMS = read_list(Path(__file__).with_name("equations.txt").read_text(encoding="utf-8"))

# --- one text -------------------------------------------------------------------------------------

_N = r"(?:\d{1,2}\.\d{1,2}|\d+)(?!\.?\d)"  # 2.36, or 7
_RANGE = rf"{_N}(?:-{_N})?"
_JOIN = r"(?:, and |, | and )"
_LIST = rf"{_RANGE}(?:{_JOIN}{_RANGE})*"
_EQUATIONS = re.compile(rf"(?:({'|'.join(PAPERS)}) )?\bEqs?\. ({_LIST})")
_ALGORITHMS = re.compile(rf"(?<!their )(?:\b[Ll]ines? ({_LIST}) of )?\bAlgorithms? ({_LIST})"
                         rf"(?:,? \(?lines? ({_LIST}))?")
_LINES = re.compile(rf"(?:^#|,) lines? ({_LIST})$")  # without its algorithm
_GROUP = re.compile(r"\(([^()]+)\)")
_NUMBER = re.compile(r"\d+\.\d+(?:-\d+\.\d+)?|\d\.\d\.\d [a-z-]+")  # of the thesis
_ELSEWHERE = re.compile(r"(?!(?:19|20)\d\d)(?:[A-Z]\.)?\d[-\d.]*(?: [a-z\d ]+)?|[a-z]+")
_OTHER = re.compile(r"(?:[A-Z]\.|\d\.\d\.)\d(?:\.\d)?|Algorithm .*|lines? .*")  # sections, lines


def find_in_text(text: str, algorithm: str = "") -> Iterator[Key]:
    """All citations in a comment or docstring, including numbers that no paper has.

    algorithm: what a `line 3` at the end of a comment belongs to, "" for none.
    """
    text = " ".join(text.split())
    for paper, numbers in _EQUATIONS.findall(text):
        yield from ((paper or THESIS, number) for item in re.split(_JOIN, numbers)
                    for number in _range(paper or THESIS, item))
    for group in _GROUP.findall(text):
        yield from _in_group(group)
    for before, numbers, after in _ALGORITHMS.findall(text):
        for number in _integers(numbers):
            lines = [f" line {line}" for line in _integers(before or after)] or [""]
            yield from ((THESIS, f"Algorithm {number}{line}") for line in lines)
    bare = _LINES.search(_ALGORITHMS.sub("", text))
    if bare and algorithm:
        yield from ((THESIS, f"{algorithm} line {line}") for line in _integers(bare[1]))


def _in_group(group: str) -> list[Key]:
    """The citations in a pair of parentheses; none if it has any other text."""
    keys: list[Key] = []
    for item in re.split(r"[;,] ", group):
        first, _, tail = item.partition(" ")
        paper, number = (first, tail) if first in PAPERS else (THESIS, item)
        shape = _NUMBER if paper == THESIS else _ELSEWHERE
        if _OTHER.fullmatch(number):
            continue
        if (paper, number) in ITEMS or shape.fullmatch(number):
            keys += [(paper, single) for single in _range(paper, number)]
        else:
            return []
    return keys


def _range(paper: str, text: str) -> list[str]:
    """The numbers of `2.36` or `2.35-2.50`, a range in the paper's order."""
    ends = text.split("-") if re.fullmatch(_RANGE, text) else [text]
    numbers = [number for key, number in ITEMS if key == paper and re.fullmatch(_N, number)]
    if not set(ends) <= set(numbers):
        return ends
    return numbers[numbers.index(ends[0]) : numbers.index(ends[-1]) + 1]


def _integers(text: str) -> list[int]:
    """`5-8`, `14, 15` or `14 and 15` as numbers."""
    ranges = [item.split("-") for item in re.split(_JOIN, text) if item]
    return [n for ends in ranges for n in range(int(ends[0]), int(ends[-1]) + 1)]


# --- the source -----------------------------------------------------------------------------------

PACKAGES = ("backend", "lstm", "attention", "nmt", "grads/derivations")
Owner = ast.FunctionDef | ast.ClassDef


def find_in_repository(root: Path) -> list[Citation]:
    """All citations of the product and the derivations, in the order of files and lines."""
    return [citation for package in PACKAGES for path in sorted((root / package).rglob("*.py"))
            for citation in find_in_source(path.read_text(encoding="utf-8"),
                                           path.relative_to(root).as_posix())]


def find_in_source(source: str, file: str) -> list[Citation]:
    """All citations of a Python source; `file` is its name in them.

    Comments on the fields of a class are about data, not about an equation, so they have no owner.
    """
    module = ast.parse(source)
    owners = dict(_owners(module))
    texts = [(ast.get_docstring(module), 1, "")]
    texts += [(ast.get_docstring(node), node.lineno, name) for node, name in owners.items()]
    citations = [Citation(key, file, line, name, False) for text, line, name in texts
             for key in find_in_text(text or "")]
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            node = max((node for node in owners if _holds(node, token.start[0])),
                       key=lambda node: node.lineno, default=None)
            function = node if isinstance(node, ast.FunctionDef) else None
            name = owners[function] if function else ""
            citations += [Citation(key, file, token.start[0], name, True)
                      for key in find_in_text(token.string, _algorithm(function))]
    return sorted(set(citations), key=lambda citation: citation.line)


def _owners(tree: ast.AST, prefix: str = "") -> Iterator[tuple[Owner, str]]:
    """Functions, methods and classes with their qualified names."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Owner):
            yield node, prefix + node.name
            yield from _owners(node, f"{prefix}{node.name}.")


def _holds(node: Owner, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or 0)


def _algorithm(function: ast.FunctionDef | None) -> str:
    """The first algorithm that a docstring names, or ""."""
    text = ast.get_docstring(function) or "" if function else ""
    return next((number.partition(" line")[0] for _, number in find_in_text(text)
                 if number.startswith("Algorithm")), "")
