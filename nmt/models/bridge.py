"""From the encoder's last states to the decoder's first.

The thesis hands them over as they are (section 2.3). The optional bridge is one layer per depth,
[h_0; c_0] = tanh(W [h_enc; c_enc]), which also joins the two ends of a bidirectional encoder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attention.attentional import attentional_backward, attentional_forward
from backend import Array, array_module, matmul
from lstm.cells import CELLS, State
from lstm.parameters import Parameters, Weight, axis
from nmt.models.config import ModelConfig

BridgeCache = list[tuple[Array, Array]]  # per layer: joined input (B, n He), output (B, n H)


def bridge_weights(config: ModelConfig) -> dict[str, Weight]:
    """`bridge.{l}.W` (n H, n He), n arrays in a state."""
    if not config.bridge:
        return {}
    names = ("h", "c")[: CELLS[config.unit].states]
    ends = (" forward", " backward") if config.bidirectional else ("",)
    H, columns = config.hidden_size, [name + end for name in names for end in ends]
    axes = axis("state", dict.fromkeys(names, H)), axis("column", dict.fromkeys(columns, H))
    return {f"bridge.{layer}.W": Weight(axes, config.scheme.matrix())
            for layer in range(config.layers)}


def bridge_forward(
    last: Sequence[Sequence[State]], parameters: Mapping[str, Array], config: ModelConfig
) -> tuple[list[State], BridgeCache]:
    """The decoder's initial states, one per layer, from the encoder's `last`[l][direction]."""
    if not config.bridge:
        return [ends[0] for ends in last], []
    H, n = config.hidden_size, CELLS[config.unit].states
    states: list[State] = []
    cache: BridgeCache = []
    for layer, ends in enumerate(last):
        xp = array_module(ends[0][0])
        joined = xp.concatenate([end[k] for k in range(n) for end in ends], axis=1)  # (B, n He)
        out = attentional_forward(joined, parameters[f"bridge.{layer}.W"])           # (B, n H)
        states.append(tuple(out[:, k * H : (k + 1) * H] for k in range(n)))
        cache.append((joined, out))
    return states, cache


def bridge_backward(
    d_states: Sequence[State], cache: BridgeCache, parameters: Mapping[str, Array],
    config: ModelConfig,
) -> tuple[list[list[State]], Parameters]:
    """Gradients of the encoder's last states and of the bridge (Lemma 1 per layer)."""
    if not config.bridge:
        return [[state] for state in d_states], {}
    H, n = config.hidden_size, CELLS[config.unit].states
    directions = config.source_width // H
    d_last: list[list[State]] = []
    gradients: Parameters = {}
    for layer, (joined, out) in enumerate(cache):
        d_out = array_module(out).concatenate(d_states[layer], axis=1)               # (B, n H)
        name = f"bridge.{layer}.W"
        d_joined, dz = attentional_backward(d_out, out, parameters[name])
        gradients[name] = matmul(dz.T, joined)                                       # (2.12)
        d_last.append([
            tuple(_block(d_joined, k * directions + d, H) for k in range(n))
            for d in range(directions)
        ])
    return d_last, gradients


def _block(a: Array, number: int, width: int) -> Array:
    """Columns number * width to (number + 1) * width."""
    return a[:, number * width : (number + 1) * width]
