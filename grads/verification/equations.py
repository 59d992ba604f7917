"""docs/equations.md: for each number of the papers its derivation, its kernel, and their checks.

It is generated: a number is implemented where a comment or docstring cites it
(`grads.verification.citations`), and checked by whatever calls the function with that line.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from inspect import unwrap
from pathlib import Path
from typing import NamedTuple

from backend.errors import UserError
from backend.fused.switch import BOUND
from grads.verification import catalogue, derivations
from grads.verification.cases import model_case
from grads.verification.citations import (
    ITEMS,
    PAPERS,
    Citation,
    Item,
    Key,
    find_in_repository,
)
from grads.verification.completeness import called_by
from grads.verification.rules import gradients_of

ROOT = Path(__file__).resolve().parents[2]
DERIVATIONS = "grads/derivations/"

HEAD = """# Equations

This page leads from an equation of a paper to the line of code that computes it: {count} numbered
equations and lines of algorithms from five papers. The *derivation* follows the paper literally,
the *kernel* is the fast code. A formula without a number is named by its section and a word; line
10 of Algorithm 4 is written Algorithm 4:10.

Every function on this page has a gradient check or a test. `grads check 'derivation lstm*'` checks
a derivation, `grads check 'luong*'` the models of an architecture.

`grads equations` writes this page from the comments that cite the numbers; do not edit it.

"""

Place = tuple[str, str]  # file and qualified name of a function


class Source(NamedTuple):
    """The data of the page."""

    citations: list[Citation]
    called: Mapping[Place, list[str]]  # the derivations and models whose gradients call a function
    tests: Mapping[str, str]  # test file -> text


class Row(NamedTuple):
    """A number of a paper, and the functions that cite it, the main ones first."""

    key: Key
    item: Item
    derivation: list[Citation]
    kernel: list[Citation]


# --- functions of a number ------------------------------------------------------------------------


def read_source() -> Source:
    """Read the repository. Raises UserError for an installed package without it."""
    if not (ROOT / "tests").is_dir():
        raise UserError(f"{ROOT}: expected the repository with its tests, to read them")
    tests = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
             for path in sorted((ROOT / "tests").rglob("test_*.py"))}
    return Source(find_in_repository(ROOT), calls(), tests)


def rows_of(source: Source) -> list[Row]:
    """A row for each number of the papers; one that is repeated has the lines of the original."""
    by_key: dict[Key, list[Citation]] = {key: [] for key in ITEMS}
    for citation in source.citations:
        if citation.owner and citation.key in by_key:
            by_key[citation.key].append(citation)
    return [Row(key, item, *(
        carriers(key, [citation for same in _repeats(key) for citation in by_key[same]
                       if citation.file.startswith(DERIVATIONS) == literal], source)
        for literal in (True, False))) for key, item in ITEMS.items()]


def _repeats(key: Key) -> list[Key]:
    """A number and those that it repeats."""
    same = ITEMS[key].same_as
    return [key] if same is None else [key, *_repeats(same)]


def carriers(key: Key, citations: list[Citation], source: Source) -> list[Citation]:
    """One citation of each function, in a comment if there is one; the one to show first.

    The order: citations of the number itself before those of one that it repeats; for an algorithm,
    the function with most of its lines; functions with comment and docstring before those with a
    comment, these before a docstring; functions that a check calls before others.
    """
    at_place: dict[Place, list[Citation]] = {}
    nearest = sorted(citations, key=lambda citation: (citation.key != key, not citation.in_comment))
    for citation in nearest:
        at_place.setdefault((citation.file, citation.owner), []).append(citation)
    line = f"{key[1].partition(' line ')[0]} line "
    lines = Counter((citation.file, citation.owner) for citation in source.citations
                    if line in citation.key[1])

    def rank(place: Place) -> tuple[bool, int, bool, bool, bool]:
        first, last = at_place[place][0], at_place[place][-1]
        return (first.key != key, -lines[place], not first.in_comment, last.in_comment,
                place not in source.called)

    return [at_place[place][0] for place in sorted(at_place, key=rank)]


def problems(source: Source) -> list[str]:
    """The problems: citations of unknown numbers; numbers without a citation; functions without a
    check."""
    unknown = [f"{citation.file}:{citation.line}: {citation.key[0]} has no {citation.key[1]!r}"
               for citation in source.citations if citation.key not in ITEMS]
    rows = rows_of(source)
    lost = [f"{' '.join(row.key)}: no derivation and no kernel cites it"
            for row in rows if _missing(row)]
    by_owner = {(citation.file, citation.owner): citation for citation in source.citations}
    bare = [f"{citation.file}:{citation.line}: no gradient calls {citation.owner}, no test names it"
            for citation in by_owner.values()
            if citation.owner and not checks_of(citation, source)]
    return unknown + lost + bare


def _missing(row: Row) -> bool:
    return row.item.algorithm and not (row.derivation or row.kernel)


# --- checks ---------------------------------------------------------------------------------------


def calls() -> dict[Place, list[str]]:
    """The derivations and models whose gradients, as they are checked, call a function or class.

    What calls the form of a function that computes in place counts for the function.
    """
    callers: dict[Place, list[str]] = {}
    formulas = {form.__code__: unwrap(function).__code__ for function in BOUND
                if (form := vars(function)["in_place"]) is not None}
    cases = [(f"derivation {entry.derivation}", derivations.make_case(entry))
             for entry in derivations.entries()]
    cases += [(f"model {entry.architecture}", model_case(catalogue.random_model(entry)))
              for entry in catalogue.entries("tiny") if entry.shape == "ragged"]
    for name, case in cases:
        codes = called_by(partial(gradients_of, case))
        for code in codes | {formulas[form] for form in codes & formulas.keys()}:
            path, parts = Path(code.co_filename), code.co_qualname.split(".")
            for n in range(len(parts) if path.is_relative_to(ROOT) else 0):
                owner = ".".join(word for word in parts[: n + 1] if word != "<locals>")
                names = callers.setdefault((path.relative_to(ROOT).as_posix(), owner), [])
                names += [] if name in names else [name]
    for function in BOUND:  # whose form in place is what real numbers call
        form = vars(function)["in_place"]
        if form is not None:
            file = Path(form.__code__.co_filename).relative_to(ROOT).as_posix()
            callers[file, function.__qualname__] = callers.get((file, form.__qualname__), [])
    return callers


def checks_of(citation: Citation, source: Source) -> list[str]:
    """The derivations and models that call a function; if there are none, a test file."""
    callers = source.called.get((citation.file, citation.owner))
    return callers or tests_of(citation, source.tests)[:1]


def tests_of(citation: Citation, texts: Mapping[str, str]) -> list[str]:
    """Test files that name a function, or else its module; those at the corresponding path
    first."""
    file = Path(citation.file)
    home, package = f"tests/{file.parent.as_posix()}/", ".".join(file.parent.parts)
    nearest = f"{home}test_{file.name}"
    for names in (citation.owner.split("."), [package, file.stem]):
        naming = [file for file, text in texts.items()
                  if all(name in text and re.search(rf"\b{name}\b", text) for name in names)]
        if naming:
            return sorted(naming,
                          key=lambda test: (test != nearest, not test.startswith(home), test))
    return []


# --- the page -------------------------------------------------------------------------------------


def to_markdown(source: Source) -> str:
    """docs/equations.md: a table for each paper, then what is not in the tables."""
    rows = [row for row in rows_of(source) if row.item.algorithm and not _missing(row)]
    parts = [HEAD.format(count=len(rows))]
    for paper, title in PAPERS.items():
        listed = [row for row in rows if row.key[0] == paper]
        repeats = [row for row in listed if _only_repeats(row)]
        parts += [f"## {title}\n\n| equation | derivation | kernel |\n|---|---|---|\n",
                  *(_line(row) for row in listed if row not in repeats), "\n",
                  *["Repeated: ", ", ".join(map(_repeated, repeats)), ".\n\n"] * bool(repeats)]
    parts += ["## No algorithm\n\nBackground, and steps on the way to another equation.\n\n",
              *_listed(row for row in rows_of(source)
                       if not row.item.algorithm and " line" not in row.key[1])]
    return "".join(parts)


def _only_repeats(row: Row) -> bool:
    """Whether no line cites the number itself, but only the one that it repeats."""
    return all(citation.key != row.key for citation in (*row.derivation, *row.kernel))


def _line(row: Row) -> str:
    """One number."""
    title = f"**{_short(row.key[1])}** {row.item.title or f'= {_original(row)}'}"
    links = ("".join(map(_link, side[:1])) for side in (row.derivation, row.kernel))
    return f"| {' | '.join([title, *links])} |\n"


def _repeated(row: Row) -> str:
    """`6.1 = 2.35`."""
    return f"{_short(row.key[1])} = {_original(row)}"


def _original(row: Row) -> str:
    """The number that a row repeats, with its paper if that is another."""
    paper, same = row.key[0], row.item.same_as
    return _short(" ".join(same[same[0] == paper:] if same else ""))


def _short(number: str) -> str:
    """`Algorithm 4:10` for line 10 of Algorithm 4."""
    return number.replace(" line ", ":")


def _link(citation: Citation) -> str:
    """The function, `lstm.cells.lstm.lstm_forward`, as a link to the line."""
    module = citation.file.removesuffix(".py").removeprefix(DERIVATIONS).replace("/", ".")
    return f"[{module}.{citation.owner}](../{citation.file}#L{citation.line})"


def _listed(rows: Iterable[Row]) -> list[str]:
    """Numbers and titles, a line for each paper."""
    by_paper: dict[str, list[str]] = {}
    for row in rows:
        by_paper.setdefault(row.key[0], []).append(f"{row.key[1]} ({row.item.title})")
    return [f"- {paper}: {'; '.join(names)}.\n" for paper, names in by_paper.items()]
