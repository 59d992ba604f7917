"""Checks functions that return a loss together with its gradients, as people write them.

    check_loss(svm_loss, W, X, y)               # -> loss, dW
    check_loss(net.loss, X, y)                  # -> loss, grads; of net.params, or net.W, net.b
    check_loss(lossFun, inputs, targets, h)     # -> loss, dWxh, dbh; of global variables

The name of a gradient tells to which array it belongs. The name is the key of a mapping, or stands
in the `return` statement: dW is the gradient of the argument W, of the object's W, or of the global
variable W. A gradient without such a name belongs to the first array of the same shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from grads.check.analytic import no_derivative
from grads.check.case import Case, Labels
from grads.check.names import (
    BEGINNING,
    all_labels,
    named_gradients,
    opened,
    returned_names,
    source_of,
    taken_by_shape,
)
from grads.check.nesting import fields_of, flatten, is_container
from grads.check.report import Report
from grads.check.result import Finding
from grads.check.substitution import (
    Arrays,
    Shapes,
    Subject,
    check_made,
    is_array,
    is_number,
    is_numbers,
    parameters_of,
)


def check_loss(
    f: Callable[..., Any], *inputs: Any, gradients: Sequence[str] = (),
    keywords: Mapping[str, Any] | None = None, labels: Mapping[str, Labels] | None = None,
    **how: Any,
) -> Report:
    """Check a function that returns a loss and its gradients.

    Arguments: f, called `f(*inputs, **keywords)`, which returns a tuple or a mapping with one
    number in it, the loss (the form of scipy's jac=True); gradients, for each other value that f
    returns, the name of the array whose gradient it is, or "" if it is no gradient, needed if the
    values' names do not tell; the other arguments of `grads.check.check_gradients`. f, its object
    and global variables are not changed. Returns the report. Raises ValueError naming what is
    missing.
    """
    def make() -> tuple[Case, Arrays, list[str], list[Finding]]:
        run = LossRun(Subject(f, inputs, keywords or {}), gradients)
        case = Case(dict(run.subject.arrays), run.forward, run.vjp, labels=dict(labels or {}))
        return case, {"loss": np.ones(())}, run.notes, run.unchecked

    return check_made(make, f, getattr(f, "__name__", "loss"), how)


class LossRun:
    """A function that returns a loss with its gradients, as the forward and backward of a case.

    Attributes: number, the place of the loss in the result; known, the arrays that may have
    gradients, by name; notes on values that are not taken for a gradient; unchecked, findings on
    numbers that must be one; subject, whose arrays are those that have gradients.
    """

    def __init__(self, subject: Subject, names: Sequence[str] = ()) -> None:
        self.subject, self.names = subject, names
        _, result = self.forward({})
        self.number = self.number_of(result)
        subject.give_arrays(self.labels(result), self.forms(result))
        self.known = subject.leaves()
        objects = {"": getattr(subject.call, "__self__", None)} | {
            f"{name}.": value for name, value in zip(subject.names, subject.inputs, strict=True)}
        for arrays in (*({prefix + name: kept.value for name, kept in parameters_of(owner).items()}
                         for prefix, owner in objects.items()), subject.variables):
            self.known |= {name: value for name, value in arrays.items()
                           if name not in self.known and is_array(value)}
        self._refuse_integers(result)
        gradients = self.gradients(result)
        if not gradients:
            raise ValueError(
                "gradients: expected names that say what they are gradients of, as dW of W, or "
                f"gradients=(...); f has {', '.join(self.known) or 'no arrays'}")
        self._remark(result, gradients)
        subject.arrays = {name: self.known[name] for name in gradients}

    def _refuse_integers(self, result: Any) -> None:
        """Raise ValueError if a gradient has the name of an argument of integers."""
        arguments = flatten(dict(zip(self.subject.names, self.subject.inputs, strict=True)))
        for label, same in self.labels(result).items():
            name = source_of(label, arguments, same)
            if name is not None and np.asarray(arguments[name]).dtype.kind in "iu":
                raise no_derivative(name, np.asarray(arguments[name]))

    def _remark(self, result: Any, gradients: Arrays) -> None:
        """Note the values that are not compared, and the gradients that were taken by their shape.
        Numbers among these values are unchecked if they must be gradients."""
        parts, (labels, values) = self.parts(result), self.beside_loss(result)
        used = [id(gradient) for gradient in (*gradients.values(), parts[self.number])]
        inside = [[*opened([value], [label], [*self.known], bool(self.names))]
                  for label, value in zip(labels, values, strict=False)]
        used += [id(value) for value, pairs in zip(values, inside, strict=False) if len(pairs) > 1]
        used += [id(value) for value in values if isinstance(value, np.ndarray) and any(
            np.may_share_memory(value, gradient) for gradient in gradients.values())]
        leaves = flatten({f"value {k} of the result": value for k, value in enumerate(parts, 1)})
        self.notes = [f"{name}: no gradient of anything known, not checked"
                      for name, value in leaves.items()
                      if (is_array(value) or isinstance(value, float)) and id(value) not in used]
        self.notes += [f"{note}; gradients=(...) tells which values are whose gradients"
                       for note in taken_by_shape(gradients, self.known, self.labels(result))]
        self.unchecked = self._numbers_left(values, inside, leaves, gradients, used)

    def _numbers_left(
        self, values: Sequence[Any], inside: Sequence[Any], leaves: Arrays, gradients: Arrays,
        used: Sequence[int],
    ) -> list[Finding]:
        """The findings on numbers that must be gradients: their label says so, or they stand in a
        list with a gradient that is compared, and an argument that is a number has no gradient."""
        beside = {id(leaf) for value in values if is_container(value)
                  and {*used} & {*map(id, flatten(value).values())}
                  for leaf in flatten(value).values()}
        found = {id(value): (name, value) for name, value in leaves.items() if id(value) in beside}
        found |= {id(value): (label, value) for label, value in chain.from_iterable(inside)
                  if BEGINNING.match(label)}
        numbers = [name for name, x in flatten(dict(zip(
            self.subject.names, self.subject.inputs, strict=True))).items()
            if name not in gradients and (is_number(x) or (is_array(x) and not x.ndim))]
        return [
            Finding("unchecked", label, f"it is a number: is it the gradient of "
                    f"{' or '.join(numbers)}? gradients=(...) tells it")
            for key, (label, value) in found.items() if numbers and key not in used
            and (is_number(value) or isinstance(value, np.ndarray)) and np.ndim(value) == 0]

    def parts(self, result: Any) -> list[Any]:
        """The loss and the gradients, in the order in which they are returned."""
        return list(result.values() if isinstance(result, Mapping) else result if isinstance(
            result, (tuple, list)) else [result])

    def number_of(self, result: Any) -> int:
        """The place of the loss. Raises ValueError if there is no loss or no other value."""
        parts = self.parts(result)
        number = next((k for k, value in enumerate(parts)
                       if isinstance(value, (int, float, np.generic, np.ndarray))
                       and np.size(value) == 1), None)
        if number is None or len(parts) < 2:
            got = ", ".join(type(value).__name__ for value in parts)
            raise ValueError("f: expected a tuple of a loss, one number, and its gradients, got "
                             f"{got}; gradients that are a function of their own are for "
                             "check_gradients (in a file, NAME_gradient)")
        return number

    def forward(self, values: Arrays) -> tuple[dict[str, Any], Any]:
        """The loss, and the whole result."""
        _, result = self.subject(values)
        result = fields_of(result)
        if isinstance(result, (tuple, list)):
            result = tuple(np.array(value) if is_numbers(value) else fields_of(value)
                           for value in result)
        return {"loss": np.reshape(self.parts(result)[self.number_of(result)], ())}, result

    def beside_loss(self, result: Any) -> tuple[list[Any], list[Any]]:
        """The labels of the values beside the loss, as far as they are known, and the values.
        Raises ValueError if other names are told than there are values."""
        number = self.number_of(result)
        values = [value for k, value in enumerate(self.parts(result)) if k != number]
        if self.names:
            labels = list(flatten(self.names).values())
            values = values if len(labels) == len(values) else list(flatten(values).values())
            if len(labels) != len(values):
                raise ValueError(f"gradients: expected a name for each value beside the loss, "
                                 f"{len(values)} in all, got {len(labels)}")
            return labels, values
        keys = list(result) if isinstance(result, Mapping) else returned_names(self.subject.call)
        return [label for k, label in enumerate(keys) if k != number], values

    def labels(self, result: Any) -> dict[str, bool]:
        """The names of gradients, and whether they may be the names of the arrays themselves."""
        labels, values = self.beside_loss(result)
        return dict.fromkeys(all_labels(labels), bool(self.names)) | {
            key: True for value in values if isinstance(value, Mapping) for key in flatten(value)}

    def forms(self, result: Any) -> list[Shapes]:
        """The shapes of the gradients in each list or vector, and of all values whose labels begin
        as those of gradients."""
        labels, values = self.beside_loss(result)
        are_gradients = labels and all(
            isinstance(label, str) and BEGINNING.match(label) for label in labels)
        return [[np.shape(leaf) for leaf in flatten([*value]).values()]
                for value in (*values, *[values] * bool(are_gradients))
                if isinstance(value, (list, tuple)) or (is_array(value) and value.ndim == 1)]

    def gradients(self, result: Any) -> dict[str, Any]:
        """The gradients in a result, by the names of their arrays."""
        labels, values = self.beside_loss(result)
        gradients = named_gradients(values, labels, self.known, same_name=bool(self.names))
        gradients = gradients if gradients.keys() <= self.known.keys() else flatten(gradients)
        return {name: gradient for name, gradient in gradients.items() if name in self.known}

    def vjp(self, d: Arrays, result: Any) -> dict[str, Any]:
        """The gradients, times the upstream gradient of the loss."""
        return {name: np.asarray(gradient) * d["loss"]
                for name, gradient in self.gradients(result).items()}
