"""Search with a pruned model: sparse matrix products where they are faster than dense ones.

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

SHARE = 0.1  # most of a weight that is left: with more, dense products are faster (docs/pruning.md)


def sparse_parameters(
    weights: Mapping[str, Weight], parameters: Mapping[str, Any], share: float = SHARE
) -> dict[str, Any]:
    """The parameters; those that every search step multiplies by are sparse if at most `share` is
    left.

    These are the layers of the decoder (of a language model, all), W_c and the prediction of a
    word. They serve `encode`, `step` and `select` of a model, not its loss.
    Raises UserError on a GPU, or without scipy.
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
    """Make the parameters of a system sparse where that pays; return their names. Errors as above.
    """
    before = system.parameters
    system.parameters = sparse_parameters(system.model.weights(), before)
    return [name for name, array in system.parameters.items() if array is not before[name]]


def _is_of_a_step(name: str, weight: Weight) -> bool:
    """Whether each step of search multiplies by the weight."""
    if len(weight.axes) != 2:
        return False
    first, second = (axis.name for axis in weight.axes)
    layer = first == "gate" and not name.startswith("encoder.")
    return layer or (first, second) == ("word", "unit") or name == "attention.W_c"
