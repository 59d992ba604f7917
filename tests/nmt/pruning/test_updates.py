"""A pruned model after updates of every optimizer: what is pruned is exactly zero."""

import numpy as np
import pytest

from backend.rows import RowGradient
from grads.verification.cases import draw_model
from grads.verification.shapes import SHAPES
from nmt.models.parametrization import Masked, Parametrized
from nmt.models.registry import MODELS
from nmt.pruning.classes import classes
from nmt.pruning.schemes import masks
from nmt.training.optimizers import gradient_scale
from nmt.training.options import OPTIMIZERS


def pruned(architecture, shape="ragged"):
    """A tiny model of an architecture with 60 % of its weights pruned; its parameters; a batch."""
    variants = MODELS[architecture].variants()["tiny"]
    options = {name: values[0] for name, values in variants.choices.items()}
    made = draw_model(MODELS[architecture], options, SHAPES[shape], np.random.default_rng(4))
    found = masks(made.parameters, classes(made.model.weights()), 60, "class-blind")
    model = Parametrized(made.model, {name: Masked(mask) for name, mask in found.items()})
    stored = {name: np.where(found[name], array, 0.0) if name in found else array.copy()
              for name, array in made.parameters.items()}
    return model, stored, made.batch, found


def dense(gradient):
    return gradient.dense() if isinstance(gradient, RowGradient) else gradient


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("architecture", MODELS)
def test_what_is_pruned_stays_exactly_zero(architecture, optimizer):
    """After four updates, clipped, with rows of tables; and so are the optimizer's averages."""
    model, stored, batch, found = pruned(architecture)
    first = {name: array.copy() for name, array in stored.items()}
    update = OPTIMIZERS[optimizer](0.1)
    for _ in range(4):
        gradients = model.backward(model.loss(stored, batch)[1])
        update.update(stored, gradients, gradient_scale(gradients, 3, 0.5)[0])
    states, moved, kept = update.state_arrays(), 0, 0
    for name, mask in found.items():
        assert not stored[name][~mask].any()
        moved += int((stored[name] != first[name])[mask].sum())
        kept += int(mask.sum())
        for kind in update.state_names:
            assert not states[f"{kind}/{name}"][~mask].any()
    assert moved > kept / 2  # words of no sentence do not move


@pytest.mark.parametrize("architecture", MODELS)
def test_the_norm_is_that_of_what_is_left(architecture):
    """Gradients, and so their norm, are the plain model's with the pruned entries taken out."""
    model, stored, batch, found = pruned(architecture)
    gradients = model.backward(model.loss(stored, batch)[1])
    whole = model.model.backward(model.model.loss(stored, batch)[1])
    total = 0.0
    for name, gradient in whole.items():
        left = dense(gradient) * found[name] if name in found else dense(gradient)
        np.testing.assert_array_equal(dense(gradients[name]), left)
        total += float((left**2).sum())
    norm = float(gradient_scale(gradients, 1, None)[1])
    assert norm == pytest.approx(total**0.5, rel=1e-12)
    unmasked = float(gradient_scale(whole, 1, None)[1])
    assert norm < 0.99 * unmasked


def test_fresh_weights_are_masked_and_otherwise_as_without_a_mask():
    model, _, _, found = pruned("luong")
    plain = model.model.initial_parameters(np.random.default_rng(2))
    fresh = model.initial_parameters(np.random.default_rng(2))
    for name, array in fresh.items():
        expected = np.where(found[name], plain[name], 0) if name in found else plain[name]
        np.testing.assert_array_equal(array, expected)
        assert array.dtype == np.float32
