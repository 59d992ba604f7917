"""The three schemes against sorted lists, and invalid arguments."""

import math

import numpy as np
import pytest

from nmt.pruning.schemes import SCHEMES, masks

CLASSES = {"a.W": "a", "b.W": "b", "c.U": "c", "c.V": "c"}
SIZES = {"a": 60, "b": 35, "c": 26}


def parameters(dtype="float32"):
    """Four matrices of three classes, of very different size."""
    rng = np.random.default_rng(5)
    return {"a.W": rng.normal(0, 1, (6, 10)).astype(dtype),
            "b.W": rng.normal(3, 0.2, (5, 7)).astype(dtype),
            "c.U": rng.normal(0, 0.1, (3, 2)).astype(dtype),
            "c.V": rng.normal(0, 0.1, (4, 5)).astype(dtype),
            "a.b": np.zeros(6, dtype)}  # in no class


def kept_by_class(kept):
    return {class_name: sum(int(kept[name].sum()) for name in CLASSES
                            if CLASSES[name] == class_name)
            for class_name in SIZES}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("percent", [0, 0.4, 10, 33.3, 50, 80, 99, 99.9])
def test_exactly_the_percentage_goes(scheme, percent):
    kept = masks(parameters(), CLASSES, percent, scheme)
    assert list(kept) == list(CLASSES)
    assert all(mask.dtype == bool and mask.shape == parameters()[name].shape
               for name, mask in kept.items())
    assert sum(int((~mask).sum()) for mask in kept.values()) == round(percent * 121 / 100)


def test_class_blind_prunes_the_smallest_of_all():
    """They are the first of the sorted list of all weights."""
    weights = parameters()
    everything = sorted(abs(w) for name in CLASSES for w in weights[name].reshape(-1))
    kept = masks(weights, CLASSES, 60, "class-blind")
    threshold = everything[round(0.6 * 121) - 1]
    for name, mask in kept.items():
        np.testing.assert_array_equal(mask, abs(weights[name]) > threshold)
    assert kept_by_class(kept)["b"] == 35 and kept_by_class(kept)["c"] == 0


def test_class_uniform_prunes_the_smallest_of_each_class():
    weights = parameters()
    kept = masks(weights, CLASSES, 30, "class-uniform")
    for class_name, size in SIZES.items():
        names = [name for name in CLASSES if CLASSES[name] == class_name]
        joined = sorted(abs(w) for name in names for w in weights[name].reshape(-1))
        pruned = size - kept_by_class(kept)[class_name]
        assert abs(pruned - 0.3 * size) <= 0.5
        for name in names:
            np.testing.assert_array_equal(kept[name], abs(weights[name]) > joined[pruned - 1])


def test_class_distribution_has_one_lambda():
    """Pruned weights are below lambda sigma_c, and others are not; sigma is about the mean."""
    weights = parameters()
    kept = masks(weights, CLASSES, 40, "class-distribution")
    scores = {}
    for class_name in SIZES:
        values = [float(w) for name in CLASSES if CLASSES[name] == class_name
                  for w in weights[name].reshape(-1)]
        mean = math.fsum(values) / len(values)
        sigma = math.sqrt(math.fsum((w - mean) ** 2 for w in values) / len(values))
        scores |= {name: abs(weights[name]) / sigma for name in CLASSES
                   if CLASSES[name] == class_name}
    gone = max(scores[name][~kept[name]].max(initial=0.0) for name in CLASSES)
    stays = min(scores[name][kept[name]].min(initial=np.inf) for name in CLASSES)
    assert gone < stays
    assert kept_by_class(kept)["b"] == 35  # its mean, 3, is 15 standard deviations


@pytest.mark.parametrize("scheme", SCHEMES)
def test_of_equal_weights_the_first_go(scheme):
    kept = masks({"W": np.ones((2, 3)), "V": np.ones(2)}, {"W": "x", "V": "x"}, 50, scheme)
    assert kept["W"].tolist() == [[False, False, False], [False, True, True]]
    assert kept["V"].tolist() == [True, True]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_was_pruned_before_stays_pruned(scheme):
    """Even if another scheme, or weights that have grown since, would not prune it."""
    weights = parameters()
    first = masks(weights, CLASSES, 50, "class-blind")
    again = masks(weights, CLASSES, 80, scheme, before=first)
    assert not any((again[name] & ~first[name]).any() for name in CLASSES)
    assert sum(int((~mask).sum()) for mask in again.values()) == round(0.8 * 121)
    same = masks(weights, CLASSES, 50, scheme, before=first)
    assert all((same[name] == first[name]).all() for name in CLASSES)
    with pytest.raises(ValueError, match=r"percent: expected at least 49.59, which have been "
                                         r"pruned before, got 20"):
        masks(weights, CLASSES, 20, scheme, before=first)


def test_an_unknown_scheme_is_named():
    with pytest.raises(ValueError, match=r"scheme: expected one of class-blind, .*, got 'blind'"):
        masks(parameters(), CLASSES, 10, "blind")
