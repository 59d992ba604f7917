"""`grads debug-state`: its names, and its numbers compared with the checkpoint and with each
other."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

import grads.stepper.trained
from grads.cli import main
from grads.debug_state import debug_state

TRAINED = Path(grads.stepper.trained.__file__).parent


@pytest.fixture(scope="module")
def state():
    return debug_state(TRAINED / "attention", "vor 12 Wochen", "12 weeks ago")


@pytest.mark.parametrize("name", ["rnn", "lstm", "nmt", "attention", "rnnsearch"])
def test_every_parameter_has_a_gradient_and_every_tensor_a_line(name):
    arrays, metadata = debug_state(TRAINED / name)
    kinds = {kind: {key.partition("/")[2] for key in arrays if key.startswith(f"{kind}/")}
             for kind in ("parameters", "gradients", "forward", "backward")}
    assert kinds["parameters"] == kinds["gradients"]
    for key in kinds["parameters"]:
        assert arrays[f"gradients/{key}"].shape == arrays[f"parameters/{key}"].shape
    lines = json.loads(metadata["lines"])
    assert lines.keys() == {key for key in arrays if key.startswith(("forward/", "backward/"))}
    assert min(len(kinds["forward"]), len(kinds["backward"])) > 20


def test_parameters_are_those_of_the_checkpoint(state):
    saved = load_file(TRAINED / "attention" / "best.safetensors")
    for name, value in saved.items():
        np.testing.assert_array_equal(state[0][name], value, err_msg=name)


def test_a_step_follows_from_its_names(state):
    """The numbers in the file fulfil Eqs. 2.35 to 2.37."""
    a = {name: state[0][f"forward/lstm t=2 l=1/{name}"] for name in ("i", "f", "o", "h_hat", "c")}
    before = state[0]["forward/lstm t=1 l=1/c"]
    np.testing.assert_allclose(a["c"], a["f"] * before + a["i"] * a["h_hat"], rtol=1e-15)
    h = state[0]["forward/lstm t=2 l=1/h"]
    np.testing.assert_allclose(h, a["o"] * np.tanh(a["c"]), rtol=1e-15)


def test_loss_and_gradient_follow_from_the_predictions(state):
    """The loss is the sum of -log p_t(y_t), and dW_hy that of (p_t - 1_y) h~_t'."""
    arrays, _ = state
    words, loss, dW_hy = [*arrays["batch/y"], 1], 0.0, 0.0
    for t, word in enumerate(words, start=1):
        p, h_tilde = arrays[f"forward/predict t={t}/p"], arrays[f"forward/attend t={t}/h_tilde"]
        loss = loss - np.log(p[word, 0])
        one_hot = np.eye(len(p))[:, [word]]
        dW_hy = dW_hy + (p - one_hot) @ h_tilde.T
    np.testing.assert_allclose(arrays["loss"], loss, rtol=1e-13)
    np.testing.assert_allclose(arrays["gradients/output.W_hy"], dW_hy, rtol=0, atol=1e-14)


def test_the_file(state, tmp_path, capsys):
    path = tmp_path / "state.safetensors"
    main(["debug-state", str(TRAINED / "attention"), "-o", str(path), "--sentence",
          "vor 12 Wochen", "--target", "12 weeks ago"])
    arrays, metadata = state
    assert capsys.readouterr().out == f"{path}: written, {len(arrays)} tensors\n"
    written = load_file(path)
    assert written.keys() == arrays.keys()
    for name, value in arrays.items():
        np.testing.assert_array_equal(written[name], value, err_msg=name)
    with safe_open(path, framework="numpy") as file:
        assert file.metadata() == metadata


def test_a_directory_without_a_run_is_one_line(tmp_path, capsys):
    with pytest.raises(SystemExit) as exit:
        main(["debug-state", str(tmp_path), "-o", str(tmp_path / "state.safetensors")])
    assert exit.value.code == 2 and len(capsys.readouterr().err.strip().splitlines()) == 1
