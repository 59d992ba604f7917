"""Reading the state of a resumed run from its checkpoint, and the states of streams of text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from backend import Array, to_device
from backend.errors import UserError
from nmt.data.batches import Batch
from nmt.training import checkpoint
from nmt.training.batch_source import BatchSource


def number(value: Any) -> Any:
    """A number of a run's state, unchanged. Raises TypeError for any other value."""
    if type(value) not in (int, float):
        raise TypeError(f"expected a number, got {value!r:.40}")
    return value


def differs(before: Any, after: Any) -> bool:
    """Whether two values differ. Mappings are compared in the keys that both have, since another
    version of the program may have more keys."""
    if isinstance(before, dict) and isinstance(after, dict):
        return any(before[key] != after[key] for key in before.keys() & after)
    return before != after


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Context that raises UserError, with the file's name, if its state has another form than
    expected."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise UserError(f"{path}: cannot resume: expected the state of a training run: "
                        f"{type(error).__name__}: {error}") from error


def continue_stream(batch: Batch, state: Any, path: Path) -> Batch:
    """The batch with the state of the previous batch, if it continues a stream.

    Raises UserError if there is no such state, because the checkpoint at `path` holds none.
    """
    if batch.begins:
        return batch
    if state is None:
        raise UserError(f"{path}: cannot resume: expected the states of streams, "
                        f"{checkpoint.CARRIED}*, found none")
    return replace(batch, state=state)


def read_stream(
    path: Path, saved: checkpoint.Checkpoint, model: Any, parameters: Mapping[str, Array],
    source: BatchSource,
) -> list[tuple[Array, ...]] | None:
    """The states of streams in a checkpoint, arrays (B, H) by layer and place; None without any.

    Raises UserError, with the file's name, if names, shapes or dtypes differ from those of the
    model's state after the source's first batch, and if numbers are not finite.
    """
    arrays = saved.select(checkpoint.CARRIED)
    if not arrays:
        return None
    expected = _state_after_first(model, parameters, source)
    model_states = {f"{layer}.{place}": array for layer, parts in enumerate(expected)
                    for place, array in enumerate(parts)}
    for name in sorted(arrays.keys() | model_states.keys()):
        described = [f"shape {states[name].shape} of {states[name].dtype}" if name in states
                     else "none" for states in (model_states, arrays)]
        if described[0] != described[1]:
            raise UserError(f"{path}: cannot resume: {checkpoint.CARRIED}{name}, a state that is "
                            f"handed from batch to batch: expected {described[0]}, found "
                            f"{described[1]}")
        checkpoint.check_array(path, f"{checkpoint.CARRIED}{name}", arrays[name],
                               model_states[name].dtype)
    return [tuple(to_device(arrays[f"{layer}.{place}"]) for place in range(len(parts)))
            for layer, parts in enumerate(expected)] or None


def _state_after_first(model: Any, parameters: Mapping[str, Array], source: BatchSource) -> Any:
    """The model's state after the first batch of a stream: arrays (B, H) by layer."""
    keys = source.epoch(np.random.default_rng(0))
    with np.errstate(all="ignore"):  # only shapes and dtypes matter
        _, cache = model.loss(parameters, source.batch(keys[0]))
    return cache.state or ()
