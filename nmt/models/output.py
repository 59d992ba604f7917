"""The output layer of a padded batch: predictions at the real words, and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from backend import Array, array_module, to_device
from backend.rows import check_ids
from backend.workspace import Workspace
from lstm.parameters import Parameters, Scheme, Weight, axis
from lstm.prediction import PredictionCache, prediction_backward, prediction_forward


class OutputCache(NamedTuple):
    prediction: PredictionCache
    rows: Array | None  # (N,) flat positions of real words, None if all are
    shape: tuple[int, ...]  # (T, B, H)


def output_weights(
    hidden_size: int, vocabulary_size: int, bias: bool, scheme: Scheme
) -> dict[str, Weight]:
    """`output.W_hy` (V, H) and, where wanted, `output.b` (V,)."""
    words = axis("word", vocabulary_size)
    weights = {"output.W_hy": Weight((words, axis("unit", hidden_size)), scheme.matrix())}
    if bias:
        weights["output.b"] = Weight((words,), scheme.bias())
    return weights


def output_forward(
    h: Array, targets: np.ndarray, lengths: np.ndarray, parameters: Mapping[str, Array],
    workspace: Workspace,
) -> tuple[Array, OutputCache]:
    """The summed loss of Eq. 2.8 over the real words of a batch, p as in Eqs. 2.5 and 4.6.

    Arguments: h (T, B, H), any strides; targets (T, B) host ids; lengths (B,) host. Returns the
    loss in nats, 0-d, and the cache. Padded rows are left out of the matrix products.
    Raises ValueError for a target that is no row of W_hy.
    """
    xp = array_module(h)
    T, B, H = h.shape
    check_ids(targets, parameters["output.W_hy"].shape[0], "targets")
    flat = xp.ascontiguousarray(h).reshape(T * B, H)
    real = (np.arange(T)[:, None] < lengths[None, :]).reshape(-1)
    rows = None
    if not real.all():
        kept = np.flatnonzero(real)
        rows = to_device(kept)
        flat = xp.take(flat, rows, axis=0)                                 # (N, H)
        targets = targets.reshape(-1)[kept]
    loss, cache = prediction_forward(
        flat, to_device(targets.reshape(-1)), parameters["output.W_hy"],
        parameters.get("output.b"), workspace,
    )
    return loss, OutputCache(cache, rows, h.shape)


def output_backward(cache: OutputCache, workspace: Workspace) -> tuple[Array, Parameters]:
    """Gradient of h (T, B, H), exactly zero on padding, and of the output parameters."""
    dh, dW_hy, db = prediction_backward(cache.prediction, workspace=workspace)
    xp = array_module(dh)
    T, B, H = cache.shape
    if cache.rows is not None:
        full = workspace.empty(xp, (T * B, H), dh.dtype)
        full[...] = 0.0
        full[cache.rows] = dh
        dh = full
    gradients = {"output.W_hy": dW_hy}
    if db is not None:
        gradients["output.b"] = db
    return dh.reshape(T, B, H), gradients
