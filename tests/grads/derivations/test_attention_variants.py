"""The whole translation model with every score, global and local: loss and all gradients."""

from __future__ import annotations

import numpy as np
import pytest

from grads.check import check_gradients
from grads.derivations.attention import attentional_nmt_backward, attentional_nmt_forward
from grads.derivations.attention_step import PREFIX
from grads.derivations.scores import CONTENT, SCORES, Variant, weight_shapes

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
