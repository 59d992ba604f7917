"""The bridge from the encoder's last states to the decoder's first states, layer by layer.

In the thesis, the encoder's last states are the decoder's first states (section 2.3). The optional
bridge computes [h_0; c_0] = tanh(W [h_enc; c_enc]). It can join the last states of both directions
of a bidirectional encoder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attention.attention import attentional_backward, attentional_forward
from backend import Array, array_module
from lstm.cells import CELLS, State
from lstm.parameters import Parameters, Scheme, Weight, axis
from lstm.stack import Stack

BridgeCache = list[tuple[str, Array, Array, Array]]  # per layer: name, W, input, output (B, n H)


def bridge_weights(prefix: str, stack: Stack, scheme: Scheme) -> dict[str, Weight]:
    """`{prefix}.{l}.W` (n H, n He), with n arrays in a state. stack: the encoder's."""
    names = ("h", "c")[: CELLS[stack.unit].states]
    ends = (" forward", " backward") if stack.bidirectional else ("",)
    H, columns = stack.hidden_size, [name + end for name in names for end in ends]
    axes = axis("state", dict.fromkeys(names, H)), axis("column", dict.fromkeys(columns, H))
    return {f"{prefix}.{layer}.W": Weight(axes, scheme.matrix()) for layer in range(stack.layers)}


def bridge_forward(
    prefix: str, parameters: Mapping[str, Array], last: Sequence[Sequence[State]]
) -> tuple[list[State], BridgeCache]:
    """The decoder's initial states, one per layer, from the encoder's `last`[l][direction]."""
    states: list[State] = []
    cache: BridgeCache = []
    for layer, ends in enumerate(last):
        xp, n, name = array_module(ends[0][0]), len(ends[0]), f"{prefix}.{layer}.W"
        joined = xp.concatenate([end[k] for k in range(n) for end in ends], axis=1)  # (B, n He)
        out = attentional_forward(joined, parameters[name])                          # (B, n H)
        states.append(_split(out, n))
        cache.append((name, parameters[name], joined, out))
    return states, cache


def bridge_backward(
    d_states: Sequence[State], cache: BridgeCache
) -> tuple[list[list[State]], Parameters]:
    """Gradients of the encoder's last states and of the bridge (Lemma 1 per layer)."""
    d_last: list[list[State]] = []
    gradients: Parameters = {}
    for d_state, (name, W, joined, out) in zip(d_states, cache, strict=True):
        xp = array_module(out)
        d_out = xp.concatenate(d_state, axis=1)            # (B, n H)
        d_joined, da = attentional_backward(d_out, out, W)
        gradients[name] = xp.matmul(da.T, joined)          # (2.12)
        n, H = len(d_state), d_state[0].shape[1]
        parts = _split(d_joined, d_joined.shape[1] // H)   # of each array of a state, both ends
        directions = len(parts) // n
        d_last.append([parts[d::directions] for d in range(directions)])
    return d_last, gradients


def _split(x: Array, number: int) -> tuple[Array, ...]:
    """Consecutive blocks of columns, all of one width."""
    H = x.shape[1] // number
    return tuple(x[:, k * H : (k + 1) * H] for k in range(number))
