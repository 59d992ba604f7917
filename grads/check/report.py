"""The report of a gradient check: the verdict, and its table as text, as JSON and in a notebook."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from grads.check.result import BAD, HEADINGS, SAID, VERDICTS, Finding, Row
from nmt.console.messages import several


@dataclass(frozen=True, repr=False)
class Report:
    """The result of a check, with its verdict, its table and its remarks. True if it is ok.

    Printed, it is a table; a notebook adds heat maps of wrong tensors. `raise_if_wrong()` is for
    tests.
    """

    rows: list[Row]
    findings: list[Finding] = field(default_factory=list)
    title: str = "gradient check"
    outputs: tuple[str, ...] = ()  # outputs with upstream gradients, together and each alone
    evaluations: int = 0  # evaluations of the function with perturbed inputs
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    stopped: str = ""  # why the check ended early, and what it has covered; "" if it did not

    @property
    def wrong(self) -> list[Row]:
        """The rows that do not pass: they are wrong, undecided, or methods disagree."""
        return [row for row in self.rows if row.status in BAD]

    @property
    def verdict(self) -> str:
        """"ok", "wrong", "undecided" (two methods disagree, or are too uncertain) or "unfinished"
        (the time was up, and nothing wrong was found until then)."""
        bad = [finding for finding in self.findings if finding.kind != "nothing"]
        if bad or any(row.status == "wrong" for row in self.rows):
            return "wrong"
        if self.stopped:
            return "unfinished"
        return "undecided" if self.wrong or self.findings else "ok"

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong or undecided, and the check is complete."""
        return not self.wrong and not self.findings and not self.stopped

    def __bool__(self) -> bool:
        """`ok`, so that `assert check_pair(...)` fails for a wrong gradient."""
        return self.ok

    def summary(self) -> str:
        """One line: verdict, coverage, cost."""
        rows = [row for row in self.rows if row.upstream == "all"]
        tensors = [row for row in rows if row.shape is not None]
        checked, size = sum(row.checked for row in rows), sum(row.size for row in rows)
        alone = f", {len(self.outputs)} outputs together and alone" * (len(self.outputs) > 1)
        directions = sum(row.directions for row in rows)
        entries = several(size, "entry", "entries")
        extent = ([f"{several(len(tensors), 'tensor')}, {checked} of {entries}"] if tensors
                  else [])
        extent += [several(directions, "random direction")] if directions else []
        covered = [" and ".join(extent) + alone] if extent else []
        return "; ".join([f"{self.title}: {SAID[self.verdict]}", *covered,
                          f"{several(self.evaluations, 'evaluation')} in "
                          f"{said_seconds(self.seconds)}"])

    def table(self, digits: int = 9) -> tuple[list[str], list[list[str]]]:
        """Headings and cells. Arguments: digits of the gradients at the worst entry."""
        methods = list(dict.fromkeys(m for row in self.rows for m in row.errors))
        alone = any(row.upstream != "all" for row in self.rows)
        headings = ["name", *["upstream"] * alone, "shape", "checked",
                    *(HEADINGS[m] for m in methods), "at", "analytic", "numeric", ""]
        return headings, [
            [row.name, *[row.upstream] * alone, "" if row.shape is None else str(row.shape),
             coverage(row), *(f"{row.errors[m]:.1e}" if m in row.errors else "" for m in methods),
             *_worst(row, digits), VERDICTS[row.status]]
            for row in self.rows
        ]

    def remarks(self) -> list[str]:
        """Findings, then the worst entry and diagnosis of each bad row, then notes."""
        lines = [self.stopped] * bool(self.stopped)
        lines += [f"{finding.kind}: {finding.name}: {finding.message}" for finding in self.findings]
        said: set[tuple[str, str]] = set()
        for row in self.rows:
            where = f" at {row.place}" if row.status in BAD else ""
            quiet = row.status in ("ok", "unfinished")
            for hint in row.hints or (() if quiet else (VERDICTS[row.status],)):
                if (row.name, hint) not in said:
                    lines.append(f"{row.name}{where}: {hint}")
                    said.add((row.name, hint))
        return [*lines, *self.notes]

    def raise_if_wrong(self) -> None:
        """Raise AssertionError, with the table, unless the report is ok."""
        __tracebackhide__ = True  # hides this frame in pytest's traceback
        if not self.ok:
            names = [f"{row.name}: {VERDICTS[row.status].lower()}" for row in self.wrong]
            names += [f"{finding.name}: {finding.message}" for finding in self.findings]
            names += [self.stopped] * bool(self.stopped)
            raise AssertionError(f"{self.verdict} gradient: {'; '.join(names)}\n{self}")

    def __str__(self) -> str:
        headings, body = self.table()
        widths = [max(map(len, column)) for column in zip(headings, *body, strict=True)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
                 for line in [headings, *body]]
        return "\n".join([self.summary(), *(line.rstrip() for line in lines), *self.remarks()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The report in a notebook."""
        from grads.check.page import html_cell

        return html_cell(self)

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        """The report for `rich.print`. Verdicts and errors keep their width on a narrow terminal.
        """
        from rich.table import Table
        from rich.text import Text

        wide = max(map(len, str(self).splitlines()[1:2 + len(self.rows)]), default=0)
        headings, body = self.table(9 if wide <= options.max_width else 4)
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for heading, *column in zip(headings, *body, strict=True):
            least = max(map(len, column), default=0)
            table.add_column(heading, no_wrap=heading != "complex step", min_width=least)
        for row, cells in zip(self.rows, body, strict=True):
            table.add_row(*map(Text, cells), style={"ok": ""}.get(row.status, "bold"))
        yield from (Text(self.summary()), table, *map(Text, self.remarks()))

    def to_json(self) -> str:
        """The report as strict JSON: not-a-number and infinity become strings."""
        return json_page([self])


def said_seconds(seconds: float) -> str:
    """A time to two digits."""
    return f"{seconds:.2g} s" if seconds < 100 else f"{seconds:.0f} s"


def _worst(row: Row, digits: int) -> tuple[str, str, str]:
    """The worst entry and its two numbers; empty if none was compared."""
    if not row.errors:
        return "", "", ""
    analytic, numeric = row.analytic + 0.0, row.numeric + 0.0  # -0 reads badly
    return str(row.at), f"{analytic:.{digits}g}", f"{numeric:.{digits}g}"


def coverage(row: Row) -> str:
    """The number of entries and of directions that were checked."""
    text = str(row.checked) if row.checked == row.size else f"{row.checked} of {row.size}"
    return text + (f" + {row.directions}" if row.directions else "")


def json_page(reports: Sequence[Report]) -> str:
    """The reports as a JSON list, or a single report as an object, without the errors of single
    entries."""
    bare = [replace(report, rows=[replace(row, entries=None, steps=None) for row in report.rows])
            for report in reports]
    made = [_plain({"ok": report.ok, "verdict": report.verdict, **asdict(report)})
            for report in bare]
    for report in made:
        for row in report["rows"]:
            del row["entries"], row["steps"]
    return json.dumps(made[0] if len(made) == 1 else made, indent=1, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    """The value with NaN and infinity as strings, which JSON lacks."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
