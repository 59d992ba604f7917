"""What of a checkpoint a resumed run needs, and how it is known to be that of this run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from backend import Array, to_device
from backend.errors import UserError
from nmt.training import checkpoint


def differs(before: Any, now: Any) -> bool:
    """Whether two values differ; of mappings, what both have: another version may know more."""
    if isinstance(before, dict) and isinstance(now, dict):
        return any(before[key] != now[key] for key in before.keys() & now)
    return before != now


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Name the file where what it says of a run is not what a run says."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise UserError(f"{path}: cannot resume: expected the state of a training run: "
                        f"{type(error).__name__}: {error}") from error


def stream_state(
    arrays: Mapping[str, np.ndarray], dtype: Any
) -> list[tuple[Array, ...]] | None:
    """The states of streams from the arrays of a checkpoint, named `{layer}.{place}`.

    Raises ValueError for what is none.
    """
    shapes = {array.shape for array in arrays.values()}
    if len(shapes) > 1 or any(array.dtype != dtype or array.ndim != 2 for array in arrays.values()):
        raise ValueError(f"{checkpoint.CARRIED}: expected arrays (B, H) of {dtype}, found others")
    layers = sorted({int(name.split(".")[0]) for name in arrays})
    return [tuple(to_device(arrays[name]) for name in sorted(arrays)
                  if name.startswith(f"{layer}.")) for layer in layers] or None
