"""The decoder loop with feedback, for every cell: a literal loop, clipping."""

from __future__ import annotations

import numpy as np
import pytest
from literal import assert_close, assert_same_gradients, draw, draw_parameters
from literal_cells import literal_step, literal_step_grad

from backend.workspace import ENOUGH, Workspace
from lstm.cells import CELLS
from lstm.parameters import Scheme
from lstm.stack import Stack, stack_weights
from nmt.models.feeding import feeding_backward, feeding_forward

B, E, H, F = 3, 2, 4, 5


def linear(M, d_top):
    """The functions for fed_t = M h_t. The backward adds the gradient of h_t from other readers."""

    def feed(t, h, fed_t):
        fed_t[...] = h @ M.T
        return t

    def feed_backward(t, d_fed, cache):
        assert cache == t
        return d_fed @ M + d_top[t], t

    return feed, feed_backward


def states_of(rng, unit, layers, dtype=np.float64):
    return [tuple(draw(rng, (B, H), dtype) for _ in range(CELLS[unit].states))
            for _ in range(layers)]


def make(unit, layers, T, dropout=False):
    """x, initial states, parameters, masks, M, and gradients of the top states and of the fed
    vectors."""
    rng = np.random.default_rng(3)
    weights = stack_weights("d", Stack(unit, layers, H), {"x": E, "fed": F}, Scheme())
    parameters = draw_parameters(rng, weights)
    masks = [None] + [(rng.random((T, B, H)) < 0.7) / 0.7 if dropout else None] * (layers - 1)
    return (draw(rng, (T, B, E)), states_of(rng, unit, layers), parameters, masks,
            draw(rng, (F, H)), draw(rng, (T + 1, B, H)), draw(rng, (T + 1, B, F)))


# --- the literal loop -----------------------------------------------------------------------------


def literal_forward(unit, x, initial, parameters, masks, M, first):
    """All states [t][layer], inputs [t][layer] and fed_t, of one sentence: rows (1, n)."""
    states, inputs, fed = [initial], [], [initial[-1][0] @ M.T if first else np.zeros((1, F))]
    for t, x_t in enumerate(x):
        read, now, inputs_t = np.hstack([x_t, fed[t]]), [], []
        for layer, before in enumerate(states[t]):
            if masks[layer] is not None:
                read = read * masks[layer][t]
            W, b = parameters[f"d.{layer}.W"], parameters[f"d.{layer}.b"]
            inputs_t.append(read)
            now.append(literal_step(unit, read, before, W, b))
            read = now[-1][0]
        states.append(now)
        inputs.append(inputs_t)
        fed.append(read @ M.T)
    return states, inputs, fed


def literal_backward(unit, x, d_top, d_fed, parameters, masks, M, first, clip, literal):
    """dx (T, 1, E), gradients of the initial states and of the parameters."""
    states, inputs, _ = literal
    d = [tuple(np.zeros((1, H)) for _ in state) for state in states[0]]
    gradients = {name: np.zeros_like(value) for name, value in parameters.items()}
    dx, d_fed, T = np.zeros_like(x), d_fed.copy(), len(x)
    for t in reversed(range(T)):
        above = d_top[t + 1] + d_fed[t + 1] @ M  # fed_{t+1} is computed from h_t
        for layer in reversed(range(len(d))):
            W, b = parameters[f"d.{layer}.W"], parameters[f"d.{layer}.b"]
            whole = (d[layer][0] + above, *d[layer][1:])
            d[layer], above, dW, db = literal_step_grad(
                unit, whole, inputs[t][layer], states[t][layer], W, b, clip)
            gradients[f"d.{layer}.W"] += dW
            gradients[f"d.{layer}.b"] += db
            if masks[layer] is not None:
                above = above * masks[layer][t]
        dx[t], d_fed[t] = above[:, :E], d_fed[t] + above[:, E:]
    d[-1] = (d[-1][0] + d_top[0] + (d_fed[0] @ M if first else 0.0), *d[-1][1:])
    return dx, d, gradients


def row_of(arrays, n):
    return tuple(array[n : n + 1] for array in arrays)


@pytest.mark.parametrize("unit, layers, T, first, last, clip", [
    *((unit, layers, 4, *places, clip) for unit in CELLS for layers in (1, 2)
      for places in ((False, True), (True, False)) for clip in (None, 0.3)),
    *((unit, 2, ENOUGH + 1, False, True, None) for unit in CELLS)])
def test_the_loop_is_the_literal_loop(unit, layers, T, first, last, clip):
    """Each dh_t of each layer is clipped once, after all its terms were added. From `ENOUGH` steps
    on, the loop multiplies by transposed copies."""
    x, initial, parameters, masks, M, d_top, d_fed = make(unit, layers, T, dropout=True)
    feed, feed_backward = linear(M, d_top)
    if not last:
        d_fed[T] = 0.0
    fed, given_d = np.empty_like(d_fed[: T + last]), (None if last else d_top[T], d_fed[: T + last])
    top, cache = feeding_forward(x, initial, feed, fed, "d", Stack(unit, layers, H, clip=clip),
                                 parameters, masks, Workspace())
    dx, d_initial, order, gradients = feeding_backward(
        given_d[0], given_d[1].copy(), feed_backward, cache, parameters)
    assert order == [*range(1 - first, T + last)]
    d_top[0] *= first
    totals = dict.fromkeys(parameters, 0.0)
    for n in range(B):
        row_masks = [None if mask is None else mask[:, n : n + 1] for mask in masks]
        states = [row_of(state, n) for state in initial]
        arguments = x[:, n : n + 1], states, parameters, row_masks, M, first
        literal = literal_forward(unit, *arguments)
        for t in range(T + 1):
            assert_close(top[t, n], literal[0][t][-1][0][0])
            if (t or first) and (t < T or last):
                assert_close(fed[t, n], literal[2][t][0])
        derived = literal_backward(unit, arguments[0], d_top[:, n : n + 1], d_fed[:, n : n + 1],
                                 parameters, row_masks, M, first, clip, literal)
        assert_close(dx[:, n : n + 1], derived[0])
        for ours, theirs in zip(d_initial, derived[1], strict=True):
            for d, expected in zip(row_of(ours, n), theirs, strict=True):
                assert_close(d, expected)
        totals = {name: totals[name] + derived[2][name] for name in totals}
    assert_same_gradients(gradients, totals)
    assert first or not fed[0].any()
    if clip is not None:
        unclipped = cache._replace(stack=cache.stack._replace(clip=None))
        free = feeding_backward(given_d[0], given_d[1].copy(), feed_backward, unclipped,
                                parameters)[3]
        assert all(np.abs(free[name] - d).max() > 0.01 for name, d in gradients.items())
