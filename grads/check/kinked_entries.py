"""Finds entries whose gradient is not right because the function has a kink there, or nearby."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from grads.check.comparison import Check, index_of
from grads.check.diagnosis.elsewhere import right_beside
from grads.check.differentiate import Numeric
from grads.check.evaluate import entry_line
from grads.check.kinks import find_kink, find_kink_along
from grads.check.result import BAD

KINKS = 64  # entries of a tensor that are examined for a kink
BESIDE = 16  # random points beside a kink
CLOSE = 1e-9  # their distance, relative to the largest input
SLACK = 1e-6  # relative error of a kink's slopes
MEET = "several kinks in one place; beside it the gradient is right"

Estimates = dict[str, tuple[np.ndarray, Numeric]]  # method -> flat positions, derivatives there


def kinks_of(
    check: Check, choice: str, name: str, estimates: Estimates, status: dict[int, str]
) -> tuple[list[str], list[int]]:
    """Search for kinks at entries that are not right. Updates `status`. Returns a hint for each
    kink, and the flat positions of the kinks."""
    evaluate, weights = check.evaluate, check.weights(choice)
    analytic, x = check.analytic[choice][name].reshape(-1), evaluate.inputs[name]
    suspicious = [position for position, word in status.items() if word != "ok"]
    hints: list[str] = []
    smooth = not suspicious
    if suspicious:  # one direction through all of them
        v = np.zeros(x.size)
        v[suspicious] = np.random.default_rng(3).normal(size=len(suspicious))
        smooth = find_kink_along(evaluate, weights, {name: v.reshape(x.shape)}) is None
    kinked: list[int] = []
    outside: list[int] = []  # gradient outside of the slopes at a kink of this entry alone
    for examined, position in enumerate(suspicious):
        if examined >= KINKS and not (kinked and evaluate.complex_step):
            break
        kink = None if smooth else find_kink(
            evaluate, evaluate.inputs, weights, name, position)
        if kink is None:
            continue
        index = index_of(position, x.shape)
        status[position] = "inconclusive"
        kinked.append(position)
        if kink.kind == "jump":
            hints.append(f"{index}: the function jumps by {kink.size:.3g}")
            continue
        low, high = sorted((kink.left, kink.right))
        slack = SLACK * max(abs(low), abs(high))
        between = low - slack <= analytic[position] <= high + slack
        box = None if between else _box(check, weights, name, position)
        alone = box is not None and not box[0] - slack <= analytic[position] <= box[1] + slack
        if not between and not alone and right_beside(check, weights, name):
            hints.append(f"{index}: {MEET}")
            continue
        if not between:
            status[position] = "wrong"
            outside += [position] * alone
            if high - low <= slack:  # no kink, but a value that is mostly rounding
                continue
        left, right = kink.left + 0.0, kink.right + 0.0  # -0.0 reads badly
        hints.append(f"{index}: a kink, slope {left:.6g} on its left and {right:.6g} on its right"
                     f"{'' if between else ', the gradient is outside of both'}")
    kinked += _kinked_though_right(check, weights, name, status) if kinked else []
    wrong = [position for position, word in status.items()
             if word in BAD and position not in outside]
    if wrong and not smooth and _kinks_meet(check, weights, name):
        status.update(dict.fromkeys(wrong, "inconclusive"))
        kinked += wrong
        hints.append(f"{index_of(wrong[0], x.shape)}: {MEET}")
    coarse = [position for position, word in status.items() if word == "coarse"]
    status.update(dict.fromkeys(coarse, "ok"))  # no kink: the function is hard for differences
    further = len(hints) - 3
    return [*hints[:3], *([f"and {further} more such entries"] if further > 0 else [])], kinked


def _kinked_though_right(
    check: Check, weights: Mapping[str, np.ndarray], name: str, status: dict[int, str]
) -> list[int]:
    """The entries whose derivative is right, and that have a kink; until the first that has none.
    Updates `status`."""
    kinked = []
    for position in [position for position, word in status.items() if word == "ok"]:
        if find_kink(check.evaluate, check.evaluate.inputs, weights, name, position) is None:
            break
        status[position] = "inconclusive"
        kinked.append(position)
    return kinked


def _box(
    check: Check, weights: Mapping[str, np.ndarray], name: str, position: int
) -> tuple[float, float] | None:
    """The least and the largest slope at a kink that belongs to this entry alone; None otherwise.

    If the kink belongs to the entry alone, the slope of each output at random points beside it is
    one of the two slopes on the entry's sides. If several kinks meet, there are other slopes, too.
    """
    evaluate, h = check.evaluate, 1e-30
    if not evaluate.complex_step:
        return None
    unit = entry_line(evaluate.inputs, name, position).direction[name]
    rng = np.random.default_rng(6)
    far = CLOSE * max(np.abs(x).max(initial=0.0) for x in evaluate.inputs.values())

    def slopes(changed: dict[str, np.ndarray]) -> np.ndarray:
        moved = {**evaluate.inputs, **changed}
        out = evaluate({**changed, name: moved[name] + 1j * h * unit})
        return np.concatenate([out[key].imag.reshape(-1) / h for key in weights])

    x = evaluate.inputs[name]
    sides = np.array([slopes({name: x + far * unit}), slopes({name: x - far * unit})])
    beside = np.array([slopes({key: a + far * rng.uniform(-1, 1, a.shape)
                               for key, a in evaluate.inputs.items()}) for _ in range(BESIDE)])
    slack = SLACK * np.abs(sides).max(initial=0.0)
    if (np.abs(beside[:, None] - sides).min(axis=1) > slack).any():
        return None
    terms = sides * np.concatenate([weight.reshape(-1) for weight in weights.values()])
    return float(terms.min(axis=0).sum()), float(terms.max(axis=0).sum())


def _kinks_meet(check: Check, weights: Mapping[str, np.ndarray], name: str) -> bool:
    """Whether kinks of several entries hide each other, like those of the median of three equal
    numbers, which changes with none of them alone. Then a random direction has a kink, and the
    gradient is right nearby."""
    v = np.random.default_rng(3).normal(size=check.evaluate.inputs[name].shape)
    return find_kink_along(check.evaluate, weights, {name: v}) is not None and right_beside(
        check, weights, name)
