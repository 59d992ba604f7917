"""Functions of the corpus in the explorer: no red on what is right, red on what is wrong, and
mostly marks that have the mistaken line: the first red one, and those that may have made its value.
"""

from __future__ import annotations

import os
import re
import warnings
from functools import cache
from typing import NamedTuple

import pytest
from gradient_corpus import FIRST_CALL, PAIRS, SECOND_CALL, WRONG

from grads.stepper.explorer.settings import Settings
from grads.stepper.walk import open_shown

# Gradients that loops hand on, lists of them; of what no variable holds; the upstream one, written
# over; entries of arrays; what methods compute
CARRIED = ("gru_loop", "heun", "soft_dtw", "neuron", "rnn", "padded_conv", "horner", "ctc",
           "dense_object")
# Of the right functions, the 41 that run each branch of grads/stepper that any of them runs,
# chosen one by one by what they add a second. The checker's test runs all of them.
RIGHT = """
    accumulating affine_object annealed_softmax arc_length bidirectional bond_yield close_maxima
    ctc deep_relu float32_loss fourier garch gelu_erf glu hinge ignored_output im2col in_place
    interpolation log_mel lstm_cell masked_attention masked_write max_pool_loop mixture
    named_outputs neuron picked relu_layer rnn_lists rowwise safe_root scale_shift segment_mean
    shared_variables sinkhorn sparse_logistic spectral_filter top_k transposed_conv tree_net
""".split()
LATER = (SECOND_CALL, FIRST_CALL)  # right at first
EVERY = 1 if "ALL_MISTAKES" in os.environ else 18  # mistake is made
SAMPLE = [(pair, wrong) for pair, wrong in WRONG if wrong.first not in LATER][::EVERY]
MARKED = 0.9  # share of the wrong functions whose marked lines have the mistake


class Outcome(NamedTuple):
    """What the explorer says of a function."""

    verdict: str
    checks: list
    red: set  # lines of the first red step
    marked: set  # these, and the lines that may have made its value
    last: str  # line of the walk


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """Opens a function of the corpus, each mistake once."""
    file = tmp_path_factory.mktemp("corpus") / "mine.py"

    @cache
    def opened(pair, wrong=None):
        file.write_text(pair.source(wrong))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shown, _ = open_shown(f"{file}:{pair.name}", Settings())
        checks = [*shown.verifications.values()]
        red = lines_at(shown, [check for check in checks if check.status == "wrong"][:1])
        suspects = [check for check in checks if check.status == "suspect"]
        return Outcome(shown.verdict, checks, red, red | lines_at(shown, suspects),
                       *shown.summary())

    return opened


def first_red(checks):
    """The variables of the first step in which any is red; a line may assign several at once."""
    red = [check for check in checks if check.status == "wrong"]
    return {check.name.partition("[")[0] for check in red
            if check.step == red[0].step}


def lines_of(pair, wrong):
    """The lines of the file that a mistake changes."""
    text, (start, stop) = pair.source(wrong), pair.span
    at = start + pair.source()[start:stop].index(wrong.old)
    return {*range(text[:at].count("\n") + 1, text[:at + len(wrong.new)].count("\n") + 2)}


def lines_at(shown, checks):
    """The lines of the statements with these gradients."""
    steps = [shown.run.backward.steps[check.step] for check in checks]
    return {line for step in steps for line in range(step.line, step.end_line + 1)}


@pytest.mark.parametrize("name", RIGHT)
def test_nothing_right_is_red(name, outcome):
    (pair,) = [pair for pair in PAIRS if pair.name == name]
    said = outcome(pair)
    assert not [(check.name, check.line) for check in said.checks
                if check.status in ("wrong", "suspect")]
    assert said.verdict != "wrong"


def test_the_wrong_ones_are_red_and_most_marks_have_the_mistake(outcome):
    """ALL_MISTAKES=1 python -m pytest -s FILE prints the counts in docs/stepper.md."""
    first = marked = named = 0
    for pair, wrong in SAMPLE:
        said, lines = outcome(pair, wrong), lines_of(pair, wrong)
        assert first_red(said.checks), (pair.name, wrong)
        first += bool(lines & said.red)
        marked += bool(lines & said.marked)
        named += int(re.search(r"(?:lines? |:)(\d+)", said.last)[1]) in lines
    print(f"{len(SAMPLE)} mistakes: {first} in the first red line, {marked} in a marked line, "
          f"{named} in the line that the walk ends with")
    assert marked > MARKED * len(SAMPLE)


@pytest.mark.parametrize("name", CARRIED)
def test_what_is_not_paired_by_name_is_red_where_it_goes_wrong(name, outcome):
    """Its forward variable is of another iteration than the one it is assigned in, or none. It is
    the last mistake of each function: with the others no further branch is run."""
    *_, (pair, wrong) = [(pair, wrong) for pair, wrong in WRONG
                         if pair.name == name and wrong.first not in LATER]
    assert wrong.first in first_red(outcome(pair, wrong).checks), wrong
