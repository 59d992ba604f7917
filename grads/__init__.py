"""Verification of all kernels: literal derivations of the papers' algorithms, and gradient
checks."""
