"""The fused kernels' CUDA C, compiled by g++ and run on the host: their numbers without a GPU."""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import shared
from strict.array import StrictArray, counts

from backend.fused.source import REAL

COMPILER = shutil.which("g++")
DIRECTORY = Path(__file__).parent

needs_compiler = pytest.mark.skipif(
    COMPILER is None, reason="needs g++, which compiles the CUDA kernels for the host"
)


def _runner(name, parameters):
    """C++ that runs one kernel for a whole grid."""
    names = ", ".join(parameter.split()[-1].lstrip("*") for parameter in parameters)
    return (f'extern "C" void run_{name}(unsigned blocks_, unsigned threads_, '
            f"{', '.join(parameters)}) {{ run(blocks_, threads_, [&] {{ {name}({names}); }}); }}")


@functools.cache
def library(source, char):
    """The compiled kernels of a source for one dtype."""
    code = "\n".join([
        f'#include "{DIRECTORY / "shim.h"}"', source.code,
        *(_runner(name, parameters) for name, parameters in source.declared.items()),
    ])
    shared.directory().mkdir(exist_ok=True)
    built = shared.directory() / f"{source.package}_{Path(source.file).stem}_{char}.so"
    if not built.exists():
        path = built.with_suffix(f".{os.getpid()}.cpp")  # another worker may build it too
        path.write_text(code, encoding="utf-8")
        subprocess.run(
            [COMPILER, "-std=c++20", "-O1", "-Wall", "-Werror", "-shared", "-fPIC",
             f"-Dreal={REAL[char]}", str(path), "-o", str(path.with_suffix(".so"))],
            check=True, timeout=300,
        )
        path.with_suffix(".so").replace(built)
    return ctypes.CDLL(str(built))


class HostLauncher:
    """Launches on NumPy arrays, or on those of the stand-in for CuPy; counts the launches."""

    def __init__(self, array_type=StrictArray, threads=1):
        """threads: of each block; more than one shows whether the threads wait for each other."""
        self.array_type, self.threads, self.names = array_type, threads, []

    def __call__(self, kernel, char, grid, *arguments):
        declared = kernel.source.declared[kernel.name]
        assert len(arguments) == len(declared), kernel.name
        counts.launches += 1
        self.names.append(kernel.name)
        given = [self._converted(kernel.name, declaration, argument, char)
                 for declaration, argument in zip(declared, arguments, strict=True)]
        assert 1 <= grid < 1 << 31
        getattr(library(kernel.source, char), f"run_{kernel.name}")(grid, self.threads, *given)

    def table(self, entries):
        """Whole numbers, and the addresses of arrays, as on the device."""
        numbers = [entry if isinstance(entry, int) else entry.data.ptr for entry in entries]
        counts.to_device += 1
        return self.array_type(np.array(numbers, dtype=np.int64))

    def _converted(self, kernel, declaration, argument, char):
        """An argument converted to the type that the kernel declares; an error if it does not
        fit."""
        where = f"{kernel}, {declaration}"
        if "*" not in declaration:
            kind = int if declaration.startswith("number") else float
            assert type(argument) is kind, f"{where}: got {type(argument)}"
            return ctypes.c_longlong(argument) if kind is int else ctypes.c_double(argument)
        if type(argument) is int:
            assert argument == 0, where
            return ctypes.c_void_p(0)
        if type(argument) is not self.array_type:
            raise TypeError(f"Unsupported type {type(argument)}")  # as CuPy does
        data = argument._data if isinstance(argument, StrictArray) else argument
        pointed = declaration.removeprefix("const ").split("*")[0].strip()
        wanted = {"real": np.dtype(char), "number": np.dtype(np.int64),
                  "double": np.dtype(np.float64), "unsigned char": np.dtype(bool)}[pointed]
        assert data.dtype == wanted, f"{where}: got {data.dtype}"
        return ctypes.c_void_p(data.ctypes.data)
