"""Gated recurrent cells and their loops, right, and the mistakes that people make in them."""

import numpy as np


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def gru_cell_inputs(rng):
    return {"x": rng.normal(size=(2, 3)), "h": rng.normal(size=(2, 4)),
            "W": rng.normal(size=(12, 3)), "U": rng.normal(size=(12, 4)), "b": rng.normal(size=12)}


def gru_cell_forward(p):
    x, h, W, U, b = p["x"], p["h"], p["W"], p["U"], p["b"]
    Wr, Wz, Wn = np.split(W, 3)
    Ur, Uz, Un = np.split(U, 3)
    br, bz, bn = np.split(b, 3)
    ar = x @ Wr.T + h @ Ur.T + br
    az = x @ Wz.T + h @ Uz.T + bz
    r, z = sigmoid(ar), sigmoid(az)
    rh = r * h
    an = x @ Wn.T + rh @ Un.T + bn
    n = np.tanh(an)
    return (1 - z) * n + z * h, (x, h, W, U, r, z, n)


def gru_cell_backward(dy, cache):
    x, h, W, U, r, z, n = cache
    Ur, Uz, Un = np.split(U, 3)
    dz = dy * (h - n)
    dn = dy * (1 - z)
    dan = dn * (1 - n**2)
    drh = dan @ Un
    dr = drh * h
    dar = dr * r * (1 - r)
    daz = dz * z * (1 - z)
    dh = dy * z + drh * r + dar @ Ur + daz @ Uz
    da = np.concatenate([dar, daz, dan], axis=1)
    dx = da @ W
    dW = da.T @ x
    dU = np.concatenate([dar.T @ h, daz.T @ h, dan.T @ (r * h)])
    db = da.sum(axis=0)
    return {"x": dx, "h": dh, "W": dW, "U": dU, "b": db}


gru_cell_wrong = [
    ("dz = dy * (h - n)", "dz = dy * (n - h)", "dz", "a sign", "reversed sign"),
    ("dan.T @ (r * h)", "dan.T @ h", "dU", "the reset gate forgotten"),
    ("[dar, daz, dan]", "[daz, dar, dan]", "da", "the gates exchanged", "exchanged"),
    ("dh = dy * z + drh * r", "dh = dy * z + drh", "dh", "the reset gate forgotten"),
    ("dan = dn * (1 - n**2)", "dan = dn * n * (1 - n)", "dan", "the sigmoid's slope for tanh's"),
    ("dh = dy * z + drh * r + dar @ Ur + daz @ Uz", "dh = dy * z + drh * r + dar @ Ur", "dh",
     "one of four paths forgotten"),
]


def gru_loop_inputs(rng):
    return [rng.normal(size=s) for s in ((4, 2), (3,), (9, 2), (9, 3))]


def gru_loop_forward(x, h0, W, U):
    h, hs, cache = h0, [], []
    for t in range(len(x)):
        a, u = W @ x[t], U @ h
        r, z = sigmoid(a[:3] + u[:3]), sigmoid(a[3:6] + u[3:6])
        n = np.tanh(a[6:] + r * u[6:])
        cache.append((h, u, r, z, n))
        h = n + z * (h - n)
        hs.append(h)
    return np.stack(hs), (x, W, U, cache)


def gru_loop_backward(dhs, cache):
    x, W, U, steps = cache
    dx, dW, dU = np.empty_like(x), np.zeros_like(W), np.zeros_like(U)
    dh = np.zeros(3)
    for t in reversed(range(len(x))):
        h, u, r, z, n = steps[t]
        dh = dh + dhs[t]
        dz = dh * (h - n)
        dan = dh * (1 - z) * (1 - n * n)
        dr = dan * u[6:]
        da = np.concatenate([dr * r * (1 - r), dz * z * (1 - z), dan])
        du = np.concatenate([da[:6], dan * r])
        dx[t] = da @ W
        dW += np.outer(da, x[t])
        dU += np.outer(du, h)
        dh = du @ U + dh * z
    return dx, dh, dW, dU


gru_loop_wrong = [
    ("du = np.concatenate([da[:6], dan * r])", "du = da", "du", "the reset gate forgotten"),
    ("dh = du @ U + dh * z", "dh = du @ U", "dh", "the path around the gates forgotten"),
    ("dh = du @ U + dh * z", "dh = du @ U + dh * (1 - z)", "dh", "1 - z for z"),
    ("dh = dh + dhs[t]", "dh = dh + dhs[-1]", "dh", "the last output's gradient at every step"),
]


def lstm_cell_inputs(rng):
    return rng.normal(size=(2, 6)), rng.normal(size=(2, 3)), rng.normal(size=(12, 6))


def lstm_cell_forward(xh, c, W):
    a = xh @ W.T
    i, f, o = (sigmoid(gate) for gate in np.split(a[:, :9], 3, axis=1))
    g = np.tanh(a[:, 9:])
    c_new = f * c + i * g
    tc = np.tanh(c_new)
    return (o * tc, c_new), (xh, c, W, i, f, o, g, tc)


def lstm_cell_backward(d_outputs, cache):
    dh, dc_new = d_outputs
    xh, c, W, i, f, o, g, tc = cache
    do = dh * tc
    dtc = dh * o
    dc_new = dc_new + dtc * (1 - tc**2)
    di = dc_new * g
    df = dc_new * c
    dg = dc_new * i
    dc = dc_new * f
    da = np.hstack([di * i * (1 - i), df * f * (1 - f), do * o * (1 - o), dg * (1 - g**2)])
    dxh = da @ W
    dW = da.T @ xh
    return dxh, dc, dW


lstm_cell_wrong = [
    ("dc_new = dc_new + dtc * (1 - tc**2)", "dc_new = dtc * (1 - tc**2)", "dc_new",
     "the cell's own upstream gradient forgotten", "through output 1 is missing"),
    ("[di * i * (1 - i), df * f * (1 - f), ", "[df * f * (1 - f), di * i * (1 - i), ", "da",
     "the gates exchanged", "exchanged"),
    ("dg * (1 - g**2)", "dg * g * (1 - g)", "da", "the sigmoid's slope for tanh's"),
    ("dc = dc_new * f", "dc = dc_new", "dc", "the forget gate forgotten"),
    ("df = dc_new * c", "df = dc_new * g", "df", "the candidate for the cell"),
    ("dtc = dh * o", "dtc = dh", "dtc", "the output gate forgotten"),
]


def lstm_loop_inputs(rng):
    T, D, H = 3, 2, 3
    return {"x": rng.normal(size=(T, D)), "W": rng.normal(size=(4 * H, D + H)) / 2,
            "b": rng.normal(size=4 * H)}


def lstm_loop_forward(p):
    x, W, b = p["x"], p["W"], p["b"]
    T, H = len(x), len(b) // 4
    h, c = np.zeros((T + 1, H)), np.zeros((T + 1, H))
    gates = np.zeros((T, 4, H))
    for t in range(T):
        a = (W @ np.concatenate([x[t], h[t]]) + b).reshape(4, H)
        gates[t, :3] = sigmoid(a[:3])
        gates[t, 3] = np.tanh(a[3])
        i, f, o, g = gates[t]
        c[t + 1] = f * c[t] + i * g
        h[t + 1] = o * np.tanh(c[t + 1])
    return {"h": h[1:], "c": c[-1]}, (x, W, h, c, gates)


def lstm_loop_backward(d, cache):
    x, W, h, c, gates = cache
    dx, dW, db = np.zeros_like(x), np.zeros_like(W), np.zeros(len(W))
    dh, dc = np.zeros_like(h[0]), d["c"]
    for t in reversed(range(len(x))):
        i, f, o, g = gates[t]
        dh = dh + d["h"][t]
        tc = np.tanh(c[t + 1])
        dc = dc + dh * o * (1 - tc**2)
        da = np.concatenate([dc * g * i * (1 - i), dc * c[t] * f * (1 - f),
                             dh * tc * o * (1 - o), dc * i * (1 - g**2)])
        dW += np.outer(da, np.concatenate([x[t], h[t]]))
        db += da
        dxh = W.T @ da
        dx[t] = dxh[: x.shape[1]]
        dh = dxh[x.shape[1]:]
        dc = dc * f
    return {"x": dx, "W": dW, "b": db}


lstm_loop_wrong = [
    ("dc = dc + dh * o * (1 - tc**2)", "dc = dh * o * (1 - tc**2)", "dc", "dc not carried"),
    ("dc * c[t] * f * (1 - f)", "dc * c[t + 1] * f * (1 - f)", "da", "the wrong index in time"),
    ("dc = dc * f", "dc = dc * gates[t - 1][1]", "dc", "the forget gate of another step"),
    ("dh = dh + d[\"h\"][t]", "dh = d[\"h\"][t]", "dh", "dh not carried", "next step"),
    ("db += da", "db = da", "db", "= for +=", "= written for"),
    ("dc = np.zeros_like(h[0]), d[\"c\"]", "dc = np.zeros_like(h[0]), np.zeros_like(h[0])", "dc",
     "the last cell's upstream gradient forgotten", "through output c is missing"),
]
