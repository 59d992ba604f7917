"""The time of a step by part: every second counts once, and the product's functions are
restored."""

from __future__ import annotations

from pkgutil import resolve_name

import numpy as np
import pytest

from benchmarks import parts
from benchmarks.parts import PARTS, REST, TIMED, Stopwatch, watching
from nmt.data.batches import make_batch
from nmt.models.contract import Tables
from nmt.models.registry import make_model
from nmt.models.rnnsearch_config import RNNSearchConfig
from nmt.models.translator import ModelConfig

SMALL = {"hidden_size": 4, "embedding_size": 3}
MODELS = {
    "feeding": ModelConfig(dropout=0.2, bridge=True, **SMALL),
    "no feeding": ModelConfig(dropout=0.2, bridge=True, input_feeding=False, **SMALL),
    "rnnsearch": RNNSearchConfig(layer_size=4, **SMALL),
    "rnnencdec": RNNSearchConfig(context="last", layer_size=4, **SMALL),
}
COMMON = set(PARTS) - {"clip", "update", "dropout masks", "attention forward", "attention backward"}
ATTENTION = {"attention forward", "attention backward"}
EXPECTED = {
    "feeding": COMMON | ATTENTION | {"dropout masks"},
    "no feeding": COMMON | ATTENTION | {"dropout masks"},
    "rnnsearch": COMMON | ATTENTION, "rnnencdec": COMMON,
}


class Clock:
    """A clock that only moves when told to."""

    def __init__(self):
        self.now = 10.0

    def perf_counter(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(parts, "time", clock)
    return clock


def test_a_part_does_not_count_the_parts_within(clock):
    watch = Stopwatch()

    def inner():
        clock.now += 1.0

    def outer():
        clock.now += 2.0
        watch.wrap("inner", inner)()
        watch.wrap("inner", inner)()
        clock.now += 4.0
        return "result"

    with watch.timed(REST):
        clock.now += 8.0
        assert watch.wrap("outer", outer)() == "result"
    clock.now += 16.0  # outside of all parts
    assert watch.seconds == {"inner": 2.0, "outer": 6.0, REST: 8.0}


def test_the_device_is_waited_for_before_the_clock_is_read(clock):
    def wait():
        clock.now += pending.pop() if pending else 0.0

    watch, pending = Stopwatch(wait), []
    with watch.timed(REST), watch.timed("launch"):
        pending.append(3.0)  # the call returns while the device still works
    assert watch.seconds == {"launch": 3.0, REST: 0.0}


def test_an_error_inside_leaves_the_part(clock):
    watch = Stopwatch()
    with watch.timed(REST):
        with pytest.raises(ZeroDivisionError), watch.timed("broken"):
            clock.now += 1.0
            raise ZeroDivisionError
        clock.now += 2.0
    assert watch.seconds == {"broken": 1.0, REST: 2.0}


def pass_through(config):
    model = make_model(config, Tables((9,), 9))
    parameters = model.initial_parameters(np.random.default_rng(1), "float64")
    batch = make_batch([([3, 4], [5, 6]), ([2, 8], [7])], [0, 1], False)
    noise = model.noise(batch, np.random.default_rng(2), "float64")
    loss, cache = model.loss(parameters, batch, noise)
    return loss, model.backward(cache)


@pytest.mark.parametrize("name", MODELS)
def test_every_part_of_a_model_is_seen_and_its_numbers_stay(name):
    expected_loss, expected = pass_through(MODELS[name])
    watch = Stopwatch()
    with watching(watch), watch.timed(REST):
        loss, gradients = pass_through(MODELS[name])
    assert {name_of_part for name_of_part, seconds in watch.seconds.items()
            if seconds > 0} == EXPECTED[name]
    assert loss == expected_loss and gradients.keys() == expected.keys()


def test_all_wrapped_functions_are_restored():
    def functions():
        return [getattr(resolve_name(place), name)
                for place, names in TIMED.items() for name in names]

    before = functions()
    with pytest.raises(KeyError), watching(Stopwatch()):
        assert all(now is not then for now, then in zip(functions(), before, strict=True))
        raise KeyError
    assert functions() == before


def test_every_wrapped_function_belongs_to_a_known_part():
    assert {name_of_part for names in TIMED.values()
            for name_of_part in names.values()} <= set(PARTS)
