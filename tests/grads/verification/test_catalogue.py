"""Every architecture in every variant has right gradients and follows the rules, and mistakes are
caught."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from itertools import groupby
from types import FunctionType, ModuleType

import numpy as np
import pytest
from families import for_all
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_model import registered, toys

from grads.check.analytic import differing
from grads.verification import derivations
from grads.verification.cases import draw_model
from grads.verification.catalogue import (
    TIERS,
    architectures,
    check,
    check_model,
    entries,
    numbers,
    random_model,
)
from grads.verification.completeness import backward_functions, never_run, product_modules
from grads.verification.mutation.checks import checks_of_cells
from grads.verification.mutation.injection import replaced
from grads.verification.mutation.record import Check
from grads.verification.shapes import Shape
from nmt.data.vocabulary import END, UNKNOWN
from nmt.models.variants import PLAIN

EVERY = 16  # every n-th of all configurations; `grads matrix` checks all
RAGGED = [entry for entry in entries("tiny") if entry.shape == "ragged"]
BY_TENSOR = [entry for entry in RAGGED if entry.variant == "as usual"] + RAGGED[::5]
BY_CONFIGURATION = {name: list(shapes) for name, shapes in groupby(
    entries(), lambda entry: entry.name.removesuffix(entry.shape).rstrip(",; "))}


def taken(name):
    """A configuration's entries that are checked: all of a usual one; of another one ragged
    batches, real sizes and one more shape, each configuration's in turn. `grads matrix` checks
    all."""
    shapes = BY_CONFIGURATION[name]
    if shapes[0].variant == "as usual":
        return shapes
    always = [entry for entry in shapes if entry.shape.startswith(("ragged", "real"))]
    others = [entry for entry in shapes if entry not in always]
    turn = [*BY_CONFIGURATION].index(name) % max(len(others), 1)
    return [*always, *others[turn:turn + 1]]


@pytest.mark.parametrize("name", BY_CONFIGURATION)
def test_gradients(name):
    """All tensors at once are checked along two directions; at tiny ragged batches of every usual
    configuration and a fifth of the others, each tensor along two directions and for one entry.
    Both find a wrong tensor."""

    @for_all(taken(name))
    def right(entry):
        check(entry, together=entry not in BY_TENSOR).raise_if_wrong()

    right()


@pytest.mark.parametrize("entry", entries("every")[::EVERY], ids=lambda entry: entry.name)
def test_some_of_all_configurations(entry):
    check(entry, together=True).raise_if_wrong()


@pytest.mark.parametrize("entry", RAGGED[::3], ids=lambda entry: entry.name)
@settings(max_examples=2, deadline=None, derandomize=True)
@given(st.lists(st.integers(1, 7), min_size=1, max_size=5).map(tuple), st.booleans(),
       st.integers(0, 2**32 - 1))
def test_random_shapes_of_batches(entry, lengths, reverse, seed):
    model = draw_model(architectures()[entry.architecture], entry.options,
                       Shape(lengths, reverse=reverse), np.random.default_rng(seed))
    check_model(model, entry.name, seed, together=True).raise_if_wrong()


@pytest.mark.parametrize("entry", derivations.entries(), ids=lambda entry: entry.name)
def test_derivations(entry):
    """Each tensor of every derivation as usual, all at once of its variants."""
    derivations.check(entry, together=entry.variant != "as usual").raise_if_wrong()


def test_entries_are_told_apart_and_found_again():
    every = [*entries(*TIERS), *derivations.entries()]
    assert len({entry.name for entry in every}) == len(every) > 1000
    assert [e.name for e in entries()] == [e.name for e in entries("tiny", "real")]
    assert [e for shapes in BY_CONFIGURATION.values() for e in shapes] == entries()
    for start in ("", "luong: a", "r", "parametrized: "):
        named = [e.name for e in entries(start=start)]
        assert len(start) == 0 or {name[0] for name in named} == {start[0]}
        assert {e.name for e in entries() if e.name.startswith(start)} <= {*named}


def test_sizes_are_beyond_every_threshold():
    """24 steps, 20 source words, more than 16 repeats of more than 16 words, more than 32 rows."""
    for entry in (candidate for candidate in entries("real") if candidate.shape == "real"):
        drawn = random_model(entry)
        sides = [*drawn.batch.sources, drawn.batch.target]
        assert len(drawn.batch.indices) == 20
        assert len(drawn.batch.target_in) == 24 or not drawn.batch.sources
        for side in sides:
            counts = [int((side.ids == word).sum()) for word in np.unique(side.ids) if word >= 2]
            assert len(side.ids) >= 20 and min(counts) > 16
            assert len(counts) == 17 or len(side.characters) > 1  # some of the words are spelled
        assert drawn.model.config.hidden_size >= 24
        assert getattr(drawn.model.config, "dropout", 0.3) > 0
    values = {(e.architecture, name, value) for e in entries("real")
              for name, value in e.options.items() if not isinstance(value, dict)}
    for unit in PLAIN:
        assert {("luong", "unit", unit), ("language_model", "unit", unit)} <= values
    assert {("deep stacks", "unit", "lstm-norm"), ("deep stacks", "residual", True)} <= values
    assert {("luong", "layers", n) for n in (1, 2, 4)} <= values


def test_rare_words_come_in_every_kind_at_both_tiers():
    """For the hybrid: a rare word twice, no rare word, words of one letter, and a batch of rare
    words only."""
    for tier in ("tiny", "real"):
        batches = [random_model(entry).batch for entry in entries(tier)
                   if entry.architecture == "hybrid"]
        groups = [group for batch in batches for group in batch.sources[0].characters]
        assert any(max(np.bincount(group.words)) > 1 for group in groups)
        assert any((group.lengths == 2).any() for group in groups)
        assert any(not batch.sources[0].characters and not batch.target.characters
                   for batch in batches)
        assert any((batch.target_out[batch.target_out != END] == UNKNOWN).all()
                   and (batch.sources[0].ids[:1] == UNKNOWN).all() for batch in batches)


# --- completeness -----------------------------------------------------------------------------

def test_every_backward_of_the_product_runs():
    checks = [Check(entry.name, partial(numbers, entry)) for entry in entries("tiny")
              if entry.shape == "ragged"]
    assert never_run(product_modules(), [*checks, *checks_of_cells()]) == []


def test_a_backward_that_never_runs_is_named():
    module = ModuleType("product.part")
    for name in ("new_forward", "new_backward", "helper"):
        code = (lambda: None).__code__.replace(co_name=name, co_qualname=name)
        function = FunctionType(code, {})
        function.__module__ = "product.part"
        setattr(module, name, function)
    module.borrowed_backward = import_module("nmt.models.bridge").bridge_backward
    entry = entries("tiny")[0]
    checks = [Check(entry.name, partial(numbers, entry))]
    assert never_run([module], checks) == ["product.part.new_backward"]
    assert len(backward_functions(product_modules())) > 20


# --- mistakes ---------------------------------------------------------------------------------


def test_a_right_model_needs_nothing_but_its_registration():
    with registered():
        assert len(toys()) == 2 * 6 + 2
        for entry in toys():
            check(entry).raise_if_wrong()


@pytest.mark.parametrize("flaw, complaint", [
    ("wrong", "v at input"),
    ("reads padding", "depends on what stands on padding"),
    ("unused row", "expected exact zeros in rows that no step reads"),
    ("widens", "expected float32, got float64"),
    ("inaccurate", "those of float64 but for rounding, got a relative difference of 1.0e-02"),
    ("constant", "expected a gradient, got zeros"),
])  # fmt: skip
def test_a_flawed_model_is_caught(flaw, complaint):
    with registered(flaw):
        for tier in ("tiny", "real"):
            report = check(toys(tier)[0])
            assert not report.ok and any(complaint in text for text in report.remarks()), report


INJECTED = [  # module, function, old code, a bug that shows only at users' sizes
    ("lstm.recurrent", "transposed", "return copy", "return 0.0 * copy"),
    ("attention.blocks", "pieces", "range(0, count, size)", "range(0, min(count, 1), size)"),
    ("attention.blocks", "rectangles", "pieces(Q, size)", "pieces(min(Q, size), size)"),
    ("attention.scores", "tanh_backward", "in rectangles(xp, B, Q, S * A)",
     "in list(rectangles(xp, B, Q, S * A))[:1]"),
    ("attention.local", "sum_of_reads", "in pieces(len(hbar), block_size(xp, P * He))",
     "in list(pieces(len(hbar), block_size(xp, P * He)))[:1]"),
    ("lstm.prediction", "prediction_backward", "product(ds.T, h)",
     "product(ds[:CHUNK].T, h[:CHUNK])"),
    ("backend.rows", "sum_segments", "longer[counts[longer] > k]",
     "longer[(counts[longer] > k) & (k < 16)]"),
    ("backend.rows", "sum_segments", "+ k : ends[n]]", "+ k : min(ends[n], starts[n] + 16)]"),
]


@pytest.fixture(scope="module")
def known():
    """By tier: entries with their loss and gradients, of all tiny ragged and all real ones."""
    return {tier: [(entry, numbers(entry)) for entry in reversed(entries(tier))
                   if entry.shape in ("ragged", "real")] for tier in ("tiny", "real")}


@pytest.mark.parametrize("module, name, old, new", INJECTED)
def test_a_bug_behind_a_threshold_of_size_is_caught(module, name, old, new, known):
    """Entries of real sizes find bugs that do not change any number of the tiny entries."""
    with replaced(f"{module}.{name}", old, new):
        assert not any(changed(*run) for run in known["tiny"])
        assert any(complains(run[0]) for run in known["real"] if changed(*run))


def changed(entry, before):
    """Whether the numbers of an entry differ from those before, so that its check may too."""
    return bool(differing(numbers(entry), before))


def complains(entry):
    """Whether the check of an entry finds something wrong. A crash proves nothing, but a refusal
    does, because unwritten memory may hold values that no analytic function returns."""
    try:
        return not check(entry, together=True, diagnosis=0).ok
    except ValueError as error:
        return "method: expected one that suits the function" in str(error)
