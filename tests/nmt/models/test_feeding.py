"""The decoder loop with feedback, for every cell: a literal loop, clipping, two passes."""

from __future__ import annotations

import numpy as np
import pytest
from literal import assert_close, assert_same_gradients, draw, draw_parameters
from literal_cells import literal_step, literal_step_grad

from attention.attention import memory_forward
from attention.scores import score_weights
from backend.workspace import ENOUGH, Workspace
from lstm.cells import CELLS
from lstm.parameters import Scheme
from lstm.stack import Stack, stack_weights
from nmt.models.contextual import searching_backward, searching_forward
from nmt.models.feeding import feeding_backward, feeding_forward
from nmt.models.heads.head import Decoded
from nmt.models.input_feeding import input_feeding_backward, input_feeding_forward
from nmt.models.translator import ModelConfig

B, E, H, F = 3, 2, 4, 5


def linear(M, d_top):
    """The pair of what is fed: fed_t = M h_t, whose backward adds what else reads h_t."""

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
    """x, initial states, parameters, masks, M, gradients of the top states and of what is fed."""
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
        above = d_top[t + 1] + d_fed[t + 1] @ M  # fed_{t+1} is made of h_t
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


def one(arrays, n):
    return tuple(array[n : n + 1] for array in arrays)


@pytest.mark.parametrize("unit, layers, T, first, last, clip", [
    *((unit, layers, 4, *places, clip) for unit in CELLS for layers in (1, 2)
      for places in ((False, True), (True, False)) for clip in (None, 0.3)),
    *((unit, 2, ENOUGH + 1, False, True, None) for unit in CELLS)])
def test_the_loop_is_the_literal_loop(unit, layers, T, first, last, clip):
    """Each dh_t of each layer is clipped once, after all that reaches it has been added. From
    `ENOUGH` steps on the loop multiplies by transposed copies."""
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
        own = [None if mask is None else mask[:, n : n + 1] for mask in masks]
        given = x[:, n : n + 1], [one(state, n) for state in initial], parameters, own, M, first
        literal = literal_forward(unit, *given)
        for t in range(T + 1):
            assert_close(top[t, n], literal[0][t][-1][0][0])
            if (t or first) and (t < T or last):
                assert_close(fed[t, n], literal[2][t][0])
        found = literal_backward(unit, given[0], d_top[:, n : n + 1], d_fed[:, n : n + 1],
                                 parameters, own, M, first, clip, literal)
        assert_close(dx[:, n : n + 1], found[0])
        for ours, theirs in zip(d_initial, found[1], strict=True):
            for d, expected in zip(one(ours, n), theirs, strict=True):
                assert_close(d, expected)
        totals = {name: totals[name] + found[2][name] for name in totals}
    assert_same_gradients(gradients, totals)
    assert first or not fed[0].any()
    if clip is not None:
        unclipped = cache._replace(stack=cache.stack._replace(clip=None))
        free = feeding_backward(given_d[0], given_d[1].copy(), feed_backward, unclipped,
                                parameters)[3]
        assert all(np.abs(free[name] - d).max() > 0.01 for name, d in gradients.items())


# --- h~ fed back ----------------------------------------------------------------------------------


V, S, TARGETS = 6, 4, np.array([[1, 1, 1], [3, 2, 4], [2, 3, 3]])
LENGTHS = np.array([4, 2, 3])


def luong(unit, layers, dropout, score="general", window="global", T=3):
    """A decoder with input feeding: inputs by name, and its two passes on such a mapping."""
    rng = np.random.default_rng(4)
    config = ModelConfig(unit=unit, layers=layers, hidden_size=H, embedding_size=E, score=score,
                         attention=window, window=1, location_length=3)
    scheme, ids = Scheme(), np.resize(TARGETS, (T, B))
    weights = stack_weights("decoder", Stack(unit, layers, H), {"x": E, "h~": H}, scheme)
    weights |= score_weights(config.variant(), "attention", H, H, scheme)
    names = [(layer, k) for layer in range(layers) for k in range(CELLS[unit].states)]
    inputs = draw_parameters(rng, weights) | {
        "decoder.W_e": draw(rng, (V, E)), "attention.W_c": draw(rng, (H, 2 * H)),
        "states": draw(rng, (S, B, H))} | {f"state {name}": draw(rng, (B, H)) for name in names}
    sites = {f"decoder.{n}": H for n in range(1, layers)}
    sites |= {"decoder.0": E, "decoder.joined": 2 * H}
    noise = {site: (rng.random((T, B, n)) < 0.7) / 0.7 for site, n in sites.items()}
    noise = noise if dropout else {}

    def forward(v, workspace=None):
        workspace = workspace or Workspace()
        memory = memory_forward(v["states"], LENGTHS, config.variant(), v, "attention")
        initial = [tuple(v[f"state {(layer, k)}"] for k in range(CELLS[unit].states))
                   for layer in range(layers)]
        decoded, cache = input_feeding_forward(
            "decoder", v, ids, initial, memory, Stack(unit, layers, H), noise, workspace,
            {"h_tilde"})
        assert decoded.alignment is None
        return decoded.h_tilde, cache

    def backward(d, cache):
        d_initial, dstates, gradients = input_feeding_backward(Decoded(d), cache)
        return {"states": dstates, **{f"state {(layer, k)}": d_initial[layer][k]
                                      for layer, k in names},
                **{name: d.dense() if hasattr(d, "dense") else d
                   for name, d in gradients.items()}}

    return inputs, forward, backward


@pytest.mark.parametrize("unit", CELLS)
def test_passes_keep_apart_and_can_go_back_twice(unit):
    """Two forwards before two backwards in one workspace; each cache serves again."""
    rng, workspace, T = np.random.default_rng(6), Workspace(), ENOUGH + 1
    inputs, forward, backward = luong(unit, 2, True, "concat", T=T)
    others = {name: 1.1 * value for name, value in inputs.items()}
    d = draw(rng, (T, B, H))
    caches = [forward(given, workspace)[1] for given in (inputs, others)]
    for _ in range(2):
        for cache, given in zip(caches, (inputs, others), strict=True):
            found, expected = backward(d, cache), backward(d, forward(given)[1])
            for name, gradient in expected.items():
                np.testing.assert_array_equal(found[name], gradient, err_msg=name)


# --- the context fed back -------------------------------------------------------------------------


def rnnsearch(unit, T=3):
    """RNNsearch's decoder: c_i is found with s_{i-1}, c_1 with s_0."""
    rng, He = np.random.default_rng(5), 2 * H
    variant = ModelConfig(score="additive", hidden_size=H).variant()
    scheme, ids = Scheme(), np.resize(TARGETS, (T, B))
    weights = stack_weights("decoder", Stack(unit, 1, H), {"x": E, "c": He}, scheme)
    weights |= score_weights(variant, "attention", H, He, scheme)
    inputs = draw_parameters(rng, weights) | {
        "decoder.W_e": draw(rng, (V, E)), "states": draw(rng, (S, B, He)), "s_0": draw(rng, (B, H))}

    def forward(v):
        memory = memory_forward(v["states"], LENGTHS, variant, v, "attention")
        decoded, cache = searching_forward("decoder", v, ids, v["s_0"], memory, Stack(unit, 1, H),
                                           False, Workspace())
        made = {name: array for name, array in decoded._asdict().items() if array is not None}
        return made, (cache, v)

    def backward(d, cache):
        found, v = cache
        upstream = Decoded(**{name: array.copy() for name, array in d.items()})
        ds_0, dstates, gradients = searching_backward(upstream, found, v, "decoder")
        return {"s_0": ds_0, "states": dstates,
                **{name: d.dense() if hasattr(d, "dense") else d
                   for name, d in gradients.items()}}

    return inputs, forward, backward


def test_rnnsearch_can_go_back_twice():
    inputs, forward, backward = rnnsearch("gru", ENOUGH + 1)
    outputs, cache = forward(inputs)
    d = {name: draw(np.random.default_rng(7), array.shape) for name, array in outputs.items()}
    first, second = backward(d, cache), backward(d, cache)
    for name, gradient in first.items():
        np.testing.assert_array_equal(second[name], gradient, err_msg=name)
    found, v = cache
    clips = found.feeding._replace(stack=Stack("gru", 1, H, clip=0.2))
    clipped = backward(d, (found._replace(feeding=clips), v))
    assert all(np.abs(clipped[name] - gradient).max() > 1e-3 for name, gradient in first.items())
