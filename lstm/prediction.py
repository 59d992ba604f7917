"""The prediction layer: logits, softmax, cross-entropy and their gradient, at real words only.

Source: Luong (2016), Eqs. 2.4-2.6 and 2.19-2.23; Algorithm 1 line 2 and Algorithm 2 line 3 print
ds_t with the opposite sign (erratum 1); the code follows Eq. 2.21, which is the gradient. Label
smoothing (Nguyen 3.3.3.1) spreads a share eps of the target's probability over all V words,
including the target: q(y) = (1 - eps) 1_y + eps / V.
"""

from __future__ import annotations

from collections.abc import Mapping
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


class Bias(NamedTuple):
    """Numbers that are added to some logits of each word of a batch: those of U distinct words."""

    words: Array  # (B, U), those of each sentence
    values: Array  # (B, T, U)


def prediction_forward(
    h: Array, targets: Array, W_hy: Array, b: Array | None = None,
    workspace: Workspace | None = None, smoothing: float = 0.0,
    bias: tuple[Array, Array] | None = None,
) -> tuple[Array, PredictionCache]:
    """l = sum over rows of -log p_t(y_t), p_t = softmax(W_hy h_t + b) (Eqs. 2.4-2.6, 2.8).

    Arguments: h (N, H), one row per predicted word; targets (N,) integers; W_hy (V, H); b (V,)
    or None; smoothing, eps; bias, words (N, U) and what is added to their logits, or None. Returns
    the loss, a 0-d array in nats, summed over rows; and the cache.
    The buffer of the logits becomes that of ds_t chunk by chunk.
    """
    xp = array_module(h, targets, W_hy)
    workspace = workspace or Workspace()
    N, V = h.shape[0], W_hy.shape[0]
    s = workspace.empty(xp, (N, V), h.dtype)
    losses = xp.empty((N,), dtype=h.dtype)
    nll = xp.empty((N,), dtype=h.dtype) if smoothing else losses
    xp.matmul(h, W_hy.T, out=s)                        # s_t = W_hy h_t              (2.4)
    if bias is not None:
        s[xp.arange(N)[:, None], bias[0]] += bias[1]
    chunk = CHUNK if on_host(xp) else max(N, 1)
    for start in range(0, N, chunk):
        rows = slice(start, min(start + chunk, N))
        if smoothing:
            smoothed_cross_entropy(s[rows], targets[rows], losses[rows], nll[rows], smoothing, b)
        else:
            cross_entropy(s[rows], targets[rows], losses[rows], b)
    loss = losses.sum()                                # J = sum of l_t              (2.7, 2.8)
    return loss, PredictionCache(h, s, W_hy, b is not None, nll.sum() if smoothing else loss,
                                 None if bias is None else bias[0])


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


@fused(kernels.smoothed_cross_entropy)
def smoothed_cross_entropy(
    s: Array, targets: Array, losses: Array, nll: Array, smoothing: float, b: Array | None = None
) -> None:
    """losses = -sum over y of q(y) log softmax(s + b)[y], q with the share `smoothing` spread over
    all words; s is overwritten by the gradient p - q, in place.

    Arguments: as `cross_entropy`; nll (N,) is written, -log softmax(s + b)[targets] in nats.
    """
    xp, V = array_module(s, targets), s.shape[1]
    row = xp.arange(s.shape[0])
    if b is not None:
        s += b
    at_target, mean = s[row, targets], s.sum(axis=1) * (1.0 / V)           # (N,)
    cross_entropy(s, targets, nll)
    # l_t = (1 - eps) -log p(y_t) + eps (log sum e^s - mean of s)      (Nguyen 3.3.3.1 smoothing)
    losses[...] = nll + smoothing * (at_target - mean)
    s -= smoothing / V                                 # ds_t = p_t - (1 - eps) 1_{y_t} - eps / V
    s[row, targets] += smoothing


def prediction_backward(
    cache: PredictionCache, workspace: Workspace | None = None
) -> tuple[Array, Array, Array | None]:
    """Gradients of the summed loss: dh (N, H), dW_hy (V, H), db (V,) or None (Eqs. 2.22, 2.23).

    All time steps at once: Algorithm 1 lines 2-4, Algorithm 2 lines 3-5.
    """
    h, ds, W_hy, has_bias, *_ = cache
    xp = array_module(h, ds, W_hy)
    workspace = workspace or Workspace()
    dW_hy = workspace.product(ds.T, h)                 # dW_hy = ds_t h_t'           (2.23)
    dh = workspace.empty(xp, h.shape, h.dtype)
    xp.matmul(ds, W_hy, out=dh)                        # dh_t = W_hy' ds_t           (2.22)
    return dh, dW_hy, ds.sum(axis=0) if has_bias else None


# --- padded batches -----------------------------------------------------------------------------


class OutputCache(NamedTuple):
    names: tuple[str, str]  # the names of W_hy and b
    prediction: PredictionCache
    rows: Array | None  # (N,) flat positions of real words, None if all are
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
    lengths: np.ndarray, workspace: Workspace, name: str = "W_hy", smoothing: float = 0.0,
    bias: Bias | None = None,
) -> tuple[Array, OutputCache]:
    """The summed loss of Eq. 2.8 over the real words of a batch, p as in Eqs. 2.5 and 4.6.

    Arguments: h (T, B, H), any strides; targets (T, B) host ids; lengths (B,) host; smoothing, the
    share of label smoothing; bias, of some words. Returns the loss in nats, 0-d, and the cache.
    Padded rows are left out of the matrix products.
    Raises ValueError for a target that is no row of W_hy.
    """
    names, xp, (T, B, H) = (f"{prefix}.{name}", f"{prefix}.b"), array_module(h), h.shape
    W_hy, b = parameters[names[0]], parameters.get(names[1])
    check_ids(targets, W_hy.shape[0], "targets")
    flat, rows = xp.ascontiguousarray(h).reshape(T * B, H), None
    real = (np.arange(T)[:, None] < lengths[None, :]).reshape(-1)
    if not real.all():
        kept = np.flatnonzero(real)
        rows = to_device(kept)
        flat = xp.take(flat, rows, axis=0)                                 # (N, H)
        targets = targets.reshape(-1)[kept]
    bias_of_rows = None if bias is None else _of_rows(bias, rows)
    loss, cache = prediction_forward(flat, to_device(targets.reshape(-1)), W_hy, b, workspace,
                                     smoothing, bias_of_rows)
    return loss, OutputCache(names, cache, rows, h.shape)


def _of_rows(bias: Bias, rows: Array | None) -> tuple[Array, Array]:
    """Words (N, U) and values (N, U) of flat rows of (T, B), None for all rows."""
    xp, (B, T, U) = array_module(bias.values), bias.values.shape
    values = bias.values.transpose(1, 0, 2).reshape(T * B, U)
    rows = xp.arange(T * B) if rows is None else rows
    return bias.words[rows % B], values[rows]


def bias_backward(cache: OutputCache) -> Array:
    """The gradient (B, T, U) of a `Bias`'s values, exactly zero on padding."""
    prediction, (T, B, _) = cache.prediction, cache.shape
    ds, words = prediction.ds, prediction.biased
    assert words is not None
    xp = array_module(ds)
    d = ds[xp.arange(len(words))[:, None], words]                          # (N, U)
    if cache.rows is not None:
        full = xp.zeros((T * B, d.shape[1]), dtype=d.dtype)
        full[cache.rows] = d
        d = full
    return xp.ascontiguousarray(d.reshape(T, B, -1).transpose(1, 0, 2))


def output_backward(cache: OutputCache, workspace: Workspace) -> tuple[Array, Parameters]:
    """Gradient of h (T, B, H), exactly zero on padding, and of the output parameters.

    All time steps at once: Algorithm 4 lines 8-11.
    """
    dh, dW_hy, db = prediction_backward(cache.prediction, workspace=workspace)
    xp, (T, B, H) = array_module(dh), cache.shape
    if cache.rows is not None:
        full = workspace.empty(xp, (T * B, H), dh.dtype)
        full[...] = 0.0
        full[cache.rows] = dh
        dh = full
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
