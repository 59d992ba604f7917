"""The index of equations: every number of the papers, the lines that carry it, what proves them.

Nothing in it is typed: a number is implemented when a line of the product or of a derivation cites
it (`citations`), and proved by the gradient checks that execute that line and by the tests
that name its function (`proofs`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from backend.errors import UserError
from grads.equations.citations import DERIVATIONS, Citation, find_in_repository, unknown
from grads.equations.papers import Item, read_items
from grads.equations.proofs import KnownTests, Lines, executed_by

ROOT = Path(__file__).resolve().parents[2]
SHOWN = 2  # checks and test files of each side in a row; the list of functions has them all

TYPESETTING = ("end", "comment")  # lines of an algorithm that do nothing
Key = tuple[str, str]  # paper, number


class Carrier(NamedTuple):
    """A function, class or constant with a line that carries a number."""

    file: str
    line: int
    name: str
    does: tuple[int, int]

    @property
    def module(self) -> str:
        """The module's dotted name."""
        return self.file.removesuffix(".py").replace("/", ".")

    @property
    def is_derivation(self) -> bool:
        """Whether it is the literal form; else it is a kernel."""
        return self.file.startswith(DERIVATIONS)


class Proof(NamedTuple):
    """What proves lines of the source."""

    gradients: list[str]  # entries of the catalogue
    tests: list[str]  # path::test


class Row(NamedTuple):
    """One number and the lines that carry it, each with its proof."""

    item: Item
    carriers: dict[Carrier, Proof]

    def side(self, literal: bool) -> dict[Carrier, Proof]:
        """The carriers that are derivations, or those that are kernels."""
        return {c: proof for c, proof in self.carriers.items() if c.is_derivation == literal}


class Index(NamedTuple):
    """All rows by paper and number, and what cannot be right."""

    rows: Mapping[Key, Row]
    problems: list[str]  # citations of numbers that do not exist, with file and line

    def implemented(self, key: Key) -> bool:
        """Whether a line carries the number, or the one that it repeats."""
        row = self.rows[key]
        repeated = row.item.same_as
        return bool(row.carriers) or (repeated is not None and self.implemented(repeated))


# --- building -----------------------------------------------------------------------------------


def build(root: Path = ROOT) -> Index:
    """The index of the repository at `root`. Raises UserError where there is none."""
    if not (root / "tests").is_dir():
        raise UserError(f"{root}: expected the repository with its tests, to read them")
    items = read_items()
    return index_of(find_in_repository(root, items), items, executed_by(root), KnownTests(root))


def index_of(
    citations: list[Citation], items: Mapping[Key, Item], executed: Mapping[str, Lines],
    tests: KnownTests,
) -> Index:
    """The index that follows from citations and proofs."""
    naming = cache(tests.naming)

    def proof(carrier: Carrier) -> Proof:
        return Proof(checks_of(carrier, executed), naming(carrier.module, carrier.name))

    rows = {key: Row(item, {carrier: proof(carrier) for carrier in carriers(key, citations)})
            for key, item in items.items()}
    return Index(rows, unknown(citations, items))


def carriers(key: Key, citations: Iterable[Citation]) -> list[Carrier]:
    """One carrier for each function that cites a number, the literal form first.

    A comment on a line is nearer than a docstring: a docstring counts where there is no line. Of
    a whole algorithm it is the other way round.
    """
    wanted = [c for c in citations if (c.paper, c.number) == key and c.owner
              and (not c.file.startswith("grads/") or c.file.startswith(DERIVATIONS))]
    found: dict[tuple[str, str], Carrier] = {}
    for literal in (True, False):
        side = [c for c in wanted if c.file.startswith(DERIVATIONS) == literal]
        on_lines = [c for c in side if c.in_comment]
        in_text = [c for c in side if not c.in_comment]
        near, far = (in_text, on_lines) if _is_algorithm(key[1]) else (on_lines, in_text)
        for c in near or far:
            found.setdefault((c.file, c.owner), Carrier(c.file, c.line, c.owner, c.does))
    return list(found.values())


def _is_algorithm(number: str) -> bool:
    return bool(re.fullmatch(r"Algorithm \d", number))


def checks_of(carrier: Carrier, executed: Mapping[str, Lines]) -> list[str]:
    """The entries of the catalogue that execute a carrier's line."""
    first, last = carrier.does
    return [name for name, lines in executed.items()
            if any(first <= line <= last for line in lines.get(carrier.file, ()))]
