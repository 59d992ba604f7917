"""Record what a real CuPy accepts; needs CuPy installed, but neither a GPU nor a driver.

    pip install cupy-cuda12x && python tests/strict/record_signatures.py

Writes `signatures.json` beside this file: public names, parameter names, which ufuncs take complex
numbers or have `.at`, and which functions wait for the device.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cupy
import numpy as np

# These wait for the device too, but their documentation does not say so (read in CuPy's source).
UNDOCUMENTED_SYNCS = {"argpartition", "argwhere", "choose", "trim_zeros"}
# Their documentation has the word, but they never wait, or only for some arguments.
NO_SYNCS = {"where", "average", "count_nonzero", "digitize", "interp"}
# `einsum(*operands, **kwargs)` takes only these from its keywords.
BY_HAND = {"einsum": "*operands, dtype=None, optimize=None"}


def from_docstring(function: Callable[..., Any]) -> str:
    """Parameters of a compiled function, from the first line of its docstring."""
    signature = re.match(r"[\w.]+\((.*)\)", (function.__doc__ or "").split("\n")[0])
    if signature is None:
        raise ValueError(f"{function!r}: no signature on the first line of the docstring")
    names = [re.sub(r"=.*", "=None", parameter.split()[-1])
             for parameter in signature.group(1).split(", ")]
    return ", ".join(names)


def parameters(function: Callable[..., Any]) -> str:
    """Parameters of `function` as Python source; every default is written as None."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return from_docstring(function)
    plain = [
        p.replace(annotation=p.empty, default=p.empty if p.default is p.empty else None)
        for p in signature.parameters.values()
    ]
    return str(inspect.Signature(plain))[1:-1]


def is_function(name: str) -> bool:
    """Whether `cupy.name` is a function that NumPy has too and that reads or writes no file."""
    value = getattr(cupy, name)
    return (
        callable(value)
        and not isinstance(value, (type, cupy.ufunc))
        and callable(getattr(np, name, None))
        and not (getattr(value, "__module__", "") or "").startswith(("cupy._io", "numpy"))
        and parameters(value) != "*args, **kwargs"  # numpy.fromfile and its like, wrapped
    )


def takes_complex(ufunc: cupy.ufunc) -> bool:
    """Whether one of the ufunc's loops has a complex input."""
    return any(set(loop.split("->")[0]) & set("FD") for loop in ufunc.types)


def record() -> dict[str, Any]:
    """All that `module.py` wants to know, as plain JSON data."""
    names = [name for name in dir(cupy) if not name.startswith("_")]
    ufuncs = [name for name in names if isinstance(getattr(cupy, name), cupy.ufunc)]
    as_in_numpy = [name for name in names if getattr(np, name, ...) is getattr(cupy, name)]
    functions = [name for name in names if is_function(name) and name not in as_in_numpy]
    documented = {name for name in functions if "synchroni" in (getattr(cupy, name).__doc__ or "")}
    public = {name: getattr(cupy.ndarray, name) for name in dir(cupy.ndarray) if name[0] != "_"}
    known = {*ufuncs, *as_in_numpy, *functions}
    return {
        "version": cupy.__version__,
        "as_in_numpy": as_in_numpy,
        "ufunc_parameters": "*args, out=None, dtype=None, casting=None",
        "complex_ufuncs": [name for name in ufuncs if takes_complex(getattr(cupy, name))],
        "real_ufuncs": [name for name in ufuncs if not takes_complex(getattr(cupy, name))],
        "at": {name: op for name in ufuncs if (op := getattr(cupy, name)._scatter_op)},
        "functions": {name: parameters(getattr(cupy, name)) for name in functions} | BY_HAND,
        "waits": sorted((documented | UNDOCUMENTED_SYNCS) - NO_SYNCS),
        "methods": {name: parameters(v) for name, v in public.items() if callable(v)},
        "attributes": [name for name, value in public.items() if not callable(value)],
        "not_offered": [name for name in names if name not in known],
    }


if __name__ == "__main__":
    target = Path(__file__).with_name("signatures.json")
    target.write_text(json.dumps(record(), indent=1) + "\n", encoding="utf-8")
    print(f"wrote {target}")
