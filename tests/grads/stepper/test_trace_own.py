"""Verifications of a user's own pair, and what is shown of a verification."""

from __future__ import annotations

import time

import numpy as np
import pytest

from backend.errors import UserError
from grads.derivations.examples import Sizes
from grads.stepper.trace import trace
from grads.stepper.tracing.derivations import DERIVATIONS, find
from grads.stepper.tracing.pairing import Pairing
from grads.stepper.tracing.replay import Runs
from grads.stepper.tracing.verify import verify

LISTED = {"verified", "partial", "same", "share", "zero"}


# --- a user's own pair --------------------------------------------------------------------------


def energy(x, W):
    h = np.tanh(W @ x)
    if h[0] > 0:
        y = h * h
    else:
        y = 2 * h
    return y.sum(), h


def energy_grad(x, W, h):
    dy = np.ones_like(h)
    dh = dy * (2 * h if h[0] > 0 else 2)
    dq = (1 - h**2) * dh
    dx = W.T @ dq
    return dx


PAIR = Pairing({"energy_grad": "energy"})


def verified(pairing=PAIR, edits=None, function=energy, back=energy_grad):
    rng = np.random.default_rng(3)
    arguments = rng.normal(size=3), rng.normal(size=(2, 3))
    forward = trace(function, *arguments)
    backward = trace(back, *arguments, forward.result[1], edits=edits)
    runs = Runs(forward, arguments, lambda result, _: result[0], {})
    return {check.name: check for check in verify(pairing, backward, runs)}


def test_a_users_own_pair():
    checks = verified()
    assert {name: verification.status for name, verification in checks.items()} == {
        "dy": "verified", "dh": "verified", "dq": "unpaired", "dx": "verified"}
    assert "list it in the pairs" in checks["dq"].reason
    listed = verified(Pairing({"energy_grad": "energy"}, {}, {"energy_grad.dq": "not named above"}))
    assert listed["dq"].status == "share" and listed["dq"].reason == "not named above"
    wrong = verified(edits={"energy_grad": [("1 - h**2", "1 - h")]})
    assert [name for name, check in wrong.items() if check.status == "wrong"] == ["dx"]
    assert np.isnan(verified(edits={"energy_grad": [("W.T", "np.nan * W.T")]})["dx"].error)
    assert verified(edits={"energy_grad": [("W.T", "np.nan * W.T")]})["dx"].status == "wrong"


def in_place(x, W):
    h = np.zeros(len(W))
    for k in range(len(W)):
        h[k] = np.tanh(W[k] @ x)
    return h.sum(), h


def in_place_grad(x, W, h):
    dx = W.T @ (1 - h**2)
    return dx


def test_a_forward_that_writes_into_real_arrays():
    with pytest.raises(UserError, match="in_place cannot be run with complex numbers"):
        verified(Pairing({"in_place_grad": "in_place"}), None, in_place, in_place_grad)


# --- what a page shows --------------------------------------------------------------------------


def test_some_entries_of_large_gradients():
    run = DERIVATIONS["lstm"].run(sizes=Sizes(hidden=20), keep=50)
    verifications = [check for check in run.verifications(most=6) if check.status == "verified"]
    assert not [check for check in run.verifications(most=6)
                if check.status in ("wrong", "unpaired")]
    dT = next(verification for verification in verifications if verification.name == "dT")
    assert dT.shape == (80, 22) and dT.analytic.shape == (7, 7) and dT.checked == 6
    assert np.isfinite(dT.complex_step).sum() == 6 and np.isfinite(dT.central).sum() == 6
    wrong = DERIVATIONS["lstm"].run(sizes=Sizes(hidden=20), keep=50,
                                    edits=DERIVATIONS["lstm"].broken("dc not carried"))
    assert any(check.status == "wrong" for check in wrong.verifications(most=6, central=False))


@pytest.mark.parametrize("sentence, name, message", [
    ("  ", "lstm", "sentence: expected at least one word"),
    ("only source", "nmt", "expected a source and its translation around"),
    ("||| target", "attention", "source: expected at least one word"),
    ("words", "gru", "reads no sentence"),
])
def test_bad_sentences(sentence, name, message):
    with pytest.raises(UserError, match=message):
        DERIVATIONS[name].run(sentence)


def test_bad_names_and_sizes():
    with pytest.raises(UserError, match="no derivation is called 'lsmt': did you mean 'lstm'"):
        find("lsmt")
    with pytest.raises(UserError, match="did you mean 'dc not carried'"):
        find("lstm").broken("dc not caried")
    with pytest.raises(UserError, match="hidden: expected 1 or more, got 0"):
        Sizes(hidden=0)
    with pytest.raises(UserError, match="score: expected one of dot, scaled-dot, general"):
        Sizes(score="cosine")
    assert find("lstm") is DERIVATIONS["lstm"]


def test_speed():
    """Generous bounds of CPU time; a quiet machine takes a tenth of them."""
    for name, limit in (("lstm", 2.0), ("attention", 6.0)):
        start = time.process_time()
        assert DERIVATIONS[name].run().verifications()
        assert time.process_time() - start < limit


def test_renamed_gradients_are_known_where_they_are_kept_in_part():
    """`by_name` makes a vector of a column: the same numbers, sliced alike."""
    run = DERIVATIONS["nmt"].run(sizes=Sizes(hidden=20), keep=50)
    verifications = run.verifications(False, most=1)
    renamed = [check for check in verifications if check.name == "saved['decoder.0.b']"]
    assert [verification.status for verification in renamed] == ["same"]
    assert {verification.status for verification in verifications} <= LISTED
