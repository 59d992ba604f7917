"""Combinations of choices: all that are valid, and few that hold every pair."""

from __future__ import annotations

from itertools import combinations, product

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
    """Against the whole product, however large."""
    model, variants = MODELS[architecture], MODELS[architecture].variants()[tier]
    covered = set.union(*map(pairs, pairwise(model.config, variants)))
    expected = set()
    for values in product(*variants.choices.values()):
        options = dict(zip(variants.choices, values, strict=True))
        missing = pairs(options) - covered - expected
        if missing:
            try:
                model.config(**options)
            except ValueError:
                continue
            expected |= missing
    assert not expected


def test_names_tell_what_is_not_usual():
    assert name_of({"a": 1, "b": True, "c": "x"}, CHOICES) == "as usual"
    assert name_of({"a": 3, "b": False, "c": "y"}, CHOICES) == "a 3, no b, c y"
    flags = Variants({"bias_of_it": (False, True), "clip": (None, 1e6), "rate": (0.3, 0.0)})
    assert name_of({"bias_of_it": True, "clip": 1e6, "rate": 0.0}, flags) == (
        "bias of it, clip 1e+06, rate 0")
