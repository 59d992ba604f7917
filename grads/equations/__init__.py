"""docs/equations.md: every number of the papers, the lines that carry it, what proves them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import unified_diff
from pathlib import Path

from grads.equations.index import ROOT, Carrier, Index, Key, Proof, Row, build
from grads.equations.papers import PAPERS, THESIS, Item

__all__ = ["ROOT", "build", "outdated", "to_markdown"]

SHOWN = 2  # checks and test files of each side in a row; the list of functions has them all
TYPESETTING = ("end", "comment")  # lines of an algorithm that do nothing

HEAD = """# Equations

Every numbered equation and algorithm of the papers that this project implements, the lines that
carry the number, and what proves them. `grads equations` writes this page from the source; a test
compares the two. A line carries a number when its comment, or the docstring of its function, cites
it; how citations are written is said in `grads/equations/citations.py`, and the papers' numbers are
listed in `grads/equations/papers.py`. *Gradients* are checks of the catalogue (`grads check NAME`)
that execute the line: complex step against the hand-written backward. *Tests* are files with tests
that use the function, or its callers where no test uses it alone. Formulas that their paper does
not number go by section and a word.

"""


def to_markdown(index: Index) -> str:
    """docs/equations.md."""
    parts = [HEAD]
    for key, paper in PAPERS.items():
        rows = [row for (where, _), row in index.rows.items() if where == key]
        parts.append(f"## {paper.title}\n\n")
        parts.append(_tables(rows, index))
    parts.append(_functions(index))
    parts.append(_missing(index))
    return "".join(parts).rstrip("\n") + "\n"


def _tables(rows: Iterable[Row], index: Index) -> str:
    """The rows of one paper that are implemented; each algorithm is a table of its own."""
    tables: dict[str, list[str]] = {"": []}
    for row in rows:
        number = row.item.number
        algorithm = re.match(r"Algorithm \d", number)
        table = tables.setdefault(algorithm[0] if algorithm else "", [])
        if index.implemented((row.item.paper, number)) and not row.item.background:
            table.append(_line(row))
    head = "| no. | what | derivation | kernel | proved by |\n|---|---|---|---|---|\n"
    return "".join((f"### {name}\n\n" if name else "") + head + "".join(lines) + "\n"
                   for name, lines in tables.items() if lines)


def _line(row: Row) -> str:
    item = row.item
    literal, kernel = (row.side(derivation) for derivation in (True, False))
    number = re.sub(r"Algorithm \d (line)", r"\1", item.number)
    proof = "<br>".join(filter(None, (_proof(side) for side in (literal, kernel))))
    return (f"| {number} | {item.title or _repeats(item)} | {'<br>'.join(map(_link, literal))} "
            f"| {'<br>'.join(map(_link, kernel))} | {proof} |\n")


def _repeats(item: Item) -> str:
    """What an equation without a title of its own repeats."""
    paper, number = item.same_as or ("", "")
    return f"repeats {number}" if paper == item.paper else f"repeats {paper} {number}"


def _link(carrier: Carrier) -> str:
    """`lstm/lstm.py:50` as a link, and the function."""
    file, line = carrier.file, carrier.line
    return f"[{file}:{line}](../{file}#L{line}) `{carrier.name}`"


def _proof(carriers: Mapping[Carrier, Proof]) -> str:
    """Some checks and test files of one side, and how many more."""
    checks, files = _checks(carriers.values()), _files(carriers)
    found = [f"gradients: {_some([f'`{name}`' for name in checks])}"] * bool(checks)
    links = [f"[{file.removeprefix('tests/')}](../{file})" for file in files]
    return "; ".join(found + [f"tests: {_some(links)}"] * bool(links))


def _some(names: list[str]) -> str:
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def _checks(proofs: Iterable[Proof]) -> list[str]:
    return list(dict.fromkeys(name for proof in proofs for name in proof.gradients))


def _files(carriers: Mapping[Carrier, Proof]) -> list[str]:
    """The test files, those that stand where the source stands first."""
    files = {test.partition("::")[0] for proof in carriers.values() for test in proof.tests}
    homes = {f"tests/{Path(c.file).parent.as_posix()}/" for c in carriers}
    return sorted(files, key=lambda file: (not any(file.startswith(h) for h in homes), file))


def _functions(index: Index) -> str:
    """Every function that carries a number, with all its checks and test files."""
    found: dict[tuple[str, str], dict[Carrier, Proof]] = {}
    keys: dict[tuple[str, str], list[Key]] = {}
    for key, row in index.rows.items():
        for carrier, proof in row.carriers.items():
            keys.setdefault((carrier.file, carrier.name), []).append(key)
            found.setdefault((carrier.file, carrier.name), {})[carrier] = proof
    lines = [f"- `{name}` in {file}\n"
             f"  - carries {_ranges(keys[file, name], list(index.rows))}\n"
             f"  - gradients: {'; '.join(_checks(proofs.values())) or 'none'}\n"
             f"  - tests: {', '.join(_files(proofs)) or 'none'}\n"
             for (file, name), proofs in sorted(found.items())]
    return "## What proves each function\n\n" + "".join(lines) + "\n"


def _ranges(keys: list[Key], order: list[Key]) -> str:
    """`2.41-2.50, Algorithm 2 lines 7-13`: neighbours in the papers' order together."""
    runs: list[list[Key]] = []
    for key in keys:
        head, _, last = key[1].rpartition(" line ")
        follows = runs and order.index(key) == order.index(runs[-1][-1]) + 1
        if follows and " " not in last and runs[-1][0][1].rpartition(" line ")[0] == head:
            runs[-1].append(key)
        else:
            runs.append([key])
    names = []
    for run in runs:
        (paper, first), last = run[0], run[-1][1].rpartition(" ")[2]
        name = f"{first.replace(' line ', ' lines ')}-{last}" if len(run) > 1 else first
        names.append(name if paper == THESIS else f"{paper} {name}")
    return ", ".join(names)


def _missing(index: Index) -> str:
    """What is not built yet, and what is nothing to build."""
    absent = [row.item for key, row in index.rows.items() if not index.implemented(key)]
    background = [item for item in absent if item.background and item.title not in TYPESETTING]
    return ("## Not built yet\n\n" + _listed(item for item in absent if not item.background)
            + "\n## Nothing to build\n\nBackground, and steps on the way to another equation.\n\n"
            + _listed(background))


def _listed(items: Iterable[Item]) -> str:
    """Numbers and titles, a line for each paper."""
    by_paper: dict[str, list[str]] = {}
    for item in items:
        by_paper.setdefault(item.paper, []).append(
            f"{item.number} ({item.title or _repeats(item)})")
    return "".join(f"- {PAPERS[paper].name}: {'; '.join(names)}.\n"
                   for paper, names in by_paper.items())


# --- is the page fresh? -------------------------------------------------------------------------


def outdated(page: str, index: Index) -> list[str]:
    """What a page says otherwise than the index; line numbers may differ."""
    fresh = to_markdown(index)
    carried = _numbers(fresh)
    lost = [f"{paper} {number}: the page lists it, no line carries it"
            for paper, number in _numbers(page) if (paper, number) not in carried]
    before, after = (re.sub(r"\.py(:|#L)\d+", ".py", text).splitlines() for text in (page, fresh))
    changes = [line for line in unified_diff(before, after, "the page", "the source", "", "", 0)
               if not line.startswith("@@")]
    return lost + changes


def _numbers(page: str) -> dict[Key, None]:
    """Paper and number of every row of a page's tables."""
    titles = {paper.title: key for key, paper in PAPERS.items()}
    found: dict[Key, None] = {}
    paper = algorithm = ""
    for line in page.splitlines():
        if line.startswith("## "):
            paper, algorithm = titles.get(line[3:], ""), ""
        elif line.startswith("### "):
            algorithm = line[4:] + " "
        elif line.startswith("| ") and paper and not line.startswith("| no."):
            number = line.split(" | ")[0][2:]
            found[paper, algorithm + number if number.startswith("line") else number] = None
    return found
