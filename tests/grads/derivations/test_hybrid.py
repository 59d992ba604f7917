"""The hybrid model: all gradients of both paths, and the properties that chapter 5 gives its
parts."""

from __future__ import annotations

import numpy as np
import pytest

from grads.check import check_gradients
from grads.derivations import hybrid, hybrid_example
from grads.derivations.attention import attentional_nmt_backward, attentional_nmt_forward
from grads.derivations.examples import Request, Sizes, draw

V_S, V_T, C_S, C_T = 4, 5, 6, 5
SIZES = Sizes(hidden=2, embedding=3)
USUAL = ([4, 2, 5, 4, 3], [2, 0, 0, 3], [[2, 3, 2], [5]], {2: [3, 2], 3: [4]})  # one twice
CASES = {
    "a word twice": USUAL,
    "no rare word": ([3, 2], [2, 4], [], {}),
    "source only": ([4, 2], [2, 4], [[2, 3]], {}),
    "target only": ([3, 2], [2, 0], [], {2: [3, 2, 4]}),
    "one letter": ([2, 4], [0, 3], [[5]], {1: [2]}),
    "rare words only": ([4, 5], [0, 0], [[2, 3], [3, 2]], {1: [2, 3], 2: [2, 3]}),
    "nothing to predict": ([4], [], [[2, 3]], {}),
}
PATHS = {"separate": True, "same": False}


def parameters_of(path="separate", sizes=SIZES, seed=3):
    shapes = hybrid_example.hybrid_shapes([V_S, V_T], [C_S, C_T], sizes, PATHS[path])
    return draw(np.random.default_rng(seed), shapes)


def run(parameters, case=USUAL, **options):
    J, trace = hybrid.hybrid_forward(parameters, *case, **options)
    return J, hybrid.hybrid_backward(parameters, *case, trace), trace


def report(path="separate", case=USUAL, sizes=SIZES, **extent):
    parameters = parameters_of(path, sizes)
    options = {"alpha": 0.7, "variant": sizes.variant}
    _, gradients, _ = run(parameters, case, **options)
    return check_gradients(lambda p: hybrid.hybrid_forward(p, *case, **options)[0], parameters,
                           gradients, **extent), gradients


# --- gradients ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("path", PATHS)
def test_gradients(path, name):
    x, _, rare, spellings = CASES[name]
    result, gradients = report(path, CASES[name], together=True)
    result.raise_if_wrong()
    still = {name for name, gradient in gradients.items() if not gradient.any()}
    unused = {parameter for side, words in (("source", rare), ("target", spellings)) if not words
              for parameter in gradients if parameter.startswith(side)}
    only_rare = {"encoder.W_e"} if min(x) >= V_S else set()
    alone = {"attention.W_a"} if len(x) == 1 else set()  # one word has all the weight
    assert still == unused | only_rare | alone


def test_backward_is_analytic():
    """Complex step through the backward gives a Hessian, and u^T H v = v^T H u."""
    parameters, rng = parameters_of(), np.random.default_rng(9)
    u, v = ({k: rng.normal(size=p.shape) for k, p in parameters.items()} for _ in range(2))

    def curvature(left, right):
        moved = {k: p + 1e-30j * right[k] for k, p in parameters.items()}
        return sum((left[k] * d.imag).sum() for k, d in run(moved)[1].items()) / 1e-30

    np.testing.assert_allclose(curvature(u, v), curvature(v, u), rtol=1e-11)
    assert abs(curvature(u, v)) > 1e-3


# --- what the chapter says ----------------------------------------------------------------------


@pytest.mark.parametrize("path", PATHS)
def test_a_rare_word_is_one_type(path):
    """One row read twice, or two words of the same characters: the same loss and gradients."""
    parameters = parameters_of(path)
    _, y, rare, spellings = USUAL
    once = run(parameters)
    twice = run(parameters, ([4, 2, 5, 6, 3], y, [*rare, rare[0]], spellings))
    assert once[0] == pytest.approx(twice[0], rel=1e-14)
    for name, gradient in once[1].items():
        np.testing.assert_allclose(gradient, twice[1][name], rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("path", PATHS)
def test_alpha_weighs_the_characters(path):
    """Eq. 5.5: loss and gradients are linear in alpha; without J_c they are the word model's."""
    parameters = parameters_of(path)
    runs = [run(parameters, alpha=alpha) for alpha in (0.0, 1.0, 3.0)]
    assert runs[2][0] - runs[0][0] == pytest.approx(3 * (runs[1][0] - runs[0][0]), rel=1e-12)
    for name, gradient in runs[2][1].items():
        words, both = (gradients[1][name] for gradients in runs[:2])
        np.testing.assert_allclose(gradient, words + 3 * (both - words), rtol=1e-9, atol=1e-12)
    W = runs[0][2].W
    of_words = hybrid.of_words(parameters, W)
    J, trace = attentional_nmt_forward(of_words, *USUAL[:2])
    gradients, _, _ = attentional_nmt_backward(of_words, *USUAL[:2], trace)
    assert runs[0][0] == J
    for name in set(gradients) - {"encoder.W_e"}:
        np.testing.assert_array_equal(runs[0][1][name], gradients[name])


def test_where_a_spelling_starts():
    """h~_t in the same path, Eq. 5.6 in the separate one; all else is zero."""
    for path in PATHS:
        parameters = parameters_of(path)
        _, _, trace = run(parameters)
        for t, spelled in trace.spelled.items():
            words = trace.words.states
            joined = [*words.context[t][:, 0], *words.h[t][2][:, 0]]
            W = parameters.get("target_characters.W_c")
            expected = words.h_tilde[t][:, 0] if W is None else [
                np.tanh(sum(W[i, j] * joined[j] for j in range(4))) for i in range(2)]
            np.testing.assert_allclose(spelled.h[0][1][:, 0], expected, rtol=1e-14)
            assert not any(state.any() for state in (spelled.h[0][2], *spelled.c[0].values()))


def test_the_vector_of_a_word():
    """It is the top layer's hidden state after the boundary, starting from zero, whatever the other
    words are."""
    parameters = parameters_of()
    _, _, trace = run(parameters)
    _, _, other_trace = run(parameters, ([2, 4], [3], [USUAL[2][0]], {}))
    np.testing.assert_array_equal(trace.W[:V_S], parameters["encoder.W_e"])
    np.testing.assert_array_equal(trace.W[V_S], other_trace.W[V_S])
    assert len(trace.g[1]) == 1 + len(USUAL[2][0]) + 1  # zero, characters, boundary
    np.testing.assert_array_equal(trace.W[V_S], trace.g[1][4][2][:, 0])
    _, gradients, _ = run(parameters)
    np.testing.assert_array_equal(gradients["encoder.W_e"][0], 0)  # <unk> is read nowhere
    assert gradients["decoder.W_e"][0].any()  # it is fed back "as is"


# --- the example --------------------------------------------------------------------------------


def example(sentence=None, path=True):
    return hybrid_example.hybrid_example(
        path, Request(sentence, SIZES, np.random.default_rng(1)))


def test_example():
    parameters, x, y, rare, spellings = example().arguments
    assert x == [2, 3, 3] and y == [2, 0] and rare == [[2, 3]] and spellings == {2: [2, 3]}
    assert "target_characters.W_c" in parameters
    assert "target_characters.W_c" not in example(path=False).arguments[0]


@pytest.mark.parametrize("sentence, x, y", [
    ("the cat ||| das Kätzchen", [3, 2], [2, 0]),  # nothing marked: the longest of each side
    ("the cat* ||| das* Kätzchen", [2, 3], [0, 2]),
    ("cat* cat* ||| das*", [2, 2], [0]),
])


def test_marked_words(sentence, x, y):
    request = example(sentence)
    assert request.arguments[1:3] == (x, y)
    hybrid.hybrid_forward(*request.arguments, **request.named)
