"""All kernels against numerical differentiation; the catalogue is complete; the check can fail."""

from __future__ import annotations

import inspect
import sys
from importlib import import_module
from types import FunctionType, ModuleType

import numpy as np
import pytest

from grads.case import SHAPES, Case, Entry
from grads.catalogue import ENTRIES, backward_functions, check, product_modules, uncovered

BY_NAME = {entry.name: entry for entry in ENTRIES}
ALL = [(name, shape) for name, entry in BY_NAME.items() for shape in entry.shapes]


@pytest.mark.parametrize("name, shape", ALL)
def test_gradients(name, shape):
    check(BY_NAME[name], shape)


# --- completeness -----------------------------------------------------------------------------


def test_every_backward_of_the_product_has_an_entry():
    missing = uncovered(product_modules())
    assert not missing, f"without an entry in grads/catalogue*.py: {sorted(missing)}"


def test_entries_name_what_exists_and_are_told_apart():
    existing = backward_functions(product_modules())
    assert len(existing) >= 20
    for entry in ENTRIES:
        assert set(entry.covers) <= existing, entry.name
    assert len(BY_NAME) == len(ENTRIES)


def test_a_backward_without_an_entry_is_named():
    module = ModuleType("product.room")
    for name in ("new_forward", "new_backward", "helper"):
        function = FunctionType((lambda: None).__code__, {}, name)
        function.__module__ = "product.room"
        setattr(module, name, function)
    module.borrowed_backward = import_module("lstm.lstm").lstm_backward  # defined elsewhere
    assert uncovered([module]) == {"product.room.new"}
    assert not uncovered([module], [Entry("new", ("product.room.new",), lambda rng, shape: None)])


def called_by(act):
    """`module.function` of every Python function called while `act` runs."""
    seen = set()

    def note(frame, event, _):
        if event == "call":
            seen.add(f"{frame.f_globals.get('__name__')}.{frame.f_code.co_name}")

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    return seen


@pytest.mark.parametrize("name", [name for name, entry in BY_NAME.items() if entry.covers])
def test_an_entry_runs_what_it_covers(name):
    entry = BY_NAME[name]
    case = entry.make(np.random.default_rng(0), SHAPES["ragged"])
    upstream = {key: np.ones(np.shape(out)) for key, out in case.forward(case.inputs).items()}
    seen = called_by(lambda: case.backward(case.inputs, upstream))
    for stem in entry.covers:
        module, function = stem.rsplit(".", 1)
        assert f"{stem}_backward" in seen
        assert f"{stem}_forward" in seen or not hasattr(
            import_module(module), f"{function}_forward"
        )


# --- negative controls ------------------------------------------------------------------------

# function, what stands in it, what is put there, an entry that must notice
MUTANTS = {
    "dh_prev dropped": ("lstm.lstm.lstm_backward", "xp.matmul(dz[t], T_h, out=dh)", "dh[...] = 0.0",
                        "lstm sequence"),
    "dc_prev without f": ("lstm.lstm.lstm_cell_backward", "dc *= f", "pass", "lstm cell"),
    "wrong gate": ("lstm.lstm.lstm_cell_backward", "xp.multiply(h_hat, dc, out=di)",
                   "xp.multiply(f, dc, out=di)", "lstm step"),
    "g' of the wrong block": ("lstm.lstm.lstm_cell_backward", "xp.subtract(1.0, ", "xp.subtract("
                              "u[:, 3 * H :], ", "lstm cell"),
    "dc not accumulated": ("lstm.lstm.lstm_cell_backward", "dc += d_tanh", "dc[...] = d_tanh",
                           "lstm stack"),
    "upstream written into": ("lstm.lstm.lstm_backward", "dh_last.copy()", "dh_last",
                              "lstm sequence"),
    "last state ignored": ("lstm.lstm.lstm_backward", "dc_last.copy()", "0.0 * dc_last",
                           "lstm sequence, reverse"),
    "transposed": ("lstm.rnn.rnn_backward", "T_h = T[:, E:]", "T_h = T[:, E:].T", "rnn sequence"),
    "halves swapped": ("lstm.recurrence.weight_gradient", "dT[:, E:] = dz.T @ h_prev",
                       "dT[:, E:] = dz.T @ h_prev[::-1]", "rnn sequence, reverse"),
    "padding gets gradient": ("lstm.lstm.lstm_backward", "dz[t] *= padding.live[t]", "pass",
                              "encoder, lstm"),
    "padding stops gradient": ("lstm.recurrence.carry_gradient", "xp.copyto(new, old, where=",
                               "xp.copyto(new, 0.0 * old, where=", "rnn sequence"),
    "mask forgotten": ("lstm.stack.stack_backward", "dx = dx * masks[layer]", "pass",
                       "rnn stack, dropout"),
    "one direction lost": ("lstm.stack.stack_backward", "else dx + dx_d", "else dx_d",
                           "lstm stack, bidirectional"),
    "duplicates not summed": ("backend.rows.sum_rows", "np.add.reduceat(rows[index.order], "
                              "index.starts, axis=0)", "rows[index.order][index.starts]",
                              "embedding"),
    "printed sign of ds": ("lstm.prediction.prediction_backward", "dW_hy = ds.T @ h",
                           "dW_hy = -(ds.T @ h)", "prediction"),
    "bias forgotten": ("lstm.prediction.prediction_backward", "ds.sum(axis=0)",
                       "0.0 * ds.sum(axis=0)", "output, bias"),
    "softmax Jacobian's second term": ("attention.attend.attend_backward",
                                       "de -= (a * de).sum(axis=2, keepdims=True)", "pass",
                                       "attend"),
    "keys by weights": ("attention.attend.attend_memory_backward", "de.transpose(0, 2, 1)",
                        "a.transpose(0, 2, 1)", "attend"),
    "attentional without tanh'": ("attention.attend.attentional_backward",
                                  "xp.subtract(1.0, dz, out=dz)", "dz[...] = 1.0", "attentional"),
    "memory without its keys": ("attention.attend.memory_backward", "dhbar + dhbar_score", "dhbar",
                                "translator, general"),
    "h~ not fed back": ("nmt.models.input_feeding._backward_loop", "d_out[t] + d_rows[0][:, :H]",
                        "d_out[t].copy()", "translator, general, feeding"),
    "bridge's blocks swapped": ("nmt.models.bridge.bridge_backward", "k * directions + d",
                                "(n - 1 - k) * directions + d", "bridge, both ends"),
    "padded words predict": ("nmt.models.output.output_backward", "full[...] = 0.0",
                             "full[...] = 1.0", "output"),
}  # fmt: skip


def mutate(monkeypatch, path, old, new):
    """Replace `old` by `new` in a function's source, wherever the function is referred to."""
    module_name, name = path.rsplit(".", 1)
    module = import_module(module_name)
    source = inspect.getsource(getattr(module, name))
    assert source.count(old) == 1, f"{path}: expected to find {old!r} once"
    scope = dict(vars(module))
    exec(compile("from __future__ import annotations\n" + source.replace(old, new), path, "exec"),
         scope)
    monkeypatch.setattr(getattr(module, name), "__code__", scope[name].__code__)


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_broken_backward_is_caught(mutant, monkeypatch):
    *where, name = MUTANTS[mutant]
    check(BY_NAME[name], "ragged")
    mutate(monkeypatch, *where)
    with pytest.raises(AssertionError):
        check(BY_NAME[name], "ragged")


def square(zeros=False, remembers=False, widens=False, mutates=False, looks=False):
    """x^2 and a backward of it, with one flaw that numerical differentiation does not see."""
    calls = []
    dead = np.array([False, True, False])

    def run(a):
        calls.append(1)
        if mutates and not np.iscomplexobj(a["x"]):
            a["x"][0] = np.nextafter(a["x"][0], 9)
        y = a["x"] ** 2 * (~dead + 1e-300 * looks)
        return {"y": y + len(calls) * 1e-14 * remembers}, a["x"]

    def pull(d, x):
        scale = np.float64(2.0) if widens else 2.0
        return {"x": d["y"] * x * scale * np.where(dead, 1e-14 * zeros, 1.0).astype(x.dtype)}

    return Entry("square", (), lambda rng, shape: Case(
        {"x": rng.normal(size=3)}, run, pull, {"x": dead}))


@pytest.mark.parametrize("flaw, complaint", [
    ("zeros", "exact zeros"), ("remembers", "differs"), ("mutates", "written into"),
    ("looks", "depends"), ("widens", "float32"),
])  # fmt: skip
def test_a_flaw_that_differentiation_does_not_see_is_caught(flaw, complaint):
    with pytest.raises(AssertionError, match=complaint):
        check(square(**{flaw: True}), "smallest")


def test_a_vanishing_gradient_is_caught():
    """As thinc's: outputs that do not depend on x, and a backward that agrees."""
    entry = Entry("dead", (), lambda rng, shape: Case(
        {"x": rng.normal(size=3)},
        lambda a: ({"y": 0.0 * a["x"]}, None), lambda d, _: {"x": 0.0 * d["y"]}))
    with pytest.raises(AssertionError, match="expected a gradient, got zeros"):
        check(entry, "smallest")
