"""Matrix products of arrays in lanes: matmul, functions based on it, and einsum."""

from __future__ import annotations

import string
from typing import Any

import numpy as np

from grads.stepper.lanes.array import LaneArray
from grads.stepper.lanes.memory import Array, LanesError
from grads.stepper.lanes.operands import as_lanes, deliver

BLAS = 4096  # multiplications in a lane's product from which copies for BLAS pay


def matmul(a: Any, b: Any, out: Any = None, **kwargs: Any) -> Any:
    """a @ b, in each lane."""
    if kwargs:
        raise LanesError(f"np.matmul: {', '.join(kwargs)} is not known in lanes")
    a, b = as_lanes(a), as_lanes(b)
    if not a.ndim or not b.ndim:
        raise ValueError("matmul: expected arrays of at least one axis")
    left, right = a.values, b.values
    if a.ndim == 1:
        left = left[None]
    if b.ndim == 1:
        right = right[:, None]
    product = _product(left, right)                                          # (..., m, n, lanes)
    if a.ndim == 1:
        product = product[..., 0, :, :]
    if b.ndim == 1:
        product = product[..., 0, :]
    return deliver(LaneArray(product), out)


def _product(a: Array, b: Array) -> Array:
    """(..., m, k, lanes) times (..., k, n, lanes): (..., m, n, lanes), C-contiguous."""
    if b.shape[-1] == 1:
        weight = b[..., 0]
        if a.shape[-1] == 1:
            return np.matmul(a[..., 0], weight, order="C")[..., None]
        return _times(weight.swapaxes(-1, -2)[..., None, :, :], a)         # n k, k P for each m
    if a.shape[-1] == 1:
        columns = _times(a[..., 0][..., None, :, :], b.swapaxes(-2, -3))
        return np.ascontiguousarray(columns.swapaxes(-2, -3))              # m k, k P for each n
    m, k, n = a.shape[-3], a.shape[-2], b.shape[-2]
    if n == 1:
        return np.einsum("...mkp,...knp->...mnp", a, b, order="C")
    first, second = np.moveaxis(a, -1, 0), np.moveaxis(b, -1, 0)
    if m * k * n >= BLAS:
        first, second = np.ascontiguousarray(first), np.ascontiguousarray(second)
    lanes = max(first.ndim, second.ndim)
    first = first.reshape(first.shape[0], *[1] * (lanes - first.ndim), *first.shape[1:])
    second = second.reshape(second.shape[0], *[1] * (lanes - second.ndim), *second.shape[1:])
    return np.ascontiguousarray(np.moveaxis(np.matmul(first, second), 0, -1))


def _times(weight: Array, a: Array) -> Array:
    """weight (..., n, k), the same in all lanes, times (..., k, lanes): the real and the imaginary
    parts of complex lanes are lanes of their own."""
    if a.dtype.kind != "c" or weight.dtype != a.real.dtype:
        return np.matmul(weight, a, order="C")
    a = a if a.strides[-1] == a.itemsize else np.ascontiguousarray(a)
    return np.matmul(weight, a.view(weight.dtype), order="C").view(a.dtype)


def dot(a: Any, b: Any, out: Any = None) -> Any:
    """np.dot of arrays of at most two axes."""
    a, b = as_lanes(a), as_lanes(b)
    if not a.ndim or not b.ndim:
        return deliver(a * b, out)
    if b.ndim > 2:
        raise LanesError("np.dot with more than two axes is not known in lanes")
    return matmul(a, b, out)


def inner(a: Any, b: Any) -> Any:
    """np.inner of two vectors."""
    a, b = as_lanes(a), as_lanes(b)
    if a.ndim != 1 or b.ndim != 1:
        raise LanesError("np.inner of more than one axis is not known in lanes")
    return matmul(a, b)


def outer(a: Any, b: Any, out: Any = None) -> Any:
    """np.outer."""
    return deliver(as_lanes(a).reshape(-1, 1) * as_lanes(b).reshape(-1), out)


def einsum(subscripts: Any, *operands: Any, out: Any = None, **kwargs: Any) -> Any:
    """np.einsum with its subscripts in a string; the lanes get a letter of their own."""
    if not isinstance(subscripts, str):
        raise LanesError("np.einsum without subscripts in a string is not known in lanes")
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    if not arrow:
        letters = left.replace(",", "").replace(".", "")
        right = "..." * ("..." in left) + "".join(
            sorted(letter for letter in set(letters) if letters.count(letter) == 1))
    lane = next(letter for letter in string.ascii_letters if letter not in subscripts)
    arrays = [as_lanes(x) for x in operands]
    wide = [a.values.shape[-1] > 1 for a in arrays]
    terms = [term + lane * w for term, w in zip(left.split(","), wide, strict=True)]
    values = [a.values if w else a.values[..., 0] for a, w in zip(arrays, wide, strict=True)]
    product = np.einsum(f"{','.join(terms)}->{right}{lane * any(wide)}", *values, **kwargs)
    product = np.asarray(product)[..., None] if not any(wide) else product
    return deliver(arrays[0].derived(product) if len(arrays) == 1 else LaneArray(product), out)
