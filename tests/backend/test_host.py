"""The BLAS report, and the warning that half of the speed is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from backend import host


def test_blas_info_is_complete():
    info = host.blas_info()
    assert set(info) == {"name", "version", "architecture", "threads"}
    assert info["threads"] is None or info["threads"] >= 1


def test_blas_info_without_a_blas(monkeypatch):
    monkeypatch.setattr(host, "threadpool_info", lambda: [{"user_api": "openmp"}])
    assert host.blas_info() == dict.fromkeys(("name", "version", "architecture", "threads"))


@pytest.mark.parametrize("text, expected", [("flags: avx2 avx512f", True), ("flags: avx2", False)])
def test_has_avx512(text, expected, monkeypatch):
    monkeypatch.setattr(Path, "read_text", lambda self: text)
    assert host.has_avx512() is expected


def test_has_avx512_off_linux(monkeypatch):
    def missing(self):
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", missing)
    assert host.has_avx512() is False


@pytest.mark.parametrize("coretype, avx512, architecture, warns", [
    ("Haswell", True, "Haswell", True),
    ("Haswell", False, "Haswell", False),
    ("Haswell", True, "SkylakeX", False),
    (None, True, "Haswell", False),
])  # fmt: skip
def test_warning(coretype, avx512, architecture, warns, monkeypatch, capsys):
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    if coretype:
        monkeypatch.setenv("OPENBLAS_CORETYPE", coretype)
    monkeypatch.setattr(host, "has_avx512", lambda: avx512)
    monkeypatch.setattr(host, "blas_info", lambda: {"architecture": architecture})
    host.warn_of_slow_blas()
    out, err = capsys.readouterr()
    assert out == ""
    assert ("OPENBLAS_CORETYPE" in err) is warns
