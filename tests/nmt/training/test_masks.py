"""Masks in checkpoints: bits, sparse files, and masks that do not fit."""

import json

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from backend.errors import UserError
from nmt.training import checkpoint
from nmt.training.checkpoint import MASKS, PARAMETERS

W, U = PARAMETERS + "W", PARAMETERS + "U"
MASK = MASKS + "W"


def arrays(shape=(3, 5)):
    """A masked parameter, one without a mask, and an optimizer's average."""
    rng = np.random.default_rng(1)
    mask = rng.random(shape) < 0.4
    values = np.where(mask, rng.standard_normal(shape), 0).astype("float32")
    values.reshape(-1)[np.flatnonzero(mask)[:1]] = 0.0  # a weight that is kept and zero
    return {W: values, U: np.arange(4.0), MASK: mask,
            "optimizer/m/W": rng.standard_normal(shape)}


def raw(path):
    """The arrays in the file."""
    with safe_open(path, framework="numpy") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata()


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("shape", [(3, 5), (8,), (1, 1), (4, 4)])
def test_round_trip(tmp_path, sparse, shape):
    given = arrays(shape)
    checkpoint.save(tmp_path / "c", given, {"epoch": 3}, sparse=sparse)
    loaded = checkpoint.load(tmp_path / "c")
    assert loaded.metadata == {"epoch": 3} == checkpoint.load_metadata(tmp_path / "c")
    assert loaded.arrays.keys() == given.keys()
    for name, array in given.items():
        assert loaded.arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(loaded.arrays[name], array)
        assert loaded.arrays[name].flags.writeable
    assert loaded.select(MASKS).keys() == {"W"}


def test_a_sparse_file_holds_what_is_kept_and_a_bit_for_each_weight(tmp_path):
    given = arrays()
    checkpoint.save(tmp_path / "c", given, {}, sparse=True)
    stored, _ = raw(tmp_path / "c")
    assert stored[MASK].dtype == np.uint8 and stored[MASK].shape == (2,)
    np.testing.assert_array_equal(stored[W], given[W][given[MASK]])
    assert stored[U].shape == (4,)


def test_without_a_mask_nothing_changes(tmp_path):
    checkpoint.save(tmp_path / "c", {U: np.arange(4.0)}, {}, sparse=True)
    _, metadata = raw(tmp_path / "c")
    assert json.loads(metadata["nmt-checkpoint"]).keys() == {"version", "metadata"}


def change(path, arrays=(), without=(), **header):
    """Write a checkpoint again with other arrays, without some, with another header."""
    stored, metadata = raw(path)
    stored = {name: array for name, array in (stored | dict(arrays)).items()
              if name not in without}
    document = json.loads(metadata["nmt-checkpoint"]) | header
    save_file(stored, path, {"nmt-checkpoint": json.dumps(document)})


@pytest.mark.parametrize("sparse, changes, message", [
    (False, {"arrays": {MASK: np.zeros(9, "uint8")}},
     r"mask of 'W': expected 15 bits for shape \(3, 5\), found 9 x uint8"),
    (False, {"arrays": {MASK: np.zeros(2, "float32")}}, r"mask of 'W': .*, found 2 x float32"),
    (True, {"without": [MASK]}, r"mask of 'W': expected one, found none"),
    (False, {"without": [W]}, r"the file has a mask of 'W' but not its parameter or shape"),
    (False, {"masks": {}}, r"the file has a mask of 'W' but not its parameter or shape"),
    (False, {"arrays": {W: np.ones((5, 3), "float32")}},
     r"mask of 'W': expected a parameter of shape \(3, 5\), got \(5, 3\)"),
    (False, {"arrays": {W: np.ones((3, 5), "float32")}},
     r"mask of 'W': expected zeros where it prunes, found 10 weights that are not"),
    (True, {"arrays": {W: np.ones(7, "float32")}},
     r"mask of 'W': expected a parameter of shape \(5,\), got \(7,\)"),
])
def test_a_mask_that_does_not_fit_is_named(tmp_path, sparse, changes, message):
    checkpoint.save(tmp_path / "c", arrays(), {}, sparse=sparse)
    change(tmp_path / "c", **changes)
    with pytest.raises(UserError, match=rf"c: {message}"):
        checkpoint.load(tmp_path / "c")
