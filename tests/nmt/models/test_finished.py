"""What a model says is finished before its backward pass is: no part of it changes afterwards."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from grads.verification.catalogue import entries, random_model
from nmt.data.batches import make_batch
from nmt.models.finished import finished, heard_by
from nmt.models.parametrization import Parametrized, Tied
from nmt.models.translator import ModelConfig, Translator
from nmt.training.tasks import Several

BATCH = make_batch([([3, 4], [5, 6, 7]), ([2], [3])], [0, 1], True)
ENTRIES = [entry for entry in entries("tiny") if entry.shape == "ragged"]


def heard_and_returned(model, parameters, batch):
    """The gradients that were told of, with copies of what they were then, and those returned."""
    heard, copies = {}, {}

    def listener(gradients):
        for name, gradient in gradients.items():
            assert name not in heard, f"{name}: said to be finished twice"
            heard[name] = gradient
            copies[name] = np.array(gradient) if isinstance(gradient, np.ndarray) else None

    _, cache = model.loss(parameters, batch)
    with heard_by(listener):
        returned = model.backward(cache)
    finished({"nobody": np.zeros(1)})  # is told of it any more
    for name, gradient in heard.items():
        assert returned[name] is gradient, name
        if copies[name] is not None:
            np.testing.assert_array_equal(gradient, copies[name], name)
    return heard, returned


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_what_is_finished_is_what_is_returned(entry):
    made = random_model(entry)
    heard, returned = heard_and_returned(made.model, made.parameters, made.batch)
    whole = entry.options.get("share") in ("decoder", "both")  # is added up when the pass is over
    assert bool(heard) is not whole and heard.keys() < returned.keys()


def translator():
    return Translator(ModelConfig(layers=1, hidden_size=4, embedding_size=4), 9, 9, True)


def test_what_another_changes_is_not_finished():
    """A tied table's gradients are added when the inner pass is over; others are told of."""
    plain, rng = translator(), np.random.default_rng(1)
    tied = Parametrized(plain, {"output.W_hy": Tied("decoder.W_e")})
    heard, _ = heard_and_returned(tied, tied.initial_parameters(rng, "float64"), BATCH)
    alone, _ = heard_and_returned(plain, plain.initial_parameters(rng, "float64"), BATCH)
    assert alone.keys() - heard.keys() == {"output.W_hy", "decoder.W_e"}


def test_a_task_tells_of_its_parameters_by_their_names():
    several = Several({"a": translator(), "b": translator()})
    parameters = {f"{task}/{name}": array for task in "ab" for name, array in
                  translator().initial_parameters(np.random.default_rng(1), "float64").items()}
    heard, _ = heard_and_returned(several, parameters, replace(BATCH, task="b"))
    assert heard and all(name.startswith("b/") for name in heard)
