"""Analytic continuation: runs a user's real function, unchanged, with complex arguments.

The complex step (`grads.check.differentiate`) needs f(x + i h). But NumPy's `abs`, `var`, `norm` or
`sort` of complex numbers are not the analytic continuation of the real functions, and real arrays
drop imaginary parts. Here the function gets arrays of a class (`array`) whose functions are the
continued ones (`rules` has their table). Meanwhile, the functions in the user's module that create
arrays are replaced (`namespace`). An operation that cannot be continued raises NotAnalytic with its
line. This project's functions are made for complex steps, and run on plain arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import backend
from backend.switch import registered
from grads.check.continuation import rules  # noqa: F401, it fills a table
from grads.check.continuation.array import Continued, continued, plain
from grads.check.continuation.namespace import Namespace, namespaces_of, replaced
from grads.check.continuation.refusal import NotAnalytic, is_users

__all__ = ["Continued", "NotAnalytic", "continue_run", "is_users", "namespaces_of"]

if registered(Continued) is None:
    backend.register(Continued, np)


def continue_run(
    f: Callable[[dict[str, Any]], Mapping[str, Any]], arguments: Mapping[str, Any],
    namespaces: list[Namespace],
) -> dict[str, Any]:
    """The outputs of f for complex arguments.

    Arguments: f, inputs by name -> outputs by name; arguments, some of them complex; namespaces of
    the user's modules. Raises NotAnalytic if f cannot be continued.
    """
    stepped = {name: continued(a) if np.iscomplexobj(a) else a for name, a in arguments.items()}
    with replaced(namespaces):
        outputs = f(stepped)
    return {name: np.array(plain(out)) for name, out in outputs.items()}
