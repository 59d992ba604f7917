"""Learning rates by update: Nguyen Eq. 3.8 literally, and the schedules of Table 3.14."""

from __future__ import annotations

import pytest

from nmt.training.options import TrainOptions
from nmt.training.warmup import scale


def rates(updates, **options):
    schedule = TrainOptions(**options).make_schedule()
    return [schedule.rate_at(1, 0.0, n) for n in updates]


def literal(n, lam, d, n_w):
    return lam / d**0.5 * min(1 / n**0.5, n / n_w**1.5)


@pytest.mark.parametrize("lam", [1.0, 2.0])
def test_inverse_square_root_is_the_equation(lam):
    """The peak of 4.9e-4 at d = 512 and 8,000 updates, 9.9e-4 with lambda 2."""
    peak = literal(8000, lam, 512, 8000)
    assert f"{peak:.1e}" == {1.0: "4.9e-04", 2.0: "9.9e-04"}[lam]
    updates = (1, 2, 4000, 7999, 8000, 8001, 32000)
    actual = rates(updates, schedule="inverse-sqrt", learning_rate=peak, warmup=8000)
    assert actual == pytest.approx([literal(n, lam, 512, 8000) for n in updates], rel=1e-14)
    assert scale(peak, 8000, 512) == pytest.approx(lam, rel=1e-14)


def test_decay_by_validation_after_a_warm_up():
    options = {"schedule": "plateau", "learning_rate": 0.5, "warmup": 4, "plateau_patience": 2}
    assert rates(range(1, 7), **options) == [0.125, 0.25, 0.375, 0.5, 0.5, 0.5]
    schedule = TrainOptions(**options).make_schedule()
    for score in (3.0, 3.0, 3.0):
        schedule.evaluated(score)
    assert schedule.rate_at(4, 0.0, 9) == schedule.rate == 0.4 and not schedule.finished
    again = TrainOptions(**options).make_schedule()
    again.load(schedule.state())
    assert again.rate_at(4, 0.0, 2) == 0.2


def test_without_warm_up_rates_are_those_of_the_schedule():
    assert rates((1, 9), schedule="plateau", learning_rate=0.1) == [0.1, 0.1]
    assert rates((1, 9), schedule="constant", learning_rate=0.1) == [0.1, 0.1]


def test_what_is_refused():
    with pytest.raises(ValueError, match="warmup: expected at least 1 with the schedule inverse-"):
        TrainOptions(schedule="inverse-sqrt")
    with pytest.raises(ValueError, match="schedule: expected one of thesis, plateau, constant, "
                                         "inverse-sqrt, got 'cosine'"):
        TrainOptions(schedule="cosine")


def test_a_run_of_before_there_was_an_option_goes_on_with_its_default():
    options = TrainOptions()
    saved = {"epochs": 12, "batch_size": 128}
    assert options.difference(saved) == ""
    assert TrainOptions(warmup=5).difference(saved) == "warmup: was 0, now 5"
