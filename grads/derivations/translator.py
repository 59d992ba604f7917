"""A translator of any parts: units, encoder, first states of the decoder, decoder.

An algorithm of a paper is one choice of these. A trained model may have a stack of gated units
under attention, a bidirectional encoder, a bridge: each step is a line of some paper, but the whole
is in none. Parameters carry the kernels' names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from grads.derivations.attention import as_written
from grads.derivations.calculus import Array, Number
from grads.derivations.decoders import DECODERS
from grads.derivations.encoders import ENCODERS, STARTS
from grads.derivations.model import Model
from grads.derivations.units import Layers


class TranslatorTrace(NamedTuple):
    """What the forward pass computed."""

    encoded: Any
    h_bar: Array  # (He, S), in the order of attention
    ends: Layers
    run: Any  # of the decoder
    model: Model


def translator_forward(
    parameters: Mapping[str, Array], x: Sequence[Any], y: Sequence[int], *, model: Model
) -> tuple[Number, TranslatorTrace]:
    """J = -log p(y | x) for one pair, in nats.

    Arguments: parameters, by the kernels' names; x as the encoder reads it, and y, token ids
    without end markers, of x with factors tuples of ids; model, the parts.
    """
    h_read, ends, encoded = ENCODERS[model.encoder].forward(model, parameters, x)
    h_bar = as_written(h_read, model.variant)
    h_0, c_0 = STARTS[model.start].forward(model.H, parameters, ends)
    J, run = DECODERS[model.decoder].forward(model, parameters, y, h_bar, h_0, c_0)
    return J, TranslatorTrace(encoded, h_bar, ends, run, model)


def translator_backward(
    parameters: Mapping[str, Array], x: Sequence[int], y: Sequence[int], trace: TranslatorTrace
) -> dict[str, Array]:
    """The gradient of J for every parameter, by name."""
    encoded, h_bar, ends, run, model = trace
    outputs, dh_read, dh_0, dc_0 = DECODERS[model.decoder].backward(
        model, parameters, y, h_bar, run)
    d_ends, starts = STARTS[model.start].backward(model.H, parameters, ends, dh_0, dc_0)
    inputs = ENCODERS[model.encoder].backward(
        model, parameters, x, encoded, dh_read, d_ends)
    gradients = {**inputs, **starts, **outputs}
    return {name: gradients[name] for name in parameters}
