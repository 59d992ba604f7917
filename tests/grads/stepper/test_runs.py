"""Runs that are not made twice: shortened traces, edited programs, complex steps in lanes."""

from __future__ import annotations

import numpy as np
import pytest
from traced import same_values

from grads.check.continuation.array import continued
from grads.stepper.lanes import LaneArray
from grads.stepper.trace import trace
from grads.stepper.tracing import replay
from grads.stepper.tracing.derivations import DERIVATIONS
from grads.stepper.tracing.numerical import OwnRuns
from grads.stepper.tracing.replay import Bumps, Untouched, assigned


@pytest.mark.parametrize("keep", [1, 4, 9])
def test_a_shortened_trace_is_one_recorded_with_fewer_numbers(keep):
    derivation = DERIVATIONS["lstm"]
    shorter, expected = derivation.run().shortened(keep), derivation.run(keep=keep)
    for actual, wanted in ((shorter.forward, expected.forward),
                           (shorter.backward, expected.backward)):
        assert same_values(actual.steps, wanted.steps)
    assert any(target.sliced for step in shorter.forward.steps for target in step.targets)


def test_an_edited_program_rewrites_what_changes_alone():
    run = DERIVATIONS["lstm"].run()
    program = run.backward.program
    edited = program.edited({"predict_grad": [("p - one_hot", "one_hot - p")]})
    changed = {function.__name__ for function, code in edited.codes.items()
               if code is not program.codes[function]}
    assert changed == {"predict_grad"}
    assert all(edited.copies[function] is not program.copies[function]
               for function in program.codes)


def rectified(x, W):
    h = np.zeros(3)
    for i in range(3):
        h[i] = np.maximum(W[i] @ x, 0.0) + np.abs(x[i])
    return np.exp(h).sum() + abs(h[0])


@pytest.fixture
def runs():
    rng = np.random.default_rng(3)
    arguments = Untouched((rng.normal(size=3), rng.normal(size=(3, 3))))
    traced = trace(rectified, *arguments.copied(), returns=True)
    return traced, OwnRuns(traced, arguments, lambda result, _: result, {}), arguments


def test_complex_steps_in_lanes_are_those_of_single_runs(runs, monkeypatch):
    traced, many, arguments = runs
    x = Bumps(assigned(traced, (0, 0)), (3,), np.arange(3))
    W = Bumps(assigned(traced, (0, 1)), (3, 3), np.arange(9))
    single = [[replay.alone(traced, bump._replace(entries=np.array([entry])), np.array([1e-30j]),
                            arguments, {}, lambda result, _: result, continued)
               for entry in bump.entries] for bump in (x, W)]
    monkeypatch.setattr(replay, "alone", None)  # lanes must do
    together = many.losses([x, W], [np.full(3, 1e-30j), np.full(9, 1e-30j)])
    for actual, wanted in zip(together, single, strict=True):
        assert np.allclose(actual.imag, np.imag(wanted), rtol=1e-12, atol=0)
        assert np.any(actual.imag != 0)
    central = many.losses([x], [np.full(3, 1e-6)])[0] - many.losses([x], [np.full(3, -1e-6)])[0]
    assert np.allclose(together[0].imag / 1e-30, central / 2e-6, rtol=1e-6)


def test_conversion_to_a_plain_array_does_not_drop_the_steps():
    values = np.array([[1 + 1e-30j, 1 + 2e-30j]])
    with pytest.raises(Exception, match="different values"):
        np.asarray(LaneArray(values))
