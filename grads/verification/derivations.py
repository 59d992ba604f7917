"""Gradient checks of the derivations: each on its own example, in all variants.

A derivation declares its example (`grads.stepper.tracing.derivations`); its inputs are the arrays
among the arguments of its forward. It computes in float64 or wider.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from backend.errors import UserError
from grads.check import check_case
from grads.check.case import Case, Inputs
from grads.check.report import Report
from grads.derivations.examples import WINDOWS, Example, Request, Sizes
from grads.derivations.scores import SCORES
from grads.stepper.tracing.derivations import DERIVATIONS
from grads.verification.cases import numbers_of
from grads.verification.variants import name_of, pairwise
from nmt.models.variants import Variants

CHOICES: dict[str, tuple[Any, ...]] = {
    "score": ("general", *(score for score in SCORES if score != "general")), "window": WINDOWS,
    "input_feeding": (True, False), "biases": (True, False), "layers": (2, 1),
}
SEED = 1  # with this seed, windows of the examples hold several words


class Entry(NamedTuple):
    """A derivation with the sizes of its example."""

    derivation: str  # a name in `grads.stepper.tracing.derivations.DERIVATIONS`
    variant: str
    sizes: Sizes

    @property
    def name(self) -> str:
        """The name of the entry."""
        return f"derivation {self.derivation}: {self.variant}"


def entries() -> list[Entry]:
    """Every derivation, in variants that together have every pair of values of its options."""
    declared = []
    for name in DERIVATIONS:
        usual = _known(name, {})
        variants = Variants({option: values for option, values in CHOICES.items() if any(
            _known(name, {option: value}) != usual for value in values)})
        declared += [Entry(name, name_of(options, variants), Sizes(**options))
                  for options in pairwise(_sizes, variants)]
    return declared


def _known(name: str, options: Mapping[str, Any]) -> str:
    """A key for the effect of options on a derivation's example: its shapes, and what is no
    array."""
    example = _example(name, Sizes(**options), SEED)
    shapes = [array.shape for value in example.arguments for array in leaves("", value).values()]
    return f"{shapes} {example.named} {[a for a in example.arguments if not leaves('', a)]}"


def _example(name: str, sizes: Sizes, seed: int) -> Example:
    """A derivation's own example, with random parameters."""
    return DERIVATIONS[name].example(Request(None, sizes, np.random.default_rng(seed)))


def _sizes(**options: Any) -> Sizes:
    """Sizes; raises ValueError for invalid ones, as a configuration does."""
    try:
        return Sizes(**options)
    except UserError as error:
        raise ValueError(str(error)) from error


def check(entry: Entry, seed: int = SEED, **extent: Any) -> Report:
    """Check every gradient that the derivation returns, as `grads.verification.catalogue.check`."""
    case = make_case(entry, seed)
    how: dict[str, Any] = {"method": "complex"} | extent
    return check_case(case, rng=np.random.default_rng(seed), title=entry.name, vanish=False, **how)


def numbers(entry: Entry, seed: int = SEED) -> dict[str, np.ndarray]:
    """The numbers that `check` compares, computed once: see
    `grads.verification.cases.numbers_of`."""
    return numbers_of(make_case(entry, seed))


def make_case(entry: Entry, seed: int = SEED) -> Case:
    """The case of a derivation's loss on its example."""
    derivation = DERIVATIONS[entry.derivation]
    example = _example(entry.derivation, entry.sizes, seed)
    names = list(inspect.signature(derivation.forward).parameters)[: len(example.arguments)]
    arguments = dict(zip(names, example.arguments, strict=True))
    inputs = {name: leaf for key, value in arguments.items()
              for name, leaf in leaves(key, value).items()}

    def forward(a: Inputs) -> Any:
        replaced = Example(tuple(rebuilt(key, value, a) for key, value in arguments.items()),
                           example.named, example.words, example.upstream)
        result = derivation.forward(*replaced.arguments, **replaced.named)
        return {"loss": np.asarray(derivation.loss(replaced, result))}, (replaced, result)

    def vjp(d: Mapping[str, Any], cache: Any) -> dict[str, Any]:
        returned = derivation.backward(*derivation.given(*cache))
        values = returned if isinstance(returned, tuple) else (returned,)
        read = [key for key, value in arguments.items() if leaves(key, value)]
        gradients = {name: leaf for key, value in zip(read, values, strict=False)
                     for name, leaf in leaves(key, value).items()}
        return {name: gradients[name].reshape(inputs[name].shape) * d["loss"] for name in inputs}

    return Case(inputs, forward, vjp)


def leaves(name: str, tree: Any) -> dict[str, np.ndarray]:
    """The arrays of floating numbers in nested mappings and named tuples, by dotted name."""
    if isinstance(tree, np.ndarray):
        return {name: tree} if tree.dtype.kind in "fc" else {}
    return {leaf: array for key, branch in _branches(tree)
            for leaf, array in leaves(f"{name}.{key}", branch).items()}


def rebuilt(name: str, tree: Any, arrays: Mapping[str, Any]) -> Any:
    """The tree with other arrays at its leaves."""
    if name in arrays:
        return arrays[name]
    parts = {key: rebuilt(f"{name}.{key}", branch, arrays) for key, branch in _branches(tree)}
    if isinstance(tree, Mapping):
        return parts
    return type(tree)(**parts) if parts else tree


def _branches(tree: Any) -> list[tuple[Any, Any]]:
    if isinstance(tree, Mapping):
        return list(tree.items())
    return list(tree._asdict().items()) if hasattr(tree, "_asdict") else []
