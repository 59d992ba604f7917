"""A check whose time is up says what it covered, and accuses nothing for that."""

from __future__ import annotations

import time

import numpy as np
import pytest

from grads.check import check_pair, tensor_rows
from grads.check.watch import TimeUp, Watch

X, W = np.random.default_rng(1).normal(size=(4, 3)), np.random.default_rng(2).normal(size=(2, 3))
ALL = {"every_entry": True}


class Counted(Watch):
    """A watch whose seconds are runs of a function, each of which it takes to be slow."""

    runs = 0
    run_time = property(lambda self: 1.0, lambda self, value: None)

    @property
    def seconds(self):
        return float(self.runs)

    def _watched(self, function):
        def counted(*arguments):
            self.runs += 1
            return function(*arguments)

        return super()._watched(counted)


def forward(x, W):
    s = np.std(x, axis=0)
    return (x / s) @ W.T, (x, W, s)


def backward(d, cache):
    x, W, s = cache
    dy = d @ W
    return dy / s - (dy * x).sum(0) / s**3 * (x - x.mean(0)) / len(x), d.T @ (x / s)


def wrong(d, cache):
    dx, dW = backward(d, cache)
    return dx, -dW


def flat(d, cache):
    return backward(d, cache)[0], np.zeros_like(W)


def kink(x):
    return np.maximum(x, 0.0), x


def kink_backward(d, x):
    return d * (x >= 0)


def report_after(runs, f=forward, g=backward, inputs=(X, W), **how):
    """The report of a check that may run its functions so many times, without a diagnosis, which
    would try changes of the code here, too."""
    return check_pair(f, g, list(inputs), watch=Counted(runs), diagnosis=0, **how)


def runs_of(f=forward, g=backward, inputs=(X, W), **how):
    """The runs that the whole check takes."""
    watch = Counted(1e9)
    report = check_pair(f, g, list(inputs), watch=watch, diagnosis=0, **how)
    assert not report.stopped
    return watch.runs, report


def test_time_alone_makes_nothing_wrong_and_enough_of_it_everything_right():
    all_runs, _ = runs_of(**ALL)
    covered = []
    for limit in range(1, all_runs + 2, 7):
        report = report_after(limit, **ALL)
        assert report.verdict == "unfinished" and not report.ok and not report.wrong
        covered.append(sum(row.checked for row in report.rows))
    assert covered == sorted(covered) and covered[0] == 0 and len(set(covered)) > 5
    assert report_after(all_runs + 1, **ALL).ok


def test_what_was_covered_is_said():
    all_runs, _ = runs_of(**ALL)
    report = report_after(all_runs // 2, **ALL)
    x, weights = report.rows
    assert 0 < x.checked <= 12 and weights.checked < 6
    assert f"entries covered: x {x.checked} of 12" in report.stopped
    assert "NOT FINISHED" in str(report) and report.stopped in str(report)
    with pytest.raises(AssertionError, match=r"unfinished gradient: .*the time was up after"):
        report.raise_if_wrong()


def test_nothing_covered_is_said_too():
    report = report_after(1)
    assert report.verdict == "unfinished" and report.stopped.endswith("nothing of x, W")
    assert [row.status for row in report.rows] == ["unfinished"] * 2


@pytest.mark.parametrize("g", [wrong, flat])
def test_a_wrong_gradient_is_wrong_only_once_it_is_confirmed(g):
    all_runs, report = runs_of(forward, g)
    assert [row.name for row in report.wrong] == ["W"]
    verdicts = [report_after(limit, forward, g).verdict for limit in range(1, all_runs + 2, 9)]
    assert set(verdicts) <= {"unfinished", "wrong"} and verdicts[0] == "unfinished"
    assert verdicts == sorted(verdicts)  # once wrong, always wrong
    assert report_after(all_runs + 1, forward, g).verdict == "wrong"


def test_a_mistake_that_there_was_no_time_to_diagnose_is_wrong(monkeypatch):
    def diagnose(*_):
        raise TimeUp

    monkeypatch.setattr(tensor_rows, "diagnose", diagnose)
    report = check_pair(forward, wrong, [X, W])
    assert report.verdict == "wrong" and "ratio" not in str(report)


def test_a_kink_that_there_was_no_time_to_find_is_no_mistake():
    x = np.array([-1.0, 0.0, 2.0])
    all_runs, report = runs_of(kink, kink_backward, (x,), **ALL)
    assert report.rows[0].status == "inconclusive"
    for limit in range(1, all_runs, 5):
        report = report_after(limit, kink, kink_backward, (x,), **ALL)
        assert report.verdict == "unfinished" and not report.wrong


def test_a_run_that_goes_on_is_ended_by_an_alarm_but_nothing_else_is():
    watch = Watch(0.01)
    time.sleep(0.02)
    watch.ring()  # no function runs
    watch.running = True
    with pytest.raises(TimeUp):
        watch.ring()
    assert watch.stopped


def test_a_limit_in_seconds():
    def slow(x):
        time.sleep(0.02)
        return 2 * x, None

    report = check_pair(slow, lambda d, cache: 2 * d, [X], time_limit=0.05)
    assert report.verdict == "unfinished" and "x 0 of 12" not in report.stopped
    with pytest.raises(ValueError, match="time_limit: expected seconds above 0, got -1"):
        check_pair(slow, lambda d, cache: 2 * d, [X], time_limit=-1)


def test_who_asks_is_told():
    told = []
    watch = Counted(None, lambda *said: told.append(said))
    assert check_pair(forward, backward, [X, W], watch=watch, **ALL).ok
    assert told[0] == ("entries of x", 1, 12) and told[-1] == ("entries of W", 6, 6)


def test_the_time_limit_ends_a_backward_that_does_not_end():
    def endless(d, x):
        while np.abs(d).max() > 30:
            d = d + 0
        return d

    report = check_pair(lambda x: (x, x), endless, [np.ones(3)], time_limit=0.5)
    assert report.verdict == "unfinished" and report.seconds < 5
