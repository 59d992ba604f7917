"""Every intermediate gradient of every derivation is verified; wrong ones are found where they
arise.

The gradients that the tracer lists are compared with a count of the assignments it should list.
"""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest

from grads.derivations.examples import Sizes
from grads.derivations.scores import CONTENT, SCORES
from grads.stepper.trace import record, relative_error, trace
from grads.stepper.tracing.derivations import DERIVATIONS
from grads.stepper.tracing.pairing import root_of
from grads.stepper.tracing.replay import Bumps, Replay, Runs, assigned
from grads.stepper.tracing.verify import TOLERANCE, verify

MODELS = [
    *[(name, Sizes(biases=biases)) for name in ("rnn", "lstm", "nmt", "rnnsearch")
      for biases in (True, False)],
    ("nmt", Sizes(layers=1, hidden=2, embedding=3)),
    *[("attention", Sizes(score=score, input_feeding=feeding, biases=biases))
      for score, feeding, biases in [("dot", True, True), ("general", True, False),
                                     ("dot", False, False), ("general", False, True)]],
    ("attention", Sizes(score="additive", layers=1)),
    ("hybrid", Sizes(layers=1, input_feeding=False, biases=False)),
    ("multitask", Sizes(layers=1)),
    ("lexical", Sizes(layers=1)),
    ("lexicon", Sizes(layers=1)),
    ("two-sources", Sizes(layers=1, hidden=2)),
    ("attention", Sizes(score="general", window="local-p", layers=1)),
    *[("attention-step", Sizes(score=score)) for score in SCORES],
    *[("attention-step", Sizes(score=score, window=window))
      for score in CONTENT for window in ("local-m", "local-p")],
    *[(name, Sizes(layers=1)) for name in (
        "layer-norm", "scale-norm", "rms-norm", "attention-head", "multihead", "smoothing",
        "transformer", "transformer-postnorm", "countdown")],
    ("lstm-norm", Sizes()), ("residual", Sizes()),
    *[(name, Sizes(biases=biases)) for name in ("gru", "gru-context", "gru-after")
      for biases in (True, False)],
]
LISTED = {"verified", "partial", "same", "share", "zero"}


class Remembered(Runs):
    """Runs whose losses are computed once for a step of an entry of a variable: a mistake in the
    backward does not change them."""

    def __init__(self, runs):
        super().__init__(runs.forward, runs.arguments, runs.loss, runs.named)
        self.known = {}

    def losses(self, bumps, steps):
        keys = [(bump.places, bump.entries.tobytes(), np.asarray(step).tobytes())
                for bump, step in zip(bumps, steps, strict=True)]
        new = {key: i for i, key in enumerate(keys) if key not in self.known}
        self.known |= zip(new, super().losses([bumps[i] for i in new.values()],
                                              [steps[i] for i in new.values()]), strict=True)
        return [self.known[key] for key in keys]


@cache
def traced(name, sizes):
    """A derivation's run, and its losses."""
    run = DERIVATIONS[name].run(sizes=sizes)
    return run, Remembered(run.runs(run.forward))


@cache
def verified(name, sizes):
    """The run, and all verifications; several tests look at them."""
    run, runs = traced(name, sizes)
    return run, verify(run.derivation.pairing, run.backward, runs)


def gradients_assigned(run):
    """The places where the backward assigns a number to a name that begins with d; d is a width."""
    return {(step.number, i) for step in run.backward.steps if step.kind == "assign"
            for i, target in enumerate(step.targets)
            if re.match("d.", root_of(target.name)) and target.shape is not None}


def carried(run, origin):
    """Whether a target is an entry of a container put back under its own name, as it was."""
    target = run.backward.target(origin)
    return target.same_as is not None and run.backward.target(
        target.same_as).name == target.name


@pytest.mark.parametrize("name, sizes", MODELS, ids=lambda value: str(value).removeprefix("Sizes"))
def test_every_gradient_is_verified(name, sizes):
    run, verifications = verified(name, sizes)
    by_place = {(check.step, check.target): check for check in verifications}
    missed = gradients_assigned(run) - set(by_place)
    assert all(carried(run, origin) for origin in missed)
    assert not [(check.name, check.line) for check in verifications if check.status not in LISTED]
    compared = [verification for verification in verifications if verification.status == "verified"]
    assert len(compared) > len(verifications) / 2
    for verification in compared:
        assert verification.error <= TOLERANCE == 1e-10
        assert verification.checked == verification.analytic.size == np.prod(verification.shape)
        np.testing.assert_allclose(verification.complex_step, verification.analytic, rtol=1e-10,
                                   atol=1e-10 * np.abs(verification.analytic).max(initial=0.0))
        np.testing.assert_allclose(verification.central, verification.analytic, rtol=1e-5,
                                   atol=1e-8)


@pytest.mark.parametrize("name, sizes", MODELS[:8], ids=lambda value: str(value))
def test_parts_lead_to_what_is_verified(name, sizes):
    """What is listed as a part, or as the same array, ends at a gradient that is verified."""
    run, verifications = verified(name, sizes)
    by_place = {(check.step, check.target): check for check in verifications}
    for verification in by_place.values():
        last = verification
        while last.status in ("partial", "same") or (last.status == "zero" and last.other):
            last = by_place[last.other]
        if last.status == "zero":  # zeros made by a helper for somebody else's sum
            assert not np.any(run.backward.target((last.step, last.target)).value)
        elif last.status == "share":
            assert "added to each in turn" in last.reason
        else:
            assert last.status == "verified"


def test_verifications_of_the_lstm():
    """The pairs one would write by hand."""
    run, verifications = verified("lstm", Sizes())
    verifications = [check for check in verifications if check.loops == (("t", 2),)]
    pairs = {(check.function, check.name): check.forward for check in verifications
             if check.status == "verified"}
    expected = {"do": "o", "df": "f", "di": "i", "dh_hat": "h_hat", "du": "u", "da": "a",
                "dc": "c", "dc_prev": "c_prev", "dh_prev": "h_prev", "dx": "x", "dT": "T",
                "dT_x": "T", "dT_h": "T"}
    assert {name: pairs["lstm_grad", name] for name in expected} == expected
    assert pairs["predict_grad", "ds"] == "s" and pairs["backward", "dh[2]"] == "h[2]"
    assert pairs["backward", "dc[1]"] == "c[1]" and ("backward", "dh[1]") not in pairs
    dc = next(check for check in verifications
              if (check.function, check.name) == ("lstm_grad", "dc"))
    partner = run.forward.steps[dc.partner.step]
    assert (partner.function, partner.equations, partner.loops) == ("lstm", ("2.36",), (("t", 2),))


def test_a_sum_over_time_is_verified_at_each_stage():
    run, verifications = verified("lstm", Sizes())
    stages = [check for check in verifications
              if (check.function, check.name) == ("backward", "dT")
              and check.status == "verified"]
    assert [verification.loops for verification in stages] == [(("t", t),) for t in (4, 3, 2, 1)]
    sizes = [np.abs(verification.complex_step).sum() for verification in stages]
    assert len(set(sizes)) == 4
    np.testing.assert_array_equal(stages[-1].analytic, run.backward.result[0]["T"])


# --- wrong backward passes ----------------------------------------------------------------------


@pytest.mark.parametrize("name", [
    name for name, derivation in DERIVATIONS.items() if derivation.breaks])
def test_breaks_are_found_where_they_arise(name):
    run, runs = traced(name, Sizes() if (name, Sizes()) in MODELS else Sizes(layers=1))
    given = run.derivation.given(run.example, run.forward.result)
    for mistake in run.derivation.breaks:
        backward = record(run.backward.program.edited(mistake.edits), given, {})
        wrong = [check for check in verify(run.derivation.pairing, backward, runs, central=False)
                 if check.status == "wrong"]
        assert wrong, mistake.name
        (function, ((_, new),)), = mistake.edits.items()
        first = wrong[0]
        if function in ("softmax_grad", "embed_grad"):  # they return: who assigns it?
            assert f"{function}(" in first.text, mistake.name
        elif new.endswith(":"):  # Algorithm 4 line 4: the first thing the wrong branch saves
            assert (first.function, root_of(first.name)) == (function, "saved"), mistake.name
        else:
            where = [step.line for step in backward.steps
                     if step.function == function and new.strip() in step.text + step.comment]
            lines = range(min(where), max(where) + 1) if where else ()
            assert first.function == function and first.line in lines, (mistake.name, str(first))


def test_the_printed_sign_of_ds():
    """Erratum 1: everything is wrong from ds of the last time step on, by a factor of -1."""
    run = DERIVATIONS["rnn"].run(edits=DERIVATIONS["rnn"].broken("sign of ds as printed"))
    verifications = [check for check in run.verifications()
                     if check.status in ("verified", "wrong")]
    right = [verification for verification in verifications if verification.status == "verified"]
    assert all(not verification.analytic.any() for verification in right)
    wrong = [verification for verification in verifications if verification.status == "wrong"]
    assert wrong[0].name == "ds" and wrong[0].loops == (("t", 4),)
    for verification in wrong:
        np.testing.assert_allclose(verification.analytic, -verification.complex_step,
                                   rtol=1e-9, atol=1e-14)


def test_the_printed_assignment_of_dT():
    """Algorithm 2 lines 14 and 15 print <-: right at t = T, wrong from the second iteration on."""
    run = DERIVATIONS["lstm"].run(edits=DERIVATIONS["lstm"].broken("dT as printed"))
    verifications = run.verifications(central=False)
    wrong = [(check.name, check.loops) for check in verifications if check.status == "wrong"]
    assert wrong == [("dT", (("t", t),)) for t in (3, 2, 1)] + [("gradients['T']", ())]
    assert any(check.name == "dT" and check.loops == (("t", 4),) and check.status == "verified"
               and check.function == "backward" for check in verifications)


def test_where_the_model_is_nearly_certain_rounding_is_no_mistake() -> None:
    """Weights ten times as large: p - 1_y and the softmax's backward lose digits by cancellation,
    so that gradients of 1e-14 have few."""
    derivation = DERIVATIONS["attention"]
    example = derivation.run().example
    arguments = ({name: 10 * W for name, W in example.arguments[0].items()}, *example.arguments[1:])
    forward = trace(derivation.forward, *arguments, follow=derivation.follow, **example.named)
    backward = trace(derivation.backward, *arguments, forward.result[1], follow=derivation.follow)
    runs = Runs(forward, arguments, lambda result, _: result[0], example.named)
    checks = verify(derivation.pairing, backward, runs, central=False, most=3)
    assert not [check for check in checks if check.status == "wrong"]
    assert [check for check in checks if check.error is not None and relative_error(
        np.ravel(check.analytic)[~np.isnan(np.ravel(check.complex_step))],
        np.ravel(check.complex_step)[~np.isnan(np.ravel(check.complex_step))]) > TOLERANCE]


def decided(x):
    y = 2.0 * x
    return (y * (2.0 if y[0] > 3.0 else 1.0)).sum()


def test_few_lanes_that_decide_otherwise_cost_few_runs(monkeypatch):
    """One step of 64 is large; with 64 single runs a window of attention took 13 s of a page."""
    x, steps, runs, run = np.zeros(64), np.full(64, 1e-6), [], Replay.run
    monkeypatch.setattr(Replay, "run", lambda *given: runs.append(given) or run(*given))
    steps[0] = 4.0
    forward = trace(decided, x)
    bump = Bumps(assigned(forward, (1, 0)), x.shape, np.arange(64))
    losses, = Runs(forward, (x,), lambda result, _: result, {}).losses([bump], [steps])
    np.testing.assert_allclose(losses, [8.0, *steps[1:]])
    assert 1 < len(runs) < 16
