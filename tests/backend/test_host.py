"""The BLAS report, and the warning that half of the speed is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from backend import host


@pytest.mark.parametrize("pools, expected", [
    ([{"user_api": "openmp"}, {"user_api": "blas", "architecture": "Zen"}], "Zen"),
    ([{"user_api": "blas"}], None),
    ([{"user_api": "openmp", "architecture": "Zen"}], None),
])
def test_blas_architecture(pools, expected, monkeypatch):
    monkeypatch.setattr(host, "threadpool_info", lambda: pools)
    assert host.blas_architecture() == expected


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
def test_warning(coretype, avx512, architecture, warns, monkeypatch):
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    if coretype:
        monkeypatch.setenv("OPENBLAS_CORETYPE", coretype)
    monkeypatch.setattr(host, "has_avx512", lambda: avx512)
    monkeypatch.setattr(host, "blas_architecture", lambda: architecture)
    warning = host.slow_blas()
    assert ("unset it" in warning and architecture in warning) if warns else warning is None
