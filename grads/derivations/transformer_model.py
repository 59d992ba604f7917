"""A whole Transformer, of one sentence and its translation, and back: Nguyen, sections 1.2 and 3.3.

Layers l and the sublayers k of a layer count from 1; `X[0]` is what the first layer reads. Words
are the rows of all matrices, so that the predictions are the only loop over time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from grads.derivations.calculus import Array, Number
from grads.derivations.encoders import columns
from grads.derivations.multihead import heads_of, parameters_of
from grads.derivations.nmt import END
from grads.derivations.positions import countdown_encoding, position_encoding
from grads.derivations.rnn import embed, embed_grad, predictions, predictions_grad
from grads.derivations.transformer import (
    PLACED,
    Attention,
    Columns,
    FeedForward,
    Reads,
    norm_rows,
    norm_rows_grad,
)

SUBLAYERS = {"encoder": ("attention", "feed_forward"),
             "decoder": ("attention", "source", "feed_forward")}
Parameters = Mapping[str, Array]


class Shape(NamedTuple):
    """The properties of a Transformer that its parameters do not tell."""

    heads: int
    norm: str = "layer"  # of NORMS
    placed: str = "pre"  # of PLACED
    down: bool = False  # whether the decoder's positions count down (`countdown`)


class StackTrace(NamedTuple):
    """What a stack's forward pass computed."""

    X: Mapping[int, Array]
    layers: Mapping[int, Any]


class TransformerTrace(NamedTuple):
    """What the forward pass computed."""

    of_x: Any
    memory: Array  # (S, d)
    of_y: Any
    shape: Shape


# --- the model ----------------------------------------------------------------------------------


def transformer_forward(
    parameters: Parameters, x: Sequence[int], y: Sequence[int], *, shape: Shape
) -> tuple[Number, TransformerTrace]:
    """J = -log p(y | x) for one pair, in nats.

    Arguments: parameters, by the kernels' names; x and y, token ids without end markers.
    """
    memory, of_x = encode(parameters, x, shape)
    J, of_y = decode(parameters, y, memory, shape)
    return J, TransformerTrace(of_x, memory, of_y, shape)


def transformer_backward(
    parameters: Parameters, x: Sequence[int], y: Sequence[int], trace: TransformerTrace
) -> dict[str, Array]:
    """The gradient of J for every parameter, by name."""
    of_x, memory, of_y, shape = trace
    d_memory, of_decoder = decode_grad(parameters, y, memory, shape, of_y)
    of_encoder = encode_grad(d_memory, parameters, x, shape, of_x)
    by_name = {**of_encoder, **of_decoder}
    gradients = {name: by_name[name] for name in parameters}
    return gradients


def encode(parameters: Parameters, x: Sequence[int], shape: Shape) -> tuple[Array, StackTrace]:
    """The encoder's output (S, d): every word sees every word."""
    reads = {"dead": np.zeros((len(x), len(x)), bool)}
    memory, trace = stack("encoder", parameters, x, {"attention": reads}, shape)
    return memory, trace


def encode_grad(
    d_memory: Array, parameters: Parameters, x: Sequence[int], shape: Shape, trace: StackTrace
) -> dict[str, Array]:
    """Gradients by name."""
    reads = {"dead": np.zeros((len(x), len(x)), bool)}
    _, gradients = stack_grad(
        d_memory, "encoder", parameters, x, {"attention": reads}, shape, trace)
    return gradients


def decode(
    parameters: Parameters, y: Sequence[int], memory: Array, shape: Shape
) -> tuple[Any, tuple[Any, ...]]:
    """J: the word at t sees itself and those before it, and the whole source."""
    read, words = read_and_predicted(y, shape)
    H, trace = stack("decoder", parameters, read, decoder_reads(len(read), memory), shape)
    h = {t: H[t - 1][:, None] for t in range(1, len(H) + 1)}     # the row of word t, as a column
    J, p, l = predictions(parameters, words, h)
    return J, (h, p, l, trace)


def decode_grad(
    parameters: Parameters, y: Sequence[int], memory: Array, shape: Shape, kept: tuple[Any, ...]
) -> tuple[Array, dict[str, Array]]:
    """d_memory (S, d), and gradients by name."""
    h, p, _, trace = kept
    read, words = read_and_predicted(y, shape)
    dh, output = predictions_grad(parameters, words, p, h)
    dH = columns(dh).T                                           # a row for each word
    d_reads, gradients = stack_grad(
        dH, "decoder", parameters, read, decoder_reads(len(read), memory), shape, trace)
    d_memory = np.sum(list(d_reads.values()), axis=0)            # every layer reads the source
    return d_memory, {**gradients, **output}


def read_and_predicted(y: Sequence[int], shape: Shape) -> tuple[list[int], list[int]]:
    """What the decoder reads, word by word, and predicts; with a countdown it predicts no end."""
    return ([END, *y[:-1]], [*y]) if shape.down else ([END, *y], [*y, END])


def decoder_reads(T: int, memory: Array) -> dict[str, Reads]:
    """What the decoder's sublayers read beside x (T, d); row t must not look past itself."""
    return {"attention": {"dead": np.triu(np.ones((T, T), bool), 1)},
            "source": {"dead": np.zeros((T, len(memory)), bool), "memory": memory}}


# --- a stack ------------------------------------------------------------------------------------


def stack(
    side: str, parameters: Parameters, ids: Sequence[int], reads: Mapping[str, Reads], shape: Shape
) -> tuple[Array, StackTrace]:
    """Embeddings with positions, layers, and PreNorm's last norm: (T, d)."""
    W_e, e = parameters[f"{side}.W_e"], {}
    for t in range(1, len(ids) + 1):
        e[t] = embed(ids[t - 1], W_e)
    d = W_e.shape[1]
    E = np.hstack(list(e.values())).T                            # a row for each word
    down = shape.down and side == "decoder"
    PE = (countdown_encoding if down else position_encoding)(len(ids), d)
    X, layers = {0: d**0.5 * E + PE}, {}
    for l in range(1, depth(parameters, side) + 1):
        X[l], layers[l] = layer(side, l, parameters, X[l - 1], reads, shape)
    x = X[len(layers)]
    if shape.placed == "pre":
        w_N = norm_of(parameters, side)
        y = norm_rows(shape.norm, x, w_N)                        # one more norm, above all
        return y, StackTrace(X, layers)
    return x, StackTrace(X, layers)


def stack_grad(
    dy: Array, side: str, parameters: Parameters, ids: Sequence[int],
    reads: Mapping[str, Reads], shape: Shape, trace: StackTrace,
) -> tuple[dict[int, Array], dict[str, Array]]:
    """The gradient that each layer sends to the memory (S, d), and gradients by name."""
    X, layers = trace
    L, dX, d_memory, by_layer = len(layers), {}, {}, {}
    if shape.placed == "pre":
        w_N = norm_of(parameters, side)
        dX[L], dw_N = norm_rows_grad(shape.norm, dy, X[L], w_N)
        by_layer[0] = norm_named(side, dw_N)
    else:
        dX[L] = dy
    for l in range(L, 0, -1):
        dX[l - 1], d_reads, by_layer[l] = layer_grad(
            dX[l], side, l, parameters, X[l - 1], reads, shape, layers[l])
        if d_reads:
            d_memory[l] = d_reads["memory"]
    dW_e = np.zeros_like(parameters[f"{side}.W_e"])
    dE = dW_e.shape[1] ** 0.5 * dX[0]                            # X_0 = sqrt(d) E + PE
    for t in range(1, len(ids) + 1):
        dW_e = embed_grad(ids[t - 1], dE[t - 1][:, None], dW_e)
    return d_memory, {**together(by_layer), f"{side}.W_e": dW_e}


def layer(
    side: str, l: int, parameters: Parameters, x: Array, reads: Mapping[str, Reads], shape: Shape
) -> tuple[Array, Any]:
    """A layer's sublayers, one after another: u_k of u_{k-1}, from x to x_{l+1} (T, d)."""
    u, kept = {0: x}, {}
    for k, F in enumerate(SUBLAYERS[side], start=1):
        w_F, w_N = weights_of(F, parameters, f"{side}.{l - 1}.{F}", shape)
        u[k], kept[k] = PLACED[shape.placed].forward(
            F, u[k - 1], w_F, reads.get(F, {}), shape.norm, w_N)
    return u[len(kept)], (u, kept)


def layer_grad(
    dy: Array, side: str, l: int, parameters: Parameters, x: Array, reads: Mapping[str, Reads],
    shape: Shape, trace: Any,
) -> tuple[Array, Reads, dict[str, Array]]:
    """dx (T, d), the gradients of what is read, and those of the weights, by name."""
    u, kept = trace
    d_reads: Reads = {}
    by_sublayer, du = {}, {len(kept): dy}
    for k in range(len(kept), 0, -1):
        F = SUBLAYERS[side][k - 1]
        w_F, w_N = weights_of(F, parameters, f"{side}.{l - 1}.{F}", shape)
        du[k - 1], d_read, dw_F, dw_N = PLACED[shape.placed].backward(
            F, du[k], u[k - 1], w_F, reads.get(F, {}), shape.norm, w_N, kept[k])
        d_reads = d_read or d_reads                              # one of them reads the memory
        by_sublayer[k] = named(F, f"{side}.{l - 1}.{F}", dw_F, dw_N)
    return du[0], d_reads, together(by_sublayer)


# --- parameters ---------------------------------------------------------------------------------


def depth(parameters: Parameters, side: str) -> int:
    """How many layers a stack has."""
    return sum(name.startswith(side) and name.endswith("feed_forward.W_1") for name in parameters)


def norm_of(parameters: Parameters, prefix: str) -> Columns:
    """The weights of a norm as columns, or as a number (1, 1)."""
    return tuple(np.reshape(parameters[name], (-1, 1)) for name in (
        f"{prefix}.norm.g", f"{prefix}.norm.b") if name in parameters)


def weights_of(F: str, parameters: Parameters, prefix: str, shape: Shape) -> tuple[Any, Columns]:
    """A sublayer's weights as its function takes them, and its norm's."""
    w_N = norm_of(parameters, prefix)
    if F == "feed_forward":
        w = [parameters[f"{prefix}.{name}"] for name in ("W_1", "b_1", "W_2", "b_2")]
        return FeedForward(w[0].T, w[1][None], w[2].T, w[3][None]), w_N
    return Attention(heads_of(parameters, prefix, shape.heads), parameters[f"{prefix}.W_o"].T,
                     parameters[f"{prefix}.b_o"][None]), w_N


def named(F: str, prefix: str, dw_F: Any, dw_N: Columns) -> dict[str, Array]:
    """The gradients of a sublayer by the kernels' names and in their shapes."""
    if F == "feed_forward":
        by_name = {f"{prefix}.{name}": d.T if name.startswith("W") else d[0]
                 for name, d in dw_F._asdict().items()}
    else:
        by_name = parameters_of(prefix, *dw_F)
    return {**by_name, **norm_named(prefix, dw_N)}


def together(by_number: Mapping[int, Mapping[str, Array]]) -> dict[str, Array]:
    """The gradients of several layers."""
    return {name: d for gradients in by_number.values() for name, d in gradients.items()}


def norm_named(prefix: str, dw_N: Columns) -> dict[str, Array]:
    """The gradients of a norm by the kernels' names."""
    return {f"{prefix}.norm.{name}": d[:, 0] for name, d in zip("gb", dw_N, strict=False)}
