"""A small LSTM whose gradient can be broken on purpose, for the tests of `grads.check.diagnosis`.

It runs one example and one step at a time and gives its gradient as a list of terms, so that a test
can omit, double or transpose a term.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from grads.check.case import Block, Labels
from grads.check.diagnosis.diagnose import Evidence, diagnose

T, B, E, H = 5, 2, 4, 3
LENGTHS = np.array([5, 3])
GATES = ("i", "f", "o", "h_hat")
ROWS = [slice(k * H, (k + 1) * H) for k in range(4)]
X, RECURRENT, ALL = slice(0, E), slice(E, E + H), slice(None)

GATE_BLOCKS = tuple(Block(name, (rows, ALL)) for name, rows in zip(GATES, ROWS, strict=True))
COLUMN_BLOCKS = (Block("x", (ALL, X)), Block("h", (ALL, RECURRENT)))
BOTH = tuple(Block(f"{row.name}, {column.name}", (row.where[0], column.where[1]))
             for row in GATE_BLOCKS for column in COLUMN_BLOCKS)
LABELS = {
    "T": Labels(("gate", "column"), GATE_BLOCKS + COLUMN_BLOCKS + BOTH),
    "b": Labels(("gate",), tuple(Block(block.name, block.where[:1]) for block in GATE_BLOCKS)),
    "x": Labels(("time", "batch", "input")),
    "h_0": Labels(("batch", "unit")),
    "c_0": Labels(("batch", "unit")),
}
OUTPUTS = ("h", "c")


# --- a small LSTM and the terms of its gradient -------------------------------------------------


def sigm(z: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-z))


def run(p: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], list[list[Any]]]:
    """h (T, B, H) and the last c (B, H); items stop at their lengths, h is zero behind them."""
    h, c = np.zeros((T, B, H), p["x"].dtype), p["c_0"].copy()
    kept: list[list[Any]] = []
    for item, length in enumerate(LENGTHS):
        state, kept_here = p["h_0"][item], []
        for t in range(length):
            z = np.concatenate([p["x"][t, item], state])
            u = p["T"] @ z + p["b"]
            i, f, o = (sigm(u[rows]) for rows in ROWS[:3])
            g, before = np.tanh(u[ROWS[3]]), c[item].copy()
            c[item] = f * before + i * g
            state = h[t, item] = o * np.tanh(c[item])
            kept_here.append((z, i, f, o, g, before, c[item].copy()))
        kept.append(kept_here)
    return {"h": h, "c": c}, kept


def terms(p: dict[str, np.ndarray], d: dict[str, np.ndarray]) -> tuple[np.ndarray, dict[str, Any]]:
    """dz (T, B, 4H) and the gradients; dT is the sum of outer products of dz and [x; h]."""
    _, kept = run(p)
    dz, z_all = np.zeros((T, B, 4 * H)), np.zeros((T, B, E + H))
    g0 = {"h_0": np.zeros((B, H)), "c_0": np.zeros((B, H))}
    for item, length in enumerate(LENGTHS):
        dh, dc = np.zeros(H), d.get("c", np.zeros((B, H)))[item]
        for t in reversed(range(length)):
            z, i, f, o, g, before, c = kept[item][t]
            dh = dh + d.get("h", np.zeros((T, B, H)))[t, item]
            dc = dc + (1 - np.tanh(c) ** 2) * o * dh
            dz[t, item] = np.concatenate([
                g * dc * i * (1 - i), before * dc * f * (1 - f),
                np.tanh(c) * dh * o * (1 - o), i * dc * (1 - g**2)])
            z_all[t, item] = z
            dh, dc = p["T"][:, RECURRENT].T @ dz[t, item], f * dc
        g0["h_0"][item], g0["c_0"][item] = dh, dc
    outer = dz[:, :, :, None] * z_all[:, :, None, :]  # (T, B, 4H, E + H)
    return outer, {"T": outer.sum((0, 1)), "b": dz.sum((0, 1)), "x": dz @ p["T"][:, X], **g0}


def draw(seed: int = 0) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    shapes = {"x": (T, B, E), "h_0": (B, H), "c_0": (B, H), "T": (4 * H, E + H), "b": (4 * H,)}
    p = {name: rng.normal(scale=0.7, size=shape) for name, shape in shapes.items()}
    return p, {"h": rng.normal(size=(T, B, H)), "c": rng.normal(size=(B, H))}


P, D = draw()
OUTER, TRUE = terms(P, D)
ALONE = {output: terms(P, {output: D[output]})[1] for output in OUTPUTS}


def allow(numeric: np.ndarray, relative: float = 1e-10) -> np.ndarray:
    size = np.nanmax(np.abs(numeric), initial=1e-8)
    return np.broadcast_to(np.asarray(relative * size), numeric.shape)


def noisy(a: np.ndarray, seed: int = 3) -> np.ndarray:
    """The numerical gradient: the right one within 0.3 of what is allowed."""
    noise = np.random.default_rng(seed).uniform(-0.3, 0.3, a.shape)
    return a + noise * allow(a)


def evidence(name: str, analytic: np.ndarray, **options: Any) -> Evidence:
    """Of one tensor of the LSTM above; without more, it has no outputs to tell apart."""
    numeric = options.pop("numeric", noisy(TRUE[name]))
    return Evidence(name, analytic, numeric, allow(numeric), LABELS[name], inputs=P, **options)


def hints(name: str, analytic: np.ndarray, **options: Any) -> list[str]:
    said = diagnose(evidence(name, analytic, **options))
    assert len(said) <= 3
    return said


def broken(name: str, where: Any, change: Any) -> np.ndarray:
    """The right gradient with a part changed."""
    wrong = TRUE[name].copy()
    wrong[where] = change(wrong[where])
    return wrong


def plain(analytic: np.ndarray, numeric: np.ndarray, **options: Any) -> list[str]:
    """The hints on a user's array, which has no labels unless they are given."""
    return diagnose(Evidence("w", analytic, numeric, allow(numeric), **options))
