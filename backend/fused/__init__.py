"""Fused kernels: on a GPU, one launch in place of the several passes of a pointwise function.

A function marked `@fused(kernel)` is the reference: NumPy and complex numbers run it as written
(real numbers in a form that computes `in_place`, where one is measured to pay).
Given float32 or float64 arrays of a library that has a launcher (CuPy), and while fusing is on,
`kernel` runs instead: a function that launches a kernel of a CUDA C file (`Source`). Both may be in
any package, beside the function. Tests hold each kernel equal to its function.
"""

from backend.fused.switch import fused, in_place, is_on, register, use, using

__all__ = ["fused", "in_place", "is_on", "register", "use", "using"]
