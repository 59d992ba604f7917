"""A decoder that starts from features (captions, thesis 6.1), without attention.

The source x names features in any order. v counts them, one row for each feature that there is; in
each layer the decoder starts from [h_0; c_0] = tanh(W v). The decoder is that of
`grads.derivations.decoders`.

| parameters | shape | |
|---|---|---|
| `encoder.{l}.W_e` | (V_x, 2H) | W transposed, of layer l from 0 |
| `decoder`, `output` | as in `grads.derivations.nmt` | |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from grads.derivations.calculus import Array, Number, one_hot, tanh_prime
from grads.derivations.declaration import Declaration
from grads.derivations.decoders import Decoded, decode_plain, decode_plain_grad
from grads.derivations.errata import Mistake
from grads.derivations.examples import (
    TRANSLATION,
    Example,
    Request,
    draw,
    pair_of,
    translation_shapes,
)
from grads.derivations.model import Model
from grads.derivations.units import Layers

NO_STATES = np.zeros((0, 1))  # h_bar: features have no states
DECODER = Model("lstm", H=0, encoder="", start="", decoder="plain")  # of which its unit is read


class FeaturesTrace(NamedTuple):
    """What the forward pass computed."""

    v: Array  # (V_x, 1)
    run: Decoded


def start(v: Array, W_e: Array) -> tuple[Array, Array]:
    """h_0 and c_0 (H, 1) of one layer, from the counts v (V_x, 1)."""
    a = W_e.T @ v                                                # W v
    h_0, c_0 = np.split(np.tanh(a), 2)                           # [h_0; c_0] = tanh(W v)
    return h_0, c_0


def start_grad(dh_0: Array, dc_0: Array, v: Array, W_e: Array) -> Array:
    """dW_e (V_x, 2H): a row for each feature, zero for those that are not in v."""
    a = W_e.T @ v
    da = tanh_prime(a) * np.vstack([dh_0, dc_0])                 # tanh' o [dh_0; dc_0]
    dW_e = v @ da.T                                              # (2.12)
    return dW_e


def features_forward(
    parameters: Mapping[str, Array], x: Sequence[int], y: Sequence[int]
) -> tuple[Number, FeaturesTrace]:
    """J = -log p(y | x), in nats. Arguments: x, the features' ids; y, token ids without end
    markers."""
    v = np.zeros_like(parameters["encoder.0.W_e"][:, :1])
    for feature in x:
        v = v + one_hot(feature, len(v))                         # how often each is named
    h_0, c_0 = Layers(), Layers()
    for l in range(1, layers_of(parameters) + 1):
        h_0[l], c_0[l] = start(v, parameters[f"encoder.{l - 1}.W_e"])
    J, run = decode_plain(DECODER, parameters, y, NO_STATES, h_0, c_0)
    return J, FeaturesTrace(v, run)


def features_backward(
    parameters: Mapping[str, Array], x: Sequence[int], y: Sequence[int], trace: FeaturesTrace
) -> dict[str, Array]:
    """The gradient of J for every parameter."""
    gradients, _, dh_0, dc_0 = decode_plain_grad(DECODER, parameters, y, NO_STATES, trace.run)
    for l in range(layers_of(parameters), 0, -1):
        name = f"encoder.{l - 1}.W_e"
        dW_e = start_grad(dh_0[l], dc_0[l], trace.v, parameters[name])
        gradients = {**gradients, name: dW_e}
    return {name: gradients[name] for name in parameters}


def layers_of(parameters: Mapping[str, Array]) -> int:
    """The number of layers."""
    return sum(f"encoder.{l}.W_e" in parameters for l in range(len(parameters)))


# --- the example ----------------------------------------------------------------------------------


def features_example(request: Request) -> Example:
    """Features and their description, "features ||| description"."""
    ids, words = pair_of(request)
    parameters = draw(request.rng, features_shapes(list(map(len, words.values())), request.sizes))
    features, target = words.values()
    return Example((parameters, *ids), {}, {"encoder.0.W_e": features, "decoder.W_e": target})


def features_shapes(words: Sequence[int], sizes: Any) -> dict[str, tuple[int, ...]]:
    """The parameters, under the kernels' names; words, of both vocabularies."""
    V_x, V_y = words
    decoder = {name: shape for name, shape in translation_shapes(
        V_x, V_y, sizes, attentional=False).items() if not name.startswith("encoder")}
    return {f"encoder.{l}.W_e": (V_x, 2 * sizes.hidden) for l in range(sizes.layers)} | decoder


HERE = "grads.derivations.features"
MISTAKES = {
    "slope at the activation": Mistake(
        f"{HERE}.start_grad", "tanh_prime(a)", "tanh_prime(np.tanh(a))",
        "tanh' is taken at tanh(a), where it belongs at a."),
    "halves exchanged": Mistake(
        f"{HERE}.start_grad", "np.vstack([dh_0, dc_0])", "np.vstack([dc_0, dh_0])",
        "h_0 is the first half of tanh(W v), c_0 the second."),
    "cells forgotten": Mistake(
        f"{HERE}.start_grad", "np.vstack([dh_0, dc_0])", "np.vstack([dh_0, 0 * dc_0])",
        "c_0 is made from the features, too: its gradient reaches W."),
}
DECLARATIONS = (Declaration(
    "features", "A decoder that starts from features", features_forward, features_backward,
    features_example, "three days ago ||| vor drei Tagen", (*TRANSLATION, "layers"),
    attentive=False, mistakes=MISTAKES),)
