"""Every intermediate gradient of every derivation is proved; wrong ones are found where they arise.

The tracer's own claims are held against a count of the assignments it should have made claims on.
"""

from __future__ import annotations

import numpy as np
import pytest

from grads.derivations.scores import CONTENT, SCORES
from grads.stepper.tracing.derivations import DERIVATIONS
from grads.stepper.tracing.examples import Sizes
from grads.stepper.tracing.pairing import root_of
from grads.stepper.tracing.prove import TOLERANCE

MODELS = [
    *[(name, Sizes(biases=biases)) for name in ("rnn", "lstm", "nmt", "rnnsearch")
      for biases in (True, False)],
    ("nmt", Sizes(layers=1, hidden=2, embedding=3)),
    *[("attention", Sizes(score=score, input_feeding=feeding, biases=biases))
      for score, feeding, biases in [("dot", True, True), ("general", True, False),
                                     ("dot", False, False), ("general", False, True)]],
    ("attention", Sizes(score="additive", layers=1)),
    ("attention", Sizes(score="general", window="local-p", layers=1)),
    *[("attention-step", Sizes(score=score)) for score in SCORES],
    *[("attention-step", Sizes(score=score, window=window))
      for score in CONTENT for window in ("local-m", "local-p")],
    *[(name, Sizes(biases=biases)) for name in ("gru", "gru-context") for biases in (True, False)],
]
LISTED = {"proved", "partial", "same", "share", "zero"}


def gradients_assigned(run):
    """The places where the backward assigns a number to a name that begins with d."""
    return {(step.number, i) for step in run.backward.steps if step.kind == "assign"
            for i, target in enumerate(step.targets)
            if root_of(target.name).startswith("d") and target.shape is not None}


def carried(run, origin):
    """Whether a target is an entry of a container put back under its own name, as it was."""
    target = run.backward.target(origin)
    return target.same_as is not None and run.backward.target(
        target.same_as).name == target.name


@pytest.mark.parametrize("name, sizes", MODELS, ids=lambda value: str(value).removeprefix("Sizes"))
def test_every_gradient_is_proved(name, sizes):
    run = DERIVATIONS[name].run(sizes=sizes)
    proofs = run.proofs()
    found = {(proof.step, proof.target): proof for proof in proofs}
    missed = gradients_assigned(run) - set(found)
    assert all(carried(run, origin) for origin in missed)
    assert not [str(proof) for proof in proofs if proof.status not in LISTED]
    proved = [proof for proof in proofs if proof.status == "proved"]
    assert len(proved) > len(proofs) / 2
    for proof in proved:
        assert proof.error <= TOLERANCE == 1e-10
        assert proof.checked == proof.analytic.size == np.prod(proof.shape)
        np.testing.assert_allclose(proof.complex_step, proof.analytic, rtol=1e-10,
                                   atol=1e-10 * np.abs(proof.analytic).max())
        np.testing.assert_allclose(proof.central, proof.analytic, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("name, sizes", MODELS[:8], ids=lambda value: str(value))
def test_parts_lead_to_what_is_proved(name, sizes):
    """What is listed as a part, or as the same array, ends at a gradient that is proved."""
    run = DERIVATIONS[name].run(sizes=sizes)
    found = {(proof.step, proof.target): proof for proof in run.proofs(central=False)}
    for proof in found.values():
        last = proof
        while last.status in ("partial", "same") or (last.status == "zero" and last.other):
            last = found[last.other]
        if last.status == "zero":  # zeros made by a helper for somebody else's sum
            assert not np.any(run.backward.target((last.step, last.target)).value)
        elif last.status == "share":
            assert "added to each in turn" in last.reason
        else:
            assert last.status == "proved"


def test_proofs_of_the_lstm():
    """The pairs one would write by hand."""
    run = DERIVATIONS["lstm"].run()
    proofs = [proof for proof in run.proofs() if proof.loops == (("t", 2),)]
    pairs = {(proof.function, proof.name): proof.forward for proof in proofs
             if proof.status == "proved"}
    expected = {"do": "o", "df": "f", "di": "i", "dh_hat": "h_hat", "du": "u", "da": "a",
                "dc": "c", "dc_prev": "c_prev", "dh_prev": "h_prev", "dx": "x", "dT": "T",
                "dT_x": "T", "dT_h": "T"}
    assert {name: pairs["lstm_grad", name] for name in expected} == expected
    assert pairs["predict_grad", "ds"] == "s" and pairs["backward", "dh[2]"] == "h[2]"
    assert pairs["backward", "dc[1]"] == "c[1]" and ("backward", "dh[1]") not in pairs
    dc = next(proof for proof in proofs if (proof.function, proof.name) == ("lstm_grad", "dc"))
    partner = run.forward.steps[dc.forward_step]
    assert (partner.function, partner.equations, partner.loops) == ("lstm", ("2.36",), (("t", 2),))


def test_a_sum_over_time_is_proved_at_each_stage():
    run = DERIVATIONS["lstm"].run()
    stages = [proof for proof in run.proofs() if (proof.function, proof.name) == ("backward", "dT")
              and proof.status == "proved"]
    assert [proof.loops for proof in stages] == [(("t", t),) for t in (4, 3, 2, 1)]
    sizes = [np.abs(proof.complex_step).sum() for proof in stages]
    assert len(set(sizes)) == 4
    np.testing.assert_array_equal(stages[-1].analytic, run.backward.result[0]["T"])


# --- wrong backward passes ----------------------------------------------------------------------


@pytest.mark.parametrize("name, number", [
    (name, number) for name, derivation in DERIVATIONS.items()
    for number in range(len(derivation.breaks))])
def test_breaks_are_found_where_they_arise(name, number):
    derivation = DERIVATIONS[name]
    one = derivation.breaks[number]
    run = derivation.run(edits=one.edits)
    wrong = [proof for proof in run.proofs(central=False) if proof.status == "wrong"]
    assert wrong, one.name
    (function, ((_, new),)), = one.edits.items()
    first = wrong[0]
    if function in ("softmax_grad", "embed_grad"):  # they return: who assigns what they return?
        assert f"{function}(" in first.text
    elif new.endswith(":"):  # Algorithm 4 line 4: the first thing the wrong branch saves
        assert (first.function, root_of(first.name)) == (function, "saved")
    else:
        where = [step.line for step in run.backward.steps
                 if step.function == function and new.strip() in step.text + step.comment]
        lines = range(min(where), max(where) + 1) if where else ()
        assert first.function == function and first.line in lines, str(first)


def test_the_printed_sign_of_ds():
    """Erratum 1: everything is wrong from ds of the last time step on, by a factor of -1."""
    run = DERIVATIONS["rnn"].run(edits=DERIVATIONS["rnn"].broken("sign of ds as printed"))
    proofs = [proof for proof in run.proofs() if proof.status in ("proved", "wrong")]
    right = [proof for proof in proofs if proof.status == "proved"]
    assert all(not proof.analytic.any() for proof in right)
    wrong = [proof for proof in proofs if proof.status == "wrong"]
    assert wrong[0].name == "ds" and wrong[0].loops == (("t", 4),)
    for proof in wrong:
        np.testing.assert_allclose(proof.analytic, -proof.complex_step, rtol=1e-9, atol=1e-14)


def test_the_printed_assignment_of_dT():
    """Algorithm 2 lines 14 and 15 print <-: right at t = T, wrong from the second turn on."""
    run = DERIVATIONS["lstm"].run(edits=DERIVATIONS["lstm"].broken("dT as printed"))
    proofs = run.proofs(central=False)
    wrong = [(proof.name, proof.loops) for proof in proofs if proof.status == "wrong"]
    assert wrong == [("dT", (("t", t),)) for t in (3, 2, 1)] + [("gradients['T']", ())]
    assert any(proof.name == "dT" and proof.loops == (("t", 4),) and proof.status == "proved"
               and proof.function == "backward" for proof in proofs)
