"""Local attention: windows, gradients inside a piece, the jump at its edge, scalar loops."""

from __future__ import annotations

from math import exp, tanh

import numpy as np
import pytest

from grads.check import check_pair
from grads.check.kinks import find_kink
from grads.derivations import local, scores
from grads.derivations.attention_step import align, align_grad, attend, attend_grad
from grads.derivations.scores import Variant
from grads.verification.mutation.injection import replaced

H, HE, A, P = 3, 4, 2, 5
WEIGHTS = {  # vectors as columns
    score: {name: shape if len(shape) == 2 else (*shape, 1)
            for name, shape in scores.weight_shapes(score, H, A, 0, HE).items()}
    for score in scores.CONTENT}
POSITION = {"W_p": (P, H), "v_p": (P, 1)}


def inputs_of(variant, S, seed=1):
    """h, h_bar, W_c and the weights of a variant."""
    He = HE if WEIGHTS[variant.score] else H
    shapes = {"h": (H, 1), "h_bar": (He, S), **WEIGHTS[variant.score], "W_c": (2, He + H)}
    shapes |= POSITION if variant.window == "local-p" else {}
    rng = np.random.default_rng(seed)
    return {name: rng.normal(scale=0.7, size=shape) for name, shape in shapes.items()}


def position(inputs, S):
    """p_t as a number."""
    return local.predict_position(inputs["h"], inputs["W_p"], inputs["v_p"], S).item()


def weights_in(variant, a):
    return {name: a[name] for name in [*WEIGHTS[variant.score], *POSITION] if name in a}


def check_step(variant, S, t=1, seed=1, **how):
    """Check the whole step: h~_t, and a_t through its own backward."""
    inputs = inputs_of(variant, S, seed)

    def run(a):
        w = weights_in(variant, a)
        h_tilde, weights, _ = attend(variant, a["h"], a["h_bar"], a["W_c"], w, t)
        return {"h_tilde": h_tilde, "a": weights}, (a, w)

    def vjp(d, cache):
        a, w = cache
        dh, dh_bar, dW_c, dw = attend_grad(
            variant, d["h_tilde"], a["h"], a["h_bar"], a["W_c"], w, t)
        dh_a, dh_bar_a, dw_a = align_grad(variant, d["a"], a["h"], a["h_bar"], w, t)
        return {"h": dh + dh_a, "h_bar": dh_bar + dh_bar_a, "W_c": dW_c,
                **{name: dw[name] + dw_a[name] for name in dw}}

    return check_pair(run, vjp, inputs, **how)


# --- windows ------------------------------------------------------------------------------------


@pytest.mark.parametrize("p, D, expected", [
    (3, 1, [2, 3, 4]), (3.5, 1, [2, 3, 4]), (0.2, 2, [0, 1, 2]), (5.9, 1, [4, 5]),
    (6.0, 2, [3, 4, 5]), (8, 1, [4, 5]), (3.0, 9, [0, 1, 2, 3, 4, 5]),
])


def test_window_is_the_2_D_and_1_words_around_its_position(p, D, expected):
    s = local.positions(6)
    M = local.window(p, D, s)
    np.testing.assert_array_equal((s.T @ M)[0], expected)


# --- gradients ----------------------------------------------------------------------------------


@pytest.mark.parametrize("score", scores.CONTENT)
@pytest.mark.parametrize("t", [1, 3, 5, 9])
def test_local_m(score, t):
    """Both ends of a sentence of 5 words, its middle, and a step after its end."""
    check_step(Variant(score, "local-m", 2), 5, t, vanish=False).raise_if_wrong()


@pytest.mark.parametrize("score", scores.CONTENT)
@pytest.mark.parametrize("renormalise", [False, True])
def test_local_p(score, renormalise):
    variant = Variant(score, "local-p", 2, renormalise=renormalise)
    inputs = inputs_of(variant, 6)
    p = position(inputs, 6)
    assert min(p % 1, -p % 1) > 0.05  # far enough from an integer for differences
    assert 0 < local.window(p, 2, local.positions(6)).shape[1] < 6
    check_step(variant, 6, vanish=False).raise_if_wrong()


@pytest.mark.parametrize("window", ["local-m", "local-p"])
@pytest.mark.parametrize("score", scores.CONTENT)
def test_a_single_word(score, window):
    """A softmax over one state is 1; local-p's Gaussian still has a gradient."""
    result = check_step(Variant(score, window, 1), 1)
    result.raise_if_wrong()
    still = {row.name for row in result.rows if row.analytic == 0.0}
    assert still == set(WEIGHTS[score])


@pytest.mark.parametrize("window", ["local-m", "local-p"])
def test_a_window_as_wide_as_the_sentence(window):
    check_step(Variant("general", window, 5), 4, vanish=False).raise_if_wrong()


def test_a_dropped_term_of_renormalised_weights_is_caught():
    """The catalogue's derivations do not renormalise."""
    path = "grads.derivations.local.align_renormalised_grad"
    with replaced(path, " - da.T @ b / b.sum()", ""):
        result = check_step(Variant("general", "local-p", 2, renormalise=True), 6, diagnosis=0)
    assert {row.name for row in result.wrong if row.upstream == "all"} == {
        "h", "h_bar", "W_a", "W_p", "v_p"}


# --- the edge of a piece ------------------------------------------------------------------------


def at_integer(variant, S, k):
    """Inputs whose p_t is the integer k: v_p is scaled until it is."""
    inputs = inputs_of(variant, S)
    logit = np.log(k / (S - k))
    now = (inputs["v_p"].T @ np.tanh(inputs["W_p"] @ inputs["h"])).item()
    inputs["v_p"] = inputs["v_p"] * (logit / now)
    return inputs


def test_the_jump_at_an_edge_of_the_window():
    """Where p_t passes k, the state k - D - 1 leaves as k + D enters: with align * e^-2."""
    variant, S, k, D = Variant("general", "local-p", 1), 6, 4, 1
    inputs, sides = at_integer(variant, S, k), {}
    for factor in (1 - 1e-9, 1 + 1e-9):
        scaled = {**inputs, "v_p": inputs["v_p"] * factor}
        beyond = position(scaled, S) - k
        assert 1e-10 < abs(beyond) < 1e-8
        sides[beyond > 0] = align(
            variant, scaled["h"], scaled["h_bar"], weights_in(variant, scaled))[:, 0]
    e = scores.general_score(inputs["h"], inputs["h_bar"], inputs["W_a"])[:, 0]
    for beyond, first, edge in ((False, k - D - 1, k - D - 1), (True, k - D, k + D)):
        words, a = list(range(first, first + 2 * D + 1)), sides[beyond]
        weight = exp(e[edge]) / sum(exp(e[s]) for s in words)
        np.testing.assert_array_equal(np.flatnonzero(a), words)
        np.testing.assert_allclose(a[edge], weight * exp(-2 * (edge - k) ** 2 / D**2), rtol=1e-6)
    assert np.abs(sides[True] - sides[False]).max() > 0.01


def test_the_checker_finds_the_jump():
    variant, S = Variant("general", "local-p", 1), 6
    inputs = at_integer(variant, S, 4)

    def run(a):
        return {"a": align(variant, a["h"], a["h_bar"], weights_in(variant, a))}

    upstream = {"a": np.arange(1.0, S + 1)[:, None]}
    kink = find_kink(run, inputs, upstream, "v_p", 0)
    assert kink is not None and kink.kind == "jump" and abs(kink.size) > 0.05
    inside = {**inputs, "v_p": inputs["v_p"] * 0.5}
    assert find_kink(run, inside, upstream, "v_p", 0) is None


# --- values -------------------------------------------------------------------------------------


@pytest.mark.parametrize("renormalise", [False, True])
def test_local_p_by_scalar_loops(renormalise):
    S, D = 6, 2
    variant = Variant("general", "local-p", D, renormalise=renormalise)
    inputs = inputs_of(variant, S)
    h, h_bar, W_a, W_p, v_p = (inputs[k] for k in ("h", "h_bar", "W_a", "W_p", "v_p"))
    k = sum(v_p[i, 0] * tanh(sum(W_p[i, j] * h[j, 0] for j in range(H))) for i in range(P))
    p = S / (1 + exp(-k))
    near = [s for s in range(S) if int(p) - D <= s <= int(p) + D]
    e = {s: sum(h[i, 0] * W_a[i, j] * h_bar[j, s] for i in range(H) for j in range(HE))
         for s in near}
    a = {s: exp(e[s]) / sum(map(exp, e.values())) * exp(-((s - p) ** 2) / (2 * (D / 2) ** 2))
         for s in near}
    total = sum(a.values()) if renormalise else 1.0
    expected = [a.get(s, 0.0) / total for s in range(S)]
    weights = align(variant, h, h_bar, weights_in(variant, inputs))[:, 0]
    np.testing.assert_allclose(weights, expected, rtol=1e-12)
    assert (abs(weights.sum() - 1) < 1e-12) == renormalise  # erratum 8


@pytest.mark.parametrize("t", [1, 3, 5, 7])
def test_local_m_is_global_attention_of_its_window(t):
    """A sentence cut to the window, and weights that sum to one."""
    variant, S, D = Variant("concat", "local-m", 2), 5, 2
    inputs = inputs_of(variant, S)
    w = weights_in(variant, inputs)
    a = align(variant, inputs["h"], inputs["h_bar"], w, t)
    p = min(t, S)
    first, last = max(p - D, 1), min(p + D, S)
    h_bar = inputs["h_bar"][:, first - 1 : last]
    inside = scores.align_global(Variant("concat"), inputs["h"], h_bar, w)
    np.testing.assert_allclose(a[first - 1 : last], inside, rtol=1e-13)
    assert not a[: first - 1].any() and not a[last:].any()


def test_after_the_source_the_window_is_around_the_last_word():
    """p_t = min(t, S)."""
    variant = Variant("general", "local-m", 1)
    inputs = inputs_of(variant, 4)
    arguments = variant, inputs["h"], inputs["h_bar"], weights_in(variant, inputs)
    np.testing.assert_array_equal(align(*arguments, 9), align(*arguments, 4))
    assert np.abs(align(*arguments, 4) - align(*arguments, 3)).max() > 0.01


@pytest.mark.parametrize("variant, message", [
    (Variant("location", "local-m"), "score: expected one of dot, .* in a window, got 'location'"),
    (Variant("location", "local-p"), "score: expected one of dot, .* in a window, got 'location'"),
    (Variant("dot", "local-m", 0), "D: expected at least 1, got 0"),
    (Variant("dot", "local-p", 0), "D: expected at least 1, got 0"),
])


def test_variants_that_contradict_themselves(variant, message):
    inputs = inputs_of(variant._replace(score="dot"), 3)
    with pytest.raises(ValueError, match=message):
        align(variant, inputs["h"], inputs["h_bar"], {**inputs, "W_a": np.ones((3, H))})
