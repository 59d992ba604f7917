"""Combinations of choices: all valid ones, and a few that have every pair."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from grads.verification.variants import name_of, pairwise, valid
from nmt.models.registry import MODELS
from nmt.models.variants import Variants

CHOICES = Variants({"a": (1, 2, 3), "b": (True, False), "c": ("x", "y")})


def refuses(a, b, c):
    if a == 3 and b:
        raise ValueError("a")


def pairs(options):
    return set(combinations(options.items(), 2))


def test_valid_is_the_product_without_what_is_refused():
    combinations = valid(refuses, CHOICES)
    assert len(combinations) == 10 and combinations[0] == {"a": 1, "b": True, "c": "x"}
    assert all(not (options["a"] == 3 and options["b"]) for options in combinations)


def test_pairwise_holds_every_pair_in_few():
    combinations = pairwise(refuses, CHOICES)
    assert set.union(*map(pairs, combinations)) == set.union(*map(pairs, valid(refuses, CHOICES)))
    assert len(combinations) <= 7


def test_one_choice_or_none():
    assert pairwise(lambda a: None, Variants({"a": (1, 2)})) == [{"a": 1}, {"a": 2}]
    assert pairwise(lambda: None, Variants({})) == [{}]


def test_all_combinations_of_what_goes_together():
    combinations = pairwise(refuses, CHOICES._replace(together=("a", "b", "c")))
    assert len(combinations) == 10
    combinations = pairwise(refuses, CHOICES._replace(together=("b", "c")))
    assert {(options["b"], options["c"])
            for options in combinations} == set(product((True, False), "xy"))


@pytest.mark.parametrize("architecture", MODELS)
@pytest.mark.parametrize("tier", ["tiny", "real"])
def test_the_catalogue_holds_every_pair(architecture, tier):
    """Compared with the full product, however large."""
    model, variants = MODELS[architecture], MODELS[architecture].variants()[tier]
    covered = set.union(*map(pairs, pairwise(model.config, variants)))
    choices = list(variants.choices.items())
    rows = np.indices([len(values) for _, values in choices]).reshape(len(choices), -1)
    suspects = np.zeros(rows.shape[1], dtype=bool)  # combinations with a pair that is not covered
    for (i, (a, x)), (j, (b, y)) in combinations(enumerate(choices), 2):
        for k, m in product(range(len(x)), range(len(y))):
            if ((a, x[k]), (b, y[m])) not in covered:
                suspects |= (rows[i] == k) & (rows[j] == m)
    for row in rows[:, suspects].T:
        options = {name: values[k] for (name, values), k in zip(choices, row, strict=True)}
        assert refused(model.config, options), options


def refused(config, options):
    """Whether a configuration refuses these options."""
    try:
        config(**options)
    except ValueError:
        return True
    return False


def test_names_tell_what_is_not_usual():
    assert name_of({"a": 1, "b": True, "c": "x"}, CHOICES) == "as usual"
    assert name_of({"a": 3, "b": False, "c": "y"}, CHOICES) == "a 3, no b, c y"
    flags = Variants({"bias_of_it": (False, True), "clip": (None, 1e6), "rate": (0.3, 0.0)})
    assert name_of({"bias_of_it": True, "clip": 1e6, "rate": 0.0}, flags) == (
        "bias of it, clip 1e+06, rate 0")
