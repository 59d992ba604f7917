"""Fixnorm's other half: what the prediction reads, h~, brought to one length (Nguyen 3.2.3).

h~ <- r h~ / |h~|. The words' vectors are brought to theirs by the parametrization `Normalized`.
What input feeding reads is h~ as it was. A Transformer's last ScaleNorm does the same, with a
length that is learned.
"""

from __future__ import annotations

from attention.norms import NormCache, scale_norm_backward, scale_norm_forward
from backend import Array


def check_length(length: float | None) -> None:
    """Raise ValueError for a length that is none."""
    if length is not None and not 0.0 < length < float("inf"):
        raise ValueError(f"output_norm: expected a positive number, got {length}")


def brought_forward(h: Array, length: float | None) -> tuple[Array, NormCache | None]:
    """h (..., H) at this length, and what the backward reads; h as it is for None."""
    return (h, None) if length is None else scale_norm_forward(h, length)


def brought_backward(dh: Array, cache: NormCache | None) -> Array:
    """The gradient of what was brought to its length."""
    return dh if cache is None else scale_norm_backward(dh, cache)[0]
