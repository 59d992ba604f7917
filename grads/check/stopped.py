"""The report of a check whose time was up: what was covered; the rest is unfinished, not wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from grads.check.report import Report, Row
from grads.check.watch import Watch
from nmt.console.messages import several

UNSURE = "it differs from the derivative here, but the time was up before that was confirmed"


def uncovered(name: str, upstream: str, shape: tuple[int, ...], checked: int = 0,
              hints: tuple[str, ...] = ()) -> Row:
    """The row of a tensor that is unfinished."""
    return Row(name, upstream, shape, checked, 0, 0, {}, "unfinished", (), "", 0.0, 0.0, hints)


def unconfirmed(row: Row) -> Row:
    """A row that one method found wrong and no other has confirmed yet, as unfinished."""
    if row.status not in ("wrong", "disagree"):
        return row
    return replace(row, status="unfinished", hints=(UNSURE,))


def merged(rows: Sequence[Row], by_entries: Sequence[Row]) -> list[Row]:
    """The rows of a check along directions, those of tensors whose entries were differentiated in
    place of theirs, unless fewer entries were covered."""
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
    """The rows, and one for every tensor that has none."""
    known = {row.name for row in rows}
    return [*rows, *(uncovered(name, "all", np.shape(inputs[name])) for name in names
                     if name not in known)]


def nothing_covered(title: str, watch: Watch) -> Report:
    """The report of a check whose time was up before it began."""
    return Report([], title=title, seconds=watch.seconds, stopped=covered([], watch))


def covered(rows: Sequence[Row], watch: Watch) -> str:
    """Why the check ended and what it had covered, in words."""
    own = [row for row in rows if row.upstream == "all" and row.shape is not None]
    parts = [f"{row.name} {row.checked} of {row.size}"
             + f" and {several(row.directions, 'direction')}" * bool(row.directions)
             for row in own if row.checked + row.directions]
    nothing = [row.name for row in own if not row.checked + row.directions]
    said = [*[f"entries covered: {', '.join(parts)}"] * bool(parts),
            *[f"nothing of {', '.join(nothing)}"] * bool(nothing)]
    return f"the time was up after {watch.seconds:.3g} s; {'; '.join(said) or 'nothing was run'}"
