"""Our check is timed beside PyTorch's; a wrong gradient is reported before any timing."""

from __future__ import annotations

import pytest
from timed import run

from backend.errors import UserError
from benchmarks.timing import blas_kernels
from nmt.models.translator import Translator

torch = pytest.importorskip("torch", reason="PyTorch (extra `oracle`) is not installed")


@pytest.fixture(autouse=True)
def _threads():
    """Restore PyTorch's threads for later tests, because gradcheck sets them to one."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_quick(tmp_path, capsys):
    path, record = run("gradcheck", tmp_path)
    assert path.name == f"gradcheck-{blas_kernels()}.json"
    (row,) = record["rows"]
    assert row["sizes"] == {"H": 2} and row["amount"] > 100
    assert list(row["seconds"]) == ["both methods", "complex step", "torch.autograd.gradcheck"]
    assert "torch.autograd.gradcheck" in capsys.readouterr().out


def test_a_wrong_gradient_is_not_timed(monkeypatch, tmp_path):
    right = Translator.backward

    def wrong(self, cache):
        gradients = right(self, cache)
        gradients["decoder.0.W"] *= 1 + 1e-8
        return gradients

    monkeypatch.setattr(Translator, "backward", wrong)
    with pytest.raises(UserError, match=r"our gradient of decoder\.0\.W is not PyTorch's"):
        run("gradcheck", tmp_path)
    assert not list(tmp_path.iterdir())
