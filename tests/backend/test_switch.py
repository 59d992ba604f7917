"""Which module owns an array, where new arrays go, and what is refused."""

from __future__ import annotations

import builtins
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from strict.module import StrictArray, strict

import backend
from backend.errors import UserError


def test_array_module_finds_the_owner():
    host, device = np.ones(2), strict.ones(2)
    assert backend.array_module(host, None, host) is np
    assert backend.array_module(None, device) is strict


def test_unknown_types_are_refused():
    for stranger in ([1.0], 1.0, "x", np.float64(1.0)):
        with pytest.raises(TypeError, match=f"known backend, got {type(stranger).__name__}"):
            backend.array_module(np.ones(2), stranger)
    with pytest.raises(TypeError, match="at least one array"):
        backend.array_module(None)


def test_a_mixture_is_refused_and_named():
    with pytest.raises(TypeError, match="numpy and strict"):
        backend.array_module(np.ones(2), strict.ones(2))


def test_use_decides_where_arrays_go():
    host = np.arange(3.0)
    assert backend.module() is np
    assert backend.to_device(host) is host
    with backend.using(strict):
        assert backend.module() is strict
        moved = backend.to_device(host)
    assert backend.module() is np
    assert type(moved) is StrictArray
    np.testing.assert_array_equal(backend.to_host(moved), host)


def test_using_gives_back_after_an_error():
    with pytest.raises(RuntimeError), backend.using(strict):
        raise RuntimeError
    assert backend.module() is np


def test_to_host_keeps_host_values():
    host = np.arange(3.0)
    assert backend.to_host(host) is host
    assert backend.to_host(np.float32(2.5)).dtype == np.float32
    assert backend.to_host(3.0).shape == ()


def test_an_unknown_backend_is_a_users_error():
    for action in (backend.use, backend.load):
        with pytest.raises(UserError, match="'numpy' or 'cupy', got 'jax'"):
            action("jax")
    assert backend.module() is np


def test_cupy_that_is_not_installed_is_a_users_error(monkeypatch):
    real_import = builtins.__import__

    def refuse(name, *rest):
        if name.split(".")[0] == "cupy":
            raise ImportError(name)
        return real_import(name, *rest)

    monkeypatch.setitem(sys.modules, "cupy", None)  # what import_module takes for "not there"
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(UserError, match="cupy-cuda12x"):
        backend.use("cupy")
    assert backend.module() is np


def test_cupy_without_a_gpu_is_a_users_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(is_available=lambda: False))
    with pytest.raises(UserError, match="no usable GPU"):
        backend.use("cupy")
    assert backend.module() is np


def test_cupy_with_a_gpu_is_registered(monkeypatch):
    class Array:
        pass

    cupy = SimpleNamespace(is_available=lambda: True, ndarray=Array)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    assert backend.load("cupy") is cupy
    assert backend.array_module(Array()) is cupy
