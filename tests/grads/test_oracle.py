"""The catalogue against its PyTorch twins, in float64, and the mapping between the two layouts."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
from grads.catalogue import CONFIGURATIONS, ENTRIES
from lstm.lstm import GATES

from grads import catalogue, oracle
from grads.case import SHAPES, dense, draw

TOLERANCE = 1e-10
SEED = 3
needs_torch = pytest.mark.skipif(
    not oracle.available(), reason="PyTorch, the oracle (extra `oracle`), is not installed"
)
DERIVATIONS = [entry for entry in catalogue.DERIVATIONS if entry.kind]
RUNS = [(entry, shape) for entry in (*ENTRIES, *DERIVATIONS) for shape in entry.shapes]


def make(entry, shape):
    """A case, what it returns, and an upstream gradient for every output."""
    rng = np.random.default_rng(SEED)
    case = entry.make(rng, SHAPES[shape])
    outputs = case.forward(case.inputs)
    return case, outputs, {name: draw(rng, *np.shape(out)) for name, out in outputs.items()}


def disagreement(ours, theirs, idle=frozenset()):
    """The largest difference of two tensors by name, each relative to the largest of theirs.

    A tensor of nothing or of nothing but zeros compares nothing: it must be in `idle`.
    """
    assert ours.keys() == theirs.keys() != set()
    worst = 0.0
    for name, expected in theirs.items():
        found = np.asarray(dense(ours[name]))
        assert found.shape == expected.shape, name
        assert found.dtype == expected.dtype == np.float64, name
        size = np.abs(expected).max(initial=0.0)
        assert size > 0 or name in idle, f"{name}: the oracle's values are all zero"
        apart = np.abs(found - expected).max(initial=0.0) / (size or TOLERANCE)
        worst = np.maximum(worst, apart)  # NaN stays NaN, and is not below any tolerance
    return worst


def idle_inputs(case):
    """The inputs that cannot matter: those that the case says so of, and those of no size."""
    dead = {name for name, zeros in case.zeros.items() if zeros.all()}
    return dead | {name for name, value in case.inputs.items() if not value.size}


def idle_outputs(case, outputs):
    """All of them where no input matters, else none."""
    return set(outputs) if idle_inputs(case) == set(case.inputs) else set()


@needs_torch
@pytest.mark.parametrize("entry, shape", RUNS, ids=lambda part: getattr(part, "name", part))
def test_entry(entry, shape):
    """Outputs, and the gradients of all outputs together and of each alone."""
    case, outputs, upstream = make(entry, shape)
    still = idle_outputs(case, outputs)
    assert disagreement(outputs, oracle.outputs(entry, case), still) < TOLERANCE
    ours, theirs = case.backward(case.inputs, upstream), oracle.gradients(entry, case, upstream)
    assert theirs.keys() == case.inputs.keys()
    assert disagreement(ours, theirs, idle_inputs(case)) < TOLERANCE
    for name, d_out in upstream.items():
        alone = {name: d_out}
        ours, theirs = case.backward(case.inputs, alone), oracle.gradients(entry, case, alone)
        assert still or any(gradient.any() for gradient in theirs.values()), name
        assert disagreement(ours, theirs, theirs.keys()) < TOLERANCE, name


@needs_torch
@pytest.mark.parametrize("entry", CONFIGURATIONS, ids=lambda entry: entry.name)
def test_configuration(entry):
    """Loss and gradients of every configuration of a whole model."""
    case, outputs, upstream = make(entry, "ragged")
    assert disagreement(outputs, oracle.outputs(entry, case)) < TOLERANCE
    ours, theirs = case.backward(case.inputs, upstream), oracle.gradients(entry, case, upstream)
    assert disagreement(ours, theirs) < TOLERANCE


def test_few_cases_compare_nothing():
    """Only where a batch has nobody in it, and where there is one word to choose from."""
    inert = {(entry.name, shape) for entry, shape in RUNS
             if idle_outputs(case := make(entry, shape)[0], case.inputs)}
    assert {shape for name, shape in inert if "one word" not in name} <= {"nobody"}
    assert len(inert) < len(RUNS) / 5


def entry_called(name):
    """The catalogue's entry of that name."""
    return next(entry for entry in ENTRIES if entry.name == name)


@needs_torch
@pytest.mark.parametrize("name", ["lstm sequence", "translator, general, feeding", "memory, dot"])
def test_a_flawed_case_is_caught(name):
    """An error in the ninth digit of one number of one gradient, or of an output."""
    entry = entry_called(name)
    case, outputs, upstream = make(entry, "ragged")
    theirs = oracle.gradients(entry, case, upstream)
    for wrong_name in case.inputs:
        ours = {n: np.array(dense(d)) for n, d in case.backward(case.inputs, upstream).items()}
        ours[wrong_name].flat[np.abs(ours[wrong_name]).argmax()] *= 1 + 1e-9
        assert disagreement(ours, theirs, idle_inputs(case)) > TOLERANCE, wrong_name
    for wrong_name in outputs:
        wrong = {n: np.array(out) for n, out in outputs.items()}
        wrong[wrong_name].flat[np.abs(wrong[wrong_name]).argmax()] *= 1 + 1e-9
        assert disagreement(wrong, oracle.outputs(entry, case)) > TOLERANCE, wrong_name


@needs_torch
def test_a_forgotten_output_is_caught():
    """A backward that does not look at the last cell state's gradient."""
    entry = entry_called("lstm sequence")
    case, _, upstream = make(entry, "ragged")

    def pull(d, cache):
        return case.pull({**d, "last.1": None}, cache)

    flawed = replace(case, pull=pull)
    theirs = oracle.gradients(entry, case, upstream)
    assert disagreement(flawed.backward(case.inputs, upstream), theirs) > 1e-3


def test_nothing_and_nan_are_no_agreement():
    with pytest.raises(AssertionError, match="all zero"):
        disagreement({"x": np.zeros(3)}, {"x": np.zeros(3)})
    with pytest.raises(AssertionError):
        disagreement({}, {})
    not_a_number = np.array([1.0, np.nan])
    with pytest.raises(AssertionError):
        disagreement({"x": np.ones(2)}, {"x": not_a_number})
    ours, theirs = ({"x": x, "y": np.ones(2)} for x in (not_a_number, np.ones(2)))
    assert not disagreement(ours, theirs) < TOLERANCE


# --- the mapping --------------------------------------------------------------------------------


def test_gate_orders():
    """h_hat, the last of our gates, is the third of PyTorch's; there and back is the identity."""
    rows = np.repeat(np.arange(4.0), 3)[:, None] * [1.0, 2.0]
    theirs = oracle.to_torch(rows, "lstm")
    assert theirs[:, 0].tolist() == [0, 0, 0, 1, 1, 1, 3, 3, 3, 2, 2, 2]
    assert sorted(oracle.TORCH_GATES) == sorted(GATES)
    for unit in oracle.GATE_ORDERS:
        there = oracle.from_torch(oracle.to_torch(rows, unit), unit)
        assert np.array_equal(there, rows)
    order = ("a", "b", "c", "d")
    turned = oracle.reorder(rows, order, ("b", "c", "d", "a"))
    assert turned[:, 0].tolist() == [1, 1, 1, 2, 2, 2, 3, 3, 3, 0, 0, 0]
    assert np.array_equal(oracle.reorder(turned, ("b", "c", "d", "a"), order), rows)


@needs_torch
def test_gru_mapping():
    """Our GRU is PyTorch's with z negated where U is diagonal, and another function where not."""
    import torch

    rng, H, E = np.random.default_rng(5), 3, 2
    W = {gate: torch.tensor(draw(rng, H, E)) for gate in ("r", "z", "s~")}
    U = {gate: torch.tensor(draw(rng, H, H)) for gate in ("r", "z", "s~")}
    x, s_prev = torch.tensor(draw(rng, 4, E)), torch.tensor(draw(rng, 4, H))
    cell = torch.nn.GRUCell(E, H, bias=False, dtype=torch.float64)

    def apart(U):
        theirs = torch.func.functional_call(cell, oracle.gru_weights(W, U), (x, s_prev))
        return (oracle.bahdanau_gru(x, s_prev, W, U) - theirs).abs().max()

    diagonal = {**U, "s~": torch.diag(U["s~"].diagonal())}
    assert apart(diagonal) < 1e-14
    assert apart(U) > 0.01
    with pytest.MonkeyPatch.context() as patch:  # negative control: z with the paper's sign
        patch.setattr(oracle, "TORCH_GRU", (("r", 1.0), ("z", 1.0), ("s~", 1.0)))
        assert apart(diagonal) > 0.01


# --- bad input, and no PyTorch ------------------------------------------------------------------


@needs_torch
def test_an_entry_without_a_twin():
    entry = entry_called("embedding")
    case, _, upstream = make(entry, "full")
    with pytest.raises(ValueError, match=r"entry: .*embedding.*'nonsense'"):
        oracle.outputs(entry._replace(kind="nonsense"), case)
    with pytest.raises(ValueError, match=r"upstream: 'y': .*no such output"):
        oracle.gradients(entry, case, {"y": upstream["x"]})
    with pytest.raises(ValueError, match=r"upstream: 'x': expected"):
        oracle.gradients(entry, case, {"x": upstream["x"][1:]})


def test_available_says_whether_torch_is_installed(monkeypatch):
    assert oracle.available() == (find_spec("torch") is not None)
    monkeypatch.setattr(oracle, "find_spec", lambda name: None)
    assert not oracle.available()


def test_importing_the_oracle_does_not_import_torch():
    import subprocess
    import sys

    code = "import sys, grads.oracle; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
