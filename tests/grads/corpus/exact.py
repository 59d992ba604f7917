"""Inputs that lie on kinks exactly; a Cholesky factorisation and solves with its factor."""

import numpy as np


def shrink_inputs(rng):
    return [np.round(2 * rng.normal(size=(5, 6))) / 2]


def shrink_forward(x):
    y = np.sign(x) * np.maximum(np.abs(x) - 0.5, 0.0)  # x is 0.5 and 0 in many places
    return y, np.abs(x) > 0.5


def shrink_backward(dy, inside):
    dx = dy * inside
    return dx


shrink_wrong = [
    ("dx = dy * inside", "dx = dy * ~inside", "dx", "the mask reversed"),
    ("dx = dy * inside", "dx = 0.5 * dy * inside", "dx", "half of it"),
]


def volume_inputs(rng):
    A = rng.normal(size=(4, 4))
    return [A @ A.T + np.eye(4), rng.normal(size=4)]


def volume_forward(S, b):
    L = np.linalg.cholesky((S + S.T) / 2)
    u = np.linalg.solve(L, b)
    energy = (u * u).sum() + 2 * np.log(np.diag(L)).sum()
    return energy, (L, u)


def volume_backward(denergy, cache):
    L, u = cache
    db = 2 * denergy * np.linalg.solve(L.T, u)
    half = np.linalg.solve(L.T, np.eye(len(u)))
    dS = denergy * half @ half.T - np.outer(db, db) / (4 * denergy)
    return dS, db


volume_wrong = [
    ("db = 2 * denergy * np.linalg.solve(L.T, u)", "db = 2 * denergy * np.linalg.solve(L, u)", "db",
     "a transpose missing"),
    ("dS = denergy * half @ half.T - ", "dS = denergy * half @ half.T + ", "dS", "a sign"),
]
