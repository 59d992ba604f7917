"""The devices of a benchmark: the CPU, the GPU if there is one, and the tests' stand-in for it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from backend import device, gemm
from backend.errors import UserError
from nmt.console.terminal import print

TESTS = Path(__file__).resolve().parents[1] / "tests"


class Device(NamedTuple):
    """A device, and each library's name for it."""

    name: str  # cpu, gpu or stand-in
    backend: Any  # ours: numpy, or a module
    torch: str | None  # PyTorch's: cpu or cuda; None if it cannot use it
    synchronise: Callable[[], Any]  # waits until all work is done, PyTorch's too

    @property
    def ours(self) -> str:
        """The array library's name."""
        return "NumPy" if self.name == "cpu" else "CuPy"

    def finished(self, work: Callable[[], Any]) -> Callable[[], Any]:
        """`work`, run on this device. It returns only when the device has finished."""
        def run() -> Any:
            with device.using(self.backend):
                result = work()
            self.synchronise()
            return result
        return run


CPU = Device("cpu", "numpy", "cpu" if find_spec("torch") else None, lambda: None)


def device_options(parser: argparse.ArgumentParser) -> None:
    """Add --device and --gemm, to be given to `devices`."""
    parser.add_argument("--device", choices=("cpu", "gpu", "all", "stand-in"), default="all",
                        help="run here (default: all); stand-in runs GPU code on the CPU")
    parser.add_argument("--gemm", choices=("float32", "tf32"), default="float32",
                        help="compute float32 products on the GPU this way, PyTorch's "
                             "too (default: float32)")


def devices(wanted: str, precision: str = "float32") -> list[Device]:
    """The devices on which to run: "cpu", "gpu", "stand-in", or "all" that exist.

    Arguments: precision, "float32" or "tf32", of float32 products on the GPU.
    Raises UserError if a GPU or TF32 is requested, and CuPy is absent or finds no GPU.
    """
    if wanted == "cpu" and precision != "float32":
        raise UserError(f"--gemm: expected float32 on the CPU, got {precision}")
    if wanted in ("cpu", "stand-in"):
        return [CPU if wanted == "cpu" else _stand_in(precision)]
    alone = wanted == "gpu" or precision != "float32"
    try:
        return [*[CPU] * (not alone), _gpu(precision)]
    except UserError:
        if alone:
            raise
        print("GPU: not run")
        return [CPU]


def _gpu(precision: str) -> Device:
    """The GPU that CuPy computes on. PyTorch shares its context, so one wait serves both."""
    cupy = device.load("cupy")
    with device.using(cupy):
        gemm.use(precision)
    theirs, tf32 = None, precision == "tf32"
    if find_spec("torch"):
        import torch

        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
        theirs = "cuda" if torch.cuda.is_available() else None
    return Device("gpu", cupy, theirs, cupy.cuda.runtime.deviceSynchronize)


def _stand_in(precision: str) -> Device:
    """The strict array module of the tests, which stands for CuPy and computes with NumPy."""
    if not TESTS.is_dir():
        raise UserError("--device stand-in: expected a checkout, which has tests/strict; got none")
    if str(TESTS) not in sys.path:
        sys.path.append(str(TESTS))
    strict = import_module("strict.module").strict
    strict.install()
    with device.using(strict):
        gemm.use(precision)
    return Device("stand-in", strict, CPU.torch, lambda: None)
