"""Functions that return a loss together with its gradients, as people write them.

    check_loss(svm_loss, W, X, y)               # -> loss, dW
    check_loss(net.loss, X, y)                  # -> loss, grads; of net.params, or net.W, net.b
    check_loss(lossFun, inputs, targets, h)     # -> loss, dWxh, dbh; of global variables

Which array a gradient belongs to is known by its name, the key of a mapping or the name in the
`return` statement: dW is the gradient of the argument W, of the object's W, or of the global
variable W. Without such names a gradient is that of the first array of the same shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from grads.check.case import Case, Labels
from grads.check.nesting import flatten
from grads.check.report import Report
from grads.check.substitution import (
    Arrays,
    Subject,
    check_made,
    is_array,
    named_gradients,
    parameters_of,
    returned_names,
)


def check_loss(
    f: Callable[..., Any], *inputs: Any, gradients: Sequence[str] = (),
    keywords: Mapping[str, Any] | None = None, labels: Mapping[str, Labels] | None = None,
    **how: Any,
) -> Report:
    """Check a function that returns a loss and its gradients.

    Arguments: f, called `f(*inputs, **keywords)`, which returns a tuple or a mapping with
    one number in it, the loss, as scipy's jac=True asks for; gradients, what the other things that
    it returns are the gradients of, in their order, where their names do not say so ("" for what is
    no gradient); the rest as in `grads.check.check_gradients`. f, the object that it belongs to and
    global variables are left as they are. Returns the report. Raises ValueError naming what is
    missing.
    """
    return check_made(lambda: _case(Subject(f, inputs, keywords or {}), gradients, labels or {}),
                      getattr(f, "__name__", "loss"), how)


def _case(
    subject: Subject, names: Sequence[str], labels: Mapping[str, Labels]
) -> tuple[Case, Arrays, list[str]]:
    """The case, whose forward keeps the gradients as the cache; its upstream gradient; and notes
    on what of the result is not taken for a gradient."""
    known = subject.leaves()
    objects = {"": getattr(subject.call, "__self__", None)} | {
        f"{name}.": value for name, value in zip(subject.names, subject.inputs, strict=True)}
    for others in (*({prefix + name: kept.value for name, kept in parameters_of(thing).items()}
                     for prefix, thing in objects.items()), subject.variables()):
        known |= {name: value for name, value in others.items() if name not in known}

    def forward(values: Arrays) -> tuple[dict[str, Any], Any]:
        _, result = subject(values)
        keys = list(result) if isinstance(result, Mapping) else returned_names(subject.call)
        parts = list(result.values() if isinstance(result, Mapping) else result if isinstance(
            result, (tuple, list)) else [result])
        number = next((k for k, part in enumerate(parts)
                       if isinstance(part, (int, float, np.generic, np.ndarray))
                       and np.size(part) == 1), None)
        if number is None or len(parts) < 2:
            got = ", ".join(type(part).__name__ for part in parts)
            raise ValueError("f: expected a tuple of a loss, one number, and its gradients, got "
                             f"{got}; gradients that are a function of their own are for "
                             "check_gradients (in a file, NAME_gradient)")
        return {"loss": np.reshape(parts[number], ())}, (number, keys, parts)

    def gradients(number: int, keys: Sequence[str], parts: Sequence[Any]) -> dict[str, Any]:
        labels = [*names] or [label for k, label in enumerate(keys) if k != number]
        found = named_gradients([part for k, part in enumerate(parts) if k != number], labels,
                                known, same=bool(names))
        found = found if found.keys() <= known.keys() else flatten(found)
        return {name: gradient for name, gradient in found.items() if name in known}

    def vjp(d: Arrays, kept: Any) -> dict[str, Any]:
        return {name: np.asarray(gradient) * d["loss"]
                for name, gradient in gradients(*kept).items()}

    _, (number, keys, parts) = forward({})
    found = gradients(number, keys, parts)
    if not found:
        raise ValueError("gradients: expected names that say what they are gradients of, as dW of "
                         f"W, or gradients=(...); f has {', '.join(known) or 'no arrays'}")
    used = [id(gradient) for gradient in (*found.values(), parts[number])]
    ignored = [f"{name}: no gradient of anything known, not checked" for name, part in flatten(
        {f"value {k} of the result": part for k, part in enumerate(parts, 1)}).items()
        if (is_array(part) or isinstance(part, float)) and id(part) not in used]
    subject.arrays = {name: known[name] for name in found}
    case = Case(dict(subject.arrays), forward, vjp, labels=dict(labels))
    return case, {"loss": np.ones(())}, ignored
