"""Scores and global alignment: gradients, scalar loops, and short and long sentences."""

from __future__ import annotations

from math import exp, sqrt, tanh

import numpy as np
import pytest

from grads.check import check_pair
from grads.derivations import scores
from grads.derivations.attention_step import attend, attend_grad, parameters_of, weights_of
from grads.derivations.scores import Variant

H, HE, A, L_MAX = 3, 4, 2, 4  # all different, so that a transposed product shows
WEIGHTS = {  # vectors as columns
    score: {name: shape if len(shape) == 2 else (*shape, 1)
            for name, shape in scores.weight_shapes(score, H, A, L_MAX, HE).items()}
    for score in scores.SCORES}


def states(kind, S, seed=1):
    """h and h_bar, of one width for a score without weights."""
    rng, He = np.random.default_rng(seed), HE if WEIGHTS[kind] else H
    return {"h": rng.normal(size=(H, 1)), "h_bar": rng.normal(size=(He, S))}


def weights(kind, seed=2):
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=shape) for name, shape in WEIGHTS[kind].items()}


def check_step(kind, S, **how):
    """The whole step, from h_t, states, W_c and the score's weights to h~_t and a_t's effect."""
    inputs = {**states(kind, S), **weights(kind)}
    inputs["W_c"] = np.random.default_rng(3).normal(size=(2, len(inputs["h_bar"]) + H))
    variant = Variant(kind)

    def run(a):
        w = {name: a[name] for name in WEIGHTS[kind]}
        return attend(variant, a["h"], a["h_bar"], a["W_c"], w)[0], (a, w)

    def vjp(d, cache):
        a, w = cache
        dh, dh_bar, dW_c, dw = attend_grad(variant, d, a["h"], a["h_bar"], a["W_c"], w)
        return {"h": dh, "h_bar": dh_bar, **dw, "W_c": dW_c}

    return check_pair(run, vjp, inputs, **how)


# --- gradients ----------------------------------------------------------------------------------


@pytest.mark.parametrize("S", [2, 4, 6])
def test_align_location(S):
    """Shorter than L_max, as long, longer."""
    variant, h_bar = Variant("location"), states("location", S)["h_bar"]

    def run(h, W_a):
        return scores.align_global(variant, h, h_bar, {"W_a": W_a}), (h, W_a)

    def vjp(da, cache):
        dh, dh_bar, dw = scores.align_global_grad(variant, da, cache[0], h_bar, {"W_a": cache[1]})
        assert not dh_bar.any()
        return dh, dw["W_a"]

    inputs = [states("location", S)["h"], weights("location")["W_a"]]
    check_pair(run, vjp, inputs, vanish=False).raise_if_wrong()


@pytest.mark.parametrize("S", [1, 3, 6])
@pytest.mark.parametrize("kind", scores.SCORES)
def test_step(kind, S):
    """With one source state the softmax is 1, and the score's weights have no gradient."""
    result = check_step(kind, S, vanish=S == 1)
    result.raise_if_wrong()
    if S == 1:
        exact = {row.name for row in result.rows if row.analytic == 0.0}
        assert exact == (set() if kind == "location" else set(WEIGHTS[kind]))


# --- values -------------------------------------------------------------------------------------


def by_loops(kind, h, h_bar, w):
    """e_s, number by number."""
    def row(name, i, vector):
        return sum(w[name][i, j] * vector[j] for j in range(len(vector)))

    scores_by_loops, h = [], h[:, 0]
    for s in range(h_bar.shape[1]):
        x = h_bar[:, s]
        if kind in ("dot", "scaled-dot"):
            size = sqrt(H) if kind == "scaled-dot" else 1.0
            scores_by_loops.append(sum(h[i] * x[i] for i in range(H)) / size)
        elif kind == "general":
            scores_by_loops.append(sum(h[i] * row("W_a", i, x) for i in range(H)))
        else:
            u = {"concat": lambda i, x=x: row("W_a", i, [*h, *x]),
                 "concat-identity": lambda i, x=x: row("W_a", i, h) + x[i],
                 "additive": lambda i, x=x: row("W_a", i, h) + row("U_a", i, x)}[kind]
            scores_by_loops.append(sum(w["v_a"][i, 0] * tanh(u(i)) for i in range(len(w["v_a"]))))
    return scores_by_loops


@pytest.mark.parametrize("kind", scores.CONTENT)
def test_by_scalar_loops(kind):
    h, h_bar = states(kind, 3).values()
    w = weights(kind)
    e = by_loops(kind, h, h_bar, w)
    np.testing.assert_allclose(scores.score(kind, h, h_bar, w)[:, 0], e, rtol=1e-13)
    a = [exp(e_i) / sum(map(exp, e)) for e_i in e]
    np.testing.assert_allclose(scores.align_global(Variant(kind), h, h_bar, w)[:, 0], a, rtol=1e-13)


def test_concat_identity_is_concat_with_an_identity_block():
    """Footnote 14: W_a = [W_a I]."""
    h, h_bar = states("concat", 3).values()
    w = weights("concat-identity")
    with_identity = {**w, "W_a": np.hstack([w["W_a"], np.eye(HE)])}
    np.testing.assert_allclose(scores.score("concat-identity", h, h_bar, w),
                               scores.score("concat", h, h_bar, with_identity), rtol=1e-13)


def test_location_is_the_top_part_of_one_softmax():
    """Erratum 7: the end of a long source has no weight; the weights of a short source are not
    renormalised."""
    h, h_bar = states("location", 6).values()
    w = weights("location")
    e = [sum(w["W_a"][s, j] * h[j, 0] for j in range(H)) for s in range(L_MAX)]
    expected = [exp(e_i) / sum(map(exp, e)) for e_i in e] + [0.0] * (6 - L_MAX)
    for S in (1, 2, L_MAX, 6):
        a = scores.align_global(Variant("location"), h, h_bar[:, :S], w)[:, 0]
        np.testing.assert_allclose(a, expected[:S], rtol=1e-13)


def test_location_has_gradients_for_rows_that_are_cut_off():
    """They affect the softmax's divisor."""
    h, h_bar = states("location", 2).values()
    _, _, dw = scores.align_global_grad(Variant("location"), np.array([[1.0], [2.0]]), h, h_bar,
                                        weights("location"))
    assert dw["W_a"].any(axis=1).all()


def test_parameters_by_name():
    """Vectors of a model are columns of an equation, and back."""
    rng = np.random.default_rng(5)
    shapes = {"attention.W_a": (A, H), "attention.U_a": (A, HE), "attention.v_a": (A,),
              "attention.W_p": (5, H), "attention.v_p": (5,), "attention.W_c": (2, H + HE)}
    parameters = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    w = weights_of(parameters)
    assert {name: weight.shape for name, weight in w.items()} == {
        "W_a": (A, H), "U_a": (A, HE), "v_a": (A, 1), "W_p": (5, H), "v_p": (5, 1)}
    back = parameters_of(w)
    assert back.keys() == parameters.keys() - {"attention.W_c"}
    for name in back:
        np.testing.assert_array_equal(back[name], parameters[name])


@pytest.mark.parametrize("variant, message", [
    (Variant("cosine"), "score: expected one of dot, .*, got 'cosine'"),
    (Variant("dot", "local"), "window: expected one of global, local-m, local-p, got 'local'"),
])


def test_a_variant_that_there_is_not(variant, message):
    h, h_bar = states("dot", 3).values()
    W_c = np.ones((2, 2 * H))
    with pytest.raises(ValueError, match=message):
        attend(variant, h, h_bar, W_c, {})
    with pytest.raises(ValueError, match=message):
        attend_grad(variant, np.ones((2, 1)), h, h_bar, W_c, {})
