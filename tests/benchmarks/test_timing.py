"""A result file describes the machine: libraries, BLAS, GPU, but no host name and no path."""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from backend import fused, gemm, switch
from backend.errors import UserError
from benchmarks import timing
from benchmarks.devices import devices
from benchmarks.timing import describe, environment, gpu, installed


def fake_cupy(available):
    """The parts of CuPy that are read."""
    runtime = SimpleNamespace(
        getDeviceProperties=lambda number: {"name": b"A GPU", "totalGlobalMem": 80 * 2**30},
        driverGetVersion=lambda: 12080, runtimeGetVersion=lambda: 12040,
        deviceSynchronize=lambda: None, CUDA_R_32F=0, CUDA_R_64F=1,
    )
    cublas = SimpleNamespace(CUBLAS_COMPUTE_32F=68, CUBLAS_COMPUTE_32F_FAST_TF32=77,
                             CUBLAS_COMPUTE_32F_FAST_16F=74)
    cuda = SimpleNamespace(runtime=runtime, Device=lambda: SimpleNamespace(id=0), cublas=cublas,
                           get_cublas_handle=lambda: 1)
    return SimpleNamespace(is_available=lambda: available, cuda=cuda, ndarray=type("A", (), {}))


@pytest.fixture
def with_cupy(monkeypatch):
    """CuPy is installed, with a GPU or without."""
    monkeypatch.setattr(switch, "_modules", dict(switch._modules))
    monkeypatch.setattr(fused.switch, "_launchers", {})
    monkeypatch.setattr(gemm, "_precision", "float32")

    def make(available):
        monkeypatch.setitem(sys.modules, "cupy", fake_cupy(available))
        monkeypatch.setattr(timing, "installed", lambda *names: "14.2" if "cupy" in names else None)
    return make


def test_libraries_and_blas():
    actual = environment()
    assert actual["versions"].keys() == {"numpy", "torch", "jax", "cupy"}
    assert actual["versions"]["numpy"] == np.__version__ and actual["cores"] >= 1
    assert any(pool["architecture"] for pool in actual["thread_pools"])
    text = json.dumps(actual)
    assert platform.node() not in text and str(Path.cwd()) not in text
    assert installed("no-such-thing", "numpy") == np.__version__
    assert installed("no-such-thing") is None


def test_a_gpu(with_cupy):
    with_cupy(True)
    assert gpu() == {"name": "A GPU", "memory": 80 * 2**30, "driver": 12080, "runtime": 12040,
                     "gemm": "float32"}
    assert ("GPU: A GPU, 80 GiB, CUDA driver 12080, runtime 12040, matrix products in float32"
            in describe(environment()))


def test_no_gpu(with_cupy):
    with_cupy(False)
    assert gpu() is None and "GPU: none" in describe(environment())


def test_devices_where_there_is_a_gpu(with_cupy):
    torch = pytest.importorskip("torch")
    with_cupy(True)
    cpu, device = devices("all")
    assert (cpu.name, device.name, device.backend.__name__) == ("cpu", "gpu", "cupy")
    assert device.torch == ("cuda" if torch.cuda.is_available() else None)
    assert devices("gpu")[0].name == "gpu"
    assert gemm.precision() == "float32"
    devices("gpu", "tf32")
    assert gemm.precision() == "tf32" and gpu()["gemm"] == "tf32"
    devices("gpu")
    with pytest.raises(UserError, match="--gemm: expected float32 on the CPU, got tf32"):
        devices("cpu", "tf32")


def test_work_is_waited_for():
    done = []
    (cpu,) = devices("cpu")
    device = cpu._replace(synchronise=lambda: done.append("waited"))
    assert device.finished(lambda: done.append("started") or 7)() == 7
    assert done == ["started", "waited"]
