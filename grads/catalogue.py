"""The gradient catalogue: every forward/backward pair of the product, ready to be checked.

An entry makes cases of one pair or one whole model (`grads.case`). `check` holds a case to
numerical differentiation; `backward_functions` finds what the product has, so that nothing is left
out. Element-wise clipping is not a gradient: tests hold it to a literal loop instead.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType
from typing import Any

import numpy as np

from grads import catalogue_attention, catalogue_lstm, catalogue_models
from grads.case import SHAPES, Case, Entry, dense, draw
from grads.check import check_gradients

PRODUCT = ("backend", "lstm", "attention", "nmt")
ENTRIES: list[Entry] = [
    *catalogue_lstm.ENTRIES, *catalogue_attention.ENTRIES, *catalogue_models.ENTRIES,
]
SAMPLE = 4  # entries of each tensor in the checks that come on top of the full one

Arrays = Mapping[str, Any]


def check(entry: Entry, shape: str, seed: int = 0) -> None:
    """Verify one entry at one shape, in float64.

    With random upstream gradients on every output, together and separately, the gradients are
    compared with complex step: of each tensor `entry.sample` entries together, a few separately;
    and a few with central differences. Gradients are exactly zero where the case says that an
    input cannot matter, and the outputs do not depend on it; no other gradient vanishes; nothing
    is mutated; a second run gives the same bits; the dtype is kept.

    Arguments: shape, a name in `grads.case.SHAPES`; seed of inputs and upstream gradients.
    Raises AssertionError saying what is wrong.
    """
    rng = np.random.default_rng(seed)
    case = entry.make(rng, SHAPES[shape])
    outputs = case.forward(case.inputs)
    upstream = {name: draw(rng, *np.shape(out)) for name, out in outputs.items()}
    if len(upstream) > 1:
        for name, d_out in upstream.items():
            agree(case, {name: d_out}, "complex", SAMPLE)
    gradients = agree(case, upstream, "complex", entry.sample)
    agree(case, upstream, "central", SAMPLE)
    check_purity(case, upstream, outputs, gradients)
    check_zeros(case, outputs, gradients, rng)
    check_dtype(case, upstream)


def agree(
    case: Case, upstream: Arrays, method: str, sample: int | None = None
) -> dict[str, np.ndarray]:
    """The gradients of the sum of d_out * out, dense, once they agree with `method`."""
    gradients = {name: dense(d) for name, d in case.backward(case.inputs, upstream).items()}

    def loss(inputs: Arrays) -> Any:
        outputs = case.forward(inputs)
        return sum((d_out * outputs[name]).sum() for name, d_out in upstream.items())

    check_gradients(loss, case.inputs, gradients, method=method, sample=sample).raise_if_wrong()
    return gradients


def check_zeros(
    case: Case, outputs: Arrays, gradients: Arrays, rng: np.random.Generator
) -> None:
    """Exactly zero where an input cannot matter, and nowhere altogether zero."""
    for name, gradient in gradients.items():
        dead = case.zeros.get(name, np.zeros(gradient.shape, dtype=bool))
        assert not gradient[dead].any(), f"d{name}: expected exact zeros where it cannot matter"
        assert dead.all() or gradient[~dead].any(), f"d{name}: expected a gradient, got zeros"
    other = {name: np.where(case.zeros[name], draw(rng, *value.shape), value)
             if name in case.zeros else value for name, value in case.inputs.items()}
    same(case.forward(other), outputs, "depends on what cannot matter")


def check_purity(case: Case, upstream: Arrays, outputs: Arrays, gradients: Arrays) -> None:
    """Nothing is written into inputs or upstream gradients, and nothing is remembered."""
    inputs = {name: value.copy() for name, value in case.inputs.items()}
    d_outputs = {name: value.copy() for name, value in upstream.items()}
    again = case.backward(inputs, d_outputs)
    same(inputs, case.inputs, "input was written into")
    same(d_outputs, upstream, "upstream gradient was written into")
    same({name: dense(d) for name, d in again.items()}, gradients, "differs when run again")
    same(case.forward(inputs), outputs, "differs when run again")


def check_dtype(case: Case, upstream: Arrays) -> None:
    """float32 stays float32 in both directions, complex128 stays complex128 forward."""
    single = {name: value.astype(np.float32) for name, value in case.inputs.items()}
    d_single = {name: value.astype(np.float32) for name, value in upstream.items()}
    found = {**case.forward(single), **case.backward(single, d_single)}
    wide = case.forward({name: value.astype(complex) for name, value in case.inputs.items()})
    for expected, arrays in ((np.float32, found), (np.complex128, wide)):
        for name, array in arrays.items():
            assert dense(array).dtype == expected, f"{name}: {dense(array).dtype}, not {expected}"


def same(found: Arrays, expected: Arrays, complaint: str) -> None:
    """Raise AssertionError unless the arrays are equal to the last bit."""
    for name, array in expected.items():
        assert np.array_equal(found[name], array), f"{name}: {complaint}"


# --- completeness -------------------------------------------------------------------------------


def product_modules() -> Iterator[ModuleType]:
    """Every module of the product packages."""
    for package in PRODUCT:
        root = import_module(package)
        yield root
        for found in walk_packages(root.__path__, f"{package}."):
            if not found.name.endswith("__main__"):
                yield import_module(found.name)


def backward_functions(modules: Iterable[ModuleType]) -> set[str]:
    """`module.stem` of every function `stem_backward` that is defined in one of `modules`."""
    return {f"{module.__name__}.{name.removesuffix('_backward')}"
            for module in modules for name, function in inspect.getmembers(module)
            if name.endswith("_backward") and inspect.isfunction(function)
            and function.__module__ == module.__name__}


def uncovered(modules: Iterable[ModuleType], entries: Iterable[Entry] = ENTRIES) -> set[str]:
    """The backward functions of `modules` that no entry covers."""
    return backward_functions(modules) - {name for entry in entries for name in entry.covers}
