"""All kernels against numerical differentiation; the catalogue is complete; the check can fail."""

from __future__ import annotations

import sys
from importlib import import_module
from types import FunctionType, ModuleType

import numpy as np
import pytest

from grads.case import SHAPES, Case, Entry
from grads.catalogue import ENTRIES, backward_functions, check, product_modules, uncovered

BY_NAME = {entry.name: entry for entry in ENTRIES}
ALL = [(name, shape) for name, entry in BY_NAME.items() for shape in entry.shapes]


@pytest.mark.parametrize("name, shape", ALL)
def test_gradients(name, shape):
    check(BY_NAME[name], shape).raise_if_wrong()


# --- completeness -----------------------------------------------------------------------------


def test_every_backward_of_the_product_has_an_entry():
    missing = uncovered(product_modules())
    assert not missing, f"without an entry in grads/catalogue*.py: {sorted(missing)}"


def test_entries_name_what_exists_and_are_told_apart():
    existing = backward_functions(product_modules())
    assert len(existing) >= 20
    for entry in ENTRIES:
        assert set(entry.covers) <= existing, entry.name
    assert len(BY_NAME) == len(ENTRIES)


def test_a_backward_without_an_entry_is_named():
    module = ModuleType("product.room")
    for name in ("new_forward", "new_backward", "helper"):
        function = FunctionType((lambda: None).__code__, {}, name)
        function.__module__ = "product.room"
        setattr(module, name, function)
    module.borrowed_backward = import_module("lstm.lstm").lstm_backward  # defined elsewhere
    assert uncovered([module]) == {"product.room.new"}
    assert not uncovered([module], [Entry("new", ("product.room.new",), lambda rng, shape: None)])


def called_by(act):
    """`module.function` of every Python function called while `act` runs."""
    seen = set()

    def note(frame, event, _):
        if event == "call":
            seen.add(f"{frame.f_globals.get('__name__')}.{frame.f_code.co_name}")

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    return seen


@pytest.mark.parametrize("name", [name for name, entry in BY_NAME.items() if entry.covers])
def test_an_entry_runs_what_it_covers(name):
    entry = BY_NAME[name]
    case = entry.make(np.random.default_rng(0), SHAPES["ragged"])
    upstream = {key: np.ones(np.shape(out)) for key, out in case.forward(case.inputs).items()}
    seen = called_by(lambda: case.backward(case.inputs, upstream))
    for stem in entry.covers:
        module, function = stem.rsplit(".", 1)
        assert f"{stem}_backward" in seen
        assert f"{stem}_forward" in seen or not hasattr(
            import_module(module), f"{function}_forward"
        )


# --- negative controls ------------------------------------------------------------------------


def square(zeros=False, remembers=False, widens=False, mutates=False, looks=False):
    """x^2 and a backward of it, with one flaw that numerical differentiation does not see."""
    calls = []
    dead = np.array([False, True, False])

    def run(a):
        calls.append(1)
        if mutates and not np.iscomplexobj(a["x"]):
            a["x"][0] = np.nextafter(a["x"][0], 9)
        y = a["x"] ** 2 * (~dead + 1e-300 * looks)
        return {"y": y + len(calls) * 1e-14 * remembers}, a["x"]

    def pull(d, x):
        scale = np.float64(2.0) if widens else 2.0
        return {"x": d["y"] * x * scale * np.where(dead, 1e-14 * zeros, 1.0).astype(x.dtype)}

    return Entry("square", (), lambda rng, shape: Case(
        {"x": rng.normal(size=3)}, run, pull, {"x": dead}))


@pytest.mark.parametrize("flaw, complaint", [
    ("zeros", "exact zeros"), ("remembers", "differ"), ("mutates", "writes into"),
    ("looks", "depends"), ("widens", "float32"),
])  # fmt: skip
def test_a_flaw_that_differentiation_does_not_see_is_caught(flaw, complaint):
    with pytest.raises(AssertionError, match=complaint):
        check(square(**{flaw: True}), "smallest").raise_if_wrong()


def test_a_vanishing_gradient_is_caught():
    """As thinc's: outputs that do not depend on x, and a backward that agrees."""
    entry = Entry("dead", (), lambda rng, shape: Case(
        {"x": rng.normal(size=3)},
        lambda a: ({"y": 0.0 * a["x"]}, None), lambda d, _: {"x": 0.0 * d["y"]}))
    with pytest.raises(AssertionError, match="expected a gradient, got zeros"):
        check(entry, "smallest").raise_if_wrong()
