"""The report of a gradient check: its result as text, as JSON, and in a notebook."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from grads.check.nesting import fields_of
from grads.check.result import VERDICTS, Result


class Report(Result):
    """The result of a check. Printed, it is a table; a notebook adds heat maps of wrong tensors.
    `raise_if_wrong()` is for tests."""

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


def json_page(reports: Sequence[Report]) -> str:
    """The reports as a JSON list, or a single report as an object, without the errors of single
    entries."""
    bare = [replace(report, rows=[replace(row, entries=None) for row in report.rows])
            for report in reports]
    made = [_plain({"ok": report.ok, "verdict": report.verdict, **asdict(report)})
            for report in bare]
    for report in made:
        for row in report["rows"]:
            del row["entries"]
    return json.dumps(made[0] if len(made) == 1 else made, indent=1, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    """The value with NaN and infinity as strings, which JSON lacks."""
    value = fields_of(value)
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
