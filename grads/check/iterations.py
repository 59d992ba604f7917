"""Functions that iterate to a tolerance: their derivatives are no more exact than the iteration.

Where the number of iterations changes, the values of such a function jump by about the tolerance.
The derivative of the iteration that ended early is off by some hundred times as much, and so a
right gradient differs from it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from grads.check.comparison import Check
from grads.check.directions import lines_together
from grads.check.evaluate import weights_of
from grads.check.result import Row

ITERATED = 1e-6  # largest relative error of a gradient that an iteration leaves undecided
HINTED = 1e-3  # the same for an error that stays wrong, with a hint
AROUND = 0.05  # relative width where a jump is looked for
POINTS, ORDER = 64, 8  # at so many points, by differences of this order, which a smooth f has not
CLOSER = 16  # factor between the widths
ISOLATED = 16  # a jump is so many times the rounding beside it
JUMPS = (0.1, 1e3)  # the largest error of an iteration is between so many jumps


def iterations_undecided(check: Check, rows: Sequence[Row]) -> list[Row]:
    """The rows. A row is undecided if its error is that of a function that iterates to a tolerance;
    if the error is above ITERATED, it stays wrong, with a hint."""
    errors = {}
    for k, row in enumerate(rows):
        largest = check.largest["all"].get(row.name)
        if row.status in ("wrong", "disagree") and largest and not any("`" in h for h in row.hints):
            errors[k] = abs(row.analytic - row.numeric) / largest
    errors = {k: error for k, error in errors.items() if 0 < error < HINTED}
    jump = largest_jump(check) if errors else 0.0
    changed = list(rows)
    for k, error in errors.items():
        if JUMPS[0] * jump < max(errors.values()) and error < JUMPS[1] * jump:
            digits = int(-math.log10(rows[k].error))
            hint = (f"agrees to {digits} digits: does the function iterate to a tolerance? Its "
                    f"values jump between points that are close together; rtol=1e-{digits - 1}")
            status = "undecided" if error < ITERATED else rows[k].status
            changed[k] = replace(rows[k], status=status, hints=(hint,))
    return changed


@np.errstate(all="ignore")
def largest_jump(check: Check) -> float:
    """The largest jump of the function along a direction, relative to its slope; 0.0 if there is
    none.

    High differences are large at a jump, at a kink, and where the function bends. Closer to that
    place, only those of a jump stay as large.
    """
    evaluate, weights = check.evaluate, weights_of(check.evaluate, check.upstream)
    names = [name for name, x in evaluate.inputs.items() if x.size]
    line = lines_together(evaluate.inputs, names, np.random.default_rng(8), 1, relative=True)[0]
    at, width, jump = 0.0, AROUND, np.inf
    for _ in range(3):
        t, before = at + np.linspace(-width, width, POINTS), jump
        values = evaluate.along(line, t)
        total = sum(values[name] @ weight for name, weight in weights.items())
        differences = np.abs(np.diff(total, ORDER)) / math.comb(ORDER, ORDER // 2)
        k = int(np.argmax(differences))
        at, width, jump = t[k + ORDER // 2], width / CLOSER, differences[k]
    slope = float(check.along([line], "central").scale.sum())
    if not jump > max(before / 4, ISOLATED * np.median(differences)):
        return 0.0
    return float(jump / slope)
