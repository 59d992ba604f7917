"""Fused kernels: one launch for what a pointwise function does in several passes, on a GPU only.

A function marked `@fused(kernel)` is the source of its mathematics: NumPy and complex numbers run
it as it stands. Given float32 or float64 arrays of a library that has a launcher (CuPy), and while
fusing is on, the kernel runs instead: a function that launches one of a CUDA C file (`Source`).
Both may stand in any package, beside the function. Tests hold each kernel equal to its source.
"""

from backend.fused.switch import fused, is_on, register, use, using

__all__ = ["fused", "is_on", "register", "use", "using"]
