"""Dynamic programs and scans, right, and the mistakes that people make in them."""

import numpy as np

BLANKED = [0, 2, 0, 1, 0]  # a target of two labels with blanks between


def hmm_inputs(rng):
    return [rng.normal(size=s) for s in ((3,), (3, 3), (4, 3))]


def hmm_forward(start, trans, emit):
    """The log-likelihood, by the forward algorithm."""
    alpha = [start + emit[0]]
    for t in range(1, len(emit)):
        alpha.append(np.logaddexp.reduce(alpha[-1][:, None] + trans, axis=0) + emit[t])
    return np.logaddexp.reduce(alpha[-1]), (alpha, trans, emit)


def hmm_backward(dout, cache):
    alpha, trans, emit = cache
    demit, dtrans = np.zeros_like(emit), np.zeros_like(trans)
    last = alpha[-1] - alpha[-1].max()
    dalpha = dout * np.exp(last) / np.exp(last).sum()
    for t in range(len(emit) - 1, 0, -1):
        demit[t] = dalpha
        share = np.exp(alpha[t - 1][:, None] + trans - (alpha[t] - emit[t]))
        dpaths = share * dalpha
        dtrans += dpaths
        dalpha = dpaths.sum(axis=1)
    demit[0] = dalpha
    return dalpha, dtrans, demit


hmm_wrong = [
    ("dalpha = dpaths.sum(axis=1)", "dalpha = dpaths.sum(axis=0)", "dalpha",
     "a sum over the wrong axis"),
    ("dtrans += dpaths", "dtrans = dpaths", "dtrans", "= for +="),
    ("demit[0] = dalpha", "pass", "demit", "the first step forgotten",
     "index 0 of axis 0 it is zero"),
    ("- (alpha[t] - emit[t]))", "- alpha[t])", "dpaths", "the emission counted twice"),
]


def ctc_inputs(rng):
    return [rng.normal(size=(5, 3))]


def ctc_forward(logits):
    """Minus the log-probability of a target, blanks and repetitions summed out."""
    y = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    T, S = len(y), len(BLANKED)
    a = np.zeros((T, S))
    a[0, :2] = y[0, BLANKED[:2]]
    for t in range(1, T):
        for s in range(S):
            total = a[t - 1, s] + (a[t - 1, s - 1] if s else 0)
            if s > 1 and BLANKED[s] not in (0, BLANKED[s - 2]):
                total = total + a[t - 1, s - 2]
            a[t, s] = total * y[t, BLANKED[s]]
    return -np.log(a[-1, -1] + a[-1, -2]), (y, a)


def ctc_backward(dloss, cache):
    y, a = cache
    T, S = a.shape
    da, dy = np.zeros((T, S)), np.zeros_like(y)
    da[-1, -2:] = -dloss / (a[-1, -1] + a[-1, -2])
    for t in range(T - 1, 0, -1):
        for s in range(S):
            label = BLANKED[s]
            dy[t, label] += da[t, s] * a[t, s] / y[t, label]
            dtotal = da[t, s] * y[t, label]
            da[t - 1, s] += dtotal
            if s > 0:
                da[t - 1, s - 1] += dtotal
            if s > 1 and label not in (0, BLANKED[s - 2]):
                da[t - 1, s - 2] += dtotal
    dy[0, BLANKED[:2]] += da[0, :2]
    dlogits = y * (dy - (dy * y).sum(axis=1, keepdims=True))
    return dlogits


ctc_wrong = [
    ("da[t - 1, s - 1] += dtotal", "da[t - 1, s - 1] = dtotal", "da", "= for +="),
    ("dy[t, label] += da[t, s]", "dy[t, label] = da[t, s]", "dy", "repeated blanks counted once"),
    ("if s > 1 and label not in (0, BLANKED[s - 2]):", "if s > 1:", "da",
     "a blank skipped"),
    ("dy[0, BLANKED[:2]] += da[0, :2]", "pass", "dy", "the first step forgotten"),
]


def crf_inputs(rng):
    return rng.normal(size=(4, 3)), rng.normal(size=(3, 3))


def crf(s, A):
    """The log-partition function of a chain less the score of a path."""
    a = s[0]
    for t in range(1, 4):
        m = a[:, None] + A
        top = m.max(axis=0)
        a = top + np.log(np.exp(m - top).sum(axis=0)) + s[t]
    path = [0, 2, 2, 1]
    score = s[range(4), path].sum() + A[path[:-1], path[1:]].sum()
    return np.log(np.exp(a).sum()) - score


def crf_gradient(s, A):
    path = [0, 2, 2, 1]
    alpha, beta = [s[0]], [np.zeros(3)]
    for t in range(1, 4):
        alpha.append(np.log(np.exp(alpha[-1][:, None] + A).sum(axis=0)) + s[t])
        beta.insert(0, np.log(np.exp(A + s[4 - t] + beta[0]).sum(axis=1)))
    log_z = np.log(np.exp(alpha[-1]).sum())
    ds = np.exp(np.array(alpha) + np.array(beta) - log_z)
    ds[range(4), path] -= 1
    dA = sum(np.exp(alpha[t][:, None] + A + s[t + 1] + beta[t + 1] - log_z) for t in range(3))
    np.subtract.at(dA, (path[:-1], path[1:]), 1)
    return ds, dA


crf_wrong = [
    ("ds[range(4), path] -= 1", "ds[:, path] -= 1", "ds", "every step gets the whole path"),
    ("+ A + s[t + 1] + beta[t + 1]", "+ A + s[t] + beta[t + 1]", "dA", "the wrong index in time"),
    ("+ A + s[t + 1] + beta[t + 1] - log_z", "+ A.T + s[t + 1] + beta[t + 1] - log_z", "dA",
     "right only for symmetric transitions"),
]


def linear_scan_inputs(rng):
    return rng.uniform(0.2, 0.9, size=(5, 2)), rng.normal(size=(5, 2))


def linear_scan_forward(a, x):
    y = np.empty_like(x)
    state = np.zeros_like(x[0])
    for t in range(len(x)):
        state = a[t] * state + x[t]
        y[t] = state
    return y, (a, y)


def linear_scan_backward(dy, cache):
    a, y = cache
    da, dx, dstate = np.zeros_like(a), np.zeros_like(y), np.zeros(2)
    for t in range(len(y) - 1, -1, -1):
        dstate = dstate + dy[t]
        dx[t] = dstate
        da[t] = dstate * y[t - 1] if t else 0
        dstate = a[t] * dstate
    return da, dx


linear_scan_wrong = [
    ("dstate = a[t] * dstate", "dstate = a[t - 1] * dstate", "dstate", "the wrong index in time"),
    ("dstate * y[t - 1] if t else 0", "dstate * y[t - 1]", "da",
     "the last output before the first step"),
]


def soft_dtw_inputs(rng):
    return rng.normal(size=4), rng.normal(size=3)


def soft_dtw_forward(x, y):
    n, m = len(x), len(y)
    D = (x[:, None] - y[None, :]) ** 2
    R = np.full((n + 1, m + 1), 1e8)
    R[0, 0] = 0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            r = np.stack([R[i - 1, j], R[i, j - 1], R[i - 1, j - 1]])
            low = r.min()
            R[i, j] = D[i - 1, j - 1] + low - np.log(np.exp(low - r).sum())
    return R[n, m], (x, y, D, R)


def soft_dtw_backward(dout, cache):
    x, y, D, R = cache
    dR = np.zeros_like(R)
    dR[-1, -1] = dout
    for i in range(len(x), 0, -1):
        for j in range(len(y), 0, -1):
            soft = R[i, j] - D[i - 1, j - 1]
            for k, l in ((i - 1, j), (i, j - 1), (i - 1, j - 1)):
                dR[k, l] += dR[i, j] * np.exp(soft - R[k, l])
    dD = dR[1:, 1:]
    ddifference = 2 * dD * (x[:, None] - y)
    dx = ddifference.sum(axis=1)
    dy = -ddifference.sum(axis=0)
    return dx, dy


soft_dtw_wrong = [
    ("dR[k, l] += dR[i, j]", "dR[k, l] = dR[i, j]", "dR", "= for +="),
    ("dy = -ddifference.sum(axis=0)", "dy = ddifference.sum(axis=0)", "dy", "a sign",
     "reversed sign"),
    ("dD = dR[1:, 1:]", "dD = dR[:-1, :-1]", "dD", "the border at the wrong end"),
]
