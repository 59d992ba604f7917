"""The prediction layer: logits, softmax, cross-entropy and their gradient, at real words only.

Source: Luong (2016), Eqs. 2.4-2.6 and 2.19-2.23; Algorithm 1 line 2 and Algorithm 2 line 3 print
ds_t with the opposite sign (erratum 1); the code follows Eq. 2.21, which is the gradient. Label
smoothing is in `lstm.smoothing`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from backend import Array, array_module, on_host, to_device
from backend.fused import fused
from backend.fused import softmax as kernels
from backend.rows import check_ids
from backend.workspace import Workspace
from lstm.parameters import Parameters, Scheme, Weight, axis

CHUNK = 32  # rows of logits that stay in the CPU's cache between passes (maximum, exp, sum, ...)


class PredictionCache(NamedTuple):
    h: Array  # (N, H)
    ds: Array  # (N, V), the gradient of the summed loss with respect to the logits (Eq. 2.21)
    W_hy: Array  # (V, H)
    has_bias: bool
    nll: Array  # 0-d, the sum of -log p_t(y_t), which without smoothing is the loss
    biased: Array | None = None  # (N, U), the words with their own bias


# predict(h (N, H), targets (N,), W_hy, b, workspace) -> the loss, and the cache of the backward
Predict = Callable[[Array, Array, Array, "Array | None", Workspace], tuple[Array, PredictionCache]]


class Bias(NamedTuple):
    """Numbers that are added to the logits of U words, which each sentence of a batch chooses."""

    words: Array  # (B, U), the chosen words
    values: Array  # (B, T, U)


def prediction_forward(
    h: Array, targets: Array, W_hy: Array, b: Array | None = None,
    workspace: Workspace | None = None, bias: tuple[Array, Array] | None = None,
) -> tuple[Array, PredictionCache]:
    """l = sum over rows of -log p_t(y_t), p_t = softmax(W_hy h_t + b) (Eqs. 2.4-2.6, 2.8).

    Arguments: h (N, H), one row per predicted word; targets (N,) integers; W_hy (V, H); b (V,)
    or None; bias, words (N, U) and what is added to their logits, or None. Returns the loss, a 0-d
    array in nats, summed over rows; and the cache.
    The buffer of the logits becomes that of ds_t chunk by chunk.
    """
    xp, N = array_module(h, targets, W_hy), len(h)
    s = (workspace or Workspace()).product(h, W_hy.T)  # s_t = W_hy h_t              (2.4)
    if bias is not None:
        s[xp.arange(N)[:, None], bias[0]] += bias[1]
    losses = xp.empty((N,), dtype=h.dtype)
    chunk = CHUNK if on_host(xp) else max(N, 1)
    for start in range(0, N, chunk):
        rows = slice(start, start + chunk)
        cross_entropy(s[rows], targets[rows], losses[rows], b)
    loss = losses.sum()                                # J = sum of l_t              (2.7, 2.8)
    return loss, PredictionCache(h, s, W_hy, b is not None, loss, bias and bias[0])


@fused(kernels.cross_entropy)
def cross_entropy(s: Array, targets: Array, losses: Array, b: Array | None = None) -> None:
    """losses = -log softmax(s + b)[targets]; s is overwritten by the gradient p - 1_y, in place.

    Arguments: s (N, V) logits; targets (N,); losses (N,) is written, in nats; b (V,) or None. The
    row maximum is subtracted first, so that no exponential overflows.
    """
    xp = array_module(s, targets)
    row = xp.arange(s.shape[0])
    if b is not None:
        s += b
    s -= s.real.max(axis=1, keepdims=True)
    at_target = s[row, targets]                        # (N,)
    xp.exp(s, out=s)
    total = s.sum(axis=1)                              # (N,)
    losses[...] = xp.log(total) - at_target            # l_t = log sum e^s - s(y_t)   (2.19)
    s *= (1.0 / total)[:, None]                        # p_t = softmax(s_t)          (2.5, 2.6)
    s[row, targets] -= 1.0                             # ds_t = p_t - 1_{y_t}        (2.20, 2.21)


def prediction_backward(
    cache: PredictionCache, workspace: Workspace | None = None
) -> tuple[Array, Array, Array | None]:
    """Gradients of the summed loss: dh (N, H), dW_hy (V, H), db (V,) or None (Eqs. 2.22, 2.23).

    All time steps at once: Algorithm 1 lines 2-4, Algorithm 2 lines 3-5.
    """
    h, ds, W_hy, has_bias, *_ = cache
    workspace = workspace or Workspace()
    dW_hy = workspace.product(ds.T, h)                 # dW_hy = ds_t h_t'           (2.23)
    dh = workspace.product(ds, W_hy)                   # dh_t = W_hy' ds_t           (2.22)
    return dh, dW_hy, ds.sum(axis=0) if has_bias else None


# --- padded batches -----------------------------------------------------------------------------


class OutputCache(NamedTuple):
    names: tuple[str, str]  # the names of W_hy and b
    prediction: PredictionCache
    rows: Array  # (N,) flat positions of the real words
    shape: tuple[int, ...]  # (T, B, H)


def output_weights(
    prefix: str, width: int, vocabulary_size: int, bias: bool, scheme: Scheme, name: str = "W_hy",
    of: str = "word",
) -> dict[str, Weight]:
    """`{prefix}.{name}` (V, H), H = width, and with `bias` also `{prefix}.b` (V,). of: the label of
    the first axis, such as "word"."""
    words = axis(of, vocabulary_size)
    weights = {f"{prefix}.{name}": Weight((words, axis("unit", width)), scheme.matrix())}
    if bias:
        weights[f"{prefix}.b"] = Weight((words,), scheme.bias())
    return weights


def output_forward(
    prefix: str, parameters: Mapping[str, Array], h: Array, targets: np.ndarray,
    lengths: np.ndarray, workspace: Workspace, name: str = "W_hy",
    predict: Predict = prediction_forward,
) -> tuple[Array, OutputCache]:
    """The summed loss of Eq. 2.8 over the real words of a batch, p as in Eqs. 2.5 and 4.6.

    Arguments: h (T, B, H), any strides; targets (T, B) host ids; lengths (B,) host; predict,
    `prediction_forward` or a function like it. Returns the loss in nats, 0-d, and the cache.
    Padded rows are left out of the matrix products.
    Raises ValueError for a target that is no row of W_hy.
    """
    names, (T, B, H) = (f"{prefix}.{name}", f"{prefix}.b"), h.shape
    W_hy, b = parameters[names[0]], parameters.get(names[1])
    check_ids(targets, W_hy.shape[0], "targets")
    real = np.flatnonzero(np.arange(T)[:, None] < lengths)
    rows = to_device(real)
    h_of_rows = array_module(h).take(h.reshape(T * B, H), rows, axis=0)    # (N, H)
    targets_of_rows = to_device(targets.reshape(-1)[real])
    loss, cache = predict(h_of_rows, targets_of_rows, W_hy, b, workspace)
    return loss, OutputCache(names, cache, rows, h.shape)


def bias_of_rows(bias: Bias, lengths: np.ndarray) -> tuple[Array, Array]:
    """The argument `bias` of `prediction_forward` for the real words of a batch."""
    B, T, U = bias.values.shape
    rows = to_device(np.flatnonzero(np.arange(T)[:, None] < lengths))
    values = bias.values.transpose(1, 0, 2).reshape(T * B, U)
    return bias.words[rows % B], values[rows]


def bias_backward(cache: OutputCache) -> Array:
    """The gradient (B, T, U) of a `Bias`'s values, exactly zero on padding."""
    prediction, (T, B, _) = cache.prediction, cache.shape
    ds, words = prediction.ds, prediction.biased
    assert words is not None
    xp = array_module(ds)
    d = ds[xp.arange(len(words))[:, None], words]                          # (N, U)
    full = xp.zeros((T * B, d.shape[1]), dtype=d.dtype)
    full[cache.rows] = d
    return xp.ascontiguousarray(full.reshape(T, B, -1).transpose(1, 0, 2))


def output_backward(cache: OutputCache, workspace: Workspace) -> tuple[Array, Parameters]:
    """Gradient of h (T, B, H), exactly zero on padding, and of the output parameters.

    All time steps at once: Algorithm 4 lines 8-11.
    """
    dh_of_rows, dW_hy, db = prediction_backward(cache.prediction, workspace)
    T, B, H = cache.shape
    dh = workspace.empty(array_module(dh_of_rows), (T * B, H), dh_of_rows.dtype)
    dh[...] = 0.0
    dh[cache.rows] = dh_of_rows
    gradients = {cache.names[0]: dW_hy} | ({} if db is None else {cache.names[1]: db})
    return dh.reshape(T, B, H), gradients


def output_step(
    prefix: str, parameters: Mapping[str, Array], h: Array, name: str = "W_hy"
) -> Array:
    """Logits (N, V) of rows h (N, H), for search."""
    W_hy = parameters[f"{prefix}.{name}"]
    logits = array_module(h, W_hy).matmul(h, W_hy.T)                       # (2.4)
    if f"{prefix}.b" in parameters:
        logits += parameters[f"{prefix}.b"]
    return logits
