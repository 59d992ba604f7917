"""Fixnorm of the output layer's input: h~ is scaled to a fixed length (Nguyen 3.2.3).

h~ <- r h~ / |h~|. The words' vectors are scaled to theirs by the parametrization `Normalized`.
Input feeding reads h~ before the scaling. A Transformer's last ScaleNorm does the same, with a
learned length.
"""

from __future__ import annotations

from attention.norms import NormCache, scale_norm_backward, scale_norm_forward
from backend import Array


def check_length(length: float | None) -> None:
    """Raise ValueError unless the length is a positive number or None."""
    if length is not None and not 0.0 < length < float("inf"):
        raise ValueError(f"output_norm: expected a positive number, got {length}")


def brought_forward(h: Array, length: float | None) -> tuple[Array, NormCache | None]:
    """h (..., H) scaled to this length, and what the backward reads; h unchanged for None."""
    return (h, None) if length is None else scale_norm_forward(h, length)


def brought_backward(dh: Array, cache: NormCache | None) -> Array:
    """The gradient dh (..., H) before the scaling."""
    return dh if cache is None else scale_norm_backward(dh, cache)[0]
