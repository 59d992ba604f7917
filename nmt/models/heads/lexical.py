"""The lexical module predicts target words from the attended source words (Nguyen, 3.2.4).

    f_t = tanh(sum over s of a_t(s) f_s)                        (Nguyen 3.2.4 average)
    h^l_t = tanh(W f_t) + f_t                                   (Nguyen 3.2.4 lexical)
    logits W_o h~_t + W_l h^l_t + b                             (Nguyen 3.2.4 output)

f_s are the source's embeddings as the encoder reads them, after dropout. h^l has its own dropout
before fixnorm scales it, as in the author's code. The paper's b_o and b_l have equal gradients, so
their sum b is one parameter (erratum 33). The author's code also adds a bias to W f_t, which the
paper does not print; there is none here.

The prediction layer reads [h~; h^l] and [W_o, W_l] as if they were one vector and one matrix. a_t
comes from the decoder. Its gradient is computed for all steps before the decoder's backward begins.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from attention.norm_cache import NormCache
from attention.norms import scale_norm_backward, scale_norm_forward
from backend import Array, array_module
from backend.pointwise import tanh_slope
from lstm.parameters import Scheme, Weight, axis
from nmt.models.contract import Gradients
from nmt.models.parametrization import Stacked

SITE = "lexical.output"  # of the noise: dropout of h^l
W_HY, W_L = "output.W_hy", "output.W_l"


def lexical_weights(
    prefix: str, embedding_size: int, vocabulary_size: int, scheme: Scheme
) -> dict[str, Weight]:
    """`{prefix}.W` (E, E), and `output.W_l` (V, E), a row for each target word."""
    units = axis("unit", embedding_size)
    return {f"{prefix}.W": Weight((units, axis("input", embedding_size)), scheme.matrix()),
            W_L: Weight((axis("word", vocabulary_size), units), scheme.matrix())}


class LexicalCache(NamedTuple):
    prefix: str
    parameters: Mapping[str, Array]
    words: Array  # (B, S, E), f_s in the order of the written words
    align: Array  # (B, T, S), the alignment
    f: Array  # (B, T, E), f_t
    tanh_v: Array  # (B T, E), tanh(W f_t)
    mask: Array | None  # (T, B, E)
    length: NormCache | None  # of h^l, if it is scaled to a length


def lexical_forward(
    prefix: str, parameters: Mapping[str, Array], h_tilde: Array, words: Array, align: Array,
    length: float | None, mask: Array | None,
) -> tuple[Array, dict[str, Array], LexicalCache]:
    """The prediction layer's input [h~; h^l] (T, B, H + E), and parameters with its [W_o, W_l].

    Arguments: h_tilde (T, B, H); words (B, S, E), the encoder's input, and align (B, T, S), both in
    written order; length to which h^l is scaled, or None; mask (T, B, E), dropout of h^l, or
    None.
    """
    norm = None
    f, tanh_v, h = hidden(words, align, parameters[f"{prefix}.W"])
    h = h.transpose(1, 0, 2) if mask is None else h.transpose(1, 0, 2) * mask  # (T, B, E)
    if length is not None:
        h, norm = scale_norm_forward(h, length)
    joined = array_module(h).concatenate([h_tilde, h], axis=2)         # (Nguyen 3.2.4 output)
    W = _stacked(parameters).forward(W_HY, parameters)                     # (V, H + E)
    return joined, {**parameters, W_HY: W}, LexicalCache(
        prefix, parameters, words, align, f, tanh_v, mask, norm)


def hidden(words: Array, align: Array, W: Array) -> tuple[Array, Array, Array]:
    """f_t (B, T, E), tanh(W f_t) (B T, E) and h^l (B, T, E), from `words` and `align`."""
    xp = array_module(words)
    f = xp.tanh(xp.matmul(align, words))                               # (Nguyen 3.2.4 average)
    tanh_v = xp.tanh(xp.matmul(f.reshape(-1, f.shape[2]), W.T))
    return f, tanh_v, tanh_v.reshape(f.shape) + f                      # (Nguyen 3.2.4 lexical)


def lexical_backward(
    d_joined: Array, gradients: Gradients, cache: LexicalCache
) -> tuple[Array, Array, Array, Gradients]:
    """Gradients of h~ (T, B, H), of the alignment (B, T, S), of the embeddings (B, S, E) and, by
    name, of W, W_o and W_l.

    Arguments: d_joined (T, B, H + E) and gradients, of the prediction layer that read [h~; h^l].
    """
    xp, (B, T, E), W_name = array_module(d_joined), cache.f.shape, f"{cache.prefix}.W"
    output = _stacked(cache.parameters).backward(W_HY, gradients[W_HY], cache.parameters)
    dh = d_joined[..., -E:]                                            # (Nguyen 3.2.4 output)
    if cache.length is not None:
        dh, _ = scale_norm_backward(dh, cache.length)
    if cache.mask is not None:
        dh = dh * cache.mask
    dh = xp.ascontiguousarray(dh.transpose(1, 0, 2))                       # (B, T, E)
    da = xp.empty_like(cache.tanh_v)
    tanh_slope(dh.reshape(B * T, E), cache.tanh_v, da)     # tanh' o dh^l (Nguyen 3.2.4 lexical)
    dW = xp.matmul(da.T, cache.f.reshape(B * T, E))                        # (2.12) on W f_t
    df = dh + xp.matmul(da, cache.parameters[W_name]).reshape(B, T, E)  # f_t is added, and (2.11)
    d_sum = (1.0 - cache.f * cache.f) * df                 # tanh' o df_t (Nguyen 3.2.4 average)
    d_align = xp.matmul(d_sum, cache.words.transpose(0, 2, 1))             # f_s' d, for each s
    d_words = xp.matmul(cache.align.transpose(0, 2, 1), d_sum)             # sum over t of a_t(s) d
    return d_joined[..., :-E], d_align, d_words, {**gradients, **output, W_name: dW}


def _stacked(parameters: Mapping[str, Array]) -> Stacked:
    """[W_o, W_l] (V, H + E)."""
    return Stacked({name: parameters[name].shape[1] for name in (W_HY, W_L)}, axis=1)


def lexical_step(
    prefix: str, parameters: Mapping[str, Array], words: Array, align: Array, length: float | None
) -> Array:
    """Its part of the logits (N, V), for search: words (B, S, E), align (N, S), N = B K."""
    B, S, _ = words.shape
    h = hidden(words, align.reshape(B, -1, S), parameters[f"{prefix}.W"])[2]
    h = h.reshape(len(align), -1)
    if length is not None:
        h, _ = scale_norm_forward(h, length)
    return array_module(h).matmul(h, parameters[W_L].T)                # (Nguyen 3.2.4 output)
