"""The report on the BLAS, and the warning about slow kernels."""

from __future__ import annotations

from pathlib import Path

import pytest
from threadpoolctl import threadpool_limits

from backend import host
from backend.errors import UserError


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


@pytest.mark.parametrize("threads, load, running, advice", [
    (4, 0.2, "2/90", None),       # no other program for most of the minute
    (4, 1.3, "3/90", "--threads 3"),
    (4, 9.0, "9/90", "--threads 1"),
    (4, 9.0, "1/90", None),       # the other program has ended
    (4, 9.0, "", "--threads 1"),  # the system does not report what runs now
    (2, 2.4, "4/90", None),       # two of four are free
    (1, 9.0, "9/90", None),       # waits for no other
])  # fmt: skip
def test_crowded(threads, load, running, advice, monkeypatch):
    monkeypatch.setattr(Path, "read_text", lambda self: f"1 1 1 {running}")
    monkeypatch.setattr(host, "cores", lambda: 4)
    monkeypatch.setattr(host, "blas_threads", lambda: threads)
    monkeypatch.setattr(host.os, "getloadavg", lambda: (load, 0.0, 0.0))
    said = host.crowded()
    assert advice in said if advice else said is None


def test_threads_are_those_asked_for():
    before = host.blas_threads()
    try:
        host.use_threads(1)
        assert host.blas_threads() == 1
    finally:
        threadpool_limits(before, user_api="blas")


def test_more_threads_than_processors(monkeypatch):
    monkeypatch.setattr(host, "cores", lambda: 2)
    with pytest.raises(UserError, match=r"--threads: expected at most 2, .* got 3"):
        host.use_threads(3)
