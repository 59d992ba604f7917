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
    def make() -> tuple[Case, Arrays, list[str]]:
        run = LossRun(Subject(f, inputs, keywords or {}), gradients)
        case = Case(dict(run.subject.arrays), run.forward, run.vjp, labels=dict(labels or {}))
        return case, {"loss": np.ones(())}, run.notes

    return check_made(make, getattr(f, "__name__", "loss"), how)


class LossRun:
    """A function that returns a loss with its gradients, as the forward and backward of a case.

    Attributes: number, the place of the loss in the result; known, the arrays that gradients can be
    of, by name; notes, what of the result is not taken for a gradient; subject, whose arrays are
    those that have gradients.
    """

    def __init__(self, subject: Subject, names: Sequence[str] = ()) -> None:
        self.subject, self.names, self.known = subject, names, subject.leaves()
        objects = {"": getattr(subject.call, "__self__", None)} | {
            f"{name}.": value for name, value in zip(subject.names, subject.inputs, strict=True)}
        for others in (*({prefix + name: kept.value for name, kept in parameters_of(thing).items()}
                         for prefix, thing in objects.items()), subject.variables()):
            self.known |= {name: value for name, value in others.items() if name not in self.known}
        _, result = self.forward({})
        self.number = self.number_of(result)
        found = self.gradients(result)
        if not found:
            raise ValueError(
                "gradients: expected names that say what they are gradients of, as dW of W, or "
                f"gradients=(...); f has {', '.join(self.known) or 'no arrays'}")
        parts = self.parts(result)
        used = [id(gradient) for gradient in (*found.values(), parts[self.number])]
        self.notes = [f"{name}: no gradient of anything known, not checked" for name, part in
                      flatten({f"value {k} of the result": part
                               for k, part in enumerate(parts, 1)}).items()
                      if (is_array(part) or isinstance(part, float)) and id(part) not in used]
        subject.arrays = {name: self.known[name] for name in found}

    def parts(self, result: Any) -> list[Any]:
        """The loss and the gradients, in the order in which they are returned."""
        return list(result.values() if isinstance(result, Mapping) else result if isinstance(
            result, (tuple, list)) else [result])

    def number_of(self, result: Any) -> int:
        """The place of the loss. Raises ValueError if there is none, or nothing beside it."""
        parts = self.parts(result)
        number = next((k for k, part in enumerate(parts)
                       if isinstance(part, (int, float, np.generic, np.ndarray))
                       and np.size(part) == 1), None)
        if number is None or len(parts) < 2:
            got = ", ".join(type(part).__name__ for part in parts)
            raise ValueError("f: expected a tuple of a loss, one number, and its gradients, got "
                             f"{got}; gradients that are a function of their own are for "
                             "check_gradients (in a file, NAME_gradient)")
        return number

    def forward(self, values: Arrays) -> tuple[dict[str, Any], Any]:
        """The loss, and the whole result."""
        _, result = self.subject(values)
        return {"loss": np.reshape(self.parts(result)[self.number_of(result)], ())}, result

    def gradients(self, result: Any) -> dict[str, Any]:
        """The gradients in a result, by the name of what they are gradients of."""
        number = self.number_of(result)
        keys = list(result) if isinstance(result, Mapping) else returned_names(self.subject.call)
        labels = [*self.names] or [label for k, label in enumerate(keys) if k != number]
        found = named_gradients(
            [part for k, part in enumerate(self.parts(result)) if k != number], labels, self.known,
            same=bool(self.names))
        found = found if found.keys() <= self.known.keys() else flatten(found)
        return {name: gradient for name, gradient in found.items() if name in self.known}

    def vjp(self, d: Arrays, result: Any) -> dict[str, Any]:
        """The gradients, for the gradient of the loss."""
        return {name: np.asarray(gradient) * d["loss"]
                for name, gradient in self.gradients(result).items()}
