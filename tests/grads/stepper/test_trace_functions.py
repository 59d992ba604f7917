"""Recording: a user's own functions, with all that Python lets them do, and what is refused."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
import pytest

from backend.errors import UserError
from grads.stepper.trace import trace
from grads.stepper.tracing import record
from grads.stepper.tracing.values import in_words


def targets(recorded, name):
    """Values of all targets of this name, in order."""
    return [target.value for step in recorded.steps for target in step.targets
            if target.name == name and step.kind == "assign"]


def step_of(recorded, name):
    """The last statement that assigned a name."""
    return [step for step in recorded.steps if step.kind == "assign"
            and any(target.name == name for target in step.targets)][-1]


def assignments(a, rows, *others, scale=2.0, **options):
    """All kinds of assignments."""
    total: float = 0.0
    unset: int
    first, *rest = rows
    (u, v), [w] = (first, a), [scale]
    x = y = u * w
    table = {}
    table["sum"], table[len(rest)] = x + v, y - v
    grid = np.zeros((2, 2))
    grid[0, :] = first
    grid[1] += a
    total += float(grid.sum())
    total -= 1
    i, table[i] = 7, x
    squares = [row**2 for row in rest]
    sums = {k: (last := row.sum()) for k, row in enumerate(squares)}
    by_name = {name: value + 1 for name, value in options.items()}
    unset = len(by_name) + len(others)
    return total, table, sums, last, unset, x, y


def control(n, values):
    """All kinds of control flow."""
    seen, total = [], 0
    while True:
        n -= 1
        if n < 0:
            break
        if n % 2:
            continue
        seen.append(n)
    else:
        seen.append("never")
    with np.errstate(all="ignore") as state:
        quotient = np.array([1.0, 0.0]) / 0.0
    for value in values:
        try:
            total += 1 / value
        except ZeroDivisionError as error:
            message = str(error)
        finally:
            seen.append(value)
    for k, (left, right) in enumerate(zip(seen, seen, strict=True)):
        if left != right:
            return seen, k, message, quotient, state
    else:
        k = -1
    return seen, total, k, message


def nested(xs, weight):
    """Functions inside a function, a generator, a lambda, recursion, a closure's variable."""
    count = 0

    @functools.lru_cache
    def power(n):
        nonlocal count
        count += 1
        return weight if n == 1 else power(n - 1) * weight

    def halves(stop):
        for i in range(stop):
            half = i / 2
            yield half

    def none():
        count_here = 1
        del count_here

    scale = lambda value: value * weight  # noqa: E731
    outs = [scale(x) + power(3) for x in xs]
    return outs, sum(halves(4)), count, none(), f"{weight!r}"


def early(x, limit=3):
    for i in range(10):
        if i == limit:
            return x
        x = x * 2
    return None


def power(matrix, n):
    """A function of the module that calls itself."""
    if n == 1:
        return matrix
    below = power(matrix, n - 1)
    return below @ matrix


class Model:
    """Attributes and methods."""

    def __init__(self, weight):
        self.weight = weight

    def step(self, x):
        self.state = self.weight @ x
        self.weight[0, 0] += 1.0
        return self.state


def compared(function, *arguments, **named):
    """The trace, whose result must be that of a plain run on copies."""
    expected = function(*arguments, **named)
    recorded = trace(function, *arguments, **named)
    assert repr(recorded.result) == repr(expected)
    return recorded


def test_assignments():
    recorded = compared(assignments, np.array([1.0, 2.0]), [np.ones(2), np.array([3.0, 4.0])],
                        5, scale=3.0, extra=1)
    assert [t.name for t in step_of(recorded, "table['sum']").targets] == ["table['sum']",
                                                                           "table[1]"]
    np.testing.assert_array_equal(targets(recorded, "grid[0, :]"), [[1, 1]])
    np.testing.assert_array_equal(targets(recorded, "grid[1]"), [[1, 2]])
    assert targets(recorded, "total") == [0.0, 5.0, 4.0]
    assert targets(recorded, "last") == [25.0]
    assert [t.name for t in step_of(recorded, "x").targets] == ["x", "y"]
    np.testing.assert_array_equal(targets(recorded, "rest[0]"), [[3, 4]])
    assert {"table[i]", "i"} <= {t.name for t in step_of(recorded, "i").targets}
    call = recorded.steps[0]
    assert call.kind == "call" and [target.name for target in call.targets] == [
        "a", "rows[0]", "rows[1]", "others", "scale", "options"]


def test_a_function_that_calls_itself_by_its_global_name():
    recorded = compared(power, np.array([[1.0, 2.0], [0.0, 1.0]]), 3)
    assert len(targets(recorded, "below")) == 2


def test_control_flow():
    recorded = compared(control, 5, [2, 0, 4])
    assert [step.loops for step in recorded.steps if step.text == "n -= 1"] == [
        (("iteration", iteration),) for iteration in range(1, 7)]
    assert targets(recorded, "total") == [0, 0.5, 0.75]
    assert targets(recorded, "k") == [-1]


def test_nested_functions():
    recorded = compared(nested, [np.ones(2), np.zeros(2)], 2.0)
    calls = [call.function for call in recorded.calls]
    assert calls.count("power") == 3 and "halves" not in calls and "none" in calls
    assert [call.caller for call in recorded.calls if call.function == "power"] == [0, 1, 2]
    assert targets(recorded, "count") == [0, 1, 2, 3]


def test_early_return_ends_the_loops():
    recorded = compared(early, 1.5)
    assert [step.own_loops for step in recorded.steps if step.text == "x = x * 2"] == [
        (("i", 0),), (("i", 1),), (("i", 2),)]
    assert recorded.steps[-1].kind == "return" and recorded.steps[-1].targets[0].value == 12.0


def test_a_method():
    model = Model(np.eye(2))
    recorded = trace(model.step, np.array([2.0, 3.0]))
    np.testing.assert_array_equal(recorded.result, [2, 3])
    assert {"self.state", "self.weight[0, 0]"} <= {
        target.name for step in recorded.steps for target in step.targets}


class Scaled:
    def __init__(self, scale):
        self.scale = scale
        self.__hidden = 1.0

    def forward(self, x):
        y = self.scale * x
        return y

    def hidden(self):
        value = self.__hidden
        return value


class Shifted(Scaled):
    def forward(self, x):
        y = super().forward(x) + self.hidden()
        if y > 9:
            raise OverflowError(y)
        return y


def layered(x):
    for layer in (Scaled(2.0), Shifted(3.0)):
        x = layer.forward(x)
    return x


def test_methods_of_classes_are_followed_while_the_function_runs():
    kept = Scaled.forward, Shifted.forward
    recorded = trace(layered, 1.0, follow=[Scaled, Shifted])
    assert recorded.result == 7
    assert [(step.function, step.targets[0].value) for step in recorded.steps
            if step.kind == "assign" and step.targets[0].name == "y"] == [
        ("Scaled.forward", 2), ("Scaled.forward", 6), ("Shifted.forward", 7)]
    assert "Scaled.__init__" not in {step.function for step in recorded.steps}  # has a __name
    with pytest.raises(OverflowError):
        trace(layered, 2.0, follow=[Scaled, Shifted])
    assert kept == (Scaled.forward, Shifted.forward)


def test_exceptions_pass_through():
    def failing(x):
        y = x + 1
        raise KeyError(y)

    def catching(x):
        a, b = x, x
        try:
            a, b = failing(x)
        except KeyError as error:
            caught = error.args[0]
        return a, b, caught

    recorded = compared(catching, 1)
    assert recorded.result == (1, 1, 2)
    assert "failing" not in {step.function for step in recorded.steps}  # a closure's, not a global
    with pytest.raises(ValueError, match="not enough values to unpack"):
        trace(unpack_too_much, (1, 2))
    with pytest.raises(ValueError, match="too many values to unpack"):
        trace(unpack_too_much, iter(range(9)))
    with pytest.raises(TypeError, match="cannot unpack non-iterable int"):
        trace(unpack_too_much, 3)


def unpack_too_much(pair):
    a, b, c = pair
    return a + b + c


class Options(NamedTuple):
    score: str = "dot"
    fed: bool = False


def test_values_that_are_no_arrays_are_shown_in_words():
    def f(options, start):
        known, layers = {}, range(2, 4)
        known["both"] = options, start
        words = {1: 13, 2: 48}
        return layers, words

    recorded = trace(f, Options(), None)
    said = {target.name: in_words(target.value) for step in recorded.steps
            for target in step.targets}
    assert said["options"] == "score dot, fed no" and said["start"] == "none"
    assert (said["known"], said["layers"], said["known['both']"]) == (
        "empty", "2, 3", "score dot, fed no, none")
    assert said["words"] == "1: 13, 2: 48"


def test_values_are_those_of_their_time():
    def buffer():
        out = np.zeros(3)
        for t in range(3):
            out[t] = t + 1.0
            total = out
        return total

    recorded = trace(buffer)
    np.testing.assert_array_equal(targets(recorded, "out"), [[0, 0, 0]])
    np.testing.assert_array_equal(targets(recorded, "total"), [[1, 0, 0], [1, 2, 0], [1, 2, 3]])
    assert all(step.targets[0].same_as is None for step in recorded.steps
               if step.text == "total = out")  # the same memory, but other numbers by then


def test_large_arrays_are_sliced_and_say_so():
    def large():
        table = np.arange(1_000_000.0).reshape(1000, 1000)
        vector = np.ones(5)
        return table, vector

    recorded = trace(large, keep=100)
    table, vector = (step_of(recorded, name).targets[0] for name in ("table", "vector"))
    assert table.sliced and table.shape == (1000, 1000) and table.value.shape == (10, 10)
    assert table.value[1, 1] == 1001
    assert not vector.sliced and vector.value.shape == (5,)


# --- what cannot be traced ----------------------------------------------------------------------


def endless(x):
    while True:
        x = x * 0.5


def endless_without_assignments():
    while True:
        pass


@pytest.mark.parametrize("function, arguments", [(endless, (1.0,)),
                                                 (endless_without_assignments, ())])
def test_a_loop_that_never_ends(function, arguments, monkeypatch):
    monkeypatch.setattr(record, "STEPS", 500)
    with pytest.raises(UserError, match=f"{function.__name__} has not ended after 500"):
        trace(function, *arguments)


def test_functions_without_source():
    names: dict = {}
    exec("def made_up(x):\n    y = x\n    return y\n", names)
    with pytest.raises(UserError, match="made_up has no source"):
        trace(names["made_up"], 1)
    with pytest.raises(UserError, match="tanh cannot be traced"):
        trace(np.tanh, 1.0)


def test_the_second_lambda_of_a_line():
    first, second = lambda x: x, lambda x: 2 * x
    assert [trace(rule, 3.0).steps[-1].targets[0].value for rule in (first, second)] == [3.0, 6.0]


# --- functions in tables ------------------------------------------------------------------------


def doubled(x):
    y = 2 * x
    return y


TABLE = {"twice": (doubled, "a name"), "number": 7}


def by_table(x):
    z = TABLE["twice"][0](x) + TABLE["number"]
    return z


def test_a_function_is_followed_through_a_table():
    recorded = trace(by_table, 1.5, follow=[doubled])
    assert recorded.result == 10.0 and targets(recorded, "y") == [3.0]
    assert not targets(trace(by_table, 1.5), "y")
    assert TABLE["twice"][0] is doubled
