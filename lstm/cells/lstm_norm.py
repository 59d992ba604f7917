"""The layer-normalised LSTM, one time step: `lstm.cells.lstm` with three norms.

Source: Ba, Kiros and Hinton (2016), Layer Normalization, Equations 20 to 22 of the supplement:

| | |
|---|---|
| Ba 20 | a = LN(W_h h_prev; alpha_1, beta_1) + LN(W_x x; alpha_2, beta_2) + b |
| Ba 21 | c = f o c_prev + i o h_hat |
| Ba 22 | h = o o tanh(LN(c; alpha_3, beta_3)) |

LN(v; alpha, beta) = alpha o v_hat + beta; v_hat is v without its mean, divided by its standard
deviation. The two products have a norm each, over all 4H of their elements.

| here | Ba et al. |
|---|---|
| `g_h`, `g_x`, (4H,); `g_c`, (H,) | alpha_1, alpha_2, alpha_3 |
| `b`, (4H,); `b_c`, (H,) | b + beta_1 + beta_2, which only ever appear as a sum; beta_3 |
| `{name}.b`, (14H,) | b, g_x - 1, g_h - 1, g_c - 1, b_c |
| `x_hat`, `y_hat`, (B, 4H); `c_hat`, (B, H) | W_x x, W_h h_prev and c, normalised |

A gain is stored as its distance from 1, so that every number of `{name}.b` starts near zero as a
bias does. Without biases the gains are 1.

A step saves 24 H numbers, where the LSTM saves H: what the norms made, and on the way back the
gradients at a and at LN(c), from which those of `{name}.b` and W_h follow after the loop.
"""

from __future__ import annotations

from backend import Array, array_module
from lstm.cells.cell import Cell, State, Step, sigm
from lstm.cells.lstm import GATES, blocks

EPS = 1e-5  # under the root, as in the authors' code and in the Transformer's norms
BIASES = (*(f"g_x {gate}" for gate in GATES), *(f"g_h {gate}" for gate in GATES), "g_c", "b_c")
SAVED = (4, 4, 4, 4, 1, 1, 1, 4, 1)  # blocks of H columns of each of `saved_arrays`


def forward(step: Step, b: Array | None, W_h: Array) -> None:
    """(h_t, c_t) = f(x_t, h_{t-1}, c_{t-1}); arguments as in `Cell`."""
    xp, (h_prev, c_prev), (h, c) = array_module(W_h), step.before, step.now
    b, g_x, g_h, g_c, b_c = gains(xp.zeros(14 * h.shape[1], dtype=h.dtype) if b is None else b)
    x_hat, x_size = standardise(step.u)
    y_hat, y_size = standardise(xp.matmul(h_prev, W_h, out=step.scratch))
    a_i, a_f, a_o, a_h_hat = blocks(g_h * y_hat + g_x * x_hat + b)         # (Ba 20)
    i, f, o, h_hat = sigm(a_i), sigm(a_f), sigm(a_o), xp.tanh(a_h_hat)
    c[...] = f * c_prev + i * h_hat                            # (Ba 21)
    c_hat, c_size = standardise(c)
    tanh_n = xp.tanh(g_c * c_hat + b_c)                        # n = LN(c)
    h[...] = o * tanh_n                                        # (Ba 22)
    step.u[...] = xp.concatenate([i, f, o, h_hat], axis=1)
    made = x_hat, g_x / x_size, y_hat, g_h / y_size, c_hat, g_c / c_size, tanh_n
    for array, value in zip(saved_arrays(step.saved), made, strict=False):
        array[...] = value


def gains(b: Array) -> tuple[Array, Array, Array, Array, Array]:
    """b and g_x, g_h (4H,), g_c and b_c (H,) of `{name}.b` (14H,)."""
    H = len(b) // 14
    return (b[: 4 * H], 1.0 + b[4 * H : 8 * H], 1.0 + b[8 * H : 12 * H], 1.0 + b[12 * H : 13 * H],
            b[13 * H :])


def standardise(v: Array) -> tuple[Array, Array]:
    """v_hat (B, n), each row of v without its mean and divided by its size; the sizes (B, 1)."""
    n = v.shape[1]
    v_hat = v - v.sum(axis=1, keepdims=True) * (1.0 / n)
    size = array_module(v).sqrt((v_hat * v_hat).sum(axis=1, keepdims=True) * (1.0 / n) + EPS)
    return v_hat / size, size


def standardise_backward(d: Array, v_hat: Array) -> Array:
    """dv = (I - 1 1'/n - v_hat v_hat'/n) d, d (B, n) being dv_hat divided by the size of v."""
    n = v_hat.shape[1]
    mean = d.sum(axis=1, keepdims=True) * (1.0 / n)
    along = (d * v_hat).sum(axis=1, keepdims=True) * (1.0 / n)
    return d - mean - v_hat * along


def saved_arrays(saved: Array) -> list[Array]:
    """Views of what a step saves, or all steps in rows (N, 24 H).

    Of the forward pass: x_hat, g_x / size, y_hat, g_h / size, each (N, 4H), and c_hat, g_c / size,
    tanh n, each (N, H). Of the backward pass: da (N, 4H) and dn (N, H).
    """
    H = saved.shape[1] // sum(SAVED)
    ends = [sum(SAVED[: k + 1]) * H for k in range(len(SAVED))]
    return [saved[:, end - width * H : end] for end, width in zip(ends, SAVED, strict=True)]


def backward(d_state: State, d_out: Array | None, step: Step, W_h: Array, da_x: Array) -> None:
    """From dh_t and dc_t to dh_{t-1}, dc_{t-1} and da_x, the gradient at W_x x_t; arguments as in
    `Cell`, whose da is da_x here."""
    xp, (dh, dc), (i, f, o, h_hat) = array_module(W_h), d_state, blocks(step.u)
    x_hat, x_slope, y_hat, y_slope, c_hat, c_slope, tanh_n, da, dn = saved_arrays(step.saved)
    if d_out is not None:
        dh += d_out
    do = tanh_n * dh                                           # (2.15) on (Ba 22)
    dn[...] = (1.0 - tanh_n * tanh_n) * o * dh                 # (2.16) on (Ba 22)
    dc += standardise_backward(c_slope * dn, c_hat)
    df, di, dh_hat = step.before[1] * dc, h_hat * dc, i * dc   # (2.17), (2.18) on (Ba 21)
    dc *= f                                                    # (2.18) on (Ba 21)
    da[...] = xp.concatenate([i * (1.0 - i) * di, f * (1.0 - f) * df, o * (1.0 - o) * do,
                              (1.0 - h_hat * h_hat) * dh_hat], axis=1)     # at a of (Ba 20)
    da_x[...] = standardise_backward(x_slope * da, x_hat)
    xp.matmul(standardise_backward(y_slope * da, y_hat), W_h, out=dh)


def gradients(da_x: Array, h_prev: Array, saved: Array, dW_h: Array) -> Array:
    """As `Cell.gradients`. dW_h = da_y' h_prev, where da_y is the gradient at W_h h_{t-1}. The
    result, (14H,), has the sums over all steps of the gradients of b, g_x, g_h, g_c and b_c."""
    x_hat, _, y_hat, y_slope, c_hat, _, _, da, dn = saved_arrays(saved)
    xp, d = array_module(da), (da, x_hat * da, y_hat * da, c_hat * dn, dn)
    xp.matmul(standardise_backward(y_slope * da, y_hat).T, h_prev, out=dW_h)
    return xp.concatenate([array.sum(axis=0) for array in d])


LSTM_NORM = Cell(2, GATES, sum(SAVED), forward, backward, gradients, BIASES, normalised=True)
