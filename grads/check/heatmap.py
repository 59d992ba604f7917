"""Draws a heat map of the relative error over a tensor, in HTML without scripts.

The tensor's last axis runs across, the other axes down. A large tensor is folded: a cell then shows
the largest error and the worst status of a block of entries.
"""

from __future__ import annotations

import html
import math
from typing import NamedTuple

import numpy as np

from grads.check.result import HEADINGS, Row

LEVELS = (1e-14, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2)  # bounds of the shades
ORDER = ("", "ok", "unfinished", "inconclusive", "disagree", "wrong")  # the worst last
MARKS = {"inconclusive": "?", "disagree": "≠", "wrong": "×"}  # marks beside the colours
ACROSS, DOWN = 48, 32  # cells, at most
TITLED = 400  # most cells of a map with a title for each entry


class Folded(NamedTuple):
    """A tensor in cells."""

    error: np.ndarray  # (rows, columns), the largest; NaN if no entry was differentiated
    status: np.ndarray  # (rows, columns), the worst, as an index of ORDER
    block: tuple[int, int]  # entries down and across that a cell stands for


def heat_map(row: Row, cells: int = ACROSS * DOWN) -> str:
    """The map of a row as a <figure>; "" if no entry was differentiated by itself.

    Arguments: cells, the largest number of cells.
    """
    if row.entries is None or not len(row.entries.where) or row.shape is None:
        return ""
    folded = fold(row, cells)
    columns = folded.error.shape[1]
    titled = folded.error.size <= TITLED
    inside = "".join(_cell(folded, i, j, titled) for i, j in np.ndindex(folded.error.shape))
    name, shape = html.escape(row.name), html.escape(" × ".join(map(str, row.shape)) or "a number")
    label = html.escape(f"Relative error of {row.name}, at most {row.error:.1e}", quote=True)
    return (f'<figure class="map"><figcaption><code>{name}</code> {shape}</figcaption>'
            f'<div class="cells" role="img" aria-label="{label}" style="--columns:{columns}">'
            f'{inside}</div><p class="axes">{html.escape(_said(row, folded))}</p></figure>')


def fold(row: Row, cells: int = ACROSS * DOWN) -> Folded:
    """The tensor's errors in at most this number of cells."""
    assert row.shape is not None and row.entries is not None
    across = row.shape[-1] if row.shape else 1
    down = math.prod(row.shape[:-1])
    columns = min(ACROSS, cells, across)
    by = (-(-down // max(1, min(DOWN, cells // columns))), -(-across // columns))
    shape = (-(-down // by[0]), -(-across // by[1]))
    i, j = np.divmod(row.entries.where, across)
    at = (i // by[0], j // by[1])
    error, status = np.full(shape, np.nan), np.zeros(shape, np.int64)
    relative = np.where(np.isnan(row.entries.relative), np.inf, row.entries.relative)
    np.fmax.at(error, at, relative)
    np.maximum.at(status, at, [ORDER.index(word) for word in row.entries.status])
    return Folded(error, status, by)


def level(error: float) -> str:
    """The CSS class of a shade: "n" if nothing was differentiated, "e0" for no error, to "e8"."""
    if math.isnan(error):
        return "n"
    return f"e{0 if error == 0 else 1 + int(np.searchsorted(LEVELS, error, side='right'))}"


def _cell(folded: Folded, i: int, j: int, titled: bool) -> str:
    """A cell. Position and error are its title if there are few cells or the cell is not right."""
    error, word = folded.error[i, j], ORDER[folded.status[i, j]]
    kind = level(error) + f" {word}" * (word in MARKS)
    title = ""
    if titled or word in MARKS:
        ends = [(k * n, (k + 1) * n - 1) for k, n in zip((i, j), folded.block, strict=True)]
        where = ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in ends)
        said = "not differentiated" if math.isnan(error) else f"{error:.1e}"
        title = f' title="{where}: {said}"'
    return f'<i class="{kind}"{title}>{MARKS.get(word, "")}</i>'


def _said(row: Row, folded: Folded) -> str:
    """The caption: the axes, the block of a cell, and how many entries were differentiated."""
    assert row.shape is not None and row.entries is not None
    method = HEADINGS[row.entries.method]
    names = row.entries.axes or tuple(f"axis {k}" for k in range(len(row.shape)))
    parts = [f"by {method}" if method != "Ridders" else "by Ridders' differences"]
    parts += [f"{names[-1]} across"] if names else []
    parts += [f"{' and '.join(names[:-1])} down"] if len(names) > 1 else []
    down, across = folded.block
    if down * across > 1:
        parts += [f"folded: a cell is the largest error of {down} × {across} entries"]
    if row.checked < row.size:
        parts += [f"{row.checked} of {row.size} entries differentiated"]
    return "; ".join(parts)


def legend() -> str:
    """The shades and marks, in words."""
    bounds = [f"{bound:.0e}".replace("e-0", "e-") for bound in LEVELS]
    shades = ["equal", f"below {bounds[0]}", *(f"from {bound}" for bound in bounds)]
    parts = [f'<span><i class="e{k}"></i>{said}</span>' for k, said in enumerate(shades)]
    parts += [f'<span><i class="{kind}">{mark}</i>{said}</span>' for kind, mark, said in (
        ("n", "", "not differentiated by itself"), ("e8 wrong", "×", "wrong"),
        ("e8 disagree", "≠", "two methods disagree"),
        ("e8 inconclusive", "?", "a kink, or too uncertain to decide"))]
    return f'<p class="key">Relative error of an entry: {"".join(parts)}</p>'
