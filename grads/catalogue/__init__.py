"""The gradient catalogue: every forward/backward pair of the product, ready to be checked.

An entry makes cases of one pair or one whole model (`grads.case`). `check` holds a case to
numerical differentiation; `backward_functions` finds what the product has, so that nothing is left
out. Element-wise clipping is not a gradient: tests hold it to a literal loop instead.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType

import numpy as np

from grads.case import SHAPES, Case, Entry, dense, draw
from grads.catalogue import (
    attention,
    configurations,
    derivations,
    gated_derivations,
    lstm,
    models,
    rnnsearch,
    ways,
)
from grads.check import check_case
from grads.checking.claims import same_bits
from grads.device import on_device
from grads.report import Finding, Report

PRODUCT = ("backend", "lstm", "attention", "nmt")
ENTRIES: list[Entry] = [
    *lstm.ENTRIES, *attention.ENTRIES, *ways.ENTRIES, *models.ENTRIES, *configurations.ENTRIES,
    *rnnsearch.ENTRIES,
]
DERIVATIONS = [*derivations.ENTRIES, *gated_derivations.ENTRIES]  # the literal algorithms
CONFIGURATIONS = configurations.CONFIGURATIONS  # the product of all models' choices


def check(
    entry: Entry, shape: str, seed: int = 0, *, method: str = "both", sample: int | None = None,
    vanish: bool = False,
) -> Report:
    """Check one entry at one shape, in float64, by `grads.check.check_case` and by house rules.

    On the backend in use: forward and backward run there (`grads.device`).

    The rules: an output does not depend on what cannot matter (padding); gradients that can be
    zero only by mistake are not; float32 stays float32 in both directions, complex128 stays
    complex128 forward.

    Arguments: shape, a name in `grads.case.SHAPES`; seed of inputs and upstream gradients;
    sample, entries of each larger tensor, `entry.sample` if None; vanish, whether gradients may be
    zero (dropout may leave nothing).
    """
    rng = np.random.default_rng(seed)
    case = on_device(entry.make(rng, SHAPES[shape]))
    report = check_case(case, method=method, sample=sample or entry.sample, rng=rng, vanish=vanish,
                        empty=SHAPES[shape].batch == 0, title=f"{entry.name}, {shape}")
    if report.rows:
        report.findings.extend([*_dependence(case, rng), *_dtypes(case)])
    return report


def _dependence(case: Case, rng: np.random.Generator) -> Iterator[Finding]:
    """Outputs that change with what cannot matter."""
    other = {name: np.where(case.zeros[name], draw(rng, *value.shape), value)
             if name in case.zeros else value for name, value in case.inputs.items()}
    for name in same_bits(case.forward(other), case.forward(case.inputs)):
        yield Finding("padding", name, "the output depends on what cannot matter")


def _dtypes(case: Case) -> Iterator[Finding]:
    """Arrays of another dtype than the inputs'."""
    single = {name: value.astype(np.float32) for name, value in case.inputs.items()}
    outputs = case.forward(single)
    gradients = case.backward(single, {k: np.ones_like(v) for k, v in outputs.items()})
    wide = case.forward({name: value.astype(complex) for name, value in case.inputs.items()})
    for expected, prefix, arrays in ((np.float32, "", outputs), (np.float32, "d", gradients),
                                     (np.complex128, "", wide)):
        for name, array in arrays.items():
            if dense(array).dtype != expected:
                yield Finding("dtype", f"{prefix}{name}", f"expected {np.dtype(expected)}, got "
                                                          f"{dense(array).dtype}")


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
    """`module.stem` of every function `stem_backward` that is defined in one of `modules`.

    A fused kernel is no pair of its own: it is held to the function whose name it has, and the
    catalogue runs through it (`tests/grads/test_catalogue_strict.py`).
    """
    return {f"{module.__name__}.{name.removesuffix('_backward')}"
            for module in modules for name, function in inspect.getmembers(module)
            if name.endswith("_backward") and inspect.isfunction(function)
            and function.__module__ == module.__name__
            and not module.__name__.startswith("backend.fused.")}


def uncovered(modules: Iterable[ModuleType], entries: Iterable[Entry] = ENTRIES) -> set[str]:
    """The backward functions of `modules` that no entry covers."""
    return backward_functions(modules) - {name for entry in entries for name in entry.covers}
