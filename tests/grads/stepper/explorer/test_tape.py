"""The page's arithmetic is NumPy's: every number of a derivation, as given and after a change."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from grads.stepper.explorer.examples import RunExample, open_example
from grads.stepper.explorer.live import TapedRun, live_json
from grads.stepper.explorer.page import DERIVATION
from grads.stepper.explorer.settings import Settings
from grads.stepper.explorer.tape import Tape, Taped, Untaped
from grads.stepper.explorer.tensors import BACKWARD, FORWARD, Table
from grads.stepper.trace import trace
from nmt.pages.page import read

CLOSE = 1e-12  # relative to the largest entry of a tensor
ROUNDED = 1e-14  # absolute: where p is near 1, p - 1_y keeps the rounding of 1
RUN = """([program, inputs]) => {
    const machine = recorded(program);
    for (const [line, values] of inputs) machine.values[line].set(values);
    machine.run();
    return program.nodes.map((line) => (line === null ? null : [...machine.values[line]]));
}"""


def renamed(arguments: Any, name: str, change: Callable[[np.ndarray], Any]) -> Any:
    """The arguments of a run with one parameter changed."""
    changed = copy.deepcopy(arguments)
    change(changed[0][name])
    return changed


def other_word(arguments: Any) -> Any:
    """The third word replaced, where it is read and where it is predicted."""
    parameters, x, y = copy.deepcopy(arguments)
    word = 5 if x[2] != 5 else 6
    return (parameters, [*x[:2], word, *x[3:]],
            [y[0], word, *y[2:]] if "W_e" in parameters else y)


def weight(name: str) -> Callable[[Any], Any]:
    """One entry set."""
    return lambda arguments: renamed(arguments, name, lambda W: W.__setitem__((0, 3), 0.7))


def open_gate(name: str) -> Callable[[Any], Any]:
    """The forget gate's bias raised by three."""
    def change(b: np.ndarray) -> None:
        b[len(b) // 4 : len(b) // 2] += 3

    return lambda arguments: renamed(arguments, name, change)


def smaller(name: str) -> Callable[[Any], Any]:
    """The recurrent weights halved."""
    def change(W: np.ndarray) -> None:
        W[:, W.shape[1] // 2 :] *= 0.5

    return lambda arguments: renamed(arguments, name, change)


def other_unit(arguments: Any) -> Any:
    """The weights of a single step, times 1.5."""
    x, h_prev, unit = arguments
    return x, h_prev, type(unit)(*(1.5 * W for W in unit))


CHANGES = {
    "rnn": [weight("T"), smaller("T"), other_word],
    "lstm": [weight("T"), smaller("T"), open_gate("b"), other_word],
    "gru": [other_unit],
    "attention": [weight("attention.W_c"), smaller("decoder.0.W"), open_gate("decoder.0.b"),
                  other_word],
}


@cache
def example_of(name: str) -> RunExample:
    """The example of the page that `grads explore` writes."""
    return open_example(name, Settings())


@pytest.fixture(scope="module")
def machine(browser: Any) -> Iterator[Callable[[Any, Any], Any]]:
    """The page's interpreter, in a browser: a program and its inputs give every number."""
    page = browser.new_page()
    page.add_script_tag(content=read(DERIVATION, "tape.js").replace("export function", "function"))
    yield lambda program, inputs: page.evaluate(RUN, [program, inputs])
    page.close()


def assert_same(example: RunExample, arguments: Any, machine: Any) -> None:
    """Every number that the page computes is that of the derivation run on these arguments."""
    run = example.run
    table = Table(run, example.shown.steps)
    program = live_json(example, table)
    assert program is not None
    changed_example = replace(run.example, arguments=arguments)
    leaves = TapedRun(replace(run, example=changed_example)).leaves.values()
    computed = machine(program, [[leaf.node, np.ravel(np.asarray(leaf)).tolist()]
                                 for leaf in leaves])
    derivation = run.derivation
    forward = trace(derivation.forward, *arguments, follow=derivation.follow, keep=example.keep,
                    **changed_example.named)
    backward = trace(derivation.backward, *derivation.given(changed_example, forward.result),
                     follow=derivation.follow, keep=example.keep)
    traces = {FORWARD: forward, BACKWARD: backward}
    count = 0
    for number, values in enumerate(computed):
        (name, origin), entry = table.origins[number], table.entries[number]
        if entry["shape"] is None:
            continue
        expected = np.ravel(np.asarray(traces[name].target(origin).value, float))
        if values is None:  # it depends on nothing that can be changed
            np.testing.assert_array_equal(expected, table.values(number))
            continue
        tolerance = max(CLOSE * np.abs(expected).max(initial=0), ROUNDED)
        np.testing.assert_allclose(values, expected, rtol=0, atol=tolerance, err_msg=entry["name"])
        count += 1
    assert count > 0.8 * sum(entry["shape"] is not None for entry in table.entries)


@pytest.mark.parametrize("name", list(CHANGES))
def test_every_number_is_that_of_numpy(name: str, machine: Any) -> None:
    example = example_of(name)
    assert_same(example, example.run.example.arguments, machine)


@pytest.mark.parametrize(("name", "k"), [(name, k) for name, changes in CHANGES.items()
                                         for k in range(len(changes))])
def test_every_number_is_that_of_numpy_after_a_change(name: str, k: int, machine: Any) -> None:
    example = example_of(name)
    assert_same(example, CHANGES[name][k](example.run.example.arguments), machine)


# --- the tape -------------------------------------------------------------------------------------


def array() -> Taped:
    """A leaf of two rows."""
    return Tape().leaf(np.arange(6.0).reshape(2, 3))


@pytest.mark.parametrize("act", [
    lambda a: a[:, 1:], lambda a: a.T, lambda a: a[None, ::-1], lambda a: a.reshape(3, 2),
    lambda a: np.vstack([a, a]), lambda a: np.hstack([a, np.ones((2, 1))]), lambda a: a.sum(),
    lambda a: a.sum(axis=0), lambda a: a.max(axis=1), lambda a: np.where(a > 2, a, 0),
    lambda a: np.split(a, 3, axis=1)[1], lambda a: a @ a.T, lambda a: -a**2 / 3, np.exp,
    lambda a: a.sum(axis=1, keepdims=True)])
def test_a_line_gives_what_numpy_gives(act: Callable[[Any], Any], machine: Any) -> None:
    recorded = act(array())
    tape = recorded.tape
    program = {"lines": tape.lines, "shapes": tape.shapes, "tables": tape.tables,
               "inputs": [{"line": 0, "values": list(range(6))}], "nodes": [recorded.node]}
    expected = act(np.arange(6.0).reshape(2, 3))
    assert np.asarray(recorded).shape == np.shape(expected)
    np.testing.assert_allclose(machine(program, [])[0], np.ravel(expected), rtol=1e-15)


def test_a_row_that_is_looked_up_is_looked_up_again(machine: Any) -> None:
    tape = Tape()
    table, word = tape.leaf(np.arange(6.0).reshape(3, 2)), tape.leaf(np.array(1))
    row = table[word][:, None]
    program = {"lines": tape.lines, "shapes": tape.shapes, "tables": tape.tables,
               "inputs": [{"line": 0, "values": list(range(6))}, {"line": 1, "values": [1]}],
               "nodes": [row.node]}
    assert machine(program, []) == [[2, 3]]
    assert machine(program, [[1, [2]]]) == [[4, 5]]


@pytest.mark.parametrize("act", [
    bool, float, lambda a: a.__setitem__(0, 1), lambda a: np.linalg.norm(a),
    lambda a: np.cumsum(a), lambda a: a[a], lambda a: np.add(a, a, out=np.zeros((2, 3))),
    lambda a: a + np.nan, lambda a: range(a)])
def test_what_cannot_be_recorded_is_refused(act: Callable[[Any], Any]) -> None:
    with pytest.raises(Untaped):
        act(array()[:1, :1] if act in (bool, float) else array())
