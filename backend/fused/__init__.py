"""Fused kernels: on a GPU, one launch replaces the several passes of a pointwise function.

A function marked `@fused(kernel)` is the reference. NumPy and complex numbers run it as written.
Real numbers run a form that computes `in_place` if it is measurably faster. For float32 or float64
arrays of a library that has a launcher (CuPy), and while fusing is on, `kernel` runs instead: a
function that launches a kernel of a CUDA C file (`Source`). Kernel and file may be in any package,
beside the function. Tests compare each kernel with its function.
"""

from backend.fused.switch import fused, in_place, is_on, register, use, using

__all__ = ["fused", "in_place", "is_on", "register", "use", "using"]
