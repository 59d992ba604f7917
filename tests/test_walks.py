"""docs/reference/README.md: its walks name the files of a journey, and its letters are those of the
code.

A journey runs with a profiler's hook: every function of the product that is called is noted.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from grads.check import check_pair
from lstm.cells import CELLS
from lstm.recurrent import recurrent_backward, recurrent_forward
from nmt.data.batches import make_batch, make_sources
from nmt.models.contract import Tables
from nmt.models.registry import make_model
from nmt.models.translator_config import ModelConfig
from nmt.search.beam import beam_search
from nmt.search.interface import SearchOptions
from nmt.training.optimizers import gradient_scale
from nmt.training.options import TrainOptions

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "reference" / "README.md").read_text(encoding="utf-8")
PACKAGES = ("backend", "lstm", "attention", "nmt", "grads")
ROOMS = ("lstm", "attention", "nmt/models")


def training_step():
    rng = np.random.default_rng(0)
    model = make_model(ModelConfig(layers=2, hidden_size=8, embedding_size=8, dropout=0.2),
                       Tables((20,), 20, True))
    parameters = model.initial_parameters(rng, "float32")
    batch = make_batch([([2, 3, 4], [5, 6]), ([3, 4], [7, 8, 9])], range(2), True)
    optimizer = TrainOptions(batch_size=2, learning_rate=0.1).make_optimizer()

    def journey():
        _, cache = model.loss(parameters, batch, model.noise(batch, rng, "float32"))
        gradients = model.backward(cache)
        optimizer.update(parameters, gradients, gradient_scale(gradients, 2, 5.0)[0])

    return journey


def lstm_layer():
    rng, (T, B, H) = np.random.default_rng(0), (3, 2, 5)
    x, state = rng.normal(size=(T, B, H)), (np.zeros((B, H)), np.zeros((B, H)))
    W, b = rng.normal(size=(4 * H, 2 * H)), np.zeros(4 * H)

    def journey():
        h, _, cache = recurrent_forward(CELLS["lstm"], x, state, W, b)
        recurrent_backward(np.ones_like(h), None, cache)

    return journey


def search():
    model = make_model(ModelConfig(layers=2, hidden_size=8, embedding_size=8),
                       Tables((20,), 20, True))
    parameters = model.initial_parameters(np.random.default_rng(0), "float32")
    sources = make_sources([[2, 3, 4], [3, 4]], reverse=True)
    return lambda: beam_search(model, parameters, sources, SearchOptions(beam=3, nbest=3))


def gradient_check():
    def forward(x, W, b):
        h = np.tanh(x @ W.T + b)
        return h, (x, W, h)

    def backward(dh, cache):
        x, W, h = cache
        da = (1 - h * h) * dh
        return da @ W, da.T @ x, da.sum(axis=0)

    rng = np.random.default_rng(1)
    inputs = [rng.normal(size=shape) for shape in ((4, 3), (2, 3), (2,))]
    return lambda: check_pair(forward, backward, inputs)


WALKS = {"A training step": training_step, "An LSTM layer, forward and backward": lstm_layer,
         "Beam search": search, "A gradient check": gradient_check}


def files_entered(journey):
    """The files of the product whose functions are called while a journey runs."""
    entered = set()

    def hook(frame, event, argument):
        path = Path(frame.f_code.co_filename)
        if event == "call" and "<" not in frame.f_code.co_name and path.is_relative_to(ROOT):
            entered.add(path.relative_to(ROOT))

    before = sys.getprofile()
    sys.setprofile(hook)
    try:
        journey()
    finally:
        sys.setprofile(before)
    return {path.as_posix() for path in entered if path.parts[0] in PACKAGES}


def section(title):
    """The files that a walk of the page names."""
    text = re.split(r"^##+ ", PAGE.partition(f"### {title}\n")[2], maxsplit=1, flags=re.M)[0]
    return re.findall(r"^\| `([a-z_/]+\.py)` \|", text, re.M)


@pytest.mark.parametrize("title", WALKS)
def test_a_walk_names_the_files_that_its_journey_enters(title):
    named = section(title)
    assert len(named) == len(set(named))
    assert set(named) == files_entered(WALKS[title]())


def test_sizes_have_the_letters_of_the_legend():
    """Every name that these packages unpack from a shape is a size in the legend, and a size's
    letter holds nothing else."""
    sizes = {letter for letter in letters_of_the_legend() if letter[0].isupper()} - {"W"}
    assert {"B", "S", "T", "E", "H", "V"} < sizes
    assignments = list(assigned())
    strange = [f"{file}: {letter}" for file, letter, value in assignments
               if isinstance(value, ast.Attribute) and value.attr == "shape"
               and letter.lstrip("_") and letter[0].isupper() and letter not in sizes]
    strange += [f"{file}: {letter}" for file, letter, value in assignments
                if letter in sizes and not is_size(value)]
    assert strange == []


def test_gates_are_in_cells_alone():
    """`u` and `z` are a cell's gates, and nothing else."""
    assert {"u", "z"} < letters_of_the_legend()
    assert [f"{file}: {letter}" for file, letter, _ in assigned()
            if letter in {"u", "z"} and not file.startswith("lstm/cells/")] == []


def letters_of_the_legend():
    legend = PAGE.partition("## Letters")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in legend.splitlines() if line.startswith("| `")]
    return {letter for row in rows for letter in re.findall(r"`(\w+)`", row)}


def is_size(value):
    """Whether an expression may be a size: no text, no generator, no call but `len`, `max`, `min`.
    """
    if isinstance(value, ast.Call):
        return getattr(value.func, "id", "") in {"len", "max", "min"}
    return not isinstance(value, (ast.GeneratorExp, ast.ListComp)) and not isinstance(
        getattr(value, "value", None), str)


def assigned():
    """File, name and expression of each assignment to a name, also of one in a tuple."""
    for file in (file for room in ROOMS for file in sorted((ROOT / room).rglob("*.py"))):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Assign):
                targets, values = node.targets[0], node.value
                pairs = [(targets, values)]
                if isinstance(targets, ast.Tuple) and isinstance(values, ast.Tuple):
                    pairs = list(zip(targets.elts, values.elts, strict=True))
                for target, value in pairs:
                    yield from ((file.relative_to(ROOT).as_posix(), name.id, value)
                                for name in ast.walk(target)
                                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store))
