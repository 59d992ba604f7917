"""Recording: what the tracer sees of a function, and that the function does not notice."""

from __future__ import annotations

import weakref

import numpy as np
import pytest
from traced import same_values

from backend.errors import UserError
from grads.derivations import attention, calculus, lstm, nmt, rnn
from grads.stepper.trace import trace
from grads.stepper.tracing.derivations import DERIVATIONS, FOLLOW
from grads.stepper.tracing.values import leaves

RNG = np.random.default_rng(0)


def flat(value):
    return [leaf for _, leaf in leaves(value)]


def step_of(recorded, name, kind="assign"):
    """The last step that assigned a name."""
    return [step for step in recorded.steps if step.kind == kind
            and any(target.name == name for target in step.targets)][-1]


# --- the derivations ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", DERIVATIONS)
def test_result_is_bit_for_bit_that_of_a_plain_run(name):
    derivation = DERIVATIONS[name]
    run = derivation.run()
    plain = derivation.forward(*run.example.arguments, **run.example.named)
    assert flat(plain)
    for traced, expected in zip(flat(run.forward.result), flat(plain), strict=True):
        if isinstance(expected, tuple):  # options of a model
            assert traced == expected
        else:
            np.testing.assert_array_equal(traced, expected)
    plain_gradients = derivation.backward(*derivation.given(run.example, plain))
    for traced, expected in zip(flat(run.backward.result), flat(plain_gradients), strict=True):
        np.testing.assert_array_equal(traced, expected)


def test_a_step_of_the_lstm():
    run = DERIVATIONS["lstm"].run()
    assignment = next(step for step in run.forward.steps
                      if step.function == "lstm" and step.equations == ("2.36",)
                      and step.loops == (("t", 2),))
    assert assignment.text == "c = f * c_prev + i * h_hat"
    assert assignment.comment == "(2.36)"
    assert assignment.file == lstm.__file__
    with open(lstm.__file__, encoding="utf-8") as file:
        assert file.read().splitlines()[assignment.line - 1].strip().startswith(assignment.text)
    assert assignment.depth == 1
    assert [target.name for target in assignment.targets] == ["c"]
    np.testing.assert_array_equal(assignment.targets[0].value, run.forward.result[1].c[2])
    assert [read.name for read in assignment.reads] == ["f", "c_prev", "i", "h_hat"]
    origin = assignment.reads[1].origins[0]
    passed = run.forward.target(origin)
    assert passed.name == "c_prev"
    names = []
    while passed.same_as is not None:
        passed = run.forward.target(passed.same_as)
        names.append(passed.name)
    assert names == ["c[1]", "return[1]", "c"]  # the caller's c[1] is the c computed at t = 1


def test_operands_of_a_backward_step():
    run = DERIVATIONS["lstm"].run()
    step = next(step for step in run.backward.steps if step.text == "dh[t] = dh[t] + d_vertical"
                and step.loops == (("t", 3),))
    assert [(read.name, read.written) for read in step.reads] == [
        ("dh[3]", "dh[t]"), ("d_vertical", "d_vertical")]
    producer = run.backward.steps[step.reads[0].origins[0][0]]
    assert producer.text.startswith("dh[t - 1], dc[t - 1], dx, dT_t, db_t = lstm_grad(")
    assert producer.loops == (("t", 4),)


def test_loops_of_callers_and_layers():
    run = DERIVATIONS["attention"].run()
    inner = [step for step in run.forward.steps if step.function == "lstm"
             and step.text == "c = f * c_prev + i * h_hat"]
    expected = [(("s", s), ("l", l)) for s in range(1, 5) for l in (1, 2)]
    expected += [(("t", t), ("l", l)) for t in range(1, 6) for l in (1, 2)]
    assert [step.loops for step in inner] == expected
    assert [target.name for target in step_of(run.forward, "h[5][2]").targets] == [
        "h[5][0]", "h[5][1]", "h[5][2]", "c[5][1]", "c[5][2]"]


def test_what_the_backward_was_given_is_found_in_the_forward():
    run = DERIVATIONS["lstm"].run()
    linked = {run.backward.target(read_target).name: run.forward.target(forward_target)
              for read_target, forward_target in run.links.items()}
    assert linked["trace.h[2]"].name == "h[2]" and linked["trace.c[0]"].name == "c[0]"
    np.testing.assert_array_equal(linked["trace.p[3]"].value, run.forward.result[1].p[3])


def test_only_followed_functions_are_recorded():
    parameters, x, y = DERIVATIONS["rnn"].run().example.arguments
    recorded = trace(rnn.forward, parameters, x, y)
    assert {step.function for step in recorded.steps} == {"forward"}
    recorded = trace(rnn.forward, parameters, x, y, follow=[rnn.predict, calculus])
    assert {step.function for step in recorded.steps} == {
        "forward", "predict", "softmax", "log_sum_exp", "bias"}


def test_equation_numbers():
    run = DERIVATIONS["nmt"].run()
    cited = {number for step in run.forward.steps for number in step.equations}
    assert {"2.4", "2.5", "2.19", "2.35", "2.36", "2.37", "2.38", "2.51"} <= cited
    assert not any(number.startswith("4.2") for number in cited)  # 4.2.3 is a section


def test_comments_inside_a_statement():
    run = DERIVATIONS["rnnsearch"].run()
    step = next(step for step in run.backward.steps if "context_grad(" in step.text
                and step.kind == "assign")
    assert step.comment and "#" not in step.text
    assert step.end_line == step.line + 1


# --- edits ---------------------------------------------------------------------------------------

SIGN = {"predict_grad": [("p - one_hot(y, len(p))", "one_hot(y, len(p)) - p")]}


def test_a_changed_line_runs_changed_and_nothing_before_it():
    derivation = DERIVATIONS["lstm"]
    right, wrong = derivation.run().backward, derivation.run(edits=SIGN).backward
    first = next(step for step in right.steps if step.text == "ds = p - one_hot(y, len(p))")
    assert first.loops == (("t", 4),)
    before, again = ([step._replace(site=0) for step in trace.steps[:first.number]]
                     for trace in (right, wrong))
    assert same_values(before, again)
    np.testing.assert_array_equal(wrong.steps[first.number].targets[0].value,
                                  -first.targets[0].value)


def test_edits_that_do_not_fit():
    run = DERIVATIONS["rnn"].run()
    arguments = (*run.example.arguments, run.forward.result[1])
    with pytest.raises(UserError, match="'no such line' occurs 0 times"):
        trace(rnn.backward, *arguments, follow=FOLLOW, edits={"backward": [("no such line", "")]})
    with pytest.raises(UserError, match="predict_gard is no function that backward calls"):
        trace(rnn.backward, *arguments, follow=FOLLOW, edits={"predict_gard": [("p", "q")]})


@pytest.mark.parametrize("module", [attention, nmt, lstm, rnn])
def test_the_modules_themselves_stay_as_they_are(module):
    before = dict(vars(module))
    DERIVATIONS["attention"].run()
    assert all(vars(module)[name] is value for name, value in before.items())


# --- arrays that a trace does not hold -----------------------------------------------------------


def test_a_trace_that_holds_no_array_but_its_arguments_sees_the_same():
    """What an array was, where it came from and what shares its memory, though addresses of freed
    arrays are used again."""
    for name in ("attention", "rnnsearch"):
        derivation = DERIVATIONS[name]
        example = derivation.run().example
        held, freed = (trace(derivation.forward, *example.arguments, follow=derivation.follow,
                             held=most, **example.named) for most in (np.inf, 0))
        assert same_values(freed.steps, held.steps)
        assert 0 < len(freed.memory) < len(held.memory) == len(held.alive)
        arguments = [leaf for _, leaf in leaves((example.arguments, example.named))
                     if isinstance(leaf, np.ndarray)]  # alive in any case
        assert all(any(np.shares_memory(array, leaf) for leaf in arguments)
                   for array in freed.alive.values()
                   if isinstance(array, np.ndarray) and array.size)


def test_what_is_not_held_is_freed():
    reference = []

    def forward(x):
        y = x + 1.0
        reference.append(weakref.ref(y))
        z = y.sum()
        return z

    recorded = trace(forward, np.ones(100), held=50)
    assert reference[0]() is None and step_of(recorded, "z").targets[0].value == 200.0
    kept = trace(forward, np.ones(100), held=100)
    assert reference[1]() is kept.alive[step_of(kept, "y").number, 0]
