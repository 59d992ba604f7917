"""Factorisations: a Cholesky factor and solves with it."""

import numpy as np


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
