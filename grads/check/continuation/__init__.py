"""Analytic continuation: runs a user's real function, unchanged, with complex arguments.

The complex step (`grads.check.differentiate`) needs f(x + i h). But NumPy's `abs`, `var`, `norm` or
`sort` of complex numbers are not the analytic continuation of the real functions, and real arrays
drop imaginary parts. Here the function gets arrays of a class (`array`) whose functions are the
continued ones (`rules` has their table). Meanwhile, the functions in the user's module that create
arrays are replaced (`namespace`). An operation that cannot be continued raises NotAnalytic with its
line. This project's functions are made for complex steps, and run on plain arrays.
"""

from grads.check.continuation.array import Continued, NotAnalytic
from grads.check.continuation.namespace import continue_run, namespaces_of

__all__ = ["Continued", "NotAnalytic", "continue_run", "namespaces_of"]
