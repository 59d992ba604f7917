"""Each fused kernel equals the function that it replaces: its CUDA C, compiled for the host, runs
here.

`HostLauncher` gives a block one thread, or several that really wait for each other.
"""

from __future__ import annotations

import numpy as np
import pytest
from fused_cases import (
    FUSED,
    SIZES,
    TOLERANCE,
    assert_close,
    cast,
    function_of,
    function_returns,
    leaves,
    norms,
    softmaxes,
    tables,
    updates,
)
from host_cuda.launcher import HostLauncher, needs_compiler
from strict.module import StrictArray, strict, to_numpy, to_strict

from backend import fused
from backend.fused import switch
from backend.fused.source import SOURCES

pytestmark = needs_compiler

def on_device(tree):
    """The same arrays as device arrays with the same strides; nothing is copied."""
    if isinstance(tree, np.ndarray):
        return StrictArray(tree)
    if isinstance(tree, (list, tuple)):
        items = [on_device(item) for item in tree]
        return type(tree)(*items) if hasattr(tree, "_fields") else type(tree)(items)
    return tree


def arrays(tree):
    """The arrays of what a function returns."""
    if isinstance(tree, (list, tuple)):
        return [array for branch in tree for array in arrays(branch)]
    return [tree] if isinstance(tree, (np.ndarray, StrictArray)) else []


def compare(case, dtype, launcher):
    """The kernel on device arrays against the source on NumPy's: result and all arguments."""
    function = function_of(case.function)
    ours, theirs = cast(case.arguments, dtype), cast(case.arguments, dtype)
    before = [leaf.copy() for leaf in leaves(theirs)]
    expected = function.__wrapped__(*theirs)
    switch.register(StrictArray, launcher)
    launched = len(launcher.names)
    result = function(*on_device(ours))
    assert len(launcher.names) > launched, "the kernel was not taken"
    pairs = list(zip(leaves(ours, case.scratch), leaves(theirs, case.scratch), strict=True))
    pairs += [(to_numpy(actual), wanted) for actual, wanted in zip(arrays(result), arrays(expected),
                                                                   strict=True)]
    assert all(actual.dtype == wanted.dtype for actual, wanted in pairs)
    assert_close(pairs, dtype)
    return before, leaves(theirs)


@pytest.fixture(autouse=True)
def _forget_launcher():
    yield
    switch._launchers.pop(StrictArray, None)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("strided", [False, True], ids=["whole", "strided"])
@pytest.mark.parametrize("rows, width", SIZES)
@pytest.mark.parametrize("kernels", FUSED)
def test_kernel_equals_source(kernels, rows, width, strided, dtype):
    rng = np.random.default_rng(rows * 1000 + width)
    for case in FUSED[kernels](rng, rows, width, strided):
        before, after = compare(case, dtype, HostLauncher())
        assert any((old != new).any() for old, new in zip(before, after, strict=True)) \
            or function_returns(case), case.function


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("strided", [False, True], ids=["whole", "strided"])
@pytest.mark.parametrize("rows, width", SIZES)
def test_the_form_in_place_equals_its_source(rows, width, strided, dtype):
    rng, compared = np.random.default_rng(rows * 1000 + width), set()
    for case in (case for kernels in FUSED.values() for case in kernels(rng, rows, width, strided)):
        function = function_of(case.function)
        if function.in_place is not None:
            ours, theirs = cast(case.arguments, dtype), cast(case.arguments, dtype)
            function.in_place(*ours)
            function.__wrapped__(*theirs)
            assert_close(zip(leaves(ours, case.scratch), leaves(theirs, case.scratch),
                             strict=True), dtype)
            compared.add(function)
    assert compared == {function for function in switch.BOUND if function.in_place is not None}


@pytest.mark.parametrize("threads", [2, 7, 32])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_threads_of_a_block_wait_for_each_other(threads, dtype):
    """Sums and maxima over a block of real threads, whose number is not a power of two."""
    rng = np.random.default_rng(threads)
    launcher = HostLauncher(threads=threads)
    for kernels in (softmaxes, norms, updates, tables):
        for case in kernels(rng, 5, 70, True):
            compare(case, dtype, launcher)


def all_cases():
    rng = np.random.default_rng(0)
    return [case for kernels in FUSED.values() for case in kernels(rng, 3, 4, False)]


def test_every_function_with_a_fused_kernel_has_a_case():
    having_cases = {function_of(case.function) for case in all_cases()}  # imports their modules
    assert having_cases == set(switch.BOUND)


def test_every_kernel_is_launched():
    launcher = HostLauncher()
    for case in all_cases():
        compare(case, "float64", launcher)
    assert set(launcher.names) == {name for source in SOURCES for name in source.declared}


# --- when the source runs ---------------------------------------------------------------------


def tanh_arguments(dtype):
    rng = np.random.default_rng(1)
    return [to_strict(rng.normal(size=(2, 3)).astype(dtype)) for _ in range(3)]


def launches(arguments):
    from backend.pointwise import tanh_slope

    launcher = HostLauncher()
    switch.register(StrictArray, launcher)
    tanh_slope(*arguments)
    return launcher.names


def test_complex_numbers_run_the_source():
    assert launches(tanh_arguments("complex128")) == []
    assert launches(tanh_arguments("float64")) == ["tanh_backward"]


def test_fusing_can_be_switched_off():
    with fused.using(False):
        assert not fused.is_on()
        assert launches(tanh_arguments("float32")) == []
    assert fused.is_on()
    assert launches(tanh_arguments("float32")) == ["tanh_backward"]


def test_numpy_runs_the_source():
    from backend.pointwise import tanh_slope

    switch.register(StrictArray, HostLauncher())
    y = np.full((1, 1), 0.5)
    dz = np.empty((1, 1))
    tanh_slope(np.ones((1, 1)), y, dz)
    assert dz.item() == 0.75


@pytest.mark.parametrize("spoil", [
    lambda a: strict.asarray(to_numpy(a).T.copy()).T,  # columns apart
    lambda a: a.astype("float32"),
])
def test_a_layout_or_dtype_that_the_kernel_does_not_take_runs_the_source(spoil):
    dy, y, dz = tanh_arguments("float64")
    assert launches((dy, spoil(y), dz)) == []


def test_a_target_that_the_table_does_not_have_gives_nan_and_writes_nowhere():
    from lstm.prediction import cross_entropy

    switch.register(StrictArray, HostLauncher())
    s, losses = strict.zeros((3, 4)), strict.zeros(3)
    with np.errstate(all="ignore"):
        cross_entropy(s, strict.asarray(np.array([0, 4, -1])), losses)
    assert np.isnan(to_numpy(losses)).tolist() == [False, True, True]
    np.testing.assert_allclose(to_numpy(s)[1:], 0.25)


def test_mixed_arrays_are_refused_by_name():
    from backend.pointwise import tanh_slope

    switch.register(StrictArray, HostLauncher())
    dy, y, dz = tanh_arguments("float64")
    with pytest.raises(TypeError, match=r"tanh_slope: .*dy is of strict and y of numpy"):
        tanh_slope(dy, to_numpy(y), dz)
