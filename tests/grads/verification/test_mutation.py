"""The functions of backward passes are found, their mutants are run, and survivors are reported."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from grads.check import check_pair
from grads.check.report import Report
from grads.derivations.errata import MISTAKES
from grads.verification import catalogue
from grads.verification.mutation import execution
from grads.verification.mutation.equivalents import reason
from grads.verification.mutation.execution import (
    NOT_RUN,
    Outcome,
    computes_the_same,
    execute,
    running,
    sample,
)
from grads.verification.mutation.injection import find, replaced
from grads.verification.mutation.record import Check, Mutant, mutants, poisoned, record
from grads.verification.mutation.report import page, problems, summary
from grads.verification.mutation.run import check_mistake, run

PRODUCT = '''
from __future__ import annotations

import numpy as np

BLOCK = 4


def layer_forward(x, W):
    y = x @ W.T
    return y * y, (x, W, y)


def layer_backward(dz, cache):
    x, W, y = cache
    dy = 2.0 * dz * y
    return dy @ W, weight_sums(dy, x)


def weight_sums(dy, x):
    """Block by block."""
    n = len(x)
    total = np.empty((dy.shape[1], x.shape[1]))
    total[...] = 0.0
    start = 0
    while start < n:
        total += dy[start : start + BLOCK].T @ x[start : start + BLOCK]
        start += BLOCK
    return total


def unused_backward(dy):
    return -dy


def shape_of(x):
    return [size + 1 for size in x.shape]
'''


@pytest.fixture
def product(tmp_path, monkeypatch):
    """A package with one layer whose weight gradient is summed in blocks of four rows."""
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "__init__.py").write_text("", encoding="utf-8")
    (tmp_path / "toy" / "layer.py").write_text(PRODUCT, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(execution, "LIMIT", 0.2)
    yield tmp_path
    for name in ("toy", "toy.layer"):
        sys.modules.pop(name, None)


def layer_check(rows):
    """A check of the layer with this number of rows."""
    from toy.layer import layer_backward, layer_forward, shape_of

    rng = np.random.default_rng(0)
    inputs, upstream = [rng.normal(size=(rows, 3)), rng.normal(size=(2, 3))], rng.normal(
        size=(rows, 2))

    def numbers():
        shape_of(np.zeros((2, 3)))
        z, cache = layer_forward(*inputs)
        dx, dW = layer_backward(upstream, cache)
        return {"z": z, "x": dx, "W": dW}

    return Check(f"{rows} rows", numbers, lambda: check_pair(
        layer_forward, layer_backward, inputs, diagnosis=0))


def executed(product, *rows):
    checks = [layer_check(n) for n in rows]
    recording = record(checks, product, ["toy"])
    return list(execute(mutants(recording.functions), checks, recording, jobs=2))


def changes(outcomes):
    return {o.mutant.name.removeprefix("toy.layer."): o for o in outcomes}


# --- finding them ---------------------------------------------------------------------------------


def test_what_runs_in_backward_passes_is_found(product):
    functions = record([layer_check(2)], product, ["toy"]).functions
    assert functions == {"toy.layer.layer_forward": {"forward"}, "toy.layer.shape_of": {""},
                         "toy.layer.layer_backward": {"backward"},
                         "toy.layer.weight_sums": {"backward"}}
    assert {mutant.function for mutant in mutants(functions)} == {
        "toy.layer.layer_backward", "toy.layer.weight_sums"}


def test_fresh_memory_holds_nan():
    with poisoned():
        assert np.isnan(np.empty(3)).all() and np.isnan(np.empty_like(np.zeros(2))).all()
        assert np.isnan(np.empty(16, np.uint8).view(np.float32)).all()
        assert np.empty(3, np.int64).shape == (3,)
    assert "lambda" not in repr(np.empty)


# --- judging them ---------------------------------------------------------------------------------


def test_mutants_of_a_layer(product):
    outcomes = changes(executed(product, 2, 9))
    assert outcomes["layer_backward: 2.0 * dz * y -> 2.0 * dz"].by == "gradient"
    assert outcomes["layer_backward: dy @ W -> W @ dy"].by == "exception"
    assert outcomes["weight_sums: total[...] = 0.0 -> pass"].by == "gradient"  # NaN
    assert outcomes["weight_sums: start += BLOCK -> pass"].by == "time"
    assert {name for name, o in outcomes.items() if not o.killed} == {
        "weight_sums: start < n -> start <= n",  # an additional block without rows
    }


def test_a_bug_behind_a_size_survives_until_a_check_is_large_enough(product):
    first_only = ("weight_sums: total += dy[start:start + BLOCK].T @ x[start:start + BLOCK] -> "
                  "total[...] = dy[start:start + BLOCK].T @ x[start:start + BLOCK]")
    small, large = changes(executed(product, 3)), changes(executed(product, 3, 9))
    assert small[first_only].check == "1 check runs the line, the numbers of none change"
    assert (large[first_only].by, large[first_only].check) == ("gradient", "9 rows")


def test_only_checks_that_run_the_line_are_asked_fastest_first(product):
    checks = [layer_check(2), Check("nothing", dict, lambda: Report([])), layer_check(2)]
    recording = record(checks, product, ["toy"])._replace(seconds=[2.0, 0.5, 1.0])
    [first, *_] = mutants(recording.functions)
    assert running(first, recording) == [2, 0]
    [outcome] = execute([first], checks, recording._replace(lines=[set()] * 3))
    assert not outcome.killed and outcome.check == NOT_RUN


def test_a_check_that_complains_of_nothing_is_told_of(product):
    checks = [layer_check(9)._replace(run=lambda: Report([]))]
    recording = record(checks, product, ["toy"])
    outcomes = changes(execute(mutants(recording.functions), checks, recording))
    assert outcomes["layer_backward: 2.0 * dz * y -> 2.0 * dz"].check == \
        "1 check runs the line, the numbers of 1 change"


def test_where_no_other_numbers_are_right_a_change_is_enough(product):
    checks = [layer_check(9)._replace(run=None)]
    recording = record(checks, product, ["toy"])
    outcomes = changes(execute(mutants(recording.functions), checks, recording))
    assert outcomes["layer_backward: 2.0 * dz * y -> 2.0 * dz"].by == "reference"
    assert outcomes["layer_backward: dy @ W -> W @ dy"].by == "exception"
    assert outcomes["weight_sums: start < n -> start <= n"].by == ""


def test_numbers_are_the_same_but_for_rounding():
    numbers = {"a": np.array([1.0, 1e-3]), "b": np.zeros(2)}

    def same_with(**others):
        return computes_the_same(Check("", lambda: numbers | others), numbers)

    assert same_with() and same_with(a=numbers["a"] * (1 + 1e-15))
    assert same_with(a=np.array([1.0, 1e-3 + 1e-14]))
    assert not same_with(a=np.array([1.0, 1e-3 + 1e-11])) and not same_with(b=np.full(2, 1e-30))
    assert not same_with(a=np.array([1.0, np.nan])) and not same_with(c=np.zeros(1))
    assert not same_with(a=numbers["a"].astype(np.float32)) and not same_with(a=np.zeros(3))


def test_a_mutant_leaves_nothing_behind(product):
    executed(product, 2)
    assert layer_check(2).run().ok


# --- a sample of them, and the page ---------------------------------------------------------------


def mutant(name, operator="sign", file="a.py"):
    return Mutant(name, f"lstm.{name}", operator, file, range(1, 2), "")


def test_a_sample_has_of_every_module_and_operator():
    candidates = [mutant(f"{n} {file} {operator}", operator, file) for n in range(5)
                  for file in ("a.py", "b.py") for operator in ("sign", "loop")]
    chosen = sample(candidates, 6)
    assert chosen == sample(candidates, 6) and len(set(chosen)) == 6
    assert len({(m.file, m.operator) for m in chosen[:4]}) == 4
    assert sample(candidates, 6, seed=1) != chosen and len(sample(candidates, 100)) == 20


OUTCOMES = [
    Outcome(mutant("x: a + b -> a - b"), "gradient", "lstm cell", 0.1),
    Outcome(mutant("x: c -> c.T", "transpose"), "exception", "lstm cell", 0.1),
    Outcome(mutant("x: d + e -> d - e"), "padding", "lstm cell", 0.1),
    Outcome(mutant("y: f + g -> f - g"), "", "3 checks run the line", 0.1),
    Outcome(mutant("y: h + i -> h - i"), "", NOT_RUN, 0.1),
]  # fmt: skip


def test_the_page_counts_and_explains():
    text = page(OUTCOMES, {"y: f + g -> f - g": "g is zero"})
    assert "5 mutants of 5 functions: 3 killed, 1 equivalent, 1 survive." in text
    assert "| sign |  | 4 |  |  | 1 | 1 |  |  |  | 2 |" in text
    assert "| 1 | g is zero |" in text
    assert f"| 1 | **no check notices it** ({NOT_RUN}): `y: h + i -> h - i` |" in text


def test_survivors_for_one_reason_are_one_row():
    others = [Outcome(mutant(f"y: a{n} -> b"), "", "", 0.1) for n in range(3)]
    assert "| 3 | the same |" in page(others, {"y": "the same"})
    assert "None." in page(OUTCOMES[:1], {})


def test_survivors_without_a_reason_and_wrong_reasons_are_problems():
    reasons = {"y: f + g -> f - g": "g is zero", "x: a + b -> a - b": "no longer"}
    assert problems(OUTCOMES, reasons) == [
        "y: h + i -> h - i: survives; no check runs the line",
        "x: a + b -> a - b: called equivalent, but no such mutant survives"]
    assert "1 equivalent" in summary(OUTCOMES, reasons)


def test_a_reason_may_be_one_for_several():
    why = {"lstm.f: a + b": "b is zero", "lstm.g": "of no use", "lstm.h: c -> d": "the same"}
    assert reason("lstm.f: a + b -> a - b", why) == ("lstm.f: a + b", "b is zero")
    assert reason("lstm.g: x -> y", why) and reason("lstm.h: c -> d", why)
    for name in ("lstm.f: a + b + c -> a", "lstm.gg: x -> y", "lstm.h: c -> e", "lstm.f: a -> b"):
        assert reason(name, why) is None


# --- injection ------------------------------------------------------------------------------------


def scaler(factor):
    def scale(x, power=1, *, shift=0.5):
        return factor * x**power + shift if x else scale(1.0)

    return scale


triple = scaler(3.0)
HERE = f"{__name__}.triple"


def test_injection_reaches_every_reference_and_leaves_no_trace():
    reference, code = triple, triple.__code__
    with replaced(HERE, "factor *", "2 * factor *"):
        assert reference(1.0) == 6.5
    with replaced(HERE, "shift=0.5", "shift=0.25"):
        assert reference(1.0) == 3.25
    with pytest.raises(ZeroDivisionError), replaced(HERE, "**power", "/ 0"):
        triple(1.0)
    assert triple.__code__ is code and triple(1.0) == 3.5


@pytest.mark.parametrize("path, old, new, complaint", [
    (HERE, "nowhere", "", "expected 'nowhere' exactly once, found it 0 times"),
    (HERE, "x", "", "found it 3 times"),
    (HERE, "factor *", "2 *", r"expected scaler.<locals>.scale to use its outer variables"),
    ("lstm.lstm.nothing", "", "", "expected the path of a Python function, got 'lstm.lstm.no"),
    ("no.such.module", "", "", "expected the path of a Python function"),
    ("lstm.lstm.GATES", "", "", "expected the path of a Python function"),
    ("math.sqrt", "", "", "expected the path of a Python function"),
])  # fmt: skip
def test_what_cannot_be_injected_is_refused(path, old, new, complaint):
    with pytest.raises(ValueError, match=complaint), replaced(path, old, new):
        pass


# --- the product, and the papers' mistakes --------------------------------------------------------


def test_a_sample_of_the_product(monkeypatch):
    """Batches of three shapes kill it, and one that hangs is given up after two seconds. `grads
    mutants` runs all mutants and all shapes."""
    every = catalogue.entries
    monkeypatch.setattr(catalogue, "entries", lambda *tiers: [
        entry for entry in every(*tiers) if entry.shape in ("ragged", "late padding", "real")])
    monkeypatch.setattr(execution, "LIMIT", 2.0)
    outcomes = run(60, jobs=2)
    assert len(outcomes) == 60 and problems(outcomes, {}) == []


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_of_the_papers_are_noticed(name):
    report = check_mistake(name, diagnosis=0)
    assert not report.ok
    assert find(MISTAKES[name].function).__module__ in MISTAKES[name].function
