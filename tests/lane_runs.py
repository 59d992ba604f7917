"""Runs a function in lanes and without lanes, and compares the results."""

from __future__ import annotations

import numpy as np

from grads.stepper.lanes import LaneArray, LanesError

P = 3
LEFT = 1e-4  # share of the outputs; smaller slopes are compared relative to it
H = 1e-30
STEPS = {"float64": 1e-5, "complex128": H * 1j}  # too small to move a window


def in_lanes(f, inputs, changed):
    """The outputs (P, *shape) of P versions of the inputs, by one run of `f`."""
    count = len(next(iter(changed.values())))
    copies = {name: np.repeat(a[None], count, axis=0) for name, a in inputs.items()
              if a.dtype.kind in "fc"}
    arguments = {**inputs, **{name: LaneArray(np.array(np.moveaxis(a, 0, -1), order="C"))
                              for name, a in (copies | changed).items()}}
    try:
        outputs = f(arguments)
    except LanesError:
        raise
    except Exception as error:
        raise LanesError(str(error)) from error
    return {name: np.moveaxis(out.values, -1, 0) if isinstance(out, LaneArray)
            else np.repeat(np.asarray(out)[None], count, axis=0) for name, out in outputs.items()}


def alone(f, inputs, changed):
    """The outputs of each version, run by itself."""
    count = len(next(iter(changed.values())))
    runs = [f({**{k: np.array(v) for k, v in inputs.items()},
               **{k: np.array(v[p]) for k, v in changed.items()}}) for p in range(count)]
    return {name: np.stack([np.array(run[name]) for run in runs]) for name in runs[0]}


def compare(f, inputs, changed, tolerance=1e-13):
    """Assert equality up to rounding, relative to the largest of all versions; imaginary parts
    separately."""
    expected = alone(f, inputs, changed)
    actual = in_lanes(f, inputs, changed)
    assert actual.keys() == expected.keys()
    for name, array in expected.items():
        ours = actual[name]
        assert (ours.shape, ours.dtype) == (array.shape, array.dtype), name
        for component, a, b in (("real", ours.real, array.real), ("imag", ours.imag, array.imag)):
            scale = np.abs(b[np.isfinite(b)]).max(initial=0.0)
            if component == "imag":  # a slope much smaller than its terms is mostly rounding
                real = np.abs(array.real[np.isfinite(array.real)]).max(initial=0.0)
                scale = max(scale, LEFT * H * real)
            np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * scale, err_msg=name)
    return expected


def versions(rng, value, step, count=P):
    """Random directions from a value."""
    return value + step * rng.normal(size=(count, *value.shape))


def one_entry_each(value, step):
    """A version for each entry, in which this entry is perturbed."""
    copies = np.repeat(value[None], value.size, axis=0) + 0 * step
    copies.reshape(value.size, -1)[np.diag_indices(value.size)] += step
    return copies


def named(f):
    """A function's outputs by name."""
    def run(a):
        out = f(a)
        return {str(k): y for k, y in enumerate(out if isinstance(out, tuple) else (out,))}
    return run
