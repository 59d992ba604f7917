"""The fused kernels compile for real GPUs: by NVRTC, or else nvcc; neither needs a GPU."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import fused_cases  # noqa: F401 - all functions that have a fused kernel, and so their sources
import pytest

from backend.fused.source import REAL, SOURCES

ARCHITECTURES = ("sm_80", "sm_90")
ROOT = Path(__file__).parents[2]
PACKAGES = ("nvidia-cuda-nvrtc-cu12", "nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu13")


def nvrtc():
    """NVRTC from one of its packages; None if none is installed."""
    for package in PACKAGES:
        try:
            libraries = [f for f in files(package) or () if f.name.startswith("libnvrtc.so")]
        except PackageNotFoundError:
            continue
        for file in libraries:
            return ctypes.CDLL(str(file.locate()))
    return None


def compile_with_nvrtc(library, code, options):
    """The binary's size in bytes, and the compiler's messages."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    assert library.nvrtcCreateProgram(ctypes.byref(program), code.encode(), b"kernels.cu", 0, None,
                                      None) == 0
    arguments = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    status = library.nvrtcCompileProgram(program, len(options), arguments)
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, log)
    assert status == 0, log.value.decode()
    assert library.nvrtcGetCUBINSize(program, ctypes.byref(size)) == 0
    binary = ctypes.create_string_buffer(size.value)
    assert library.nvrtcGetCUBIN(program, binary) == 0
    library.nvrtcDestroyProgram(ctypes.byref(program))
    return binary.raw, log.value.decode()


def test_every_file_of_cuda_is_a_source():
    declared = {ROOT.joinpath(*source.package.split("."), source.file) for source in SOURCES}
    assert declared == {path for package in ("backend", "lstm", "attention", "nmt")
                        for path in (ROOT / package).rglob("*.cu")}


sources = pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.file)


@sources
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("real", REAL.values())
def test_nvrtc_compiles_all_kernels(architecture, real, source):
    library = nvrtc()
    if library is None:
        pytest.skip(f"needs NVRTC: pip install {PACKAGES[0]}")
    options = [f"--gpu-architecture={architecture}", f"-Dreal={real}", "-std=c++17"]
    binary, log = compile_with_nvrtc(library, source.code, options)
    assert binary[:4] == b"\x7fELF" and log.strip("\0 \n") == ""
    assert all(name.encode() in binary for name in source.declared)


@sources
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("real", REAL.values())
def test_nvcc_compiles_all_kernels(architecture, real, source, tmp_path):
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("needs nvcc, of a CUDA toolkit")
    code, binary = tmp_path / "kernels.cu", tmp_path / "kernels.cubin"
    code.write_text(source.code, encoding="utf-8")
    done = subprocess.run(
        [nvcc, "-std=c++17", f"-arch={architecture}", f"-Dreal={real}", "-cubin", str(code), "-o",
         str(binary)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert all(name.encode() in binary.read_bytes() for name in source.declared)


def test_every_kernel_is_declared_in_words_that_a_launch_knows():
    """Arrays, `number` and `double` are the types that `CupyLauncher` can pass."""
    for source in SOURCES:
        assert source.declared, source.file
        for name, parameters in source.declared.items():
            for parameter in parameters:
                words = parameter.replace("*", " * ").split()
                assert words[-2] in ("*", "number", "double"), f"{name}: {parameter}"
