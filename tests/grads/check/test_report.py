"""A report as a truth value: `assert check_pair(...)` passes only where the gradient is right."""

from __future__ import annotations

import numpy as np
import pytest

from grads.check import check_gradients
from grads.check.report import Report
from grads.check.result import Finding

X = np.array([0.5, -1.5, 2.0])


@pytest.mark.parametrize("gradient, verdict", [(np.cos(X), "ok"), (-np.cos(X), "wrong")])
def test_a_report_is_true_where_it_is_ok(gradient, verdict):
    report = check_gradients(lambda x: np.sin(x).sum(), [X], [gradient])
    assert report.verdict == verdict and bool(report) is report.ok is (verdict == "ok")


@pytest.mark.parametrize("report", [
    Report([], [Finding("nothing", "x", "nothing was compared")]), Report([], stopped="no time")])
def test_what_is_undecided_or_not_finished_is_false(report):
    assert report.verdict in ("undecided", "unfinished") and not report
    assert "; ;" not in report.summary()


def test_the_text_of_a_report_is_its_table():
    report = check_gradients(lambda x: np.sin(x).sum(), [X], [-np.cos(X)])
    assert repr(report) == str(report) and repr(report).splitlines()[1].startswith("name  shape")


def test_the_same_diagnosis_of_several_tensors_is_one_line():
    report = check_gradients(lambda x, y: (np.sin(x) + np.sin(y)).sum(), [X, X],
                             [-np.cos(X), -np.cos(X)])
    said = [line for line in report.remarks() if "reversed sign" in line]
    assert said == ["x at (0,), y at (0,): it has the reversed sign (ratio -1)"]


def test_a_wrong_number_without_a_diagnosis_has_no_remark_that_repeats_the_table():
    report = check_gradients(lambda x: np.sin(x).sum(), [X[:1]], [np.exp(X[:1])])
    assert report.verdict == "wrong" and report.remarks() == []
