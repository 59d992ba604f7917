"""Explains a wrong gradient by repairs: an explanation is accepted if it makes the gradient right.

An explanation is a phrase about the gradient, "it ...", without the "it".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from grads.check.case import Block, Labels
from grads.check.diagnosis.evidence import DIGITS, Evidence, Pair, digits
from grads.check.diagnosis.places import (
    axis_name,
    block_families,
    implied,
    restricted,
)

WELL = 1e4  # largest condition number of a weight matrix that is inverted
ROUNDING = 2.0**-38  # relative, of a gradient (`grads.check.comparison`)
SAID = 4  # most blocks whose sources are listed

Explanation = tuple[str, np.ndarray]  # a phrase, and the repaired gradient (NaN: unknown)


def nature(pair: Pair, named: Sequence[tuple[str, float]]) -> str | None:
    """The phrase for a gradient, or part of it, that is zero or a multiple of the right gradient.
    """
    if not pair.wrong.any():
        return None
    large = ROUNDING * np.abs(pair.analytic).max()  # the share of a wrong gradient in the limit
    nothing = pair.known & (np.abs(pair.numeric) <= np.maximum(pair.allowed - large, 0))
    if not (pair.known & (np.abs(pair.analytic) > pair.allowed)).any():
        return "is zero" if digits(pair.gap, pair.allowed) >= DIGITS else None
    if (nothing == pair.known).all():
        clear = digits(pair.gap, pair.allowed) >= DIGITS
        return "is nonzero although the numerical gradient is zero" if clear else None
    return _multiple(pair, named)


def _multiple(pair: Pair, named: Sequence[tuple[str, float]]) -> str | None:
    """The phrase for a constant ratio, with the name of the ratio if it has a name."""
    if _scaled(pair, -1.0):
        return "has the reversed sign (ratio -1)"
    for factor in dict.fromkeys([2.0, 0.5, *(value for _, value in named)]):
        if _scaled(pair, factor):
            names = " or ".join(name for name, value in named
                                if abs(value - factor) < 1e-9 * abs(factor))
            return f"is off by the factor {factor:.6g}" + f" ({names})" * bool(names)
    weight = np.where(pair.known, 1 / pair.allowed, 0.0)
    a, n = pair.analytic * weight, np.where(pair.known, pair.numeric, 0.0) * weight
    a, n = a / np.abs(n).max(), n / np.abs(n).max()
    ratio = float((a * n).sum() / (n * n).sum())
    if abs(ratio) > 1e-12 and _scaled(pair, ratio, fitted=1):
        return f"is off by the constant factor {ratio:.6g}"
    return None


def _scaled(pair: Pair, factor: float, fitted: int = 0) -> bool:
    """Whether the analytic gradient is `factor` times the numerical one."""
    return pair.accepts(pair.analytic / factor, 1 / abs(factor), fitted)


# --- right entries at wrong positions -----------------------------------------------------------


def repairs(evidence: Evidence, pair: Pair) -> list[str]:
    """The phrases of all repairs of the order of entries that make the gradient right."""
    accepted = [phrase for phrase, repaired in _orders(evidence, pair) if pair.accepts(repaired)]
    return [*accepted, *_weights_transposed(evidence, pair),
            *([] if accepted else _moved(evidence, pair))]


def _weights_transposed(evidence: Evidence, pair: Pair) -> Iterator[str]:
    """Phrases for a product with a square weight that is transposed or inverted by mistake. The
    product is inverted, and computed again with the right matrix."""
    for name, W in evidence.inputs.items():
        n = len(W) if W.ndim == 2 and W.shape[0] == W.shape[1] > 1 else 0
        if not n or pair.numeric.ndim < 2 or not (stretch := float(np.linalg.cond(W))) < WELL:
            continue
        for swap in (np.linalg.solve(W.T, W), np.linalg.solve(W, W.T)):  # (v W') swap = v W
            for said, left, right in (
                ("is multiplied with {} transposed the wrong way", swap.T, swap),
                ("is multiplied with the inverse of {} where that of its transpose belongs",
                 swap, swap.T),
            ):
                a = pair.analytic
                if (a.shape[-1] == n and pair.accepts(a @ right, stretch**2)) or (
                        a.shape[-2] == n and pair.accepts(left @ a, stretch**2)):
                    yield said.format(name)


def _orders(evidence: Evidence, pair: Pair) -> Iterator[Explanation]:
    """Repairs of exchanged axes, and of a reversed or shifted axis."""
    yield from _axes_exchanged(evidence, pair)
    for axis, size in enumerate(pair.analytic.shape):
        name = axis_name(evidence.labels, axis, pair.analytic.ndim)
        along = "in time" if name == "time" else f"along {_the(name)}"
        if size > 1:
            yield f"is reversed {along}", np.flip(pair.analytic, axis)
        if axis and size > 1 and pair.analytic.shape[axis - 1] > 1:
            before = _the(axis_name(evidence.labels, axis - 1, pair.analytic.ndim))
            yield (f"is reversed along {before} and {_the(name)}",
                   np.flip(pair.analytic, (axis - 1, axis)))
        for by in (1, -1) if size > 2 else ():
            yield (f"is shifted by one {along}: index k holds the gradient of index k "
                   f"{'-' if by > 0 else '+'} 1"), _shifted(pair.analytic, axis, by)


def _the(name: str) -> str:
    return name if name.startswith("axis") else f"the axis {name}"


def _shifted(a: np.ndarray, axis: int, by: int) -> np.ndarray:
    """The array shifted back by `by`; NaN at the end."""
    back = np.roll(a, -by, axis).copy()
    edge = [slice(None)] * a.ndim
    edge[axis] = slice(-1, None) if by > 0 else slice(0, 1)
    back[tuple(edge)] = np.nan
    return back


def _axes_exchanged(evidence: Evidence, pair: Pair) -> Iterator[Explanation]:
    """Repairs of a transposed gradient, and of a reshape where a transpose was meant."""
    shape, labels = pair.analytic.shape, evidence.labels
    for p, q in combinations(range(len(shape)), 2):
        if min(shape[p], shape[q]) < 2:
            continue
        exchanged = list(shape)
        exchanged[p], exchanged[q] = shape[q], shape[p]
        axes = " and ".join(axis_name(labels, k, len(shape)) for k in (p, q))
        phrase = ("equals the transpose of what it should be" if len(shape) == 2
                  else f"has {axes} exchanged")
        if shape[p] != shape[q]:
            phrase = (f"is reshaped where {axes} should have been exchanged: the entries of the "
                      "transpose in the wrong order")
        yield phrase, pair.analytic.reshape(exchanged).swapaxes(p, q)


def _moved(evidence: Evidence, pair: Pair) -> list[str]:
    """The phrase for blocks, or single rows and columns, that hold each other's gradients."""
    labels, shape = evidence.labels, pair.analytic.shape
    for division in (*([labels] if labels is not None else []), *implied(shape, labels)):
        for blocks in block_families(division, len(shape)):
            sources: list[int] = []
            for block in blocks:
                source = _source(pair, blocks, block)
                if source is None:
                    break
                sources.append(source)
            inside = np.zeros(shape, dtype=bool)
            for block in blocks:
                inside[block.where] = True
            every = list(range(len(blocks)))
            single = blocks[0].name.isdigit() and sorted(sources) != every
            if len(sources) == len(blocks) and sources != every and not (
                    single or (pair.wrong & ~inside).any()):
                return [_moves(division, blocks, sources)]  # smaller blocks would say the same
    return []


def _moves(labels: Labels, blocks: Sequence[Block], sources: list[int]) -> str:
    """The phrase on which block holds the gradient of which other block."""
    axes, n = restricted(blocks[0]), len(blocks)
    kind = labels.axes[axes[0]] if len(axes) == 1 else "block"
    kind += " block" * (kind in ("row", "column") and not blocks[0].name.isdigit())
    names, moved = [block.name for block in blocks], [k for k in range(n) if sources[k] != k]
    if len(moved) == 2 and [sources[k] for k in moved] == moved[::-1]:
        return f"has {kind}s {names[moved[0]]} and {names[moved[1]]} exchanged"
    said = ", ".join(f"{kind} {names[k]} holds the gradient of {names[sources[k]]}"
                     for k in moved[:SAID]) + " ..." * (len(moved) > SAID)
    by = {(k - source) % n for k, source in enumerate(sources)}
    if len(by) == 1:
        return f"is rolled by {by.pop()} of its {n} {kind}s: {said}"
    permuted = sorted(sources) == list(range(n))
    return f"has its {kind}s mixed up: {said}" + (
        ": is a gather written where a scatter belongs?" * permuted)


def _source(pair: Pair, blocks: Sequence[Block], block: Block) -> int | None:
    """The number of the block whose numerical gradient equals this block's analytic gradient."""
    held = pair.at(block.where)
    if not held.wrong.any():
        return blocks.index(block)
    for number, candidate in enumerate(blocks):
        theirs = pair.at(candidate.where)
        if candidate is block or theirs.numeric.shape != held.analytic.shape:
            continue
        limit = held.allowed + theirs.allowed
        known = held.known & theirs.known
        fits = known.any() and (np.abs(held.analytic - theirs.numeric) <= limit)[known].all()
        if fits and digits(held.gap[known], limit[known]) >= DIGITS:
            return number
    return None


def copies(evidence: Evidence, pair: Pair) -> list[str]:
    """The phrases for another tensor's gradient in place of this gradient, or added to it."""
    phrases = []
    for name, gradient in evidence.others.items():
        if np.shape(gradient) != pair.analytic.shape or not np.isfinite(gradient).any():
            continue
        if pair.accepts(pair.analytic - gradient + pair.numeric):
            phrases.append(f"equals the gradient of {name}")
        phrases += [f"is the right gradient {said} that of {name}"
                    for sign, said in ((1, "plus"), (-1, "minus"))
                    if pair.accepts(pair.analytic - sign * np.asarray(gradient))]
    return phrases
