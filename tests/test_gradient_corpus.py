"""In the corpus, right functions are right, and wrong functions are wrong at the declared
variable."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache, wraps
from typing import Any

import numpy as np
import pytest
from families import for_all
from gradient_corpus import (
    FIRST_CALL,
    PAIRS,
    SECOND_CALL,
    WRONG,
    Functions,
    Pair,
    Wrong,
)

from grads.check.analytic import gradients_case, pair_case
from grads.check.case import Case

Arrays = dict[str, np.ndarray]
LEAST = 1e-6  # of the largest gradient of a tensor: a mistake is larger


def case_of(pair: Pair, functions: Functions) -> Case:
    """The pair as a case: inputs, outputs and gradients by name. Each forward is the first that is
    counted."""
    forward, backward = functions

    @wraps(forward)
    def counted(*arguments: Any) -> Any:
        forward.__globals__.get("CALLS", {}).update(count=0)
        return forward(*arguments)

    if pair.scalar:
        return gradients_case(counted, pair.inputs(), backward, None, {})[0]
    return pair_case(counted, backward, pair.inputs(), {})


def copies(arrays: Arrays) -> Arrays:
    """Arrays that may be written into."""
    return {name: np.array(value, float) for name, value in arrays.items()}


def upstream(pair: Pair, case: Case) -> Arrays:
    """Gradients of the outputs: one of a scalar function, random ones otherwise."""
    rng = np.random.default_rng(99)
    return {name: np.ones(()) if pair.scalar else rng.normal(size=np.shape(out))
            for name, out in case.outputs(copies(case.inputs)).items()}


@lru_cache(maxsize=4)  # a right pair serves all its mistakes
def gradients(pair: Pair, wrong: Wrong | None = None) -> tuple[Arrays, Arrays, Arrays, Arrays]:
    """Gradients of one call and of a second call on the same cache, and the upstream gradients
    before and after."""
    case = case_of(pair, pair.functions(wrong))
    upstreams = upstream(pair, case)
    d = copies(upstreams)
    _, cache = case.forward(copies(case.inputs))
    first = copies(case.vjp(d, cache))
    return first, copies(case.vjp(copies(upstreams), cache)), upstreams, d


def elsewhere(pair: Pair, wrong: Wrong | None) -> Arrays:
    """Gradients at other inputs, after a call at the pair's own."""
    case = case_of(pair, pair.functions(wrong))
    case.forward(copies(case.inputs))
    _, cache = case.forward({name: 1.5 * x for name, x in copies(case.inputs).items()})
    return copies(case.vjp(upstream(pair, case_of(pair, pair.functions())), cache))


def errors(actual: Arrays, right: Arrays) -> dict[str, float]:
    """The largest difference in each tensor, relative to its largest gradient."""
    return {name: float(np.abs(actual[name] - d).max() / max(np.abs(d).max(), 1e-12))
            for name, d in right.items()}


# --- right functions ----------------------------------------------------------------------------


def extrapolated(f: Callable[[float], float], step: float) -> float:
    """f'(0): central differences at three steps, extrapolated to a step of zero."""
    a, b, c = ((f(h) - f(-h)) / (2 * h) for h in (step, step / 2, step / 4))
    return (64 * c - 20 * b + a) / 45


def coarse(case: Case) -> bool:
    """Whether a function computes in float32 even if its inputs are float64."""
    return any(np.asarray(out).dtype == np.float32
               for out in case.outputs(copies(case.inputs)).values())


def differentiated(pair: Pair, name: str) -> np.ndarray:
    """The gradient of one input by differences, at every entry of a small one."""
    case = case_of(pair, pair.functions())
    inputs, d_out = copies(case.inputs), upstream(pair, case)

    def loss(index: tuple[int, ...], h: float) -> float:
        moved = copies(inputs)
        moved[name][index] += h
        return sum(float(np.sum(d_out[key] * out)) for key, out in case.outputs(moved).items())

    length = 0.05 if coarse(case) else 1e-3
    slopes = np.full(inputs[name].shape, np.nan)
    for index in list(np.ndindex(slopes.shape))[:60]:
        step = length * min(1.0, abs(inputs[name][index]) or 1.0)
        slopes[index] = extrapolated(lambda h, i=index: loss(i, h), step)
    return slopes


@for_all(PAIRS)
def test_right_functions_are_right(pair):
    actual, again, _, _ = gradients(pair)
    largest = max(np.abs(d).max() for d in actual.values())
    case = case_of(pair, pair.functions())
    for name, d in actual.items():
        inexact = np.spacing(np.abs(case.inputs[name]).max()) / 1e-3  # relative error of a step
        limit = 1e-4 if coarse(case) else 1e-7 + 4 * inexact
        numeric = differentiated(pair, name)
        known = ~np.isnan(numeric)
        size = max(np.abs(d).max(), 1e-4 * largest)  # a gradient that is zero has rounding only
        assert known.any() and np.abs(d - numeric)[known].max() < limit * size, name
        assert np.array_equal(d, again[name]), f"{name} of a second call"


# --- wrong ones ---------------------------------------------------------------------------------


def variables(frame: Any) -> Iterator[tuple[str, Any]]:
    """The variables of a frame that are named like gradients, those of `self` included."""
    for name, value in list(frame.f_locals.items()):
        if name == "self":
            yield from ((f"self.{attribute}", v) for attribute, v in vars(value).items()
                        if attribute[0] == "d")
        elif name[0] == "d" and isinstance(value, (np.ndarray, float, list, dict)):
            yield name, value


def plain(value: Any) -> Any:
    """A copy, to be compared later."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else np.array(value)


def same(a: Any, b: Any) -> bool:
    """Whether two values are equal to rounding."""
    if isinstance(a, (list, dict)):
        keys = a if isinstance(a, dict) else range(len(a))
        return type(a) is type(b) and len(a) == len(b) and all(same(a[k], b[k]) for k in keys)
    return np.shape(a) == np.shape(b) and np.allclose(a, b, 1e-9, 1e-12, equal_nan=True)


Event = tuple[tuple[str, int], dict[str, Any]]  # function and line, what was assigned by then


@lru_cache(maxsize=4)  # a right pair serves all its mistakes
def recorded(pair: Pair, wrong: Wrong | None) -> list[Event]:
    """The backward run line by line; an argument counts once it is assigned or written over."""
    events: list[Event] = []
    arguments: dict[int, dict[str, Any]] = {}

    def trace(frame: Any, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != str(pair.file):
            return None
        now = {name: plain(value) for name, value in variables(frame)}
        if event == "call":
            arguments[id(frame)] = now
        arguments_before = arguments[id(frame)]
        events.append(((frame.f_code.co_name, frame.f_lineno), {
            name: value for name, value in now.items()
            if name not in arguments_before or not same(value, arguments_before[name])}))
        return trace

    case = case_of(pair, pair.functions(wrong))
    d, (_, cache) = upstream(pair, case), case.forward(copies(case.inputs))
    sys.settrace(trace)
    try:
        case.vjp(d, cache)
    finally:
        sys.settrace(None)
    return events


def first_wrong(pair: Pair, wrong: Wrong) -> str:
    """The first variable that differs from the right backward's; else the first gradient."""
    events = recorded(pair, None), recorded(pair, wrong)
    for (place, right), (there, actual) in zip(*events, strict=False):
        if place != there:  # another branch, or a loop of another length: compare the ends
            break
        if names := different(right, actual):
            return names[0]
    (_, right), (_, actual) = (event_list[-1] for event_list in events)
    parameters = list(inspect.signature(pair.functions().backward).parameters)
    names = sorted(different(right, actual), key=lambda name: name in parameters)
    right, actual = gradients(pair)[0], gradients(pair, wrong)[0]
    names += [f"d{name}" for name, error in errors(actual, right).items() if error > LEAST]
    return [*names, parameters[0]][0]  # all are right: it writes into the upstream gradient


def different(right: Arrays, actual: Arrays) -> list[str]:
    """The names of variables that differ."""
    return [name for name in {**right, **actual}
            if name not in right or name not in actual or not same(right[name], actual[name])]


@for_all(WRONG, lambda mistake: f"{mistake[0].name}: {mistake[1].what}")
def test_wrong_functions_are_wrong(mistake, monkeypatch):
    pair, wrong = mistake
    monkeypatch.setattr(np, "empty_like", np.zeros_like)  # or what is not assigned yet differs
    right = gradients(pair)[0]
    actual, again, before, after = gradients(pair, wrong)
    written = any(not np.array_equal(before[name], after[name]) for name in before)
    if wrong.first == SECOND_CALL:
        assert max(errors(actual, right).values()) == 0, "wrong in the first call already"
        assert max(errors(again, right).values()) > LEAST
    elif wrong.first == FIRST_CALL:
        assert max(errors(actual, right).values()) == 0, "wrong in the first call already"
        assert max(errors(elsewhere(pair, wrong), elsewhere(pair, None)).values()) > LEAST
    else:
        assert written or max(errors(actual, right).values()) > LEAST
        assert first_wrong(pair, wrong) == wrong.first


def test_size_and_names():
    """The corpus has the promised size, and names and mistakes are distinct."""
    assert len(PAIRS) >= 60 and len(WRONG) >= 120
    assert len({pair.name for pair in PAIRS}) == len(PAIRS)
    assert len({(pair.name, wrong.old, wrong.new) for pair, wrong in WRONG}) == len(WRONG)
    assert all(pair.wrong for pair in PAIRS) and all(wrong.what for _, wrong in WRONG)


def test_a_mistake_that_is_not_in_the_text():
    with pytest.raises(ValueError, match="expected 'no such text' once, found it 0 times"):
        PAIRS[0].source(Wrong("no such text", "", "dx", ""))
