"""RNNsearch: all gradients, both readings of erratum 18."""

from __future__ import annotations

import numpy as np
import pytest

from grads.check import check_gradients, check_pair
from grads.derivations import deep_output, rnnsearch
from grads.derivations.gru import ContextUnit, Unit
from grads.verification.mutation.injection import replaced

V_S, V_T, E, H, A, M = 5, 6, 3, 2, 4, 3
X, Y = [2, 4, 2], [3, 2, 3]  # words are read twice
PAIRS = [(X, Y), (X, []), (X[:1], Y), (X[:1], [])]
ALL_AT_ONCE, BY_NAME = {"together": True}, {"diagnosis": 0}  # a check's extent; the second is slow


def shapes_of(biases):
    wide = {"W": E, "U": H, "C": 2 * H}
    shapes = {"encoder.W_e": (V_S, E), "decoder.W_e": (V_T, E), "bridge.W_s": (H, H)}
    for prefix, fields in ((rnnsearch.FORWARD, Unit._fields), (rnnsearch.BACKWARD, Unit._fields),
                           (rnnsearch.DECODER, ContextUnit._fields)):
        shapes |= {f"{prefix}.{name}": (H,) if name[0] == "b" else (H, wide[name[0]])
                   for name in fields if biases or name[0] != "b"}
    shapes |= {"attention.W_a": (A, H), "attention.U_a": (A, 2 * H), "attention.v_a": (A,),
               "output.W_o": (V_T, M), "output.U_o": (2 * M, H), "output.V_o": (2 * M, E),
               "output.C_o": (2 * M, 2 * H)}
    if biases:
        shapes |= {"bridge.b": (H,), "output.b_t": (2 * M,), "output.b": (V_T,)}
    return shapes


def parameters_of(biases=True, seed=4):
    rng = np.random.default_rng(seed)
    return {name: rng.normal(scale=0.7, size=shape) for name, shape in shapes_of(biases).items()}


def report(x=X, y=Y, biases=True, extent=ALL_AT_ONCE, **options):
    parameters = parameters_of(biases)
    _, trace = rnnsearch.forward(parameters, x, y, **options)
    gradients = rnnsearch.backward(parameters, x, y, trace)
    return check_gradients(
        lambda p: rnnsearch.forward(p, x, y, **options)[0], parameters, gradients,
        **extent), gradients


# --- gradients ----------------------------------------------------------------------------------


@pytest.mark.parametrize("x, y", PAIRS)
@pytest.mark.parametrize("deep_state", rnnsearch.DEEP_STATES)
def test_gradients(x, y, deep_state):
    result, gradients = report(x, y, deep_state=deep_state)
    result.raise_if_wrong()
    still = {name for name, gradient in gradients.items() if not gradient.any()}
    expected = {"attention.W_a", "attention.U_a", "attention.v_a"} if len(x) == 1 else set()
    if len(x) == 1:  # states before the first are zero, and so is what they are multiplied by
        expected |= {f"{prefix}.{name}" for prefix in (rnnsearch.FORWARD, rnnsearch.BACKWARD)
                     for name in ("U", "U_z", "U_r", "W_r", "b_r")}
    if not y and deep_state == "before":  # no prediction depends on s_1
        expected |= {f"{rnnsearch.DECODER}.{name}" for name in ContextUnit._fields}
    assert still == expected


@pytest.mark.parametrize("deep_state", rnnsearch.DEEP_STATES)
def test_without_biases(deep_state):
    result, gradients = report(biases=False, deep_state=deep_state)
    result.raise_if_wrong()
    assert all(np.abs(gradient).max() > 1e-5 for gradient in gradients.values())


def test_a_score_that_reads_the_last_word_too():
    parameters = parameters_of() | {
        "attention.W_a": np.random.default_rng(5).normal(scale=0.7, size=(A, H + E))}
    _, trace = rnnsearch.forward(parameters, X, Y, query="state-word")
    gradients = rnnsearch.backward(parameters, X, Y, trace)
    check_gradients(lambda p: rnnsearch.forward(p, X, Y, query="state-word")[0], parameters,
                    gradients, **ALL_AT_ONCE).raise_if_wrong()
    assert (np.abs(gradients["attention.W_a"]).max(axis=0) > 1e-5).all()  # each of s and of y
    wordless = parameters | {"attention.W_a": parameters["attention.W_a"][:, :H]}
    without = parameters | {"attention.W_a": parameters["attention.W_a"] * ([1] * H + [0] * E)}
    assert rnnsearch.forward(without, X, Y, query="state-word")[0] == pytest.approx(
        rnnsearch.forward(wordless, X, Y)[0], rel=1e-14)


def test_backward_is_analytic():
    """Complex step through the backward gives a Hessian, and u^T H v = v^T H u."""
    parameters = parameters_of()
    rng = np.random.default_rng(9)
    u, v = ({k: rng.normal(size=p.shape) for k, p in parameters.items()} for _ in range(2))

    def curvature(left, right):
        moved = {k: p + 1e-30j * right[k] for k, p in parameters.items()}
        gradients = rnnsearch.backward(moved, X, Y, rnnsearch.forward(moved, X, Y)[1])
        return sum((left[k] * d.imag).sum() for k, d in gradients.items()) / 1e-30

    np.testing.assert_allclose(curvature(u, v), curvature(v, u), rtol=1e-12)
    assert abs(curvature(u, v)) > 1e-3


# --- deep output --------------------------------------------------------------------------------


def test_maxout():
    t_tilde = np.array([[1.0], [3.0], [5.0], [2.0], [-4.0], [-1.0]])
    np.testing.assert_array_equal(deep_output.maxout(t_tilde)[:, 0], [3, 5, -1])
    dt = np.array([[10.0], [20.0], [30.0]])
    np.testing.assert_array_equal(
        deep_output.maxout_grad(dt, t_tilde)[:, 0], [0, 10, 20, 0, 0, 30])


def test_maxout_gradient_and_its_kink():
    def run(t_tilde):
        return deep_output.maxout(t_tilde), t_tilde

    smooth = np.random.default_rng(1).normal(size=(2 * M, 1))
    result = check_pair(run, deep_output.maxout_grad, [smooth])
    result.raise_if_wrong()
    with replaced("grads.derivations.deep_output.maxout_grad",
                        "second.real, 0, dt)", "second.real, dt, dt)"):
        assert not check_pair(run, deep_output.maxout_grad, [smooth]).ok
    tied = np.array([[1.0], [1.0], [2.0], [0.0]])
    row = check_pair(run, deep_output.maxout_grad, [tied]).rows[0]
    assert row.status == "inconclusive" and row.inconclusive == 2


# --- what the paper leaves open -----------------------------------------------------------------


def test_erratum_18():
    """With s_{i-1} as printed, s_1 does not affect the first prediction; with s_i it does."""
    parameters = parameters_of()
    moved = {**parameters, "decoder.0.b": parameters["decoder.0.b"] + 1.0}
    for deep_state, is_same in (("before", True), ("now", False)):
        p, q = (rnnsearch.forward(values, X, Y, deep_state=deep_state)[1].p
                for values in (parameters, moved))
        assert np.array_equal(p[1], q[1]) == is_same
        assert not np.array_equal(p[2], q[2])
    assert rnnsearch.forward(parameters, X, Y)[0] == rnnsearch.forward(
        parameters, X, Y, deep_state="before")[0]


def test_erratum_19():
    """s_0 = tanh(W_s <-h_1), the backward encoder's last state: it has read all words."""
    parameters = parameters_of()
    _, trace = rnnsearch.forward(parameters, X, Y)
    expected = np.tanh(parameters["bridge.W_s"] @ trace.left[1] + parameters["bridge.b"][:, None])
    np.testing.assert_array_equal(trace.s[0], expected)
    np.testing.assert_array_equal(trace.h[H:, 0], trace.left[1][:, 0])
    np.testing.assert_array_equal(trace.h[:H, -1], trace.right[len(X)][:, 0])
    other_trace = rnnsearch.forward(parameters, [*X[:-1], 3], Y)[1]
    assert np.abs(other_trace.s[0] - trace.s[0]).max() > 1e-4


def test_unknown_deep_state():
    with pytest.raises(ValueError, match="deep_state: expected one of before, now, got 'after'"):
        rnnsearch.forward(parameters_of(), X, Y, deep_state="after")
    with pytest.raises(ValueError, match="query: expected one of state, state-word, got 'word'"):
        rnnsearch.forward(parameters_of(), X, Y, query="word")
