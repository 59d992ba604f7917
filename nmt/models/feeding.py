"""The decoder loop with feeding: an output of step t is an input of the first layer at step t + 1.

Luong (2016), section 4.2.3, feeds the attentional vector h~_{t-1}, which is zero at first. Bahdanau
et al. (2015), A.2.2, feed the context c_i, found with s_{i-1}. A pair of functions, `feed` and
`feed_backward`, tells the loop what to feed: those for h~ are in `nmt.models.input_feeding`, those
for the context in `nmt.models.contextual`. The words' share of the first layer's pre-activations is
computed before the loop, all weight gradients after it. A padded target step needs no mask: no real
step follows it and its loss is not counted, so every gradient through it is exactly zero. F is the
width of the fed vector: H for h~, He for the context.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from backend import Array, array_module
from backend.workspace import Workspace, transposed
from lstm.cells import State
from lstm.parameters import Parameters
from lstm.recurrent import Steps, make_steps, parameter_gradients
from lstm.stack import Stack

# feed(t, h, fed_t) writes fed_t (B, F), made of the top state h (B, H) after t steps, and returns
# its cache. feed_backward(t, d_fed_t, cache) returns dh (B, H), and the data from which the
# weights' gradients are computed after the loop.
Feed = Callable[[int, Array, Array], Any]
FeedBackward = Callable[[int, Array, Any], tuple[Array, Any]]


class FeedingCache(NamedTuple):
    names: list[str]  # prefixes of the layers' parameters
    stack: Stack
    x: Array  # (T, B, E), the words' embeddings after dropout
    read: list[Array]  # each layer's input in the loop: fed (T, B, F), the state below (T, B, H)
    masks: Sequence[Array | None]  # dropout of each of these inputs
    steps: list[Steps]  # of each layer
    top: Array  # (T + 1, B, H), the output of the top layer, the initial state first
    feed_caches: list[Any]  # the result of each call of `feed`
    workspace: Workspace


def feeding_forward(
    x: Array, initial: Sequence[State], feed: Feed, fed: Array, prefix: str, stack: Stack,
    parameters: Mapping[str, Array], masks: Sequence[Array | None], workspace: Workspace,
) -> tuple[Array, FeedingCache]:
    """All steps of a decoder that reads [x_t; fed_t].

    Arguments: x (T, B, E), after dropout; initial, a state per layer; feed; fed, which is written,
    (T, B, F) if fed_0 is made of the initial state, or (T + 1, B, F) if fed_0 is zero and the last
    step also makes fed_T; prefix of the stack's parameters; masks[l], dropout of layer l's input in
    the loop (of the fed vector for layer 0).
    Returns the top output (T + 1, B, H), the initial state first, and the cache.
    """
    cell, names = stack.cell, [f"{prefix}.{layer}" for layer in range(stack.layers)]
    xp, (T, B, E), H = array_module(x), x.shape, initial[0][0].shape[1]
    steps = [make_steps(cell, T, state, workspace) for state in initial]
    out = [layer.states[0] for layer in steps]                             # (T + 1, B, H)
    if stack.residual:
        out[1:] = [workspace.empty(xp, h.shape, h.dtype) for h in out[1:]]
        out[-1][0] = initial[-1][0]
    below = [fed[:T], *(h[1:] for h in out[:-1])]
    read = [h if mask is None else workspace.empty(xp, h.shape, h.dtype)
            for h, mask in zip(below, masks, strict=True)]                 # after dropout
    W = [transposed(parameters[f"{name}.W"][:, -h.shape[2] - H :], T, B, workspace)
         for name, h in zip(names, below, strict=True)]                    # [W_fed W_h]'
    xp.matmul(x.reshape(T * B, E), parameters[f"{names[0]}.W"][:, :E].T,
              out=steps[0].u.reshape(T * B, -1))                           # W_x x_t, all t
    top, feed_caches = out[-1], []
    if len(fed) == T:
        feed_caches.append(feed(0, top[0], fed[0]))
    else:
        fed[0] = 0.0                                                       # (4.2.3 feeding)
    for t in range(T):
        for layer, name in enumerate(names):
            if (mask := masks[layer]) is not None:
                xp.multiply(below[layer][t], mask[t], out=read[layer][t])
            if layer:
                xp.matmul(read[layer][t], W[layer][:-H], out=steps[layer].u[t])
            else:
                steps[0].u[t] += xp.matmul(read[0][t], W[0][:-H])
            cell.forward(steps[layer].at(t), parameters.get(f"{name}.b"), W[layer][-H:])
            if stack.residual and layer:                                   # (Wu 6)
                xp.add(steps[layer].states[0][t + 1], below[layer][t], out=out[layer][t + 1])
        if t + 1 < len(fed):
            feed_caches.append(feed(t + 1, top[t + 1], fed[t + 1]))
    return top, FeedingCache(names, stack, x, read, masks, steps, top, feed_caches, workspace)


def feeding_backward(
    d_last: Array | None, d_fed: Array, feed_backward: FeedBackward, cache: FeedingCache,
    parameters: Mapping[str, Array],
) -> tuple[Array, list[State], list[Any], Parameters]:
    """Backpropagation through time, with `feed_backward` inside the loop.

    Arguments: d_last (B, H), gradient of the last top state if it is not fed, else None; d_fed, of
    the length of `fed`, the gradient of the fed vectors by readers outside of the loop, to which
    the gradient of the steps is added. Returns dx (T, B, E), the gradients of the initial states,
    the second results of `feed_backward`, and the gradients of the parameters by name.
    """
    names, stack, x, read, masks, steps, _, feed_caches, workspace = cache
    xp, (T, B, E), H, cell = array_module(x), x.shape, stack.hidden_size, stack.cell
    W = [parameters[f"{name}.W"] for name in names]
    first = len(d_fed) - T                            # the first t at which `feed` was called
    da = [workspace.empty(xp, layer.u.shape, x.dtype) for layer in steps]
    d_states: list[State] = [tuple(xp.zeros_like(state[0]) for state in layer.states)
                             for layer in steps]
    dh, after_loop = d_last, []
    for t in reversed(range(T)):
        if t + 1 < len(d_fed):
            dh, step_data = feed_backward(t + 1, d_fed[t + 1], feed_caches[t + 1 - first])
            after_loop.append(step_data)
        for layer in reversed(range(len(steps))):
            d_out = dh
            cell.backward(d_states[layer], dh, steps[layer].at(t), W[layer][:, -H:], da[layer][t])
            dh = xp.matmul(da[layer][t], W[layer][:, (0 if layer else E) : -H])
            if (mask := masks[layer]) is not None:
                dh *= mask[t]
            if stack.residual and layer and d_out is not None:
                dh += d_out                                                # (Wu 6)
        d_fed[t] += dh
    if not first:
        dh, step_data = feed_backward(0, d_fed[0], feed_caches[0])
        after_loop.append(step_data)
        d_top = d_states[-1][0]
        d_top += dh
    dx = workspace.product(da[0].reshape(T * B, -1), W[0][:, :E]).reshape(x.shape)
    gradients: Parameters = {}
    for layer, name in enumerate(names):                                   # (2.49, 2.50)
        rows = da[layer].reshape(T * B, -1)
        inputs = [read[layer]] if layer else [x, read[0]]
        gradients[f"{name}.W"], db = parameter_gradients(
            cell, rows, [array.reshape(T * B, -1) for array in inputs], steps[layer], workspace)
        if f"{name}.b" in parameters:
            gradients[f"{name}.b"] = db
    return dx, d_states, after_loop[::-1], gradients
