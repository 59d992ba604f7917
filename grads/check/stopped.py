"""The report of a check whose time was up. What it has not covered is unfinished, not wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from grads.check.report import Report
from grads.check.result import Row
from grads.check.watch import Watch
from nmt.console.messages import several

UNSURE = "it differs from the derivative here, but the time was up before that was confirmed"


def uncovered(name: str, upstream: str, shape: tuple[int, ...], checked: int = 0,
              hints: tuple[str, ...] = ()) -> Row:
    """The row of an unfinished tensor."""
    return Row(name, upstream, shape, checked, 0, 0, {}, "unfinished", (), "", 0.0, 0.0, hints)


def unconfirmed(row: Row) -> Row:
    """The row; as unfinished if one method found it wrong and no other method has confirmed it."""
    if row.status not in ("wrong", "disagree"):
        return row
    return replace(row, status="unfinished", hints=(UNSURE,))


def merged(rows: Sequence[Row], by_entries: Sequence[Row]) -> list[Row]:
    """The rows of a check along directions. A tensor whose entries were differentiated has the row
    of its entries instead, unless that covers fewer entries."""
    entries = {row.name: row for row in by_entries if row.upstream == "all"}
    first = [_both(row, entries.pop(row.name)) if row.name in entries else row for row in rows
             if row.upstream == "all" and (row.shape is not None or row.status == "ok")]
    return [*first, *entries.values(), *(row for row in by_entries if row.upstream != "all")]


def _both(row: Row, entries: Row) -> Row:
    """The row of a tensor's entries with the results of its directions."""
    if entries.status == "unfinished" and entries.checked <= row.checked:
        return unconfirmed(row)
    errors = {kind: error for kind, error in row.errors.items() if kind == "directions"}
    return replace(entries, directions=row.directions, errors={**entries.errors, **errors})


def completed(rows: Sequence[Row], inputs: Mapping[str, np.ndarray], names: Sequence[str]
              ) -> list[Row]:
    """The rows, with an unfinished row for every tensor that has none."""
    known = {row.name for row in rows}
    return [*rows, *(uncovered(name, "all", np.shape(inputs[name])) for name in names
                     if name not in known)]


def nothing_covered(title: str, watch: Watch) -> Report:
    """The report of a check whose time was up before it began."""
    return Report([], title=title, seconds=watch.seconds, stopped=covered([], watch))


def covered(rows: Sequence[Row], watch: Watch) -> str:
    """The sentence on why the check ended, and what it has covered."""
    tensors = [row for row in rows if row.upstream == "all" and row.shape is not None]
    parts = [f"{row.name} {row.checked} of {row.size}"
             + f" and {several(row.directions, 'direction')}" * bool(row.directions)
             for row in tensors if row.checked + row.directions]
    nothing = [row.name for row in tensors if not row.checked + row.directions]
    said = [*[f"entries covered: {', '.join(parts)}"] * bool(parts),
            *[f"nothing of {', '.join(nothing)}"] * bool(nothing)]
    return f"the time was up after {watch.seconds:.3g} s; {'; '.join(said) or 'nothing was run'}"
