"""A language model of any unit and depth: Algorithms 1 and 2, in a stack.

Parameters: `W_e` (V, E), `rnn.{l}.W`, `rnn.{l}.b` as in `grads.derivations.units`, `output.W_hy`
(V, H), `output.b` (V,) optional.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from grads.derivations.calculus import Array, bias
from grads.derivations.nmt import add
from grads.derivations.rnn import embed, embed_grad, predict, predict_grad
from grads.derivations.units import (
    UNITS,
    Stack,
    deep_step,
    deep_step_grad,
    named,
    nothing,
    stack_of,
    zeros_of,
)


class LanguageTrace(NamedTuple):
    """What the forward pass computed, by time step."""

    h: Any
    c: Any
    p: Any
    l: Any
    unit: str


def language_forward(
    parameters: Mapping[str, Array], x: Sequence[int], y: Sequence[int], *, unit: str
) -> tuple[Any, LanguageTrace]:
    """J = -log p(y) for one sentence, in nats; Eqs. 2.1 and 2.4-2.6, of any unit and depth."""
    W_e, (W, b) = parameters["W_e"], stack_of(parameters, "rnn")
    W_hy, b_hy = parameters["output.W_hy"], bias(parameters, "output.b")
    H = W_hy.shape[1]
    h, c = {0: nothing(W, H)}, {0: nothing(W, H, UNITS[unit].cells)}
    p, l = {}, {}
    for t in range(1, len(x) + 1):
        v = embed(x[t - 1], W_e)                                 # x_t, a column of W_e
        h[t], c[t] = deep_step(unit, h[t - 1], c[t - 1], v, W, b)
        l[t], p[t] = predict(y[t - 1], h[t][len(W)], W_hy, b_hy)
    J = sum(l.values())                                          # -log p(y), (2.1)
    return J, LanguageTrace(h, c, p, l, unit)


def language_backward(
    parameters: Mapping[str, Array], x: Sequence[int], y: Sequence[int], trace: LanguageTrace
) -> dict[str, Array]:
    """The gradient of J for every parameter, by name."""
    h, c, p, _, unit = trace
    W_e, (W, b), W_hy = parameters["W_e"], stack_of(parameters, "rnn"), parameters["output.W_hy"]
    L, dW_e, (dW, db) = len(W), np.zeros_like(W_e), zeros_of(W)
    dW_hy, db_hy = np.zeros_like(W_hy), np.zeros_like(W_hy[:, :1])
    dh, dc = ({len(x): {l: np.zeros_like(states[0][l]) for l in W}} for states in (h, c))
    for t in range(len(x), 0, -1):
        d_vertical, dW_y, d_hy = predict_grad(y[t - 1], p[t], h[t][L], W_hy)
        dW_hy, db_hy = dW_hy + dW_y, db_hy + d_hy
        dh[t] = {**dh[t], L: dh[t][L] + d_vertical}
        dh[t - 1], dc[t - 1], dv, dW_t, db_t = deep_step_grad(
            unit, dh[t], dc[t], h[t - 1], c[t - 1], h[t], W, b)
        dW, db = add(dW, dW_t), add(db, db_t)
        dW_e = embed_grad(x[t - 1], dv, dW_e)
    gradients = {"W_e": dW_e, **named(Stack(dW, db), "rnn"), "output.W_hy": dW_hy,
                 "output.b": db_hy[:, 0]}
    return {name: gradients[name] for name in parameters}
