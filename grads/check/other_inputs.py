"""A gradient at other inputs than those that are checked: is it right there, too?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from grads.check.analytic import dense
from grads.check.case import Case
from grads.check.differentiate import Numeric, along
from grads.check.evaluate import Evaluator

Arrays = Mapping[str, np.ndarray]


def slopes_at(
    case: Case, evaluate: Evaluator, upstream: Arrays, inputs: Arrays, direction: Arrays,
    method: str, dtype: Any = np.float64,
) -> tuple[np.ndarray, Numeric] | None:
    """The analytic and the numerical derivative along a direction at other inputs.

    Arguments: evaluate, whose evaluations count these, too; direction, for some of the inputs;
    dtype, in which the backward gets floating inputs and upstream gradients. Returns the products
    of gradient and direction of all entries (n,), whose sum is the derivative, and the numerical
    one; None where the code fails at these inputs.
    """
    given = ({name: np.array(a, dtype if np.asarray(a).dtype.kind == "f" else None)
              for name, a in arrays.items()} for arrays in (inputs, upstream))
    there = None
    try:
        gradients = case.gradients(*given)
        terms = [np.ravel(dense(gradients[name], name, inputs) * v)
                 for name, v in direction.items()]
        there = Evaluator(case.outputs, inputs, watch=evaluate.watch)
        return np.concatenate(terms), along(there, inputs, upstream, [direction], method)
    except Exception:  # the code may not take these inputs
        return None
    finally:
        evaluate.evaluations += there.evaluations if there else 0
