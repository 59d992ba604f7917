"""Explanations of a wrong gradient: each is a repair, accepted if the repaired gradient is right.

An explanation is a phrase about the gradient, "it ...", without the "it".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, permutations

import numpy as np

from grads.check.case import Block
from grads.check.diagnosis.evidence import DIGITS, Evidence, Pair, digits, grid_axes
from grads.check.diagnosis.places import (
    axis_name,
    block_families,
    block_name,
    implied,
    restricted,
)

WELL = 1e4  # largest condition number of a weight matrix that is inverted

Explanation = tuple[str, np.ndarray]  # a phrase, and the repaired gradient (NaN: unknown)


def nature(pair: Pair, named: Sequence[tuple[str, float]]) -> str | None:
    """The phrase for a gradient, or a part of one, that is zero or a multiple of the right one."""
    if not pair.wrong.any():
        return None
    nothing = pair.known & (np.abs(pair.numeric) <= pair.allowed)
    if not (pair.known & (np.abs(pair.analytic) > pair.allowed)).any():
        return "is zero" if digits(pair.gap, pair.allowed) >= DIGITS else None
    if (nothing == pair.known).all():
        clear = digits(pair.gap, pair.allowed) >= DIGITS
        return "is nonzero although the numerical gradient is zero" if clear else None
    return _multiple(pair, named)


def _multiple(pair: Pair, named: Sequence[tuple[str, float]]) -> str | None:
    """The phrase for a constant ratio, with its name if it has one."""
    if _scaled(pair, -1.0):
        return "has the reversed sign (ratio -1)"
    for factor in dict.fromkeys([2.0, 0.5, *(value for _, value in named)]):
        if _scaled(pair, factor):
            names = [name for name, value in named if abs(value - factor) < 1e-9 * abs(factor)]
            return f"is off by the factor {factor:.6g}{_in_brackets(names)}"
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


def _in_brackets(names: Sequence[str]) -> str:
    return f" ({' or '.join(names)})" if names else ""


# --- right entries at wrong positions -----------------------------------------------------------


def repairs(evidence: Evidence, pair: Pair) -> list[str]:
    """The phrases of all repairs of order, of copies and of sums that make the gradient right."""
    accepted = [phrase for phrase, repaired in _orders(evidence, pair) if pair.accepts(repaired)]
    named = not accepted or evidence.labels is not None
    return [*accepted, *_weights_transposed(evidence, pair),
            *(_moved_blocks(evidence, pair) if named else ()), *_constant(pair)]


def _weights_transposed(evidence: Evidence, pair: Pair) -> Iterator[str]:
    """A product with the transpose of a square weight: inverted, and computed with the weight."""
    for name, W in _square_weights(evidence):
        n, stretch = len(W), float(np.linalg.cond(W))
        if not stretch < WELL or pair.numeric.ndim < 2:
            continue
        for swap in (np.linalg.solve(W.T, W), np.linalg.solve(W, W.T)):  # (v W') swap = v W
            rows = pair.analytic.shape[-1] == n and pair.accepts(pair.analytic @ swap, stretch**2)
            if rows or (pair.analytic.shape[-2] == n
                        and pair.accepts(swap.T @ pair.analytic, stretch**2)):
                yield f"is multiplied with {name} transposed the wrong way"
                break


def _square_weights(evidence: Evidence) -> Iterator[tuple[str, np.ndarray]]:
    """The square matrices among the inputs, and the square blocks of others."""
    for name, value in evidence.inputs.items():
        if name == evidence.name or value.ndim != 2:
            continue
        if value.shape[0] == value.shape[1] > 1:
            yield name, value
        labels = evidence.all_labels.get(name)
        for block in labels.blocks if labels is not None else ():
            part = value[block.where]
            if part.shape != value.shape and part.shape[0] == part.shape[1] > 1:
                yield f"{name} in block {block.name}", part


def _orders(evidence: Evidence, pair: Pair) -> Iterator[Explanation]:
    """Axes exchanged, square blocks transposed, an axis reversed or shifted."""
    yield from _axes_exchanged(evidence, pair)
    yield from _blocks_transposed(evidence, pair)
    yield from _blocks_in_another_order(evidence, pair)
    yield from _in_time(evidence, pair)
    for axis, size in enumerate(pair.analytic.shape):
        name = axis_name(evidence.labels, axis, pair.analytic.ndim)
        along = "in time" if name == "time" else f"along {_the(name)}"
        if size > 1:
            yield f"is reversed {along}", np.flip(pair.analytic, axis)
        for by in (1, -1) if size > 2 else ():
            yield _shift_phrase(name, by), _shifted(pair.analytic, axis, by)


def _the(name: str) -> str:
    return name if name.startswith("axis") else f"the axis {name}"


def _shift_phrase(name: str, by: int) -> str:
    """The phrase of a shift; by = 1: too late, index t holds what belongs to t - 1."""
    sign = "-" if by > 0 else "+"
    if name == "time":
        late = "late" if by > 0 else "early"
        return f"is one step {late} in time: step t holds the gradient of step t {sign} 1"
    return f"is shifted by one along {_the(name)}: index k holds the gradient of index k {sign} 1"


def _shifted(a: np.ndarray, axis: int, by: int) -> np.ndarray:
    """The shift by `by` undone; NaN at the end."""
    back = np.roll(a, -by, axis).copy()
    edge = [slice(None)] * a.ndim
    edge[axis] = slice(-1, None) if by > 0 else slice(0, 1)
    back[tuple(edge)] = np.nan
    return back


def _axes_exchanged(evidence: Evidence, pair: Pair) -> Iterator[Explanation]:
    """Transposed, or brought into the right shape by a reshape where a transpose was meant."""
    shape, labels = pair.analytic.shape, evidence.labels
    for p, q in combinations(range(len(shape)), 2):
        if min(shape[p], shape[q]) < 2:
            continue
        other = list(shape)
        other[p], other[q] = shape[q], shape[p]
        axes = " and ".join(axis_name(labels, k, len(shape)) for k in (p, q))
        phrase = ("equals the transpose of what it should be" if len(shape) == 2
                  else f"has {axes} exchanged")
        if shape[p] != shape[q]:
            phrase = (f"is reshaped where {axes} should have been exchanged: the entries of the "
                      "transpose in the wrong order")
        yield phrase, pair.analytic.reshape(other).swapaxes(p, q)


def _blocks_transposed(evidence: Evidence, pair: Pair) -> Iterator[Explanation]:
    """The wrong square blocks of a matrix transposed, each within itself."""
    labels = evidence.labels
    for blocks in block_families(labels, 2) if pair.analytic.ndim == 2 else ():
        repaired, names = pair.analytic.copy(), []
        for block in blocks:
            part = pair.at(block.where)
            if part.wrong.any() and part.analytic.shape[0] == part.analytic.shape[1]:
                repaired[block.where] = part.analytic.T
                names.append(block.name)
        if names and labels is not None:
            kind = block_name(labels, blocks[0]).removesuffix(f" {blocks[0].name}")
            said = "; ".join(names)
            yield f"equals the transpose of what it should be in {kind} {said}", repaired


def _blocks_in_another_order(evidence: Evidence, pair: Pair) -> Iterator[Explanation]:
    """Two or three blocks of different widths, stacked in another order than they should be."""
    for blocks in block_families(evidence.labels, pair.analytic.ndim):
        axes = restricted(blocks[0])
        if len(axes) > 1 or not 2 <= len(blocks) <= 3:
            continue
        (axis,) = axes
        size = pair.analytic.shape[axis]
        held = [range(*block.where[axis].indices(size)) for block in blocks]
        widths = [len(indices) for indices in held]
        if len(set(widths)) == 1 or [k for indices in held for k in indices] != list(range(size)):
            continue
        for order in permutations(range(len(blocks))):
            cuts = np.cumsum([widths[k] for k in order])[:-1]
            pieces = dict(zip(order, np.split(pair.analytic, cuts, axis), strict=True))
            repaired = np.concatenate([pieces[k] for k in range(len(blocks))], axis)
            names = ", ".join(blocks[k].name for k in order)
            yield f"has its blocks in the wrong order: {names}", repaired


def _in_time(evidence: Evidence, pair: Pair) -> Iterator[Explanation]:
    """Reversals and shifts within the real steps of each batch item."""
    axes = grid_axes(evidence)
    if axes is None or len(set(axes[2].tolist())) < 2:
        return
    t, b, lengths = axes
    for phrase in ("is reversed in time, each batch item within its length",
                   _shift_phrase("time", 1), _shift_phrase("time", -1)):
        repaired = np.array(pair.analytic)
        grid, kept = (np.moveaxis(a, (t, b), (0, 1)) for a in (repaired, pair.analytic))
        for item, n in enumerate(lengths):
            own = kept[:n, item]
            grid[n:, item] = np.nan
            grid[:n, item] = (own[::-1] if "reversed" in phrase else
                              _shifted(own, 0, 1 if "late" in phrase else -1))
        yield phrase, repaired


def _moved_blocks(evidence: Evidence, pair: Pair) -> Iterator[str]:
    """Blocks that hold each other's gradients: exchanged, shifted, copied."""
    labels, shape = evidence.labels, pair.analytic.shape
    every = [labels] if labels is not None else implied(shape)
    for one in every:
        for blocks in block_families(one, len(shape)):
            moved = _moved(pair, blocks)
            if moved:
                axes = restricted(blocks[0])
                kind = one.axes[axes[0]] if len(axes) == 1 else "block"
                kind = {"column": "column block", "row": "row block"}.get(kind, kind)
                yield _moves(kind, moved, [block.name for block in blocks])
                return  # smaller blocks would say the same again


def _moved(pair: Pair, blocks: Sequence[Block]) -> dict[str, str]:
    """Block -> the block whose gradient it holds; empty unless that explains all wrong entries."""
    sources = [_source(pair, blocks, block) for block in blocks]
    inside = np.zeros(pair.analytic.shape, dtype=bool)
    for block in blocks:
        inside[block.where] = True
    if None in sources or (pair.wrong & ~inside).any():
        return {}
    return {block.name: source.name for block, source in zip(blocks, sources, strict=True)
            if source is not None and source is not block}


def _source(pair: Pair, blocks: Sequence[Block], block: Block) -> Block | None:
    """The block whose numerical gradient this block's analytic gradient is."""
    own = pair.at(block.where)
    if not own.wrong.any():
        return block
    for other in blocks:
        theirs = pair.at(other.where)
        if other is block or theirs.numeric.shape != own.analytic.shape:
            continue
        limit = own.allowed + theirs.allowed
        both = own.known & theirs.known
        fits = both.any() and (np.abs(own.analytic - theirs.numeric) <= limit)[both].all()
        if fits and digits(own.gap[both], limit[both]) >= DIGITS:
            return other
    return None


def _moves(kind: str, moved: dict[str, str], names: Sequence[str]) -> str:
    """A phrase for which block holds whose gradient."""
    if len(moved) == 2 and all(moved.get(source) == name for name, source in moved.items()):
        return f"has {kind}s {' and '.join(moved)} exchanged"
    said = ", ".join(f"{kind} {name} holds the gradient of {source}"
                     for name, source in moved.items())
    for by in (1, -1) if len(moved) == len(names) else ():
        if all(moved[name] == names[(k - by) % len(names)] for k, name in enumerate(names)):
            return f"is shifted by one {kind}: {said}"
    return f"has its {kind}s mixed up: {said}"


# --- something was added ------------------------------------------------------------------------


def _constant(pair: Pair) -> Iterator[str]:
    """The same number added everywhere."""
    if pair.known.sum() > 2:
        c = float(np.median((pair.analytic - pair.numeric)[pair.known]))
        if c != 0 and pair.accepts(pair.analytic - c, fitted=1):
            yield f"is too large by the constant {c:.6g} everywhere"


def copies(evidence: Evidence, pair: Pair) -> list[str]:
    """Other tensors' gradients, or another output's, in place of this one or added to it."""
    found = []
    for name, other in evidence.others.items():
        if np.shape(other) != pair.analytic.shape or not np.isfinite(other).any():
            continue
        if pair.accepts(pair.analytic - other + pair.numeric):
            found.append(f"equals the gradient of {name}")
        found += [f"is the right gradient {said} that of {name}"
                  for sign, said in ((1, "plus"), (-1, "minus"))
                  if pair.accepts(pair.analytic - sign * np.asarray(other))]
    return [*found, *_summed_copies(evidence, pair), *_outputs_missing(evidence, pair)]


def _summed_copies(evidence: Evidence, pair: Pair) -> Iterator[str]:
    """A vector that is the sum of a matrix's gradient along one of its axes."""
    for name, other in evidence.others.items():
        for axis in (0, 1) if np.ndim(other) == 2 and pair.analytic.ndim == 1 else ():
            summed = np.sum(other, axis=axis)
            if summed.shape != pair.analytic.shape:
                continue
            if pair.accepts(pair.analytic - summed + pair.numeric, other.shape[axis]):
                yield f"equals the gradient of {name} summed over its axis {axis}"


def _outputs_missing(evidence: Evidence, pair: Pair) -> list[str]:
    """An output whose contribution is right alone, but missing or doubled in the sum."""
    parts = {output: numeric for output, (_, numeric) in evidence.alone.items()}
    whole = sum(parts.values(), np.zeros(pair.analytic.shape))
    known = pair.known & np.isfinite(whole)
    apart = np.abs(np.where(known, whole - pair.numeric, 0.0)) > (len(parts) + 1) * pair.allowed
    if len(parts) < 2 or apart.any() or not known.any():
        return []
    found = []
    for output, part in parts.items():
        if evidence.pair_alone(output).wrong.any():
            continue  # then that is the explanation
        if pair.accepts(pair.analytic + part):
            found.append(f"lacks what comes through output {output}")
        elif pair.accepts(pair.analytic - part):
            found.append(f"has what comes through output {output} twice")
    return found
