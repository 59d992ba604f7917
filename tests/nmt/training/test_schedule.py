"""Sequences of learning rates."""

import pytest

from nmt.training.schedule import PlateauSchedule, ThesisSchedule, is_better


def tell(schedule, epoch, score):
    """The end of an epoch, and the score that it has, if any."""
    if score is not None:
        schedule.evaluated(score)
    schedule.epoch_end(epoch)


def rates(schedule, scores):
    """The rate of each epoch."""
    result = []
    for epoch, score in enumerate(scores, 1):
        result.append(schedule.rate)
        tell(schedule, epoch, score)
    return result


def test_thesis_ten_epochs_halved_after_five():
    schedule = ThesisSchedule(1.0, halve_after=5)
    assert rates(schedule, [None] * 10) == [1, 1, 1, 1, 1, 1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32]
    assert not schedule.finished


def test_thesis_chapters_3_and_5_halve_every_half_epoch():
    schedule = ThesisSchedule(0.7, halve_after=2, halve_every=0.5)
    by_epoch = [[schedule.rate_at(epoch, batch / 4) for batch in range(4)] for epoch in range(1, 5)]
    assert by_epoch == [[0.7] * 4, [0.7] * 4, [0.7 / 2] * 2 + [0.7 / 4] * 2,
                        [0.7 / 8] * 2 + [0.7 / 16] * 2]
    assert rates(schedule, [None] * 4) == [0.7, 0.7, 0.7 / 2, 0.7 / 8]


def test_thesis_section_6_halves_after_x_epochs_every_y():
    assert rates(ThesisSchedule(1.0, 2, 2), [None] * 7) == [1, 1, 1 / 2, 1 / 2, 1 / 4, 1 / 4, 1 / 8]
    tenths = ThesisSchedule(1.0, halve_after=1, halve_every=0.1)
    assert [tenths.rate_at(2, done / 10) for done in range(10)] == [0.5 ** n for n in range(1, 11)]


@pytest.mark.parametrize("schedule", [ThesisSchedule(1.0, 5), ThesisSchedule(0.7, None, 0.5),
                                      PlateauSchedule(1.0)])
def test_within_an_epoch_other_rates_stay(schedule):
    for epoch in range(1, 9):
        assert {schedule.rate_at(epoch, done) for done in (0.0, 0.5, 0.99)} == {schedule.rate}
        schedule.epoch_end(epoch)


def test_constant():
    assert rates(ThesisSchedule(0.7, halve_after=None), [None] * 4) == [0.7] * 4


def test_plateau_on_perplexity():
    schedule = PlateauSchedule(1.0, factor=0.5, patience=2, minimum=0.2)
    scores = [10, 9, 9, 9.5, 8, 8.1, 8.2, 8.3, 8.4]
    assert rates(schedule, scores) == [1, 1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25]
    assert schedule.rate == 0.125 and schedule.finished


def test_plateau_on_bleu():
    schedule = PlateauSchedule(1.0, factor=0.5, patience=1, higher_is_better=True)
    assert rates(schedule, [10, 12, 11, 13, float("nan"), 14]) == [1, 1, 1, 0.5, 0.5, 0.25]


@pytest.mark.parametrize("make", [lambda: ThesisSchedule(1.0, 2),
                                  lambda: PlateauSchedule(1.0, 0.5, 2)])
def test_state_goes_on(make):
    scores = [5, 6, 6, 6, 4, 5, 5]
    whole, first, second = make(), make(), make()
    expected = rates(whole, scores)
    actual = rates(first, scores[:3])
    second.load(first.state())
    for epoch, score in enumerate(scores[3:], 4):
        actual.append(second.rate)
        tell(second, epoch, score)
    assert actual == expected and second.rate == whole.rate


@pytest.mark.parametrize("key", ["rate", "best", "waited"])
def test_a_state_is_of_numbers(key):
    schedule = PlateauSchedule(1.0)
    with pytest.raises(TypeError, match=r"expected a number, got \[\]"):
        schedule.load({**schedule.state(), key: []})


def test_is_better():
    assert is_better(2.0, None, False) and is_better(1.0, 2.0, False) and is_better(3.0, 2.0, True)
    assert not is_better(2.0, 2.0, False) and not is_better(float("nan"), None, False)
