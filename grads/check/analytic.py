"""Makes a case from a user's functions and gradients, in all the forms in which people give them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import backend
from grads.check.case import Case, Labels
from grads.check.nesting import (
    flatten,
    holds_arrays,
    is_branch,
    like,
    matched,
    parameters_of_call,
    same_form,
)

Arrays = Mapping[str, Any]
NOTHING = "does the backward return nothing?"
ROUNDINGS = 64  # by which two runs may differ: sums over a set come in any order
LARGEST = 1e300  # of an input: steps and sums of a check stay finite
FROZEN = "expected it inside the function (a lambda or functools.partial), not among the inputs"


class Kept(NamedTuple):
    """What a user's forward returned, for its backward."""

    outputs: Any  # upstream gradients have the same form
    cache: Any


def pair_case(
    forward: Callable[..., Any], backward: Callable[..., Any], inputs: Any,
    labels: Mapping[str, Labels], names: Sequence[str] | None = None,
) -> Case:
    """The case of `forward(*inputs) -> outputs, cache` and `backward(d_outputs, cache)`. Argument
    names: the inputs that need a gradient, None for all."""
    named, form = name_inputs(forward, inputs, names)

    def forward_pass(a: Arrays) -> tuple[dict[str, Any], Any]:
        result = form.call(forward, a)
        if not (isinstance(result, tuple) and len(result) == 2):
            raise ValueError("forward: expected it to return outputs, cache; got "
                             f"{type(result).__name__}")
        outputs, cache = result
        return flatten(outputs), Kept(outputs, cache)

    def vjp(d: Mapping[str, Any], kept: Kept) -> dict[str, Any]:
        return form.gradients(backward(like(kept.outputs, d), kept.cache))

    return Case(named, forward_pass, vjp, labels=dict(labels))


def gradients_case(
    f: Callable[..., Any], inputs: Any, gradients: Any, upstream: Any,
    labels: Mapping[str, Labels], names: Sequence[str] | None = None,
) -> tuple[Case, Callable[[Arrays], dict[str, np.ndarray]]]:
    """The case of a function with given gradients, and a function that makes the upstream gradient
    of its outputs. Argument names: the inputs that need a gradient, None for all."""
    named, form = name_inputs(f, inputs, names)

    def forward_pass(a: Arrays) -> tuple[dict[str, Any], Any]:
        return flatten(form.call(f, a)), a

    def vjp(d: Mapping[str, Any], a: Any) -> dict[str, Any]:
        return form.gradients(form.call(gradients, a) if callable(gradients) else gradients)

    case = Case(named, forward_pass, vjp, labels=dict(labels),
                cacheless=True, fixed=not callable(gradients))
    return case, lambda outputs: _given(upstream, outputs)


def _given(upstream: Any, outputs: Arrays) -> dict[str, np.ndarray]:
    """The upstream gradient of the outputs: as given, or 1 if the output is a single number."""
    if upstream is None:
        if list(outputs) != ["f"] or np.size(outputs["f"]) != 1:
            raise ValueError("upstream: expected gradients of the outputs "
                             f"{', '.join(outputs)}, since f is not one number; got none")
        return {"f": np.ones(np.shape(outputs["f"]))}
    branch = holds_arrays if list(outputs) == ["f"] else is_branch  # a list may be an array
    d_out = {name: np.array(d, float) for name, d in flatten(upstream, "", branch).items()}
    if {k: v.shape for k, v in d_out.items()} != {k: np.shape(v) for k, v in outputs.items()}:
        raise ValueError("upstream: expected arrays of the shapes of f's outputs, "
                         f"{[np.shape(v) for v in outputs.values()]}, "
                         f"got {[v.shape for v in d_out.values()]}")
    return d_out


# --- names --------------------------------------------------------------------------------------


class Form(NamedTuple):
    """The form in which inputs are given. The user's functions get their inputs in the same form.
    """

    inputs: Any  # a mapping, or a list in the order of f's parameters
    parts: Mapping[str, Any]  # the same by name
    nested: bool  # whether there are mappings or lists of arrays inside
    held: Arrays  # integers (ids, labels, masks) and settings beside arrays: not in `a`
    wanted: Sequence[str]  # names of inputs that alone need a gradient; none if all do

    def call(self, g: Callable[..., Any], a: Arrays) -> Any:
        """The result of g for these inputs, given by name, in their form."""
        every = {**a, **{name: copy.copy(value) for name, value in self.held.items()}}
        if isinstance(self.inputs, Mapping):
            return g(like(self.inputs, every, "", holds_arrays))
        return g(*(like(value, every, name, holds_arrays) for name, value in self.parts.items()))

    def gradients(self, gradients: Any) -> dict[str, Any]:
        """Name -> gradient, from gradients in the form of the inputs."""
        given = _as_sequence(gradients, *self.parts.values()) if len(self.parts) == 1 else gradients
        if (container := self._container_of(gradients)) is not None:
            known = {container: gradients}
        elif isinstance(given, Mapping):
            known = dict(given)
        elif isinstance(given, (list, tuple)) and len(given) == len(self.parts):
            known = dict(zip(self.parts, given, strict=True))
        else:
            known = _of_some_inputs(gradients, self)
        leaves = matched(known, self.parts) if self.nested else known
        for name in [name for name in self.held if isinstance(leaves.get(name), np.ndarray)]:
            raise no_derivative(name, host(self.held[name]))
        return {name: d for name, d in leaves.items() if name not in self.held}

    def _container_of(self, gradients: Any) -> str | None:
        """The one of several inputs, a mapping or list, that has the form of all gradients; None if
        there is none. Raises ValueError if it cannot be known whether others are forgotten."""
        inside = {name: {*flatten(x, name, holds_arrays)} for name, x in self.parts.items()
                  if len(self.parts) > 1 and holds_arrays(x) and same_form(gradients, x)}
        for name in [name for name, leaves in inside.items() if {*self.wanted} <= leaves]:
            if self.wanted:
                return name
            if isinstance(gradients, Mapping) and gradients and not {*gradients} & {*self.parts}:
                raise ValueError(f"gradients: expected one for each of {', '.join(self.parts)}, "
                                 f"got a mapping like {name!r}; if {name!r} alone has a gradient, "
                                 f"say names=[{name!r}] (in a file, NAME_names)")
        return None


def name_inputs(
    f: Callable[..., Any], inputs: Any, wanted: Sequence[str] | None = None
) -> tuple[dict[str, np.ndarray], Form]:
    """Inputs by name, and the form in which functions get them.

    The tensors of a sequence have the names of f's parameters if f has enough, otherwise "0", "1",
    ... Integers among floating arrays are held, and in mappings also texts, flags and None: the
    functions get them unchanged, and the backward returns None, or nothing, for them. It also may
    for inputs that are not wanted (None: all are). A NamedTuple is the only input of a function of
    one.
    """
    names: list[str] = []
    if not isinstance(inputs, Mapping):
        names = [p.name for p in parameters_of_call(f)]
        several = isinstance(inputs, (list, tuple)) and not (
            len(names) == 1 and hasattr(inputs, "_fields"))
        inputs = inputs if several else [inputs]
        count = len(inputs)
        names = names[:count] if count <= len(names) else [str(k) for k in range(count)]
    parts = inputs if isinstance(inputs, Mapping) else dict(zip(names, inputs, strict=True))
    nested = any(map(holds_arrays, parts.values()))
    leaves = flatten(parts, "", holds_arrays) if nested else parts
    leaves = {str(name): value for name, value in leaves.items()}
    named = {name: host(value) for name, value in leaves.items()}
    settings = (str, type(None)) if nested or isinstance(inputs, Mapping) else ()
    held = {name: value if isinstance(value, (int, tuple, *settings)) else named[name]
            for name, value in leaves.items()
            if named[name].dtype.kind in "biu" or isinstance(value, settings)}
    held = {} if len(held) == len(named) else held
    floating = {name: a for name, a in named.items() if name not in held}
    for name in [name for name, a in floating.items() if a.dtype.kind not in "fciub"]:
        plain = callable(leaves[name]) or not hasattr(leaves[name], "__dict__")
        raise ValueError(f"inputs: expected numbers in {name!r}, got {_kind(leaves[name])}; " + (
            FROZEN if plain else "put its arrays into a mapping, or make it a dataclass"))
    return floating, Form(inputs, parts, nested, held, wanted_names(floating, wanted or ()))


def wanted_names(inputs: Arrays, names: Sequence[str]) -> list[str]:
    """The names of the inputs to check: those given, and those inside a mapping or list that is
    given. Raises ValueError for an unknown name."""
    wanted = list[str]()
    for name in names:
        leaves = [key for key in inputs if key == name or key.startswith(f"{name}.")]
        if not leaves:
            raise ValueError(f"names: expected some of {', '.join(inputs)}, got {name!r}")
        wanted += leaves
    return wanted


def _of_some_inputs(gradients: Any, form: Form) -> dict[str, Any]:
    """Gradients by the names of the floating inputs, or of those that are wanted. Raises ValueError
    if their number is another."""
    inside = {name: {*flatten(x, str(name), holds_arrays)} - form.held.keys()
              for name, x in form.parts.items()}
    floating = [name for name in inside if inside[name]]
    given = gradients if isinstance(gradients, (list, tuple)) else [gradients]
    for names in (floating, [name for name in floating if inside[name] & {*form.wanted}]):
        if len(names) == len(given):
            return dict(zip(names, given, strict=True))
    without = f" ({', '.join(form.held)}: integers, without a gradient)" if form.held else ""
    said = f"None: {NOTHING}" if gradients is None else str(len(given))
    if gradients is not None and len(given) < len(floating):
        said += "; say names=[...] (in a file, NAME_names), or return None for the others"
    raise ValueError(f"gradients: expected {len(floating)}, one for each of {', '.join(floating)}"
                     f"{without}, got {said}")


def _as_sequence(gradients: Any, only_input: Any) -> Any:
    """The gradient of the only input, which may be given alone, in a sequence or a mapping."""
    in_sequence = isinstance(gradients, list) or (
        isinstance(gradients, tuple) and len(gradients) == 1)
    alone = same_form(gradients, only_input) or not (
        in_sequence or isinstance(gradients, Mapping))
    return (gradients,) if alone else gradients


# --- arrays -------------------------------------------------------------------------------------


def host(array: Any) -> np.ndarray:
    """The array as a NumPy array, from any device."""
    return np.asarray(array if isinstance(array, (np.ndarray, float, int, list))
                      else backend.to_host(array) if hasattr(array, "get") else array)


def dense(gradient: Any, name: str, inputs: Arrays) -> np.ndarray:
    """A gradient written out in full: also anything with `.dense()`, or (ids, rows), summed.

    Raises ValueError if it is no array of numbers.
    """
    if gradient is None:
        raise ValueError(f"gradients: expected an array for {name!r}, got None: {NOTHING} If it "
                         "has no gradient, return zeros, or leave it out of what is checked")
    if hasattr(gradient, "dense"):
        return host(gradient.dense())
    if callable(gradient):
        raise ValueError(f"gradients: expected numbers for {name!r}, got a function; it is called "
                         "if it is given alone, for all inputs")
    if isinstance(gradient, tuple) and len(gradient) == 2 and name in inputs:
        ids, rows = map(host, gradient)
        full = np.zeros(np.shape(inputs[name]), rows.dtype)
        if ids.ndim and ids.dtype.kind in "iu" and rows.shape == ids.shape + full.shape[1:]:
            if ids.size and not -len(full) <= ids.min() <= ids.max() < len(full):
                raise ValueError(f"gradients: expected ids below {len(full)} for {name!r}, got "
                                 f"{ids.min()} to {ids.max()}")
            np.add.at(full, ids, rows)
            return full
        if ids.shape != rows.shape:
            raise ValueError(f"gradients: expected (ids, rows) for {name!r}, with integers and "
                             f"rows of shape {full.shape[1:]}, got {ids.shape} of {ids.dtype} and "
                             f"{rows.shape}")
    array = host(gradient)
    if array.dtype.kind not in "fciub":
        raise ValueError(f"gradients: expected numbers for {name!r}, got {_kind(gradient)}")
    return array.astype(float) if array.dtype.kind in "iu" else array


def _kind(value: Any) -> str:
    """The kind of a value that is not a number. For a list: of its first element of that kind."""
    while isinstance(value, (list, tuple)) and value:
        value = next((x for x in value if not isinstance(x, (int, float))), value[0])
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}"
    return "None" if value is None else "a function" if callable(value) else type(value).__name__


def written_out(case: Case, gradients: Arrays) -> Mapping[str, np.ndarray]:
    """All gradients of a case, written out in full."""
    return {name: d if isinstance(d, np.ndarray) and d.dtype.kind in "fciub"
            else dense(d, name, case.inputs) for name, d in gradients.items()}


def gradients_at(
    case: Case, inputs: Arrays, upstream: Arrays, dtype: Any = None
) -> Mapping[str, np.ndarray]:
    """The analytic gradients at some inputs, written out in full. The backward gets copies, in
    another dtype if one is given."""
    return written_out(case, case.gradients(copies(inputs, dtype), copies(upstream, dtype)))


def copies(arrays: Arrays, dtype: Any = None) -> dict[str, np.ndarray]:
    """Copies of arrays, in another dtype if one is given."""
    return {name: np.array(a, dtype) for name, a in arrays.items()}


def unequal(actual: Arrays, expected: Arrays) -> list[str]:
    """The names of the arrays that differ by more than rounding."""
    return [name for name in differing(actual, expected)
            if not rounded(actual[name], expected[name])]


@np.errstate(all="ignore")
def rounded(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays differ by a few roundings of their largest entry at most."""
    eps = np.finfo(b.dtype).eps if b.dtype.kind in "fc" else 0.0
    few = np.abs(a - b) <= ROUNDINGS * eps * np.abs(b[np.isfinite(b)]).max(initial=0.0)
    return bool((few | (a == b) | (np.isnan(a) & np.isnan(b))).all())


def differing(actual: Arrays, expected: Arrays) -> list[str]:
    """The names whose arrays differ in any entry."""
    return [name for name, array in expected.items()
            if not np.array_equal(actual[name], array, equal_nan=True)]


def no_derivative(name: str, value: np.ndarray) -> ValueError:
    """The error for an input of integers, which cannot be differentiated."""
    return ValueError(f"inputs: {name!r} is of {value.dtype}, which has no derivative; {FROZEN}, "
                      "or without a gradient")


def validate_inputs(inputs: Arrays) -> None:
    """Raise ValueError unless there are inputs, and all are real, floating, finite and not extreme.
    """
    if not inputs:
        raise ValueError("inputs: expected at least one tensor, got none")
    for name, x in inputs.items():
        if x.dtype.kind != "f" or not (np.abs(x.astype(float)) <= LARGEST).all():
            raise _invalid_input(name, x)


def _invalid_input(name: str, x: np.ndarray) -> ValueError:
    """The error for an input that cannot be differentiated."""
    if x.dtype.kind in "biu":
        return no_derivative(name, x)
    if x.dtype.kind != "f":
        return ValueError(f"inputs: expected {name!r} of a real floating dtype, got {x.dtype}")
    if not np.isfinite(x).all():
        index = tuple(int(i) for i in np.argwhere(~np.isfinite(x))[0])
        return ValueError(f"inputs: expected finite values in {name!r}, got {x[index]} at {index}")
    return ValueError(f"inputs: expected values of at most {LARGEST:g} in {name!r}, got "
                      f"{np.abs(x.astype(float)).max():g}: the steps and sums of a check would "
                      "overflow")


def validate_gradients(inputs: Arrays, gradients: Arrays) -> None:
    """Raise ValueError unless names and shapes are those of the inputs, and the dtype is real."""
    for name in [*inputs, *gradients]:
        if name not in inputs or name not in gradients:
            side = "gradients" if name in inputs else "inputs"
            raise ValueError(f"{side}: expected an entry named {name!r}, got none")
        x, d = inputs[name], gradients[name]
        if d.shape != x.shape or d.dtype.kind != "f":
            raise ValueError(f"gradients: expected {name!r} of " + (
                f"shape {x.shape}, got {d.shape}" if d.shape != x.shape
                else f"a real floating dtype, got {d.dtype}"))


def validate_upstream(upstream: Arrays, inputs: Arrays) -> None:
    """Raise ValueError if an upstream gradient equals an input or is a multiple of an input.

    A backward that mixes the two up would pass. Arrays whose entries are all equal are allowed.
    """
    for output, d in upstream.items():
        for name, x in inputs.items():
            if np.shape(d) != x.shape or x.size < 2 or not np.ptp(x):
                continue
            largest = np.argmax(np.abs(x))
            factor = np.reshape(d, -1)[largest] / x.reshape(-1)[largest]
            if factor and np.allclose(d, factor * x, rtol=1e-9, atol=0.0):
                raise ValueError(f"upstream: expected other numbers than those of input {name!r}, "
                                 f"got {factor:.6g} times them for output {output!r}: a backward "
                                 "that mistakes one for the other would pass")
