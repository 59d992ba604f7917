"""Functions of the corpus in the explorer: no red on what is right, red on what is wrong, and
mostly marks that have the mistaken line: the first red one, and those that may have made its value.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import NamedTuple

import pytest
from gradient_corpus import FIRST_CALL, PAIRS, SECOND_CALL, WRONG

from grads.stepper.explorer.examples import open_example
from grads.stepper.explorer.settings import Settings

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
SAMPLE = [(pair, wrong) for pair, wrong in WRONG[::6] if wrong.first not in LATER][::3]
MARKED = 0.9  # share of the wrong functions whose marked lines have the mistake


class Outcome(NamedTuple):
    """What the explorer says of a function."""

    verdict: str
    checks: list
    marked: set  # lines


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """Opens a function of the corpus, each mistake once."""
    file = tmp_path_factory.mktemp("corpus") / "mine.py"

    @cache
    def opened(pair, wrong=None):
        file.write_text(pair.source(wrong))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            example = open_example(f"{file}:{pair.name}", Settings())
            checks = example.verifications()
        return Outcome(example.verdict, checks, marked(example, checks))

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


def marked(example, checks):
    """The lines of the first step in which any is red, and of those that may have made it."""
    steps = {check.step for check in checks if check.status == "suspect"}
    steps |= {check.step for check in [check for check in checks if check.status == "wrong"][:1]}
    return {line for number in steps for step in [example.run.backward.steps[number]]
            for line in range(step.line, step.end_line + 1)}


@pytest.mark.parametrize("name", RIGHT)
def test_nothing_right_is_red(name, outcome):
    (pair,) = [pair for pair in PAIRS if pair.name == name]
    said = outcome(pair)
    assert not [(check.name, check.line) for check in said.checks
                if check.status in ("wrong", "suspect")]
    assert said.verdict != "wrong"


def test_the_wrong_ones_are_red_and_most_marks_have_the_mistake(outcome):
    at_fault = 0
    for pair, wrong in SAMPLE:
        said = outcome(pair, wrong)
        assert first_red(said.checks), (pair.name, wrong)
        at_fault += bool(lines_of(pair, wrong) & said.marked)
    assert at_fault > MARKED * len(SAMPLE)


@pytest.mark.parametrize("name", CARRIED)
def test_what_is_not_paired_by_name_is_red_where_it_goes_wrong(name, outcome):
    """Its forward variable is of another iteration than the one it is assigned in, or none. It is
    the last mistake of each function: with the others no further branch is run."""
    *_, (pair, wrong) = [(pair, wrong) for pair, wrong in WRONG
                         if pair.name == name and wrong.first not in LATER]
    assert wrong.first in first_red(outcome(pair, wrong).checks), wrong
