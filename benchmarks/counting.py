"""NumPy arrays that count arithmetic operations: costs without a clock, and so without noise.

`counted(act)` runs code on arrays from `counting` and returns the number of operations. A matrix
product of (m, k) and (k, n) counts 2 m k n, an element-wise function counts 1 for each element of
its result, a sum or a maximum 1 for each element of its argument. Copies (gathering, zeros,
concatenation) count 0: they do no arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from backend.switch import register

_tally = [0]


class Counted(np.ndarray):
    """An array whose ufuncs count. So do those of its views and results."""

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **kwargs: Any
    ) -> Any:
        def plain_of(x: Any) -> Any:
            return x.view(np.ndarray) if isinstance(x, Counted) else x

        plain = [plain_of(x) for x in inputs]
        if out is not None:
            kwargs["out"] = tuple(plain_of(x) for x in out)
        result = getattr(ufunc, method)(*plain, **kwargs)
        if ufunc is np.matmul:
            _tally[0] += 2 * np.size(result) * plain[0].shape[-1]
        else:
            _tally[0] += np.size(result) if method == "__call__" else np.size(plain[0])
        if out is not None:
            return out[0]
        return result.view(Counted) if isinstance(result, np.ndarray) else result


def counting(array: np.ndarray) -> np.ndarray:
    """The array as a counting one; kernels treat it as NumPy's."""
    register(Counted, np)
    return array.view(Counted)


def counted(act: Callable[[], object]) -> int:
    """The operations of `act`, which reads arrays from `counting`."""
    before = _tally[0]
    act()
    return _tally[0] - before
