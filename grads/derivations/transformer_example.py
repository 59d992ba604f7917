"""The examples on which the stepper shows a Transformer and its parts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from grads.derivations import norms
from grads.derivations.calculus import Array
from grads.derivations.countdown import countdown_backward, countdown_forward
from grads.derivations.declaration import OUTPUT, OUTPUT_TRACE, Declaration
from grads.derivations.errata import Mistake
from grads.derivations.examples import (
    PAIR,
    TRANSLATION,
    Example,
    Request,
    Sizes,
    draw,
    no_sentence,
    pair_of,
)
from grads.derivations.multihead import (
    Head,
    head_forward,
    head_forward_grad,
    multihead,
    multihead_grad,
)
from grads.derivations.smoothing import predict_smoothed, predict_smoothed_grad
from grads.derivations.transformer import Attention
from grads.derivations.transformer_model import (
    SUBLAYERS,
    Shape,
    transformer_backward,
    transformer_forward,
)

HEADS = 2
WORDS = (3, 4)  # T queries, S keys


# --- parts --------------------------------------------------------------------------------------


def norm_example(names: Mapping[str, int], request: Request) -> Example:
    """A vector and a norm's weights, 1 or hidden numbers each."""
    no_sentence(request)
    d = width(request.sizes) + 1  # an odd number of entries, so that shapes tell tensors apart
    shapes = {"x": (d, 1), **{name: (size or d, 1) for name, size in names.items()}}
    values = draw(request.rng, {**shapes, "dy": (d, 1)})
    return Example(tuple(values[name] for name in shapes), upstream=values["dy"])


def head_example(request: Request) -> Example:
    """Three words that attend to themselves and to those before; one head of half the width."""
    Y, _, weights, dead, D, dH = drawn(request)
    return Example((Y, Y.copy(), weights.heads[1], dead, D[1]), upstream=dH[:, : dH.shape[1] // 2])


def multihead_example(request: Request) -> Example:
    """Three words that attend to four; one of these is padding."""
    Y, X, weights, _, _, dZ = drawn(request)
    dead = np.zeros((len(Y), len(X)), bool)
    dead[:, -1] = True
    D = {i: np.ones(dead.shape, int) for i in weights.heads}
    return Example((Y, X, *weights, dead, D), upstream=dZ)


def smoothing_example(request: Request) -> Example:
    """A word to be predicted from a state, among six; eps = 0.1."""
    no_sentence(request)
    d, V = width(request.sizes), 6
    values = draw(request.rng, {"h": (d, 1), "W_hy": (V, d), "b": (V, 1)})
    b = values["b"] if request.sizes.biases else 0.0
    return Example((3, values["h"], values["W_hy"], b, 0.1))


def drawn(request: Request) -> tuple[Array, Array, Attention, Array, dict[int, Array], Array]:
    """Queries' words Y, keys' words X, weights, the mask of the future, no dropout, and dZ."""
    no_sentence(request)
    d, (T, S) = width(request.sizes), WORDS
    values = draw(request.rng, {"Y": (T, d), "X": (S, d), "W_O": (d, d), "b_O": (1, d),
                                "dZ": (T, d)})
    d_k = d // HEADS
    shapes = {**{f"W_{letter}": (d, d_k) for letter in "QKV"}, "b_Q": (1, d_k), "b_V": (1, d_k)}
    heads = {i: Head(**draw(request.rng, shapes)) for i in range(1, HEADS + 1)}
    dead = np.triu(np.ones((T, T), bool), 1)
    return (values["Y"], values["X"], Attention(heads, values["W_O"], values["b_O"]), dead,
            {i: np.ones((T, T), int) for i in heads}, values["dZ"])


def width(sizes: Sizes) -> int:
    """d, a multiple of the heads: the hidden size, or the next."""
    return -(-sizes.hidden // HEADS) * HEADS


# --- the whole ----------------------------------------------------------------------------------


def transformer_example(placed: str, request: Request, down: bool = False) -> Example:
    """A sentence and its translation. Half of the layers, at least one, are the encoder's; the
    feed-forward layers are wider than d by the embedding's size. down: whether positions count
    down; the length model then knows targets that are up to a word longer."""
    ids, words = pair_of(request)
    V_s, V_t = map(len, words.values())
    shapes = transformer_shapes(V_s, V_t, request.sizes, placed)
    if down:
        lengths = len(ids[1]) + 2  # from 0 to one word more
        shapes |= {"length.W": (lengths, width(request.sizes)), "length.b": (lengths,)}
    parameters = draw(request.rng, shapes)
    return Example((parameters, *ids), {"shape": Shape(HEADS, "layer", placed, down)}, words)


def transformer_shapes(
    V_s: int, V_t: int, sizes: Sizes, placed: str
) -> dict[str, tuple[int, ...]]:
    """The parameters, under the kernels' names."""
    d, F = width(sizes), width(sizes) + sizes.embedding
    shapes: dict[str, tuple[int, ...]] = {}
    for side, V in (("encoder", V_s), ("decoder", V_t)):
        shapes[f"{side}.W_e"] = (V, d)
        for l in range(max(sizes.layers // 2, 1)):
            for sublayer in SUBLAYERS[side]:
                name = f"{side}.{l}.{sublayer}"
                attends = {**{f"W_{map_}": (d, d) for map_ in "qkvo"},
                           **{f"b_{map_}": (d,) for map_ in "qvo"}}
                weights: dict[str, Any] = {"W_1": (F, d), "b_1": (F,), "W_2": (d, F), "b_2": (d,)}
                weights = weights if sublayer == "feed_forward" else attends
                shapes |= {f"{name}.{weight}": shape for weight, shape in weights.items()}
                shapes |= {f"{name}.norm.g": (d,), f"{name}.norm.b": (d,)}
        if placed == "pre":
            shapes |= {f"{side}.norm.g": (d,), f"{side}.norm.b": (d,)}
    shapes["output.W_hy"] = (V_t, d)
    return shapes | ({"output.b": (V_t,)} if sizes.biases else {})


# --- what the tracer is told --------------------------------------------------------------------

HERE = "grads.derivations"
PAIRS = {
    "countdown_backward.d_memory_words": "memory in J_words",
    "countdown_backward.d_memory_length": "memory in l_length",
    "layer_grad.d_read": "reads['source']", "source_attention_grad.d_memory": "reads['memory']",
    "pre_norm_grad.dx_N": "x in n", "post_norm_grad.dx_F": "x in z",
}
NORM_MISTAKES = {
    "constants of x": Mistake(
        f"{HERE}.norms.layer_norm_grad", "dx = J.T @ dx_hat",
        "dx = dx_hat / np.sqrt((z.T @ z) / d + EPS)",
        "mean and deviation are taken for constants: every entry of x moves them."),
    "gain of what is not divided": Mistake(
        f"{HERE}.norms.layer_norm_grad", "dg = x_hat * dy", "dg = z * dy",
        "the gain multiplies x_hat, not x - mu."),
    "gain forgotten": Mistake(
        f"{HERE}.norms.layer_norm_grad", "g * dy ", "dy ",
        "dy reaches x_hat as if y were x_hat + b."),
}
ATTENTION_MISTAKES = {
    "softmax without A A^T": Mistake(
        f"{HERE}.multihead.softmax_rows_grad",
        "A * dA - A * (A * dA).sum(axis=1, keepdims=True)", "A * dA",
        "the weights of a row sum to one: what raises one lowers the others."),
    "scale forgotten": Mistake(
        f"{HERE}.multihead.head_forward_grad", "dQ = dE @ K / Q.shape[1] ** 0.5", "dQ = dE @ K",
        "the scores were divided by sqrt(d_k), and so are their gradients."),
    "keys forgotten": Mistake(
        f"{HERE}.multihead.head_forward_grad", " + dK @ W_K.T", "",
        "X serves as keys and as values: two gradients."),
}
MODEL_MISTAKES = {
    "softmax without A A^T": ATTENTION_MISTAKES["softmax without A A^T"],
    "residual forgotten": Mistake(
        f"{HERE}.transformer.pre_norm_grad", "dx = dy + dx_N", "dx = dx_N",
        "the way around the sublayer is forgotten, by which gradients reach the lowest layer."),
    "self-attention asked only": Mistake(
        f"{HERE}.transformer.self_attention_grad", "dx = dY + dX", "dx = dY",
        "each word gives a query and a key: two gradients."),
}
COUNTDOWN_MISTAKES = {
    "length not heard": Mistake(
        f"{HERE}.countdown.countdown_backward", "d_memory_words + d_memory_length",
        "d_memory_words", "the encoder is trained by the length model too: one more part of the "
        "loss."),
    "mean forgotten": Mistake(
        f"{HERE}.countdown.predict_length_grad", " @ dc.T / S", " @ dc.T",
        "c is the mean of S states, each with a share of 1/S."),
    "residual forgotten": MODEL_MISTAKES["residual forgotten"],
}
SMOOTHING_MISTAKES = {
    "right word only": Mistake(
        f"{HERE}.smoothing.predict_smoothed_grad", "p - smoothed(y, len(p), eps)",
        "p - smoothed(y, len(p), 0.0)", "the gradient of the loss without smoothing (2.21)."),
    "the right word left out": Mistake(
        f"{HERE}.smoothing.predict_smoothed_grad", "p - smoothed(y, len(p), eps)",
        "p - smoothed(y, len(p), eps) + eps / len(p) * one_hot(y, len(p))",
        "eps is spread over all words, the right one too (the author's code)."),
    "probabilities alone": Mistake(
        f"{HERE}.smoothing.predict_smoothed_grad", "dW_hy = ds @ h.T", "dW_hy = p @ h.T",
        "the gradient of log sum e^s, without that of q' s."),
}
SETTINGS = (*TRANSLATION, "layers")


def norm(name: str, title: str, function: str, weights: Mapping[str, int],
         mistakes: Mapping[str, Mistake]) -> Declaration:
    """A norm's declaration."""
    return Declaration(
        name, title, getattr(norms, function), getattr(norms, f"{function}_grad"),
        partial(norm_example, weights), attentive=False, returns=OUTPUT,
        recurrent=False, apart=True, mistakes=mistakes)


def model(name: str, placed: str, title: str, mistakes: Mapping[str, Mistake]) -> Declaration:
    """A whole Transformer's."""
    return Declaration(
        name, title, transformer_forward, transformer_backward,
        partial(transformer_example, placed), PAIR, SETTINGS, recurrent=False,
        mistakes=mistakes)


DECLARATIONS = (
    norm("layer-norm", "LayerNorm of one vector, Ba et al. 2016", "layer_norm", {"g": 0, "b": 0},
         NORM_MISTAKES),
    norm("scale-norm", "ScaleNorm of one vector, Nguyen Eq. 3.6", "scale_norm", {"g": 1}, {}),
    norm("rms-norm", "RMSNorm of one vector, Zhang and Sennrich 2019", "rms_norm", {"g": 0}, {}),
    Declaration(
        "attention-head", "One head of self-attention, the future masked, Nguyen Eqs. 1.7 and 1.8",
        head_forward, head_forward_grad, head_example, returns=OUTPUT_TRACE,
        attentive=False, recurrent=False, mistakes=ATTENTION_MISTAKES),
    Declaration(
        "multihead", "Multi-head attention, Nguyen Eqs. 1.7 to 1.12", multihead, multihead_grad,
        multihead_example, returns=OUTPUT_TRACE,
        attentive=False, recurrent=False, mistakes=ATTENTION_MISTAKES),
    Declaration(
        "smoothing", "One prediction with label smoothing, Nguyen 3.3.3.1", predict_smoothed,
        predict_smoothed_grad, smoothing_example, attentive=False, recurrent=False,
        mistakes=SMOOTHING_MISTAKES),
    model("transformer", "pre", "Transformer, PreNorm, Nguyen 1.2 and 3.3", MODEL_MISTAKES),
    model("transformer-postnorm", "post", "Transformer, PostNorm, Nguyen 1.2 and 3.3", {}),
    Declaration(
        "countdown", "Transformer that counts down, with a length model, Nguyen 4.1",
        countdown_forward, countdown_backward, partial(transformer_example, "pre", down=True), PAIR,
        SETTINGS, recurrent=False, mistakes=COUNTDOWN_MISTAKES),
)
