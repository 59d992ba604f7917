"""The corpus of right and wrong functions in the explorer: no red on what is right, red on what is
wrong, and mostly from the recorded variable or the mistaken line on (a variable without a forward
one of its name cannot be compared: then it is the first after it that can)."""

from __future__ import annotations

import warnings

import pytest
from gradient_corpus import FIRST_CALL, PAIRS, SECOND_CALL, WRONG

from grads.stepper.explorer.examples import open_example
from grads.stepper.explorer.settings import Settings

# Gradients that loops hand on, lists of them; of what no variable holds; the upstream one, written
# over; entries of arrays; what methods compute
CARRIED = ("gru_loop", "heun", "soft_dtw", "neuron", "rnn", "padded_conv", "horner", "ctc",
           "dense_object")
LATER = (SECOND_CALL, FIRST_CALL)  # right at first
SAMPLE = [(pair, wrong) for pair, wrong in WRONG[::6] if wrong.first not in LATER]
# What the stepper does not see yet, or refuses: a partial's source; a reduction that it takes for
# another's gradient
REFUSED = "squeeze_excite"
FALSE = {"reduced", "swiglu"}
UNSEEN = {"gained_layer_norm", "rope", "squash", "bond_yield", "soft_histogram"}


def opened(directory, pair, wrong=None):
    """The example of a function of the corpus."""
    file = directory / "mine.py"
    file.write_text(pair.source(wrong))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        example = open_example(f"{file}:{pair.name}", Settings())
        return example, example.verifications()


def first_red(found):
    """The variables of the first step in which any is red; a line may assign several at once."""
    red = [one for one in found if one.status == "wrong"]
    return {one.name.partition("[")[0] for one in red
            if one.step == red[0].step}


def known(pair):
    """A function, marked where red marks on it are known to be false."""
    marks = [pytest.mark.xfail(strict=True, reason="a false red mark")] * (pair.name in FALSE)
    return pytest.param(pair, marks=marks, id=pair.name)


@pytest.mark.parametrize("pair", [known(pair) for pair in PAIRS if pair.name != REFUSED])
def test_nothing_right_is_red(pair, tmp_path):
    example, found = opened(tmp_path, pair)
    assert not [str(one) for one in found if one.status == "wrong"]
    assert "WRONG" not in example.said[-1]


def test_the_wrong_ones_are_red_and_most_at_their_first_variable(tmp_path):
    at_first = 0
    for pair, wrong in SAMPLE:
        if pair.name == REFUSED:
            continue
        _example, found = opened(tmp_path, pair, wrong)
        red = first_red(found)
        assert bool(red) != (pair.name in UNSEEN), (pair.name, wrong)
        line = next(text.strip() for text in pair.source(wrong).splitlines() if wrong.new in text)
        at_first += wrong.first in red or any(line.startswith(f"{name} = ") for name in red)
    assert at_first > 0.9 * len(SAMPLE)


@pytest.mark.parametrize("name", CARRIED)
def test_what_is_not_paired_by_name_is_red_where_it_goes_wrong(name, tmp_path):
    """Its forward variable is of another iteration than the one it is assigned in, or none."""
    for pair, wrong in WRONG:
        if pair.name == name and wrong.first not in LATER:
            _example, found = opened(tmp_path, pair, wrong)
            assert wrong.first in first_red(found), wrong
