"""The whole translation model with every score, global and local: loss and all gradients."""

from __future__ import annotations

import numpy as np
import pytest

from grads.check import check_gradients
from grads.derivations import local
from grads.derivations.attention import attentional_nmt_backward, attentional_nmt_forward
from grads.derivations.attention_step import PREFIX
from grads.derivations.scores import CONTENT, SCORES, Variant, weight_shapes
from grads.verification.mutation.injection import replaced

V, E, H, A, P, L_MAX = 5, 3, 2, 4, 3, 3
X, Y = [2, 4, 2, 3], [3, 2]
VARIANTS = [
    *(Variant(score) for score in SCORES), *(Variant(score, "local-m", 1) for score in CONTENT),
    *(Variant(score, "local-p", 1) for score in CONTENT),
    Variant("dot", "local-m", 1, reverse=True),
    Variant("general", "local-p", 1, reverse=True, renormalise=True)]
WEIGHTS = {score: weight_shapes(score, H, A, L_MAX) for score in SCORES}


def parameters_of(variant, L=1, feeding=True, seed=6):
    shapes = {"encoder.W_e": (V, E), "decoder.W_e": (V, E), "output.W_hy": (V, H)}
    for l in range(L):
        below = H if l else E
        shapes[f"encoder.{l}.W"] = (4 * H, below + H)
        shapes[f"decoder.{l}.W"] = (4 * H, below + (H if feeding and not l else 0) + H)
    shapes[f"{PREFIX}W_c"] = (H, 2 * H)
    shapes |= {PREFIX + name: shape for name, shape in WEIGHTS[variant.score].items()}
    if variant.window == "local-p":
        shapes |= {f"{PREFIX}W_p": (P, H), f"{PREFIX}v_p": (P,)}
    rng = np.random.default_rng(seed)
    return {name: rng.normal(scale=0.8, size=shape) for name, shape in shapes.items()}


def report(variant, parameters, x=X, y=Y, **extent):
    def run(p):
        return attentional_nmt_forward(p, x, y, variant=variant)

    gradients, _, _ = attentional_nmt_backward(parameters, x, y, run(parameters)[1])
    return check_gradients(lambda p: run(p)[0], parameters, gradients, **extent), gradients


def distance_to_an_edge(parameters, trace):
    """How far every p_t of a run is from an integer."""
    W_p, v_p = parameters[f"{PREFIX}W_p"], parameters[f"{PREFIX}v_p"][:, None]
    states = trace.states
    top = max(states.c[1])
    p = [local.predict_position(states.h[t][top], W_p, v_p, len(trace.g) - 1).item()
         for t in trace.p]
    return min(min(place % 1, -place % 1) for place in p)


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: "-".join(map(str, variant)))
@pytest.mark.parametrize("feeding", [False, True])
def test_gradients(variant, feeding):
    parameters = parameters_of(variant, 1, feeding)
    if variant.window == "local-p":
        _, trace = attentional_nmt_forward(parameters, X, Y, variant=variant)
        assert distance_to_an_edge(parameters, trace) > 1e-3  # inside a piece
    result, gradients = report(variant, parameters, together=True)
    result.raise_if_wrong()
    assert gradients.keys() == parameters.keys()
    assert all(np.abs(d).max() > 1e-6 for d in gradients.values())


@pytest.mark.parametrize("variant", [Variant("concat"), Variant("additive", "local-m", 1)])
def test_two_layers(variant):
    report(variant, parameters_of(variant, 2), together=True)[0].raise_if_wrong()


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: "-".join(map(str, variant)))
def test_one_word_and_no_target(variant):
    result, gradients = report(variant, parameters_of(variant), X[:1], [], together=True)
    result.raise_if_wrong()
    for name in WEIGHTS[variant.score]:
        assert variant.score == "location" or not gradients[PREFIX + name].any()


def test_local_m_reads_the_time_step():
    """At step t the window is around word t: words 1 and 2, 1 to 3, 2 to 4 of the source."""
    variant = Variant("dot", "local-m", 1)
    _, trace = attentional_nmt_forward(parameters_of(variant), X, Y, variant=variant)
    for t, words in ((1, [1, 2]), (2, [1, 2, 3]), (3, [2, 3, 4])):
        np.testing.assert_array_equal(np.flatnonzero(trace.states.a[t]) + 1, words)


def test_a_gradient_of_the_last_step_only_is_caught():
    variant, path = Variant("additive"), "grads.derivations.attention.decode_grad"
    with replaced(path, "dw[name] + dw_t[name]", "dw_t[name]"):
        result, _ = report(variant, parameters_of(variant), diagnosis=0)
    assert {row.name for row in result.wrong} == {PREFIX + name for name in ("W_a", "U_a", "v_a")}
