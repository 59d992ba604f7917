"""Pointwise functions that both recurrent cells and attention use."""

from __future__ import annotations

from backend.fused import cells, fused
from backend.switch import Array, array_module


@fused(cells.tanh_slope)
def tanh_slope(dy: Array, y: Array, da: Array) -> None:
    """da = (1 - y^2) o dy for y = tanh(a), all (N, H), written into da."""
    xp = array_module(dy, y, da)
    xp.multiply(y, y, out=da)
    xp.subtract(1.0, da, out=da)
    da *= dy                             # da = (1 - y * y) * dy
