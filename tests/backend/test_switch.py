"""Which module owns an array, where new arrays go, and what is refused."""

from __future__ import annotations

import builtins
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from strict.module import StrictArray, strict

import backend
from backend import fused
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
    with pytest.raises(TypeError, match="array 1 is of numpy and array 2 of strict"):
        backend.array_module(np.ones(2), strict.ones(2))


def kernel(x, h0, T):
    """Stands for a kernel whose arrays have these names."""
    return backend.array_module(x, h0, T)


def test_a_mixture_is_named_as_in_the_calling_function():
    device = strict.ones((2, 2))
    with pytest.raises(TypeError, match="kernel: arrays of two backends: x is of strict and T of "
                                        "numpy"):
        kernel(device, None, np.ones((2, 2)))
    with pytest.raises(TypeError, match=r"kernel: h0: expected an array .* got list"):
        kernel(device, [1.0], device)


def test_a_real_kernel_names_what_was_mixed():
    from lstm.cells import CELLS
    from lstm.recurrent import recurrent_forward

    x, state, W = strict.ones((1, 2, 3)), strict.ones((2, 4)), np.ones((16, 7))
    with pytest.raises(TypeError, match="recurrent_forward: arrays of two backends: x is of strict "
                                        "and W of numpy"):
        recurrent_forward(CELLS["lstm"], x, (state, state), W)


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


def test_using_restores_the_backend_after_an_error():
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

    monkeypatch.setitem(sys.modules, "cupy", None)  # import_module then raises ImportError
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(UserError, match=r"not installed \(pip install -e '\.\[cuda12\]' .*"
                       r"CUDA 13: pip install -e '\.\[cuda13\]'"):
        backend.use("cupy")
    assert backend.module() is np


def test_cupy_without_a_gpu_is_a_users_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(is_available=lambda: False))
    with pytest.raises(UserError, match=r"no usable GPU.*'\.\[cuda12\]'"):
        backend.use("cupy")
    assert backend.module() is np


class Array:
    """Stands for `cupy.ndarray`."""


def fake_cupy(**changes):
    """What `load` reads of CuPy on a machine with a GPU."""
    cublas = SimpleNamespace(CUBLAS_COMPUTE_32F=68, CUBLAS_COMPUTE_32F_FAST_TF32=77,
                             CUBLAS_COMPUTE_32F_FAST_16F=74)
    runtime = SimpleNamespace(CUDA_R_32F=0, CUDA_R_64F=1)
    cuda = SimpleNamespace(cublas=cublas, runtime=runtime, get_cublas_handle=lambda: 1)
    return SimpleNamespace(**{"is_available": lambda: True, "ndarray": Array, "cuda": cuda,
                              "tanh": np.tanh, "matmul": None, **changes})


def test_cupy_with_a_gpu_is_registered(monkeypatch):
    """Its module is CuPy's except for matmul, and fused kernels run on its arrays."""
    monkeypatch.setattr(backend.switch, "_modules", dict(backend.switch._modules))
    monkeypatch.setattr(fused.switch, "_launchers", {})
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy())
    device = backend.load("cupy")
    assert backend.array_module(Array()) is device
    assert device.__name__ == "cupy" and device.tanh is np.tanh and callable(device.matmul)
    assert Array in fused.switch._launchers
    with pytest.raises(AttributeError, match="vecdot"):
        device.vecdot  # noqa: B018


def test_cupy_without_cublas_is_a_users_error(monkeypatch):
    class Cuda:
        @property
        def cublas(self):
            raise ImportError("libcublas.so.12 is missing")

    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(cuda=Cuda()))
    with pytest.raises(UserError, match="cannot load cuBLAS: libcublas"):
        backend.use("cupy")
    assert backend.module() is np
