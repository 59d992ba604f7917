"""Algorithms 3-5 and the attentional model against complex step and against scalar loops."""

from __future__ import annotations

import numpy as np
import pytest

from grads.check import check_gradients
from grads.derivations import attention, nmt
from grads.derivations.attention_step import attend
from grads.derivations.scores import Variant

V_S, V_T, E, H = 5, 6, 3, 2
X, Y = [2, 4, 2], [3, 2, 3]
FORWARD = {"plain": nmt.forward, "attention": attention.attentional_nmt_forward}
BACKWARD = {"plain": nmt.backward, "attention": attention.attentional_nmt_backward}
TESTED = [(x, y, L) for x, y in [(X, Y), (X[:1], [])] for L in (1, 2)]  # S = 3, T = 4; S = T = 1
ALL_AT_ONCE, BY_NAME = {"together": True}, {"diagnosis": 0}  # a check's extent; the second is slow


def parameters_of(L, biases=True, attentional=False, score="general", input_feeding=True):
    """Random parameters under the kernels' names and shapes."""
    shapes = {"encoder.W_e": (V_S, E), "decoder.W_e": (V_T, E), "output.W_hy": (V_T, H)}
    for l in range(L):
        fed = H if attentional and input_feeding and l == 0 else 0
        shapes[f"encoder.{l}.W"] = (4 * H, (H if l else E) + H)
        shapes[f"decoder.{l}.W"] = (4 * H, (H if l else E) + fed + H)
        if biases:
            shapes |= {f"{side}.{l}.b": (4 * H,) for side in ("encoder", "decoder")}
    if biases:
        shapes["output.b"] = (V_T,)
    if attentional:
        shapes["attention.W_c"] = (H, 2 * H)
        if score == "general":
            shapes["attention.W_a"] = (H, H)
    rng = np.random.default_rng(4)
    return {name: rng.normal(scale=0.8, size=shape) for name, shape in shapes.items()}


def states_of(L):
    rng = np.random.default_rng(5)
    return {f"{kind}_0.{l}": rng.normal(size=(H, 1)) for kind in "hc" for l in range(1, L + 1)}


def split(values, L):
    """Parameters, h_0 and c_0 from the flat mapping that `check_gradients` varies."""
    h_0, c_0 = ({l: values[f"{kind}_0.{l}"] for l in range(1, L + 1)} for kind in "hc")
    return {k: v for k, v in values.items() if "_0." not in k}, h_0, c_0


def report(model, x, y, L, parameters, extent=ALL_AT_ONCE, **options):
    def run(values):
        weights, h_0, c_0 = split(values, L)
        return FORWARD[model](weights, x, y, h_0=h_0, c_0=c_0, **options)

    values = parameters | states_of(L)
    _, trace = run(values)
    gradients, dh_0, dc_0 = BACKWARD[model](parameters, x, y, trace)
    states = {f"h_0.{l}": d for l, d in dh_0.items()} | {f"c_0.{l}": d for l, d in dc_0.items()}
    gradients = gradients | states
    return check_gradients(lambda v: run(v)[0], values, gradients, **extent), gradients


@pytest.mark.parametrize("x, y, L", TESTED)
@pytest.mark.parametrize("biases", [False, True])
def test_algorithms_3_and_4(x, y, L, biases):
    result, gradients = report("plain", x, y, L, parameters_of(L, biases))
    result.raise_if_wrong()
    assert all(np.abs(d).max() > 1e-5 for d in gradients.values())


@pytest.mark.parametrize("x, y, L", TESTED)
@pytest.mark.parametrize("score", ["dot", "general"])
@pytest.mark.parametrize("input_feeding", [False, True])
def test_attentional_model(x, y, L, score, input_feeding):
    parameters = parameters_of(L, True, True, score, input_feeding)
    result, gradients = report("attention", x, y, L, parameters, variant=Variant(score))
    result.raise_if_wrong()
    if len(x) > 1:  # over a single source word a_t is 1 whatever the score
        assert all(np.abs(d).max() > 1e-5 for d in gradients.values())


@pytest.mark.parametrize("model", ["plain", "attention"])
def test_backward_is_analytic(model):
    """Complex step through the backward gives a Hessian, and u^T H v = v^T H u."""
    parameters = parameters_of(2, True, model == "attention")
    rng = np.random.default_rng(9)
    u, v = ({k: rng.normal(size=p.shape) for k, p in parameters.items()} for _ in range(2))

    def curvature(left, right):
        moved = {k: p + 1e-30j * right[k] for k, p in parameters.items()}
        gradients = BACKWARD[model](moved, X, Y, FORWARD[model](moved, X, Y)[1])[0]
        return sum((left[k] * d.imag).sum() for k, d in gradients.items()) / 1e-30

    np.testing.assert_allclose(curvature(u, v), curvature(v, u), rtol=1e-12)
    assert abs(curvature(u, v)) > 1e-3


def test_encoder_gets_no_loss_and_input_sequence_is_algorithm_3_line_1():
    J, trace = nmt.forward(parameters_of(2), X, Y)
    assert trace.s == dict(enumerate([*X, 1, *Y, 1], start=1))
    assert sorted(trace.p) == sorted(trace.l) == [4, 5, 6, 7]
    expected = -sum(np.log(trace.p[t][trace.s[t + 1], 0]) for t in trace.p)
    np.testing.assert_allclose(J, expected, rtol=1e-15)


def test_input_feeding_starts_from_zero_and_follows_the_embedding():
    parameters = parameters_of(1, True, True)
    _, trace = attention.attentional_nmt_forward(parameters, X, Y)
    for t, word in enumerate([1, *Y], start=1):
        fed = np.zeros(H) if t == 1 else trace.states.h_tilde[t - 1][:, 0]
        expected = np.append(parameters["decoder.W_e"][word], fed)
        np.testing.assert_array_equal(trace.states.h[t][0][:, 0], expected)


@pytest.mark.parametrize("score", ["dot", "general"])
def test_attention_step_by_scalar_loops(score):
    """Eqs. 4.5 and 4.7 summed element by element; He differs from H for general."""
    S, H_e = 4, 3 if score == "general" else 2
    rng = np.random.default_rng(6)
    h, h_bar = rng.normal(size=(2, 1)), rng.normal(size=(H_e, S))
    W_c = rng.normal(size=(2, H_e + 2))
    W_a = rng.normal(size=(2, H_e)) if score == "general" else None
    M = np.eye(2) if W_a is None else W_a
    e = [sum(h[i, 0] * M[i, j] * h_bar[j, s] for i in range(2) for j in range(H_e))
         for s in range(S)]
    a = [np.exp(v) / sum(np.exp(e)) for v in e]
    ch = [sum(a[s] * h_bar[j, s] for s in range(S)) for j in range(H_e)] + [h[0, 0], h[1, 0]]
    h_tilde = [np.tanh(sum(W_c[i, j] * ch[j] for j in range(H_e + 2))) for i in range(2)]
    w = {} if W_a is None else {"W_a": W_a}
    found_h, found_a, _ = attend(Variant(score), h, h_bar, W_c, w)
    np.testing.assert_allclose(found_a[:, 0], a, rtol=1e-13)
    np.testing.assert_allclose(found_h[:, 0], h_tilde, rtol=1e-13)


def test_single_source_word_gives_no_gradient_to_the_score():
    parameters = parameters_of(1, True, True)
    _, trace = attention.attentional_nmt_forward(parameters, [2], Y)
    gradients, _, _ = attention.attentional_nmt_backward(parameters, [2], Y, trace)
    np.testing.assert_array_equal(gradients["attention.W_a"], 0)
    assert np.abs(gradients["attention.W_c"]).max() > 1e-3


# --- Algorithm 5 --------------------------------------------------------------------------------


def favouring(*scores):
    """A model whose scores are always its output bias."""
    return {k: v * 0 for k, v in parameters_of(2).items()} | {"output.b": np.array(scores)}


def test_greedy_drops_the_end_marker():
    assert nmt.greedy(favouring(0.0, 9.0, 0.0, 0.0, 0.0, 0.0), X) == []


def test_greedy_reads_its_own_words():
    """Every chosen word is the most probable one given the words before it."""
    parameters = {k: 4 * v for k, v in parameters_of(2).items()}
    parameters["output.b"] = np.array([0.0, -99.0, 0.0, 0.0, 0.0, 0.0])  # no end marker
    words = nmt.greedy(parameters, X, 3.0)
    _, trace = nmt.forward(parameters, X, words)
    chosen = [int(trace.p[t].argmax()) for t in range(len(X) + 1, len(X) + len(words) + 1)]
    assert words == chosen and len(words) == 9 and len(set(words)) > 1


def test_greedy_stops_after_some_words():
    """A memory that grows with every word until the end marker wins: a, a, end."""
    parameters = {k: v * 0 for k, v in parameters_of(1).items()}
    parameters["decoder.0.b"] = np.repeat([9.0, 9.0, 9.0, 9.0], H)  # c grows by about 1 a step
    parameters["output.W_hy"][1] = 1.0  # s(end) = 2 tanh(t): 1.52, 1.93, 1.99
    parameters["output.b"][3] = 1.97
    assert nmt.greedy(parameters, [2] * 10) == [3, 3]


@pytest.mark.parametrize("alpha, length", [(1.5, 4), (1.0, 3), (2.0, 6)])
def test_greedy_stops_at_the_length_limit(alpha, length):
    """Three source words: at most floor(alpha * 3) words, none of which is dropped (erratum 6)."""
    assert nmt.greedy(favouring(0.0, 0.0, 0.0, 9.0, 0.0, 0.0), X, alpha) == [3] * length


def test_default_length_factor():
    assert len(nmt.greedy(favouring(0.0, 0.0, 0.0, 9.0, 0.0, 0.0), X)) == 4
