"""Softmax and cross-entropy, right, and the mistakes that people make in them.

A loss that takes a mapping of parameters stands beside NAME_gradient, which returns theirs.
"""

import numpy as np

LABELS = np.array([2, 0, 1, 2])
LENGTHS = np.array([3, 1])
TARGETS = np.array([[1, 0, 3], [2, 0, 0]])


def softmax_inputs(rng):
    return [rng.normal(size=(3, 4))]


def softmax_forward(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    p = e / e.sum(axis=1, keepdims=True)
    return p, p


def softmax_backward(dp, p):
    dx = p * (dp - (p * dp).sum(axis=1, keepdims=True))
    return dx


softmax_wrong = [
    ("dx = p * (dp - (p * dp).sum(axis=1, keepdims=True))", "dx = p * (1 - p) * dp", "dx",
     "only the diagonal of the Jacobian", "cross terms"),
    ("dx = p * (dp - (p * dp).sum(axis=1, keepdims=True))",
     "dx = p * (dp - (p * dp).sum(axis=0, keepdims=True))", "dx", "a sum over the wrong axis",
     "wrong axis"),
    ("dx = p * (dp - (p * dp).sum(axis=1, keepdims=True))",
     "dx = p * (dp - dp.sum(axis=1, keepdims=True))", "dx", "a factor in the sum forgotten"),
]


def softmax_jacobian_inputs(rng):
    return [rng.normal(size=5)]


def softmax_jacobian_forward(x):
    p = np.exp(x) / np.exp(x).sum()
    return p, p


def softmax_jacobian_backward(dp, p):
    J = np.diag(p) - np.outer(p, p)
    dx = J @ dp
    return dx


softmax_jacobian_wrong = [
    ("np.diag(p) - np.outer(p, p)", "np.diag(p) + np.outer(p, p)", "dx", "a sign"),
]


def temperature_inputs(rng):
    return rng.normal(size=(2, 5)), np.array([0.7])


def temperature_forward(x, temperature):
    z = x / temperature
    p = np.exp(z - np.log(np.exp(z).sum(axis=1, keepdims=True)))
    return p, (x, temperature, p)


def temperature_backward(dp, cache):
    x, temperature, p = cache
    dz = p * (dp - np.sum(p * dp, axis=1, keepdims=True))
    dx = dz / temperature
    dtemperature = -np.sum(dz * x, keepdims=True).reshape(1) / temperature**2
    return dx, dtemperature


temperature_wrong = [
    ("dx = dz / temperature", "dx = dz * temperature", "dx", "multiplied for divided"),
    ("dtemperature = -np.sum", "dtemperature = np.sum", "dtemperature", "a sign",
     "reversed sign"),
]


def cross_entropy_inputs(rng):
    return [rng.normal(size=shape) for shape in ((4, 5), (5, 3), (3,))]


def cross_entropy_forward(x, W, b):
    logits = x @ W + b
    logits = logits - logits.max(axis=1, keepdims=True)
    p = np.exp(logits)
    p /= p.sum(axis=1, keepdims=True)
    loss = -np.log(p[np.arange(len(x)), LABELS]).mean()
    return loss, (x, W, p)


def cross_entropy_backward(dloss, cache):
    x, W, p = cache
    dlogits = p.copy()
    dlogits[np.arange(len(x)), LABELS] -= 1
    dlogits *= dloss / len(x)
    dx = dlogits @ W.T
    dW = x.T @ dlogits
    db = dlogits.sum(axis=0)
    return dx, dW, db


cross_entropy_wrong = [
    ("dlogits *= dloss / len(x)", "dlogits *= dloss", "dlogits",
     "the mean over the batch forgotten", "length of axis 0 of x"),
    ("dlogits = p.copy()", "dlogits = p", "second call", "the cache is written over"),
    ("dlogits[np.arange(len(x)), LABELS] -= 1", "dlogits[:, LABELS] -= 1", "dlogits",
     "every row gets every label"),
    ("dlogits *= dloss / len(x)", "dlogits *= 1 / len(x)", "dlogits",
     "the upstream gradient forgotten", "upstream gradient"),
]


def log_softmax_nll(p):
    z = p["h"] @ p["W"].T
    log_p = z - np.log(np.exp(z).sum(axis=-1, keepdims=True))
    return -np.take_along_axis(log_p, LABELS[:, None], axis=1).sum()


def log_softmax_nll_gradient(p):
    z = p["h"] @ p["W"].T
    dz = np.exp(z) / np.exp(z).sum(axis=-1, keepdims=True)
    dz -= np.eye(3)[LABELS]
    dW = dz.T @ p["h"]
    dh = dz @ p["W"]
    return {"h": dh, "W": dW}


def log_softmax_nll_inputs(rng):
    return {"h": rng.normal(size=(4, 2)), "W": rng.normal(size=(3, 2))}


log_softmax_nll_wrong = [
    ("dz -= np.eye(3)[LABELS]", "dz += np.eye(3)[LABELS]", "dz", "a sign"),
    ("dz -= np.eye(3)[LABELS]", "dz = np.eye(3)[LABELS] - dz", "dz",
     "the gradient of the likelihood, not of the loss", "reversed sign"),
]


def label_smoothing_inputs(rng):
    return [rng.normal(size=(4, 3))]


def label_smoothing_forward(logits):
    top = np.max(logits, axis=1, keepdims=True)
    log_p = logits - top - np.log(np.sum(np.exp(logits - top), axis=1, keepdims=True))
    q = np.full(logits.shape, 0.1 / 3)
    q[np.arange(4), LABELS] += 0.9
    return -np.sum(q * log_p), (np.exp(log_p), q)


def label_smoothing_backward(dloss, cache):
    p, q = cache
    dlogits = (p - q) * dloss
    return dlogits


label_smoothing_wrong = [
    ("dlogits = (p - q) * dloss", "dlogits = (p - np.eye(3)[LABELS]) * dloss", "dlogits",
     "the smoothing forgotten"),
]


def padded_cross_entropy_inputs(rng):
    return [rng.normal(size=(2, 3, 4))]


def padded_cross_entropy_forward(logits):
    mask = np.arange(3) < LENGTHS[:, None]
    top = logits.max(axis=-1, keepdims=True)
    log_z = top + np.log(np.exp(logits - top).sum(axis=-1, keepdims=True))
    nll = (log_z - np.take_along_axis(logits, TARGETS[..., None], axis=-1))[..., 0]
    return (nll * mask).sum() / mask.sum(), (np.exp(logits - log_z), mask)


def padded_cross_entropy_backward(dloss, cache):
    p, mask = cache
    dlogits = p - np.eye(4)[TARGETS]
    dlogits *= mask[..., None] * dloss / mask.sum()
    return dlogits


padded_cross_entropy_wrong = [
    ("dlogits *= mask[..., None] * dloss / mask.sum()", "dlogits *= dloss / mask.sum()", "dlogits",
     "the padding's mask forgotten"),
    ("dlogits *= mask[..., None] * dloss / mask.sum()",
     "dlogits *= mask[..., None] * dloss / mask.size", "dlogits", "the padding counted"),
]
