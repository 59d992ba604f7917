"""The rules of models: how differences are measured, and the labels and batches of checks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from families import for_all

from grads.verification.cases import labels_of, model_case
from grads.verification.catalogue import entries, random_model
from grads.verification.rules import distance
from grads.verification.shapes import SHAPES


def test_distance_is_a_part_of_the_tensors_largest():
    expected = {"a": np.array([1.0, -100.0]), "b": np.array([0.1]), "none": np.zeros((0, 3))}
    actual = {"a": np.array([2.0, -100.0]), "b": np.array([0.102]), "none": np.zeros((0, 3))}
    assert distance(actual, expected) == pytest.approx(0.02)
    assert distance(expected, expected) == 0.0
    assert distance({"a": np.array([1e-9])}, {"a": np.zeros(1)}) == math.inf
    assert math.isnan(distance({"a": np.array([np.nan]), "b": np.ones(1)},
                               {"a": np.ones(1), "b": np.zeros(1)}))


@for_all([e for e in entries() if e.shape in ("ragged", "real")])
def test_every_weight_is_labelled(entry):
    """Axes have names, and the parts of each axis cover it once."""
    case = model_case(random_model(entry))
    for name, array in case.inputs.items():
        labels = case.labels[name]
        assert len(labels.axes) == array.ndim and all(labels.axes), name
        covered = np.zeros(array.shape, dtype=int)
        for block in labels.blocks:
            covered[block.where] += 1
        assert covered.min() == covered.max(), f"{name}: {labels.blocks}"


def test_blocks_are_where_the_kernels_have_them():
    """The columns of the fed vector are beside those of the word and of the state; each gate has
    its rows."""
    [entry] = [e for e in entries("tiny") if e.name == "luong: as usual; full"]
    weight = random_model(entry).model.weights()["decoder.0.W"]
    where = {block.name: block.where for block in labels_of(weight).blocks}
    assert list(where)[:4] == ["i", "f", "o", "h_hat"] and len(where) == 4 + 3 + 4 * 3
    columns = [where[name][1] for name in list(where)[4:7]]
    assert columns == [slice(0, 3), slice(3, 5), slice(5, 7)]
    assert where["f"] == (slice(2, 4), slice(None))
    assert where[f"f, {list(where)[4]}"] == (slice(2, 4), slice(0, 3))


def test_streams_go_on_and_translations_begin():
    for entry in entries("tiny"):
        batch, shape = random_model(entry).batch, SHAPES[entry.shape]
        assert len(batch.indices) == shape.batch
        if entry.architecture == "language_model":
            assert not batch.begins and np.abs(batch.state[0][0]).min() > 0
            assert (batch.target.lengths == max(shape.lengths)).all()
        else:
            assert batch.state is None and (batch.target_in[0] == 1).all()
            assert tuple(batch.sources[0].lengths) == shape.lengths
