"""Reading the state of a run to resume from a checkpoint, and checking that it belongs to the
run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from backend import Array, to_device
from backend.errors import UserError
from nmt.data.batches import Batch
from nmt.training import checkpoint
from nmt.training.batch_source import BatchSource


@dataclass
class Counters:
    """Where training stands."""

    epoch: int = 1  # the epoch in progress, or to come
    position: int = 0  # batches of it that are done
    step: int = 0  # updates made in all
    best: float | None = None  # best validation score so far
    waited: int = 0  # evaluations since then


def number(value: Any) -> Any:
    """A number of a run's state, unchanged. Raises TypeError for anything else."""
    if type(value) not in (int, float):
        raise TypeError(f"expected a number, got {value!r:.40}")
    return value


def differs(before: Any, now: Any) -> bool:
    """Whether two values differ; for mappings, in keys that both have: another version may have
    more."""
    if isinstance(before, dict) and isinstance(now, dict):
        return any(before[key] != now[key] for key in before.keys() & now)
    return before != now


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Context: raise UserError naming the file if its state has another form than expected."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise UserError(f"{path}: cannot resume: expected the state of a training run: "
                        f"{type(error).__name__}: {error}") from error


def stream_state(
    path: Path, arrays: Mapping[str, np.ndarray], expected: Sequence[Sequence[Array]]
) -> list[tuple[Array, ...]] | None:
    """The states of streams from the arrays of a checkpoint, named `{layer}.{place}`.

    expected: what the model passes on after a batch, arrays (B, H) by layer. Raises UserError
    naming the file if shapes or dtypes differ, or numbers are not finite.
    """
    ours = {f"{layer}.{place}": array for layer, parts in enumerate(expected)
            for place, array in enumerate(parts)}
    for name in sorted(arrays.keys() | ours.keys()):
        wanted, found = (f"shape {own[name].shape} of {own[name].dtype}" if name in own else "none"
                         for own in (ours, arrays))
        if wanted != found:
            raise UserError(f"{path}: cannot resume: {checkpoint.CARRIED}{name}, a state that is "
                            f"handed from batch to batch: expected {wanted}, found {found}")
        checkpoint.check_array(path, f"{checkpoint.CARRIED}{name}", arrays[name], ours[name].dtype)
    return [tuple(to_device(arrays[f"{layer}.{place}"]) for place in range(len(parts)))
            for layer, parts in enumerate(expected)] or None


def going_on(batch: Batch, state: Any, path: Path) -> Batch:
    """A batch with the state of the one before it, if it continues a stream.

    Raises UserError if the checkpoint at `path` of a resumed run holds no state.
    """
    if batch.begins:
        return batch
    if state is None:
        raise UserError(f"{path}: cannot resume: expected the states of streams, "
                        f"{checkpoint.CARRIED}*, found none")
    return replace(batch, state=state)


def handed_on(
    model: Any, parameters: Mapping[str, Array], source: BatchSource
) -> Sequence[Sequence[Array]]:
    """What the model hands on from a batch of a stream to the next."""
    keys = source.epoch(np.random.default_rng(0))
    with np.errstate(all="ignore"):  # shapes alone matter
        _, cache = model.loss(parameters, source.batch(keys[0]))
    return getattr(cache, "state", None) or ()
