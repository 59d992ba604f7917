"""The lexical module: its requirements, and the effect of its parts. The catalogue checks its
gradients."""

from __future__ import annotations

import numpy as np
import pytest
from literal import draw

from grads.derivations.lexical import predict_both
from nmt.models.heads.lexical import hidden, lexical_step
from nmt.models.hybrid_config import HybridConfig
from nmt.models.translator import ModelConfig


def test_two_biases_are_one():
    """Erratum 33: the derivatives with respect to b^o and b^l are equal, to the last digit."""
    rng, step = np.random.default_rng(3), 1e-30
    h, h_l, W_o, W_l = (draw(rng, shape) for shape in ((2, 1), (3, 1), (5, 2), (5, 3)))
    biases = {"b_o": draw(rng, (5, 1)), "b_l": draw(rng, (5, 1))}

    def derivative(name, k):
        moved = {bias: b + 1j * step * (bias == name) * np.eye(5)[:, [k]]
                 for bias, b in biases.items()}
        return predict_both(1, h, h_l, W_o, W_l, moved["b_o"] + moved["b_l"])[0].imag / step

    derivatives = [[derivative(name, k) for k in range(5)] for name in biases]
    assert derivatives[0] == derivatives[1] and np.abs(derivatives[0]).min() > 0


def test_one_word_attended_to_is_that_word_s_own_vector():
    """If a_t is one-hot, f_t = tanh(f_s). With fixnorm, all h^l have the given length."""
    rng = np.random.default_rng(4)
    words, W, W_l = draw(rng, (1, 3, 2)), draw(rng, (2, 2)), draw(rng, (4, 2))
    f, _, h = hidden(words, np.eye(3)[None, :2], W)
    np.testing.assert_allclose(f, np.tanh(words[:, :2]), rtol=1e-15)
    np.testing.assert_allclose(h, np.tanh(f @ W.T) + f, rtol=1e-14)
    parameters = {"lexical.W": W, "output.W_l": W_l}
    logits = lexical_step("lexical", parameters, words, np.eye(3)[:2], 2.0)
    expected = 2.0 * h[0] / np.linalg.norm(h[0], axis=1, keepdims=True)
    np.testing.assert_allclose(logits, expected @ W_l.T, rtol=1e-12)


@pytest.mark.parametrize("config, options, message", [
    (ModelConfig, {"attention": "none"}, "lexical: expected false where attention is 'none'"),
    (HybridConfig, {}, "lexical: expected false in a hybrid model, got true")])
def test_what_it_needs(config, options, message):
    with pytest.raises(ValueError, match=message):
        config(lexical=True, **options)
