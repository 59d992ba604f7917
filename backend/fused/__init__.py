"""Fused forms: one kernel for what a pointwise function does in several passes, on a GPU only.

A function marked `@fusable` is the source of its mathematics: NumPy and complex numbers always run
it as it stands. Given float32 or float64 arrays of a library that has a launcher (CuPy), and while
fusing is on, the form of the same name in `backend.fused.cells`, `.softmax`, `.tables` or
`.updates` runs instead: it launches one kernel of `kernels/*.cu`. Tests hold each form equal to
its source.
"""

from backend.fused.switch import fusable, is_on, register, use, using

__all__ = ["fusable", "is_on", "register", "use", "using"]
