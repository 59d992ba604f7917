"""Search with a pruned model by sparse matrix products, where these are faster than dense ones.

Source: thesis, section 6.2.5: "it would be highly valuable to exploit the sparsity of the pruned
models to speed up training and runtime, perhaps through sparse matrix representations".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from backend import module, on_host
from backend.errors import UserError
from backend.sparse import sparse_matrix
from lstm.parameters import Weight
from nmt.base_system import BaseSystem

SHARE = 0.1  # if a larger share of a weight is left, dense products are faster (docs/pruning.md)


def sparse_parameters(
    weights: Mapping[str, Weight], parameters: Mapping[str, Any], share: float = SHARE
) -> dict[str, Any]:
    """The parameters, with sparse matrices for those that every step of search multiplies by and of
    which at most `share` is left.

    Steps multiply by the layers of the decoder (or of a language model), W_c and the prediction's
    weights. The result serves a model's `encode`, `step` and `select`, but not its loss. Raises
    UserError on a GPU, and without scipy.
    """
    if not on_host(module()):
        raise UserError("sparse products: expected --backend numpy, got another")
    stored = dict(parameters)
    for name, weight in weights.items():
        array = parameters[name]
        if _is_of_a_step(name, weight) and np.count_nonzero(array) <= math.ceil(share * array.size):
            stored[name] = sparse_matrix(array)
    return stored


def use_sparse_products(system: BaseSystem) -> list[str]:
    """Make parameters of a system sparse where that is faster; return their names. Errors as
    `sparse_parameters`."""
    before = system.parameters
    system.parameters = sparse_parameters(system.model.weights(), before)
    return [name for name, array in system.parameters.items() if array is not before[name]]


def _is_of_a_step(name: str, weight: Weight) -> bool:
    """Whether every step of search multiplies by the weight."""
    if len(weight.axes) != 2:
        return False
    first, second = (axis.name for axis in weight.axes)
    layer = first == "gate" and not name.startswith("encoder.")
    return layer or (first, second) == ("word", "unit") or name == "attention.W_c"
