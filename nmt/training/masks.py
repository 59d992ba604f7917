"""Masks of pruned models in checkpoints: a bit for each weight, and optionally only the kept
weights.

A checkpoint of a masked model has `mask/NAME` in addition to `parameters/NAME`: a bool array of the
same shape, True where the weight is kept. In the file a mask is bits (`np.packbits`). In a sparse
file, `parameters/NAME` has only the kept values, in the array's order. Thesis, section 6.2.3,
"Storage size": 782 MB unpruned, 272 MB with 80 % pruned. Here, n weights of 4 bytes, of which a
share k is kept, take n (4 k + 1/8) bytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from backend.errors import UserError

PARAMETERS = "parameters/"
MASKS = "mask/"
Arrays = dict[str, np.ndarray]


def pack(arrays: Mapping[str, np.ndarray], sparse: bool) -> tuple[Arrays, dict[str, Any]]:
    """The arrays as a file stores them, and the header's entries on masks, if there are masks."""
    masks = {name[len(MASKS):]: a for name, a in arrays.items() if name.startswith(MASKS)}
    if not masks:
        return dict(arrays), {}
    packed = dict(arrays)
    for name, mask in masks.items():
        packed[MASKS + name] = np.packbits(mask)
        if sparse:
            packed[PARAMETERS + name] = arrays[PARAMETERS + name][mask]
    shapes = {name: list(mask.shape) for name, mask in masks.items()}
    return packed, {"masks": shapes, "sparse": sparse}


def unpack(path: Path, arrays: Mapping[str, np.ndarray], header: Mapping[str, Any]) -> Arrays:
    """The inverse of `pack`: the arrays, from those of a file and its header.

    Raises UserError, with path and mask, if a mask and its parameter do not fit.
    """
    unpacked, shapes = dict(arrays), header.get("masks", {})
    sparse = header.get("sparse", False)
    if not isinstance(shapes, dict) or not isinstance(sparse, bool):
        raise UserError(f"{path}: expected the shape of each mask, and whether the file is "
                        f"sparse, found {shapes!r:.60}, {sparse!r:.60}")
    for name in shapes:
        if MASKS + name not in arrays:
            raise UserError(f"{path}: mask of {name!r}: expected one, found none")
    for full_name in arrays:
        if full_name.startswith(MASKS):
            name = full_name[len(MASKS):]
            mask = _mask(path, name, arrays, shapes.get(name))
            values = _values(path, name, arrays, mask, sparse)
            unpacked |= {full_name: mask, PARAMETERS + name: values}
    return unpacked


def _mask(path: Path, name: str, arrays: Mapping[str, np.ndarray], shape: Any) -> np.ndarray:
    """A mask from its bits."""
    if shape is None or PARAMETERS + name not in arrays:
        raise UserError(f"{path}: the file has a mask of {name!r} but not its parameter or shape")
    if not isinstance(shape, list) or any(type(n) is not int or n < 0 for n in shape):
        raise UserError(f"{path}: mask of {name!r}: expected a shape, found {shape!r:.60}")
    bits, size = arrays[MASKS + name], math.prod(shape)
    if bits.dtype != np.uint8 or bits.shape != ((size + 7) // 8,):
        raise UserError(f"{path}: mask of {name!r}: expected {size} bits for shape "
                        f"{tuple(shape)}, found {bits.size} x {bits.dtype}")
    return np.unpackbits(bits, count=size).astype(bool).reshape(shape)


def _values(
    path: Path, name: str, arrays: Mapping[str, np.ndarray], mask: np.ndarray, sparse: bool
) -> np.ndarray:
    """A masked parameter with zeros where it is pruned."""
    values = arrays[PARAMETERS + name]
    expected = (int(mask.sum()),) if sparse else mask.shape
    if values.shape != expected:
        raise UserError(f"{path}: mask of {name!r}: expected a parameter of shape {expected}, "
                        f"got {values.shape}")
    if not sparse:
        if values[~mask].any():
            raise UserError(f"{path}: mask of {name!r}: expected zeros where it prunes, found "
                            f"{int(np.count_nonzero(values[~mask]))} weights that are not")
        return values
    dense = np.zeros(mask.shape, values.dtype)
    dense[mask] = values
    return dense
