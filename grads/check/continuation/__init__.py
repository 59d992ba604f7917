"""Analytic continuation: a user's real function, run unchanged with complex arguments.

Complex step (`grads.check.differentiate`) needs f(x + i h). NumPy's `abs`, `var`, `norm` or `sort`
of complex numbers are not the analytic continuation of the real functions, and real arrays drop
imaginary parts. Here the function runs on an array class with the continued functions (`array`,
`rules`, `functions`), and with NumPy's array creation replaced in its module (`namespace`). What
cannot be continued raises NotAnalytic with its line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import backend
from backend.switch import registered
from grads.check.continuation import functions, ufuncs  # noqa: F401, they fill a table
from grads.check.continuation.array import Continued, continued, plain
from grads.check.continuation.namespace import Namespace, namespaces_of, replaced
from grads.check.continuation.state import NotAnalytic, Run, runs

__all__ = ["Continued", "NotAnalytic", "Run", "continue_run", "namespaces_of"]

if registered(Continued) is None:
    backend.register(Continued, np)


def continue_run(
    f: Callable[[dict[str, Any]], Mapping[str, Any]], arguments: Mapping[str, Any],
    namespaces: list[Namespace],
) -> tuple[dict[str, Any], Run]:
    """The outputs of f for complex arguments, and the record of the run.

    Arguments: f, inputs by name -> outputs by name; arguments, complex ones among them;
    namespaces, of the user's modules. Raises NotAnalytic where f cannot be continued.
    """
    run = Run()
    runs.append(run)
    try:
        given = {name: continued(a) if np.iscomplexobj(a) else a for name, a in arguments.items()}
        with replaced(namespaces):
            outputs = f(given)
        return {name: np.array(plain(out)) for name, out in outputs.items()}, run
    finally:
        runs.pop()
