"""The decoder loop with feedback: an output of step t is an input of the first layer at step t + 1.

Luong (2016), section 4.2.3, feeds the attentional vector h~_{t-1}; Bahdanau et al. (2015), A.2.2,
the context c_i with the query s_{i-1}. Both are a `Feedback`, of which the loop knows only the
interface. What the words give to the first layer's pre-activations is computed before the loop, all
weight gradients after it. A padded target step needs no mask: no real step follows it and its loss
is not counted, so every gradient through it is exactly zero.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from attention.attention import (
    attentional_backward,
    attentional_forward,
    join,
    join_backward,
)
from attention.memory import Memory, over_time
from backend import Array, array_module, matmul
from backend.buffering import row_by_row
from backend.rows import RowIndex, row_index
from backend.workspace import Workspace
from lstm.cells import CELLS, Cell, State
from lstm.embedding import embedding_backward, embedding_forward
from lstm.parameters import Parameters
from lstm.recurrent import Steps, make_steps, transposed, weight_gradients
from nmt.models.contract import Noise
from nmt.models.heads.head import Decoded


class Feedback(Protocol):
    """What is fed: vectors fed_t (B, F) that step t reads beside its word, t from 0.

    An object serves one forward pass, and keeps what backward passes read.
    """

    width: int  # F
    first: bool  # whether fed_0 is computed from the initial state; else it is zero

    def forward(self, t: int, h: Array, out: Array) -> None:
        """Write fed_t from h (B, H), the top state that step t starts from."""


class FeedbackGradient(Protocol):
    """The gradient of a `Feedback`, made for one pass backward."""

    def backward(self, t: int, d_fed: Array) -> Array:
        """The gradient of that state (B, H), from fed_t's."""


class FeedingCache(NamedTuple):
    names: list[str]  # of the layers' parameters
    cell: Cell
    x: Array  # (T, B, E), the words' embeddings after dropout
    read: list[Array]  # what each layer reads in the loop: fed (T, B, F), the state below (T, B, H)
    masks: list[Array | None]  # of each of these
    steps: list[Steps]
    first: bool  # whether fed_0 was computed, and
    last: bool  # whether fed_T was
    workspace: Workspace


@row_by_row
def feeding_forward(
    x: Array, initial: Sequence[State], feedback: Feedback, prefix: str, unit: str,
    parameters: Mapping[str, Array], masks: Sequence[Array | None], last: bool,
    workspace: Workspace, fed_mask: Array | None = None,
) -> tuple[Array, Array, FeedingCache]:
    """All steps of a decoder that reads [x_t; fed_t].

    Arguments: x (T, B, E), after dropout; initial, a state per layer; feedback; prefix of the
    stack's parameters and unit of its cells; masks[l], dropout of layer l's input from below, for
    l > 0; last, whether fed_T, which no step reads, is computed; fed_mask (T, B, F), dropout of
    what is fed.
    Returns the top states (T + 1, B, H), the initial one first; fed (T + 1, B, F); and the cache.
    """
    cell, names = CELLS[unit], [f"{prefix}.{layer}" for layer in range(len(initial))]
    (T, B, E), F, H = x.shape, feedback.width, initial[0][0].shape[1]
    xp, W = array_module(x), [parameters[f"{name}.W"] for name in names]
    steps = [make_steps(cell, T, state, workspace) for state in initial]
    W_h = [transposed(weights[:, -H:], T, B, workspace) for weights in W]
    W_read = [transposed(weights[:, -H - width : -H], T, B, workspace)
              for weights, width in zip(W, (F, *[H] * len(W[1:])), strict=True)]
    xp.matmul(x.reshape(T * B, E), W[0][:, :E].T, out=steps[0].u.reshape(T * B, -1))
    masks, top = [fed_mask, *masks[1:]], steps[-1].states[0]
    fed = workspace.empty(xp, (T + 1, B, F), x.dtype)
    if not feedback.first:
        fed[0] = 0.0
    outputs = [fed[:-1], *(below.states[0][1:] for below in steps[:-1])]
    read = [out if mask is None else workspace.empty(xp, out.shape, out.dtype)
            for out, mask in zip(outputs, masks, strict=True)]             # after dropout
    for t in range(T):
        if t or feedback.first:
            feedback.forward(t, top[t], fed[t])
        for layer, name in enumerate(names):
            if (mask := masks[layer]) is not None:
                xp.multiply(outputs[layer][t], mask[t], out=read[layer][t])
            if layer:
                matmul(read[layer][t], W_read[layer], out=steps[layer].u[t])
            else:
                steps[0].u[t] += matmul(read[0][t], W_read[0])             # (4.2.3 feeding)
            cell.forward(steps[layer].at(t), parameters.get(f"{name}.b"), W_h[layer],
                         None)
    if last:
        feedback.forward(T, top[T], fed[T])
    return top, fed, FeedingCache(
        names, cell, x, read, masks, steps, feedback.first, last, workspace)


@row_by_row
def feeding_backward(
    d_top: Array | None, d_fed: Array, feedback: FeedbackGradient, cache: FeedingCache,
    parameters: Mapping[str, Array], *, clip: float | None = None,
) -> tuple[Array, list[State], Parameters]:
    """Backpropagation through time, the feedback inside the loop.

    Arguments: d_top (T + 1, B, H) or None, gradient of the top states; d_fed (T + 1, B, F), or
    (T, B, F) without `last`, of what was fed; the gradients through the steps are added to it (its
    first is not read where fed_0 is zero); clip as in `lstm.recurrent.recurrent_backward`. Returns
    dx (T, B, E), the gradients of the initial states, and those of the parameters by name.
    """
    names, cell, x, _, masks, steps, first, last, workspace = cache
    xp, (T, B, E), H = array_module(x), x.shape, steps[0].states[0].shape[2]
    W = [parameters[f"{name}.W"] for name in names]
    da = [workspace.empty(xp, layer.u.shape, x.dtype) for layer in steps]
    d_states: list[State] = [tuple(xp.zeros_like(state[0]) for state in layer.states)
                             for layer in steps]
    dh = _added(feedback.backward(T, d_fed[T]) if last else None, d_top, T)
    for t in reversed(range(T)):
        for layer in reversed(range(len(steps))):
            cell.backward(d_states[layer], dh, steps[layer].at(t), W[layer][:, -H:],
                          clip, None, da[layer][t])
            dh, mask = None, masks[layer]
            if layer or t or first:                        # what it read from below, or was fed
                dh = matmul(da[layer][t], W[layer][:, E:-H] if layer == 0 else W[layer][:, :-H])
                if mask is not None:
                    dh *= mask[t]
        if dh is not None:
            d_fed[t] += dh
            dh = feedback.backward(t, d_fed[t])
        dh = _added(dh, d_top, t)
    if dh is not None:
        d_last = d_states[-1][0]
        d_last += dh
    dx = workspace.product(da[0].reshape(T * B, -1), W[0][:, :E]).reshape(x.shape)
    return dx, d_states, _weight_gradients(da, cache, parameters)


def _added(dh: Array | None, d_top: Array | None, t: int) -> Array | None:
    """The gradient of the top state that step t starts from: the sum of those that are not None."""
    if d_top is None:
        return dh
    return d_top[t] if dh is None else dh + d_top[t]


def _weight_gradients(
    da: Sequence[Array], cache: FeedingCache, parameters: Mapping[str, Array]
) -> Parameters:
    """Gradients of W and b of all layers, by name (Eqs. 2.49, 2.50)."""
    gradients: Parameters = {}
    for layer, (name, steps) in enumerate(zip(cache.names, cache.steps, strict=True)):
        rows = da[layer].reshape(-1, da[layer].shape[2])
        inputs = [cache.read[layer]] if layer else [cache.x, cache.read[0]]
        gradients[f"{name}.W"] = weight_gradients(
            cache.cell, rows, [x.reshape(len(rows), -1) for x in inputs], steps,
            cache.workspace)
        if f"{name}.b" in parameters:
            gradients[f"{name}.b"] = rows.sum(axis=0)
    return gradients


# --- Luong's input feeding ------------------------------------------------------------------------


class AttentionalFeedback:
    """fed_0 = 0 and fed_t = h~_t = tanh(W_c [c_t; h_t]), of one pass (4.2.3).

    Nothing is concatenated: [c_t; h_t] is written into one buffer of all steps.
    """

    def __init__(
        self, T: int, memory: Memory, W_c: Array, mask: Array | None, workspace: Workspace
    ) -> None:
        """mask (T, B, He + H), dropout of [c_t; h_t], or None."""
        self.width, self.first = W_c.shape[0], False  # H; h~_0 = 0        (4.2.3 feeding)
        self.memory, self.W_c, self.mask = memory, W_c, mask
        self.joined = workspace.empty(array_module(W_c), (T, memory.sentences, W_c.shape[1]),
                                      W_c.dtype)  # [c_t; h_t]
        self.h_tilde: list[Array] = []  # a step's each, (B, H)
        self.caches: list[Any] = []  # of attention

    def forward(self, t: int, h: Array, out: Array) -> None:
        """Write h~_t (B, H) from h_t (B, H)."""
        c, cache = self.memory.attend(h[:, None], t)
        joined = self.joined[t - 1]
        join(c[:, 0], h, None if self.mask is None else self.mask[t - 1], joined)
        attentional_forward(joined, self.W_c, out=out)     # h~_t            (4.5)
        self.h_tilde.append(out)
        self.caches.append(cache)

    def gradient(
        self, workspace: Workspace, d_joined: Array | None = None, d_align: Array | None = None
    ) -> AttentionalFeedbackGradient:
        """For one pass backward; d_joined (T, B, He + H), of [c_t; h_t] where more reads it, and
        d_align (B, T, S), of the alignment."""
        return AttentionalFeedbackGradient(self, workspace, d_joined, d_align)


class AttentionalFeedbackGradient:
    """The gradient of an `AttentionalFeedback`."""

    def __init__(
        self, of: AttentionalFeedback, workspace: Workspace, d_joined: Array | None = None,
        d_align: Array | None = None,
    ) -> None:
        xp, (T, B, _), dtype = array_module(of.W_c), of.joined.shape, of.W_c.dtype
        self._of, self._workspace, self._d_joined, self._d_align = of, workspace, d_joined, d_align
        self._da = workspace.empty(xp, (T, B, of.width), dtype)  # at the pre-activation of h~
        self._dc = workspace.empty(xp, (T, B, of.W_c.shape[1] - of.width), dtype)
        self._sums = of.memory.accumulators()
        self._steps: list[Any] = []  # the last step first

    def backward(self, t: int, d_fed: Array) -> Array:
        """dh_t (B, H) from dh~_t (B, H)."""
        of, dc = self._of, self._dc[t - 1]
        He = dc.shape[1]
        d_joined, _ = attentional_backward(d_fed, of.h_tilde[t - 1], of.W_c, self._da[t - 1])
        if self._d_joined is not None:
            d_joined += self._d_joined[t - 1]
        join_backward(d_joined, None if of.mask is None else of.mask[t - 1], dc)
        d_align = None if self._d_align is None else self._d_align[:, t - 1 : t]
        dh, step = of.memory.attend_backward(dc[:, None], of.caches[t - 1], self._sums, d_align)
        self._steps.append(step)
        d_joined[:, He:] += dh[:, 0]
        return d_joined[:, He:]

    def gradients(self, h: Array) -> tuple[Any, Parameters]:
        """Of the encoder's states (S, B, He), of several encoders a tuple, and of W_c and the
        scores' weights, by name.

        Arguments: h (T, B, H), the top states.
        """
        of = self._of
        joined, da = (array.reshape(-1, array.shape[2]) for array in (of.joined, self._da))
        dW_c = self._workspace.product(da.T, joined)       # (2.12)
        dstates, gradients = of.memory.gradients(
            self._dc.transpose(1, 0, 2), h.transpose(1, 0, 2), of.caches, self._steps[::-1],
            self._sums)
        return dstates, {f"{of.memory.prefix}.W_c": dW_c, **gradients}


class StateFeedback:
    """fed_0 = 0 and fed_t = h_t: input feeding without attention. It is its own gradient."""

    first = False

    def __init__(self, width: int) -> None:
        self.width = width  # H

    def forward(self, t: int, h: Array, out: Array) -> None:
        """Write h_t (B, H)."""
        out[...] = h

    def gradient(
        self, workspace: Workspace, d_joined: None = None, d_align: None = None
    ) -> StateFeedback:
        """For one pass backward."""
        return self

    def backward(self, t: int, d_fed: Array) -> Array:
        """dh_t (B, H)."""
        return d_fed

    def gradients(self, h: Array) -> tuple[None, Parameters]:
        """None and no gradients: there is no source and there are no parameters."""
        return None, {}


class InputFeedingCache(NamedTuple):
    prefix: str
    parameters: Mapping[str, Array]
    embedding: tuple[RowIndex, int]
    x_mask: Array | None  # (T, B, E)
    out_mask: Array | None  # (T, B, H), without attention
    feedback: AttentionalFeedback | StateFeedback
    feeding: FeedingCache


def input_feeding_forward(
    prefix: str, parameters: Mapping[str, Array], target_in: np.ndarray,
    initial: Sequence[State], memory: Memory | None, unit: str, noise: Noise,
    workspace: Workspace, reads: Collection[str],
) -> tuple[Decoded, InputFeedingCache]:
    """As `nmt.models.decoder.decoder_forward`, with input feeding.

    noise may also have `{prefix}.fed`, the dropout mask of what is fed.
    """
    x, embedding_cache = embedding_forward(parameters[f"{prefix}.W_e"], row_index(target_in))
    masks = [noise.get(f"{prefix}.{layer}") for layer in range(len(initial))]
    if masks[0] is not None:
        x *= masks[0]
    feedback: AttentionalFeedback | StateFeedback
    joined = align = out_mask = None
    if memory is None:
        feedback, out_mask = StateFeedback(initial[-1][0].shape[1]), noise.get(f"{prefix}.joined")
    else:
        feedback = AttentionalFeedback(len(x), memory, parameters[f"{memory.prefix}.W_c"],
                                       noise.get(f"{prefix}.joined"), workspace)
    _, fed, cache = feeding_forward(x, initial, feedback, prefix, unit, parameters, masks, True,
                                    workspace, noise.get(f"{prefix}.fed"))
    if isinstance(feedback, AttentionalFeedback):
        joined = feedback.joined
        if "alignment" in reads:
            align = over_time([feedback.memory.alignment(step) for step in feedback.caches])
    out = fed[1:] if out_mask is None else fed[1:] * out_mask
    return Decoded(out, joined, align), InputFeedingCache(
        prefix, parameters, embedding_cache, masks[0], out_mask, feedback, cache)


def input_feeding_backward(
    d: Decoded, cache: InputFeedingCache, clip: float | None
) -> tuple[list[State], Any, Parameters]:
    """Algorithm 4 with attention and input feeding inside the loop.

    Arguments: d, the gradient of what `input_feeding_forward` returned. Returns the gradients of
    the initial states, of the encoder's states (S, B, He), of several encoders a tuple, or None,
    and of the parameters.
    """
    feeding, workspace = cache.feeding, cache.feeding.workspace
    xp, (T, B, H) = array_module(d.h_tilde), d.h_tilde.shape
    d_fed = workspace.empty(xp, (T + 1, B, H), d.h_tilde.dtype)
    d_fed[1:] = d.h_tilde if cache.out_mask is None else d.h_tilde * cache.out_mask
    feedback: Any = cache.feedback.gradient(workspace, d.joined, d.alignment)
    dx, d_initial, gradients = feeding_backward(
        None, d_fed, feedback, feeding, cache.parameters, clip=clip)
    if cache.x_mask is not None:
        dx *= cache.x_mask
    dstates, of_attention = feedback.gradients(feeding.steps[-1].states[0][1:])
    gradients[f"{cache.prefix}.W_e"] = embedding_backward(dx, cache.embedding)
    return d_initial, dstates, gradients | of_attention
