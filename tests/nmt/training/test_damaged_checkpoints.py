"""Checkpoints that a disk, an accident or a stranger has changed are refused in one line, or are
whole."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tiny_run import TEXT_RECIPE, complaint, nmt, write_corpus, write_recipe

from backend.errors import UserError
from nmt.training import checkpoint
from nmt.training.optimizers import Adam

ARRAYS = {"parameters/W": np.arange(6, dtype=np.float32).reshape(2, 3),
          "optimizer/t/W": np.array(3)}
STATE = {"options": {}, "counters": {"epoch": 1, "step": 3, "position": 0, "best": None},
         "meter": {}, "schedule": {"rate": 1.0}}


@pytest.fixture
def path(tmp_path):
    checkpoint.save(tmp_path / "last.safetensors", ARRAYS, {"epoch": 2, "training": STATE})
    return tmp_path / "last.safetensors"


def test_every_flipped_bit_is_found(path):
    """Wherever it is: length, header, document, checksum, numbers."""
    whole = path.read_bytes()
    for place in range(len(whole)):
        for bit in range(8) if place % 7 == 0 else [place % 8]:
            damaged = bytearray(whole)
            damaged[place] ^= 1 << bit
            path.write_bytes(damaged)
            with pytest.raises(UserError, match=path.name):
                checkpoint.load(path)


def test_a_file_without_a_checksum_still_loads(path):
    """Files of before there was one."""
    document = {"version": checkpoint.VERSION, "metadata": {"epoch": 2}}
    save_file(ARRAYS, path, {"nmt-checkpoint": json.dumps(document)})
    loaded = checkpoint.load(path)
    np.testing.assert_array_equal(loaded.arrays["parameters/W"], ARRAYS["parameters/W"])
    assert loaded.metadata == {"epoch": 2}


def test_the_library_reads_what_is_written(path):
    np.testing.assert_array_equal(load_file(path)["parameters/W"], ARRAYS["parameters/W"])


@pytest.mark.parametrize("key", checkpoint._MAPPINGS[1:])
@pytest.mark.parametrize("value", [None, [], "x", 3])
def test_a_document_of_another_shape(path, key, value):
    document: dict = {"training": {}, "model": {}}
    *outer, last = key.split(".")
    (document[outer[0]] if outer else document)[last] = value
    checkpoint.save(path, ARRAYS, document)
    with pytest.raises(UserError, match=rf"{path}: metadata {key}: expected a mapping, found "):
        checkpoint.load_metadata(path)


@pytest.mark.parametrize("key, value", [
    ("epoch", -1), ("epoch", "x"), ("step", 2**64), ("training.counters.epoch", None),
    ("training.counters.step", 1.5), ("training.counters.step", True),
    ("training.counters.best", "x"), ("training.meter", {"a": [1, "x"]}),
    ("training.schedule", {"rate": float("nan")}), ("training.schedule", {"rate": 10**400}),
])  # fmt: skip
def test_a_number_of_a_document_that_is_none(path, key, value):
    document = {"training": {"counters": {}}}
    inner = document
    *outer, last = key.split(".")
    for name in outer:
        inner = inner[name]
    inner[last] = value
    checkpoint.save(path, ARRAYS, document)
    with pytest.raises(UserError, match=rf"metadata {key.rpartition('.best')[0] or key}: expected"):
        checkpoint.load_metadata(path)


@pytest.mark.parametrize("document", ["[" * 100_000, "null", '{"version": NaN}', "\ud800"])
def test_a_document_that_is_none(path, document):
    text = document.encode("utf-8", "replace").decode()
    save_file(ARRAYS, path, {"nmt-checkpoint": text})
    with pytest.raises(UserError, match="nmt-checkpoint"):
        checkpoint.load(path)


@pytest.mark.parametrize("taught", [False, True])  # by a package, which may be imported anyway
@pytest.mark.parametrize("dtype, shape", [("BF16", 6), ("F8_E4M3", 12), ("F8_E5M2", 12)])
def test_dtypes_that_numpy_has_not(path, dtype, shape, taught):
    if taught:
        pytest.importorskip("ml_dtypes")
    save_file(ARRAYS, path, {"nmt-checkpoint": json.dumps({"version": 3, "metadata": {}})})
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + size])
    header["parameters/W"] |= {"dtype": dtype, "shape": [2, shape]}
    if dtype == "BF16":
        header["parameters/W"]["shape"] = [2, 6]
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + raw[8 + size :])
    with pytest.raises(UserError, match="expected an array of a dtype that NumPy has"):
        checkpoint.load(path)


@pytest.mark.parametrize("change, said", [
    (lambda a: np.full_like(a, np.nan), "found 6 of 6 that are infinite or NaN"),
    (lambda a: np.where(a == 2, np.inf, a), "found 1 of 6"),
    (lambda a: a.astype(np.float64), "expected float32, found float64"),
    (lambda a: a.astype(np.int8), "expected float32, found int8"),
])  # fmt: skip
def test_parameters_that_no_model_has(path, change, said):
    array = ARRAYS["parameters/W"]
    checkpoint.save(path, {"parameters/W": change(array).astype(change(array).dtype)}, {})
    with pytest.raises(UserError, match=rf"{path}: parameter 'W': .*{said}"):
        checkpoint.parameters_of(checkpoint.load(path), path, {"W": array})


@pytest.mark.parametrize("packing", [
    {"masks": []}, {"masks": {"W": [-2, -3]}}, {"masks": {"W": "ab"}}, {"masks": {"W": [2.0, 3]}},
    {"masks": {"W": [2**40, 2**40]}}, {"masks": {}}, {"masks": {"W": [2, 3]}, "sparse": "yes"},
    {"masks": {"W": [2, 3]}, "sparse": None},
])  # fmt: skip
def test_masks_of_another_shape(path, packing):
    document = {"version": 3, "metadata": {}} | packing
    save_file({**ARRAYS, "mask/W": np.array([255], np.uint8)}, path,
              {"nmt-checkpoint": json.dumps(document)})
    with pytest.raises(UserError, match=rf"{path}: "):
        checkpoint.load(path)


GOOD = {"m/W": np.zeros((2, 3), np.float32), "v/W": np.zeros((2, 3), np.float32),
        "t/W": np.array(3)}


@pytest.mark.parametrize("change, said", [
    ({"m/W": np.zeros((2, 3))}, r"m/W: expected float32 of shape \(2, 3\), found float64"),
    ({"v/W": np.zeros((3, 2), np.float32)}, r"v/W: expected float32 of shape \(2, 3\)"),
    ({"v/W": np.full((2, 3), np.nan, np.float32)}, "v/W: expected finite numbers"),
    ({"t/W": np.array(0)}, "t/W: expected a number of updates"),
    ({"t/W": np.zeros(3, int)}, "t/W: expected a number of updates"),
    ({"t/W": np.array(2.0)}, "t/W: expected a number of updates, found float64"),
    ({f"{kind}/x": array for kind, array in zip("mvt", GOOD.values(), strict=True)},
     "m/x: expected a parameter of the model, found none"),
])  # fmt: skip
def test_states_of_an_optimizer_that_are_none(change, said):
    Adam().load_state_arrays(GOOD, {"W": ARRAYS["parameters/W"]})
    with pytest.raises(ValueError, match=said):
        Adam().load_state_arrays(GOOD | change, {"W": ARRAYS["parameters/W"]})


@pytest.mark.parametrize("change, said", [
    ({"0.0": np.zeros((4, 9), np.float32)}, r"0.0, .*: expected shape \(4, 8\) of float32, found "
                                            r"shape \(4, 9\) of float32"),
    ({"1.1": np.zeros((4, 8))}, r"1.1, .*: expected shape \(4, 8\) of float32, found .* float64"),
    ({"0.1": np.zeros((3, 8), np.float32)}, r"0.1, .* found shape \(3, 8\)"),
    ({"0.1": None}, r"0.1, a state that is handed from batch to batch: .*, found none"),
    ({"x": np.zeros((4, 8), np.float32)}, "x, .*: expected none, found shape"),
    ({"0.0": np.full((4, 8), np.inf, np.float32)}, "0.0: expected finite numbers"),
    (dict.fromkeys(("0.0", "0.1", "1.0", "1.1")), r"\*, found none"),
])  # fmt: skip
def test_states_of_streams_that_are_none(tmp_path, capsys, change, said):
    """States of a language model in the middle of an epoch."""
    write_corpus(tmp_path)
    recipe = write_recipe(tmp_path / "r.yaml", TEXT_RECIPE, train={"epochs": 1})
    assert nmt("lm", "train", recipe, "--output", tmp_path / "run") == 0
    path = tmp_path / "run" / "last.safetensors"
    saved = checkpoint.load(path)
    saved.metadata["training"]["counters"] |= {"epoch": 1, "position": 2}
    states = {f"carried/{name}": array for name, array in change.items()}
    arrays = {name: array for name, array in (saved.arrays | states).items() if array is not None}
    checkpoint.save(path, arrays, saved.metadata)
    message = complaint(capsys, "lm", "train", "--resume", tmp_path / "run", "--train.epochs", 2)
    assert re.fullmatch(rf"{path}:( cannot resume:)?.* ?carried/{said}.*", message), message
