"""Fused kernels: one launch for what a pointwise function does in several passes, on a GPU only.

A function marked `@fused(form)` is the source of its mathematics: NumPy and complex numbers always
run it as it stands. Given float32 or float64 arrays of a library that has a launcher (CuPy), and
while fusing is on, its form runs instead, which launches one kernel of a CUDA C file (`Source`).
Form and file may stand in any package, beside the function. Tests hold each form equal to its
source.
"""

from backend.fused.switch import fusable, fused, is_on, register, use, using

__all__ = ["fusable", "fused", "is_on", "register", "use", "using"]
