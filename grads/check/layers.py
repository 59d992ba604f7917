"""Checks layers as people write them: objects with a forward and a backward that keep parameters.

    check_layer(Dense(3, 2), x).raise_if_wrong()

Parameters and their gradients are found by their names: `params` and `grads`, `W` and `dW`,
`weight` and `weight_grad`, objects with `data` and `grad`, or arrays of a user's class with `grad`,
in the layer and in layers inside it.
The layer itself is not changed: every run gets a copy. The copy has been called once before, at
other inputs. This catches a layer that keeps using data of its first call.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from grads.check.case import Case, Labels
from grads.check.names import (
    TARGETS,
    all_labels,
    gradient_names,
    named_gradients,
    plain,
    returned_names,
    taken_by_shape,
)
from grads.check.nesting import flatten, like, parameters_of_call
from grads.check.report import Report
from grads.check.result import Finding
from grads.check.substitution import (
    Arrays,
    Subject,
    argument_names,
    attribute,
    attributes_of,
    check_made,
    parameters_of,
)

FORWARDS = ("__call__", "forward", "forward_pass", "forward_propagation")
BACKWARDS = ("backward", "backward_pass", "backward_propagation", "backprop")
OUTPUTS = ("output", "outputs", "out", "y")  # of an output that forward does not return
INPUT_GRADIENTS = [name for x in ("inputs", "input", "x") for name in gradient_names(x)]
CACHES = ("cache", "caches", "ctx", "saved")  # a backward's last argument, returned by forward
RATES = "learningrate", "learnrate", "lr", "stepsize"  # of a backward that updates parameters
SHORT_RATES = "rate", "eta", "alpha"  # with a default they may be anything
RATE = 2.0**20  # an update is larger than the rounding of the parameters, to which it is added
FIRST_CALL = "it is right when called once: a later call uses what the first one has kept"
SHIFT = 0.25  # relative change of the inputs for the first call


def check_layer(
    layer: Any, *inputs: Any, keywords: Mapping[str, Any] | None = None,
    labels: Mapping[str, Labels] | None = None, **how: Any,
) -> Report:
    """Check the gradients of a layer: of its parameters, and of its inputs.

    Arguments: layer, an object that can be called or has `forward`, and has `backward`; or a list
    of such objects, applied one after the other; inputs of the forward, of which floating arrays
    are differentiated if the backward returns a gradient of them; keywords, further arguments of
    the forward, as in {"train": True}; the other arguments of `grads.check.check_gradients`. The
    backward of a loss may need no argument. Gradients are set to zero before each backward. Returns
    the report, which notes what has no gradient. Raises ValueError naming what is missing.
    """
    layer = Chain(layer) if isinstance(layer, (list, tuple)) else layer

    def make(used: bool) -> tuple[Case, Arrays | None, list[str], list[Finding]]:
        run = LayerRun(layer, inputs, keywords or {}, used)
        case = Case(run.values, run.forward, run.vjp, labels=dict(labels or {}))
        return case, {"f": np.ones(())} if run.is_loss else None, run.notes, run.unchecked

    title = type(layer).__name__
    report = check_made(lambda: make(True), layer, title, dict(how))
    if report.wrong and not check_made(
            lambda: make(False), layer, title, how | {"diagnosis": 0}).wrong:
        return replace(report, notes=(*report.notes, FIRST_CALL))
    return report


class Chain:
    """Layers, each applied to the output of the previous layer."""

    def __init__(self, layers: Sequence[Any]) -> None:
        self.layers = list(layers)
        vars(self).update({type(layer).__name__: type(layer) for layer in layers})  # for the
        # complex step, which looks for a user's modules among an object's attributes

    def forward(self, x: Any, *further_inputs: Any) -> Any:
        """The output of the last layer. The first layer gets all inputs."""
        inputs = (x, *further_inputs)
        for layer in self.layers:
            inputs = (_kept(layer, method_of(layer, FORWARDS)(*inputs), OUTPUTS),)
        return inputs[0]

    def backward(self, d: Any) -> Any:
        """The gradient of the input of the first layer."""
        for layer in reversed(self.layers):
            d = _kept(layer, method_of(layer, BACKWARDS)(d), INPUT_GRADIENTS)
        return d


class Attached:
    """A function that an object keeps under a name, or its method that is static, as a method."""

    def __init__(self, owner: Any, name: str) -> None:
        self.__self__, self.__name__ = owner, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped__(*args, **kwargs)

    @property
    def __wrapped__(self) -> Callable[..., Any]:  # for its signature
        return getattr(self.__self__, self.__name__)


class Pass(NamedTuple):
    """A layer after its forward, with the outputs, and the cache if the forward returned one."""

    layer: Any
    outputs: Any
    cache: Any


class LayerRun:
    """The forward and backward of a layer, as those of a case.

    Arguments: layer; inputs and keywords of the forward; used, whether the layer is first called at
    other inputs. Attributes: values, the arrays that have gradients, by name; notes on arrays
    without a gradient; unchecked, findings on parameters that cannot be compared; is_loss, whether
    the backward needs no upstream gradient.
    """

    def __init__(self, layer: Any, inputs: Sequence[Any], keywords: Arrays, used: bool) -> None:
        self.subject = subject = Subject(method_of(layer, FORWARDS), inputs, keywords)
        backward = method_of(layer, BACKWARDS)
        self.backward = backward.__name__
        takes = parameters_of_call(backward)
        self.required = [p.name for p in takes if p.default is p.empty]
        self.rate = next((p.name for p in takes if plain(p.name) in RATES or (
            p.name in self.required and plain(p.name) in SHORT_RATES)), "")
        subject.names = argument_names([method for name in FORWARDS
                                        if (method := attribute(layer, name))], len(inputs))
        self.inputs = subject.arrays = subject.leaves()
        self._use_before(used)
        kept = parameters_of(subject.call.__self__)
        whole = {id(value): name for name, (value, gradient) in kept.items()
                 if gradient is not None}
        parameters = {name: value for name, (value, _) in kept.items()
                      if name not in self.inputs and id(value.base) not in whole}
        subject.arrays = parameters | self.inputs
        _, passed = self.forward(copies := {name: np.array(a) for name, a in parameters.items()})
        after = parameters_of(passed.layer)
        self.parameters = [name for name in parameters
                           if name in after and any(array is copies[name] for array in (
                               after[name].value, after[name].value.base))]
        _validate_memory({name: value for name, value in flatten(
            attributes_of(layer) or {"": layer}).items() if name in self.parameters})
        rng = np.random.default_rng(0)
        d = {name: rng.normal(size=np.shape(out)) for name, out in flatten(passed.outputs).items()}
        gradients, again = self.vjp(d, passed), self.vjp(d, passed, fresh=False)
        self.values = {name: subject.arrays[name] for name in gradients}
        self.unchecked = self._unchecked(d, passed, gradients)
        said = {*self.changed, *(finding.name for finding in self.unchecked)}
        self.notes = [f"{name}: not checked, the layer has no gradient of it"
                      for name in (*self.inputs, *self.parameters)
                      if name not in {*gradients, *said}]
        self.notes += [f"{name}: a view of {whole[id(value.base)]}, checked as a part of it"
                       for name, (value, gradient) in kept.items()
                       if gradient is not None and id(value.base) in whole]
        added = [name for name, gradient in gradients.items()
                 if not np.array_equal(gradient, again[name], equal_nan=True)]
        self.notes += [f"{', '.join(added)}: the backward adds to the gradients that are there: "
                       "set them to zero before each backward"] * bool(added)
        self.notes += self.by_shape
        if not gradients:
            raise ValueError(
                "layer: expected parameters with gradients (params and grads, W and dW), or a "
                f"backward that returns gradients of {', '.join(subject.names)}; "
                f"{type(layer).__name__} has {', '.join(parameters) or 'no arrays'}, and no "
                "gradient")

    def _unchecked(self, d: Arrays, passed: Pass, gradients: Arrays) -> list[Finding]:
        """The findings on parameters that are not compared although the backward may fill their
        gradients: they are lists of numbers, or the backward changes an array of the same shape, of
        which nothing says what it is."""
        known = [*gradients.values(), *d.values()]
        filled = {name: a for name, a in self.changed.items() if name not in gradients and not any(
            np.array_equal(a, other, equal_nan=True) for other in known)}
        findings = []
        for name in self.parameters:
            value = self.subject.arrays[name]
            alike = [key for key, a in filled.items()
                     if name not in gradients and a.shape == value.shape]
            if alike and self._uses(name, passed):
                findings.append(Finding("unchecked", name, (
                    f"the backward changes {', '.join(alike)}, of its shape, and nothing says "
                    "which array is its gradient: names such as W and dW, or params and grads")))
        attributes = attributes_of(passed.layer)
        lists = [name for name, value in attributes.items() if isinstance(value, list) and value
                 and all(isinstance(x, (int, float)) for x in flatten(value).values())
                 and {*gradient_names(name)} & {plain(other) for other in attributes}]
        return findings + [Finding("unchecked", name, "it is a list of numbers, and only arrays "
                                   "are differentiated: np.array(...)") for name in lists]

    def _uses(self, name: str, passed: Pass) -> bool:
        """Whether the outputs depend on an array."""
        outputs, _ = self.forward({name: self.subject.arrays[name] + SHIFT})
        return not all(np.array_equal(outputs[key], out, equal_nan=True)
                       for key, out in flatten(passed.outputs).items())

    def _use_before(self, elsewhere: bool) -> None:
        """Call the layer once: at other inputs if `elsewhere`, and if the layer accepts them."""
        moved = {name: x + np.asarray(SHIFT * (1 + np.abs(x)), x.dtype)
                 for name, x in self.inputs.items()}
        with np.errstate(all="ignore"):
            try:
                _, passed = self.forward(moved if elsewhere else {})
            except Exception:
                _, passed = self.forward({})
            self.is_loss = not self.required and np.size(passed.outputs) == 1
            d = {name: np.ones(np.shape(out)) for name, out in flatten(passed.outputs).items()}
            self._backward(passed, d, 0.0)
        self.subject.call = method_of(passed.layer, (self.subject.call.__name__,))

    def forward(self, values: Arrays) -> tuple[dict[str, Any], Pass]:
        """The outputs by name, and what the backward needs."""
        call, result = self.subject(values)
        return self.passed(call, result)

    def passed(self, call: Any, result: Any) -> tuple[dict[str, Any], Pass]:
        """The outputs by name, and what the backward needs, from what the forward returned."""
        returns_cache = isinstance(result, tuple) and self.required[1:2] and (
            len(result) == 2 and self.required[1] in CACHES)
        outputs, cache = result if returns_cache else (result, None)
        outputs = _kept(call.__self__, outputs, OUTPUTS)
        if outputs is None:
            raise ValueError(f"layer: expected {call.__name__} to return an output, got None")
        return flatten(outputs), Pass(call.__self__, outputs, cache)

    def vjp(self, d: Arrays, passed: Pass, fresh: bool = True) -> dict[str, Any]:
        """The gradients by name. If fresh, they are set to zero before the backward."""
        passed = self.subject.copied(passed)
        before = {name: np.array(value)
                  for name, (value, _) in parameters_of(passed.layer).items()}
        if fresh:
            set_to_zero(passed.layer)
        gradients = self.gradients(passed.layer, self._backward(passed, d, RATE), before)
        return {name: gradient * d["f"] if self.is_loss else gradient
                for name, gradient in gradients.items()}

    def gradients(self, layer: Any, returned: Any, before: Arrays) -> dict[str, Any]:
        """The gradients by name after a backward: those that it returned and those that the layer
        keeps.

        Arguments: returned by the backward; before, the parameters before it.
        """
        after = parameters_of(layer)
        self.changed = {name: value for name, (value, _) in after.items() if not np.array_equal(
            value, before.get(name, np.nan), equal_nan=True)}
        kept = {name: after[name].gradient for name in self.parameters if name in after}
        if self.rate:
            kept |= {name: (before[name] - after[name].value) / RATE for name in self.parameters
                     if kept[name] is None and (before[name] != after[name].value).any()}
        kept = {name: gradient for name, gradient in kept.items() if gradient is not None}
        keys = [name for x in self.subject.names[:1] for name in gradient_names(x)]
        returned = _kept(layer, returned, [*keys, *INPUT_GRADIENTS])
        parts = returned if isinstance(returned, (list, tuple)) else [returned]
        names = self.subject.names if len(parts) == len(self.subject.names) else [*self.inputs]
        known = {name: self.subject.arrays[name] for name in (*self.inputs, *self.parameters)
                 if name not in kept}
        labels = returned_names(getattr(layer, self.backward))
        given = named_gradients(parts, labels, known, names)
        told = dict.fromkeys(all_labels(labels), False) | {
            key: True for part in parts if isinstance(part, Mapping) for key in flatten(part)}
        self.by_shape = [f"{note}; names in the return statement would tell, as dW of W"
                         for note in taken_by_shape(
                             [name for name in given if name not in names], known, told)]
        nested = any(name not in self.subject.arrays for name in given)
        by_name = (flatten(given) if nested else given) | kept
        return {name: gradient for name, gradient in by_name.items()
                if name in self.subject.arrays}

    def _backward(self, passed: Pass, d: Arrays, rate: float) -> Any:
        """The result of the backward."""
        return getattr(passed.layer, self.backward)(*self.arguments(passed, d, rate))

    def arguments(self, passed: Pass, d: Arrays, rate: float) -> list[Any]:
        """The arguments of the backward. Raises ValueError if it takes other arguments."""
        backward = getattr(passed.layer, self.backward)
        if self.is_loss:
            return []
        upstream = like(passed.outputs, d)
        takes = [p.name for p in parameters_of_call(backward)
                 if p.default in (p.empty, None) or p.name == self.rate]
        spread = isinstance(upstream, tuple) and len(upstream) in (len(self.required), len(takes))
        arguments = list(upstream) if spread else [upstream]
        arguments += [passed.cache] * (passed.cache is not None)
        arguments += [rate] * (len(takes) > len(arguments) and takes[len(arguments)] == self.rate)
        signature = inspect.signature(backward)
        try:
            signature.bind(*arguments)
            fits = not {*takes[:1]} & {*TARGETS}
        except TypeError:
            fits = False
        if not fits:
            raise ValueError(f"layer: expected {self.backward} to take the gradient of the output, "
                             f"got {self.backward}{signature}; where it takes inputs or targets, "
                             "see check_gradients and check_loss")
        return arguments


def method_of(layer: Any, names: Sequence[str]) -> Callable[..., Any]:
    """The first of these methods that an object has. Raises ValueError if it has none."""
    if isinstance(layer, type):
        raise ValueError(f"layer: expected an object, got the class {layer.__name__}")
    known = [name for name in names if callable(attribute(layer, name))]
    if not known:
        raise ValueError(f"layer: expected an object with a method {' or '.join(names)}, got "
                         f"{type(layer).__name__} without")
    method = getattr(layer, known[0])
    return method if getattr(method, "__self__", None) is layer else Attached(layer, known[0])


def _kept(layer: Any, returned: Any, names: Sequence[str]) -> Any:
    """The result of a method; if it returned nothing, the first of these attributes."""
    known = {plain(name): value for name, value in attributes_of(layer).items()}
    return next((known[name] for name in names if name in known),
                None) if returned is None else returned


def _validate_memory(arrays: Arrays) -> None:
    """Raise ValueError if arrays share memory: in a copy of the layer they would not."""
    for (name, a), (other_name, b) in combinations(arrays.items(), 2):
        if a is not b and np.shares_memory(a, b):
            raise ValueError(f"layer: expected arrays that share no memory, got {name} and "
                             f"{other_name}, which do: a change of one would not change the other")


def set_to_zero(layer: Any) -> None:
    """Set all gradients that a layer keeps to zero."""
    if attribute(layer, "zero_grad"):
        layer.zero_grad()
    for _, gradient in parameters_of(layer).values():
        if isinstance(gradient, np.ndarray):
            gradient[...] = 0
