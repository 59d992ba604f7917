"""The slow truth: the models of Luong (2016) in plain Python floats and lists, one index at a time.

Written from the thesis's equations for one sentence at a time, and independent of the kernels: no
arrays, no batch, no padding, nothing in place but the sums of gradients. A vector is a list of
floats, a matrix a list of its rows, a state is (h,) of a vanilla unit or (h, c) of an LSTM. Every
`*_backward` adds to the gradients of the parameters that it is given, and returns those of the
rest. Shapes of the weights are the project's: T (G, E + H) has the columns of x, then those of h.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

Vector = list[float]
Matrix = list[Vector]
State = tuple[Vector, ...]
Parameters = dict[str, Any]  # name -> vector or matrix
END = 1  # </s>: ends a sentence, and starts the decoder (Algorithm 3, line 1)


def zeros_like(values: Any) -> Any:
    """The same nesting of lists, all zero."""
    return [zeros_like(v) for v in values] if isinstance(values, list) else 0.0


def add(x: Vector, y: Vector) -> Vector:
    """x + y."""
    return [x[k] + y[k] for k in range(len(x))]


def product(W: Matrix, x: Vector, b: Vector | None) -> Vector:
    """y_i = sum over j of W_ij x_j, + b_i."""
    y = [0.0 if b is None else b[i] for i in range(len(W))]
    for i in range(len(W)):
        for j in range(len(x)):
            y[i] += W[i][j] * x[j]
    return y


def product_backward(
    dy: Vector, W: Matrix, x: Vector, dW: Matrix, db: Vector | None
) -> Vector:
    """Lemma 1: dW_ij += dy_i x_j (2.12), db_i += dy_i; dx_j = sum over i of W_ij dy_i (2.11)."""
    dx = [0.0] * len(x)
    for i in range(len(W)):
        for j in range(len(x)):
            dW[i][j] += dy[i] * x[j]
            dx[j] += W[i][j] * dy[i]
        if db is not None:
            db[i] += dy[i]
    return dx


def softmax(e: Vector) -> Vector:
    """p_v = exp(e_v) / sum of exp(e_w), the largest e taken off first."""
    highest = max(e)
    powers = [math.exp(e_v - highest) for e_v in e]
    total = sum(powers)
    return [power / total for power in powers]


# --- the recurrent units ------------------------------------------------------------------------


class Step(NamedTuple):
    """One time step of a unit: what it read, and its gates (i, f, o, h_hat of an LSTM)."""

    xh: Vector  # [x_t; h_{t-1}], (E + H)
    before: State
    gates: Vector  # (4H), or (H) of a vanilla unit
    after: State


def rnn_step(x: Vector, before: State, T: Matrix, b: Vector | None) -> Step:
    """h_t = tanh(W_xh x_t + W_hh h_{t-1}) (2.3)."""
    xh = x + before[0]
    h = [math.tanh(z) for z in product(T, xh, b)]
    return Step(xh, before, h, (h,))


def rnn_step_backward(
    d_after: State, step: Step, T: Matrix, dT: Matrix, db: Vector | None
) -> tuple[Vector, State]:
    """dx_t and (dh_{t-1},): Algorithm 1, lines 5-8."""
    (dh,), (h,) = d_after, step.after
    dz = [(1 - h[k] ** 2) * dh[k] for k in range(len(h))]
    dxh = product_backward(dz, T, step.xh, dT, db)
    E = len(step.xh) - len(h)
    return dxh[:E], (dxh[E:],)


def lstm_step(x: Vector, before: State, T: Matrix, b: Vector | None) -> Step:
    """c_t and h_t: Eqs. 2.35-2.40, unit k reading rows k, H + k, 2H + k, 3H + k of T."""
    h_prev, c_prev = before
    H, xh = len(h_prev), x + h_prev
    u = product(T, xh, b)
    h, c = [0.0] * H, [0.0] * H
    for k in range(H):
        for gate in (0, 1, 2):
            u[gate * H + k] = 1 / (1 + math.exp(-u[gate * H + k]))
        u[3 * H + k] = math.tanh(u[3 * H + k])
        i, f, o, h_hat = (u[gate * H + k] for gate in range(4))
        c[k] = f * c_prev[k] + i * h_hat                         # (2.36)
        h[k] = o * math.tanh(c[k])                               # (2.37)
    return Step(xh, before, u, (h, c))


def lstm_step_backward(
    d_after: State, step: Step, T: Matrix, dT: Matrix, db: Vector | None
) -> tuple[Vector, State]:
    """dx_t and (dh_{t-1}, dc_{t-1}): Algorithm 2, lines 7-13, and Eqs. 2.47-2.50."""
    (dh, dc), c_prev, c = d_after, step.before[1], step.after[1]
    H = len(c)
    dz, dc_prev = [0.0] * (4 * H), [0.0] * H
    for k in range(H):
        i, f, o, h_hat = (step.gates[gate * H + k] for gate in range(4))
        do = math.tanh(c[k]) * dh[k]                             # (2.41)
        dc_k = dc[k] + (1 - math.tanh(c[k]) ** 2) * o * dh[k]    # (2.42)
        df = c_prev[k] * dc_k                                    # (2.43)
        dc_prev[k] = f * dc_k                                    # (2.44)
        di = h_hat * dc_k                                        # (2.45)
        dh_hat = i * dc_k                                        # (2.46)
        dz[k] = i * (1 - i) * di
        dz[H + k] = f * (1 - f) * df
        dz[2 * H + k] = o * (1 - o) * do
        dz[3 * H + k] = (1 - h_hat**2) * dh_hat
    dxh = product_backward(dz, T, step.xh, dT, db)               # (2.47-2.50)
    E = len(step.xh) - H
    return dxh[:E], (dxh[E:], dc_prev)


STEPS: dict[str, Any] = {"rnn": (rnn_step, rnn_step_backward),
                         "lstm": (lstm_step, lstm_step_backward)}


def sequence(
    unit: str, xs: list[Vector], before: State, T: Matrix, b: Vector | None
) -> list[Step]:
    """The unit at every time step; what a step leaves is where the next one begins."""
    steps: list[Step] = []
    for x in xs:
        steps.append(STEPS[unit][0](x, steps[-1].after if steps else before, T, b))
    return steps


def sequence_backward(
    unit: str, dhs: list[Vector], d_last: State, steps: list[Step], T: Matrix, dT: Matrix,
    db: Vector | None,
) -> tuple[list[Vector], State]:
    """dx_t of all steps and the gradient of the first state, from dh_t and the last state's."""
    dxs: list[Vector] = [[] for _ in steps]
    d_state = d_last
    for t in reversed(range(len(steps))):
        d_state = (add(d_state[0], dhs[t]), *d_state[1:])
        dxs[t], d_state = STEPS[unit][1](d_state, steps[t], T, dT, db)
    return dxs, d_state


# --- look-up and prediction ---------------------------------------------------------------------


def look_up(W_e: Matrix, ids: list[int]) -> list[Vector]:
    """x_t, the row of W_e that belongs to word t."""
    return [list(W_e[word]) for word in ids]


def look_up_backward(dxs: list[Vector], ids: list[int], dW_e: Matrix) -> None:
    """Each dx_t is added to its word's row (Algorithm 4, line 18)."""
    for t in range(len(ids)):
        for k in range(len(dxs[t])):
            dW_e[ids[t]][k] += dxs[t][k]


def predict(h: Vector, y: int, W_hy: Matrix, b: Vector | None) -> tuple[float, Vector]:
    """l_t = -log p_t(y) in nats, and p_t = softmax(W_hy h_t) (2.4, 2.5, 2.8)."""
    p = softmax(product(W_hy, h, b))
    return -math.log(p[y]), p


def predict_backward(
    p: Vector, h: Vector, y: int, W_hy: Matrix, dW_hy: Matrix, db: Vector | None
) -> Vector:
    """dh_t, by ds_t = p_t - 1_y (2.21-2.23; Algorithm 1 prints the other sign, erratum 1)."""
    ds = [p[v] - (1 if v == y else 0) for v in range(len(p))]
    return product_backward(ds, W_hy, h, dW_hy, db)


# --- the language model, one layer --------------------------------------------------------------


def language_model(
    parameters: Parameters, unit: str, x: list[int], y: list[int], before: State
) -> tuple[float, Parameters, State]:
    """Loss in nats of the words y after the words x, all gradients, the last state."""
    p, d = parameters, {name: zeros_like(value) for name, value in parameters.items()}
    T, b, W_hy, b_hy = (p.get(name) for name in ("rnn.0.T", "rnn.0.b", "output.W_hy", "output.b"))
    steps = sequence(unit, look_up(p["W_e"], x), before, T, b)
    loss, dhs = 0.0, []
    for t in range(len(x)):
        h = steps[t].after[0]
        l_t, p_t = predict(h, y[t], W_hy, b_hy)
        loss += l_t
        dhs.append(predict_backward(p_t, h, y[t], W_hy, d["output.W_hy"], d.get("output.b")))
    nothing = tuple(zeros_like(list(part)) for part in before)
    dxs, _ = sequence_backward(unit, dhs, nothing, steps, T, d["rnn.0.T"], d.get("rnn.0.b"))
    look_up_backward(dxs, x, d["W_e"])
    return loss, d, steps[-1].after


# --- attention ----------------------------------------------------------------------------------


def attend(h: Vector, hbar: list[Vector], W_a: Matrix | None) -> tuple[Vector, Vector]:
    """c_t and the weights a_t(s) (4.7), by the score h' W_a hbar_s, or h' hbar_s without W_a."""
    e = [0.0] * len(hbar)
    for s in range(len(hbar)):
        key = hbar[s] if W_a is None else product(W_a, hbar[s], None)
        for i in range(len(h)):
            e[s] += h[i] * key[i]
    a, c = softmax(e), [0.0] * len(hbar[0])
    for s in range(len(hbar)):
        for j in range(len(c)):
            c[j] += a[s] * hbar[s][j]
    return c, a


def attend_backward(
    dc: Vector, a: Vector, h: Vector, hbar: list[Vector], W_a: Matrix | None,
    dhbar: list[Vector], dW_a: Matrix | None,
) -> Vector:
    """dh_t; adds to dhbar_s, through the context and through the score, and to dW_a."""
    S, dh = len(hbar), [0.0] * len(h)
    da = [sum(dc[j] * hbar[s][j] for j in range(len(dc))) for s in range(S)]
    for s in range(S):
        de = sum(da[r] * a[r] * ((1 if r == s else 0) - a[s]) for r in range(S))
        for j in range(len(dc)):
            dhbar[s][j] += a[s] * dc[j]
        key = hbar[s] if W_a is None else product(W_a, hbar[s], None)
        for i in range(len(h)):
            dh[i] += de * key[i]
        for i in range(len(h)):
            for j in range(len(hbar[s])):
                if W_a is not None and dW_a is not None:
                    dhbar[s][j] += de * h[i] * W_a[i][j]
                    dW_a[i][j] += de * h[i] * hbar[s][j]
                elif i == j:
                    dhbar[s][j] += de * h[i]
    return dh


def attentional(c: Vector, h: Vector, W_c: Matrix) -> Vector:
    """h~_t = tanh(W_c [c_t; h_t]) (4.5)."""
    return [math.tanh(z) for z in product(W_c, c + h, None)]


def attentional_backward(
    dh_tilde: Vector, h_tilde: Vector, c: Vector, h: Vector, W_c: Matrix, dW_c: Matrix
) -> tuple[Vector, Vector]:
    """dc_t and dh_t; adds to dW_c."""
    dz = [(1 - h_tilde[k] ** 2) * dh_tilde[k] for k in range(len(h_tilde))]
    joined = product_backward(dz, W_c, c + h, dW_c, None)
    return joined[: len(c)], joined[len(c) :]
