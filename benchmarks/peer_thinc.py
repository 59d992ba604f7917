"""thinc's LSTM layer (explosion/thinc) on our inputs (the extra `peers`).

On NumPy thinc 9.1.1's forward is right and its backward is not (a central difference of its own
forward says so too): the first step's dx is exactly zero, because the loop over pairs of steps
never reaches it; the weights' gradients start from the weights, not from zeros; and dW_h pairs the
gradient of step t with h_t in place of h_{t-1}. So the comparison, which requires equal results,
leaves its backward out.

Its weights are one flat array: W_x, b_x, W_h, b_h, gates in the order f, i, o, g. The layer takes
sequences of one length as a `Padded` batch, (T, B, E), as ours does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.implementations import Arrays, Passes, Results


def passes(a: Arrays) -> Passes:
    """The two passes over the inputs of `benchmarks.kernel_list.recurrent.layer`, an LSTM's."""
    from thinc.api import LSTM, NumpyOps, use_ops
    from thinc.types import Padded

    T, B, H = a["x"].shape
    with use_ops(NumpyOps.name):
        model = LSTM(H, H)
        model.initialize()
    model.set_param("LSTM", flat_weights(a["rnn.0.W"], a["rnn.0.b"]))

    def padded(data: np.ndarray) -> Any:
        return Padded(data, np.full(T, B, dtype="i"), np.full(B, T, dtype="i"),
                      np.arange(B, dtype="i"))

    x, dh = padded(a["x"]), padded(a["dh"])

    def forward() -> Results:
        return {"h": model.predict(x).data}

    def both() -> Results:
        model.set_grad("LSTM", np.zeros_like(model.get_param("LSTM")))
        h, backward = model(x, is_train=True)
        dx = backward(dh)
        return {"h": h.data, "dx": dx.data, "flat": model.get_grad("LSTM")}

    return Passes({"forward": forward, "both": both}, lambda results: in_our_layout(results, H))


def flat_weights(T: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Our T (4H, E + H) and b (4H,) as thinc keeps them; its second bias is zero."""
    E = T.shape[1] - len(T) // 4
    T, b = reordered(T), reordered(b)
    return np.concatenate([T[:, :E].ravel(), b, T[:, E:].ravel(), np.zeros_like(b)])


def in_our_layout(results: Results, H: int) -> Results:
    """thinc's flat gradient as that of T and b; E = H."""
    read = dict(results)
    if "flat" in read:
        W_x, b, W_h, _ = np.split(read.pop("flat"), np.cumsum([4 * H * H, 4 * H, 4 * H * H]))
        T = np.concatenate([W_x.reshape(4 * H, H), W_h.reshape(4 * H, H)], axis=1)
        read |= {"rnn.0.W": reordered(T), "rnn.0.b": reordered(b)}
    return read


def reordered(rows: np.ndarray) -> np.ndarray:
    """Our blocks i, f, o, h_hat as thinc's f, i, o, h_hat; undone by itself."""
    i, f, o, h_hat = np.split(rows, 4)
    return np.concatenate([f, i, o, h_hat])
