"""Checkpoints are read back bit for bit, or an error says why they cannot be."""

import json
import os

import numpy as np
import pytest
from safetensors.numpy import save_file
from strict.module import strict, to_strict

from backend.errors import UserError
from nmt.training import checkpoint


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    return {"parameters/W": rng.standard_normal((3, 4)).astype(np.float32),
            "parameters/b": rng.standard_normal(4),
            "optimizer/t/W": np.array(3)}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "last.safetensors"


def test_round_trip(path, arrays):
    checkpoint.save(path, arrays, {"epoch": 2, "deep": {"list": [1, 2.5, None, 2**100]}})
    loaded = checkpoint.load(path)
    assert loaded.metadata == {"epoch": 2, "deep": {"list": [1, 2.5, None, 2**100]}}
    assert loaded.arrays.keys() == arrays.keys()
    for name, array in arrays.items():
        assert loaded.arrays[name].dtype == array.dtype and loaded.arrays[name].shape == array.shape
        np.testing.assert_array_equal(loaded.arrays[name], array)
    assert loaded.select("parameters/").keys() == {"W", "b"}
    assert os.listdir(path.parent) == [path.name]


def test_arrays_that_are_not_contiguous(path):
    a = np.arange(12.0).reshape(3, 4)
    checkpoint.save(path, {"T": a.T, "slice": a[:, 1:3], "reversed": a[::-1]}, {})
    loaded = checkpoint.load(path).arrays
    np.testing.assert_array_equal(loaded["T"], a.T)
    np.testing.assert_array_equal(loaded["slice"], a[:, 1:3])
    np.testing.assert_array_equal(loaded["reversed"], a[::-1])


def test_loaded_arrays_may_be_written_to(path, arrays):
    checkpoint.save(path, arrays, {})
    loaded = checkpoint.load(path).arrays["parameters/W"]
    loaded += 1
    np.testing.assert_array_equal(loaded, arrays["parameters/W"] + 1)


def test_device_arrays(path, arrays):
    strict.install()
    checkpoint.save(path, to_strict(arrays), {})
    np.testing.assert_array_equal(checkpoint.load(path).arrays["parameters/W"],
                                  arrays["parameters/W"])


def test_a_directory_that_is_not_there(tmp_path, arrays):
    with pytest.raises(UserError, match="cannot be written"):
        checkpoint.save(tmp_path / "nowhere" / "a.safetensors", arrays, {})


def test_missing_and_directory(tmp_path):
    with pytest.raises(UserError, match=r"a\.safetensors: expected a checkpoint file, .* nothing"):
        checkpoint.load(tmp_path / "a.safetensors")
    with pytest.raises(UserError, match="found a directory"):
        checkpoint.load(tmp_path)


@pytest.mark.parametrize("keep", [0, 5, 40, -4])
def test_truncated(path, arrays, keep):
    checkpoint.save(path, arrays, {})
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(UserError, match=r"last\.safetensors: expected a safetensors file"):
        checkpoint.load(path)


def test_not_a_safetensors_file(path):
    path.write_text("a plain text file, long enough to have a length field\n")
    with pytest.raises(UserError, match="expected a safetensors file"):
        checkpoint.load(path)


@pytest.mark.parametrize("metadata, message", [
    (None, "found no metadata: a safetensors file of another program"),
    ({"format": "pt"}, "another program"),
    ({"nmt-checkpoint": "{"}, "is damaged"),
    ({"nmt-checkpoint": "[]"}, "is damaged"),
    ({"nmt-checkpoint": json.dumps({"version": 7, "metadata": {}})}, "format 3, found 7"),
])
def test_metadata_of_others(path, metadata, message):
    save_file({"W": np.zeros(2)}, path, metadata)
    with pytest.raises(UserError, match=message):
        checkpoint.load(path)


def test_load_parameters_in_the_model_s_order(path, arrays):
    checkpoint.save(path, arrays, {})
    template = {"b": np.zeros(4), "W": np.zeros((3, 4), np.float32)}
    parameters = checkpoint.parameters_of(checkpoint.load(path), path, template)
    assert list(parameters) == ["b", "W"]
    np.testing.assert_array_equal(parameters["W"], arrays["parameters/W"])


@pytest.mark.parametrize("template, message", [
    ({"W": np.zeros((3, 4)), "b": np.zeros(4), "c": np.zeros(1)}, r"lacks 1 parameter: c"),
    ({"W": np.zeros((3, 4))}, r"beyond the model's, 1 parameter: b"),
    ({"W": np.zeros((4, 3)), "b": np.zeros(4)},
     r"'W': the model expects shape \(4, 3\), the file holds \(3, 4\)"),
])
def test_parameters_of_another_model(path, arrays, template, message):
    checkpoint.save(path, arrays, {})
    with pytest.raises(UserError, match=message):
        checkpoint.parameters_of(checkpoint.load(path), path, template)
