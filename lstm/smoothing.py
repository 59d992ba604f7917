"""The prediction layer with label smoothing (Nguyen 3.3.3.1).

A share eps of the target's probability is spread over all V words, including the target:
q(y) = (1 - eps) 1_y + eps / V. The backward pass is that of `lstm.prediction`.
"""

from __future__ import annotations

from backend import Array, array_module, on_host
from backend.fused import fused
from backend.fused import softmax as kernels
from backend.workspace import Workspace
from lstm.prediction import CHUNK, PredictionCache, cross_entropy


def smoothed_prediction_forward(
    h: Array, targets: Array, W_hy: Array, b: Array | None = None,
    workspace: Workspace | None = None, *, smoothing: float,
) -> tuple[Array, PredictionCache]:
    """As `prediction_forward`, with the share `smoothing`."""
    xp, N = array_module(h, targets, W_hy), len(h)
    s = (workspace or Workspace()).product(h, W_hy.T)  # s_t = W_hy h_t              (2.4)
    losses, nll = xp.empty((N,), dtype=h.dtype), xp.empty((N,), dtype=h.dtype)
    chunk = CHUNK if on_host(xp) else max(N, 1)
    for start in range(0, N, chunk):
        rows = slice(start, start + chunk)
        smoothed_cross_entropy(s[rows], targets[rows], losses[rows], nll[rows], smoothing, b)
    return losses.sum(), PredictionCache(h, s, W_hy, b is not None, nll.sum())


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
