"""The deep output: a hidden layer between the decoder's state and the prediction of a word.

Source: Bahdanau et al. (2015), A.2.2: t~_i = U_o s_{i-1} + V_o E y_{i-1} + C_o c_i, a maxout over
pairs of neighbours, and p(y_i) as the softmax of W_o t_i. Sennrich (2016) has tanh in place of the
maxout. An option selects the state that is read, s_{i-1} or s_i (erratum 18). All steps are known
here, so each matrix needs only one GEMM.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from backend import Array, array_module
from backend.workspace import Workspace
from lstm.parameters import Parameters, Scheme, Weight, axis
from lstm.prediction import (
    OutputCache,
    output_backward,
    output_forward,
    output_step,
    output_weights,
)
from lstm.sampled import SITE, SampledCache, sample_of, sampled_backward, sampled_forward
from nmt.data.batches import Batch, Side
from nmt.models.contract import Gradients, Losses, Noise
from nmt.models.heads.head import Decoded, HeadState
from nmt.models.heads.hidden_layer import LAYERS
from nmt.models.rnnsearch_config import RNNSearchConfig


class DeepCache(NamedTuple):
    prefix: str
    parts: tuple[Array, ...]  # s, y, c as rows (N, H), (N, E), (N, He); a language model's state
    layer: str
    kept: Array  # the cache of the layer's backward
    parameters: Mapping[str, Array]


NAMES = ("U_o", "V_o", "C_o", "L_o")  # of s, y, c, and of a language model's state if there is one


def deep_weights(
    prefix: str, layer: str, size: int, widths: tuple[int, int, int], vocabulary_size: int,
    biases: bool, output_bias: bool, scheme: Scheme,
) -> dict[str, Weight]:
    """`{prefix}.U_o`, `.V_o`, `.C_o`, `.b_t` of the layer, `.W_o` and `.b` of the prediction.

    Arguments: size M, units of t; widths of s, y and c.
    """
    rows = axis("unit", LAYERS[layer].rows * size)
    columns = (axis(name, width)
               for name, width in zip(("unit", "input", "source unit"), widths, strict=True))
    weights = {f"{prefix}.{name}": Weight((rows, columns_of), scheme.matrix())
               for name, columns_of in zip(NAMES, columns, strict=False)}
    prediction = output_weights(prefix, size, vocabulary_size, output_bias, scheme, "W_o")
    W_o = f"{prefix}.W_o"
    b_t = {f"{prefix}.b_t": Weight((rows,), scheme.bias())} if biases else {}
    return {**weights, W_o: prediction.pop(W_o), **b_t, **prediction}


def deep_forward(
    prefix: str, parameters: Mapping[str, Array], parts: tuple[Array, ...], layer: str
) -> tuple[Array, DeepCache]:
    """t_i (N, M) from rows of states s (N, H), words y (N, E), contexts c (N, He) and, if there is
    one, of a language model's state."""
    xp, (s, y, c) = array_module(*parts), parts[:3]
    t_tilde = xp.matmul(s, parameters[f"{prefix}.U_o"].T)                  # (N, 2M)
    t_tilde += xp.matmul(y, parameters[f"{prefix}.V_o"].T)
    t_tilde += xp.matmul(c, parameters[f"{prefix}.C_o"].T)                 # (Bahdanau A.2.2 deep)
    if len(parts) > 3:
        t_tilde += xp.matmul(parts[3], parameters[f"{prefix}.L_o"].T)           # (Sennrich fusion)
    if f"{prefix}.b_t" in parameters:
        t_tilde += parameters[f"{prefix}.b_t"]
    t, kept = LAYERS[layer].forward(t_tilde)
    return t, DeepCache(prefix, parts, layer, kept, parameters)


def deep_backward(dt: Array, cache: DeepCache) -> tuple[tuple[Array, ...], Parameters]:
    """Gradients of the parts, in their order, and of the layer's parameters, from dt (N, M)."""
    prefix, parts, layer, kept, parameters = cache
    xp = array_module(dt)
    names = [f"{prefix}.{name}" for name in NAMES[: len(parts)]]
    dt_tilde = LAYERS[layer].backward(dt, kept)                            # (N, 2M)
    gradients = {name: dt_tilde.T @ x                                      # (2.14)
                 for name, x in zip(names, parts, strict=True)}
    if f"{prefix}.b_t" in parameters:
        gradients[f"{prefix}.b_t"] = dt_tilde.sum(axis=0)
    d_parts = tuple(xp.matmul(dt_tilde, parameters[name]) for name in names)  # (2.13)
    return d_parts, gradients


# --- the head -------------------------------------------------------------------------------------


class DeepOutputCache(NamedTuple):
    losses: Losses
    read: Any  # the cache of the hidden layer's backward
    output: OutputCache | SampledCache  # SampledCache with a sampled vocabulary


class DeepOutput:
    """The head of RNNsearch: t_i from s, E y_{i-1} and c_i, then the softmax of W_o t_i."""

    reads = frozenset({"states", "words", "contexts"})
    mask_widths: Mapping[str, int] = {}
    matrix = "W_o"  # name of the prediction's matrix

    def __init__(self, config: RNNSearchConfig, target_size: int, workspace: Workspace) -> None:
        self.config, self.target_size, self.workspace = config, target_size, workspace

    def weights(self) -> dict[str, Weight]:
        """`output.*` of `deep_weights`."""
        config = self.config
        return deep_weights(
            "output", config.layer, config.layer_size,
            (config.hidden_size, config.embedding_size, config.encoder.width), self.target_size,
            config.biases, config.output_bias, config.scheme)

    def noise(self, batch: Batch, rng: np.random.Generator, dtype: DTypeLike) -> Noise:
        """The words sampled for the batch."""
        return sample_of(self.config, batch, self.target_size, rng, dtype)

    # --- training -------------------------------------------------------------------------------

    def forward(
        self, parameters: Mapping[str, Array], decoded: Decoded, batch: Batch, noise: Noise
    ) -> tuple[Array, DeepOutputCache]:
        """-log p(y | x), summed over a batch, in nats, 0-d; and the cache of `backward`."""
        t, read = self._hidden(parameters, decoded, batch)
        arguments = ("output", parameters, t, batch.target_out, batch.target.lengths,
                     self.workspace)
        loss, output = (sampled_forward(*arguments, noise[SITE], self.matrix) if SITE in noise
                        else output_forward(*arguments, self.matrix))
        return loss, DeepOutputCache(Losses(loss), read, output)

    def backward(self, cache: DeepOutputCache) -> tuple[Decoded, Gradients]:
        """Gradients of the states (T + 1, B, H), words and contexts, and of the parameters."""
        if isinstance(cache.output, SampledCache):
            dt, gradients = sampled_backward(cache.output, self.workspace)
        else:
            dt, gradients = output_backward(cache.output, self.workspace)
        d, of_layer = self._hidden_backward(dt, cache.read)
        return d, gradients | of_layer

    def _hidden(
        self, parameters: Mapping[str, Array], decoded: Decoded, batch: Batch
    ) -> tuple[Array, Any]:
        """t_i (T, B, M) of all steps, and the cache of `_hidden_backward`."""
        further, kept = self._further(parameters, batch)
        t, deep = deep_forward("output", parameters, (*self._parts(decoded), *further),
                               self.config.layer)
        return t.reshape(*batch.target_in.shape, -1), (deep, kept)

    def _hidden_backward(self, dt: Array, cache: Any) -> tuple[Decoded, Gradients]:
        """As `backward`, from dt (T, B, M)."""
        (T, B, M), (deep, kept) = dt.shape, cache
        d_parts, of_layer = deep_backward(dt.reshape(T * B, M), deep)
        ds, dy, dc, *further = (d_rows.reshape(T, B, -1) for d_rows in d_parts)
        d_states = array_module(dt).zeros((T + 1, *ds.shape[1:]), dtype=dt.dtype)
        d_states[self._read_states(T)] = ds
        return (Decoded(states=d_states, words=dy, contexts=dc),
                of_layer | self._further_backward(further, kept))

    def _parts(self, decoded: Decoded) -> tuple[Array, ...]:
        """The hidden layer's inputs of all steps, as rows: s (N, H), y (N, E), c (N, He)."""
        states = decoded.states[self._read_states(len(decoded.states) - 1)]
        return tuple(array.reshape(-1, array.shape[-1])
                     for array in (states, decoded.words, decoded.contexts))

    def _read_states(self, T: int) -> slice:
        """The slice of s_0 .. s_T that the hidden layer reads (erratum 18)."""
        return slice(0, T) if self.config.deep_state == "before" else slice(1, T + 1)

    def _further(
        self, parameters: Mapping[str, Array], batch: Batch
    ) -> tuple[tuple[Array, ...], Any]:
        """A fourth part of the hidden layer's input, in rows, and its cache."""
        return (), None

    def _further_backward(self, d: list[Array], cache: Any) -> Gradients:
        """Gradients of the parameters of the fourth part, from its gradient (T, B, ...)."""
        return {}

    # --- search ---------------------------------------------------------------------------------

    def start(
        self, parameters: Mapping[str, Array], sources: tuple[Side, ...], read: Decoded
    ) -> HeadState:
        """It keeps nothing."""
        return HeadState()

    def step(
        self, parameters: Mapping[str, Array], state: HeadState, decoded: Decoded,
        tokens: np.ndarray,
    ) -> tuple[Array, HeadState]:
        """Logits (N, V) from the previous and the current states (2, N, H), words and contexts."""
        return self._logits(parameters, self._parts(decoded)), state

    def _logits(self, parameters: Mapping[str, Array], parts: tuple[Array, ...]) -> Array:
        t, _ = deep_forward("output", parameters, parts, self.config.layer)
        return output_step("output", parameters, t, self.matrix)           # (Bahdanau A.2.2 output)

    def select(self, state: HeadState, rows: Array, sentences: Array) -> HeadState:
        """It keeps nothing."""
        return state
