"""A Transformer's stacks: embeddings with positions, and layers of attention and feed-forward.

A stack is an encoder or a decoder. A decoder's layer attends to the encoder's output between its
self-attention and its feed-forward layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from attention.feed_forward import (
    feed_forward_backward,
    feed_forward_forward,
    feed_forward_weights,
)
from attention.multihead import (
    MultiheadCache,
    multihead_backward,
    multihead_forward,
    multihead_weights,
)
from attention.norms import NormedCache, norm_backward, norm_forward, norm_weights
from attention.positions import positions, positions_at
from attention.sublayer import Placement, SublayerCache, sublayer_backward, sublayer_forward
from backend import Array
from lstm.embedding import EmbeddingCache, embedding_backward, embedding_forward, embedding_weight
from lstm.parameters import Parameters, Scheme, Weight
from nmt.models.contract import Gradients, Noise


class Layers(NamedTuple):
    """The configuration of a stack."""

    depth: int
    width: int  # d
    inner: int  # F
    heads: int
    placement: Placement
    reads: bool  # whether its layers attend to another stack's output, as in a decoder

    @property
    def sublayers(self) -> tuple[str, ...]:
        """The sublayers of a layer, from the bottom."""
        return ("attention", *(("source",) if self.reads else ()), "feed_forward")


class StackCache(NamedTuple):
    prefix: str
    layers: Layers
    embedding: EmbeddingCache
    mask: Array | None  # (T, B, d), dropout of the first layer's input
    sublayers: list[tuple[str, SublayerCache]]  # (kind, cache), from the bottom
    norm: NormedCache | None  # PreNorm's last norm


def stack_weights(
    prefix: str, layers: Layers, vocabulary_size: int, scheme: Scheme
) -> dict[str, Weight]:
    """`{prefix}.W_e` (V, d), the weights `{prefix}.{l}.{sublayer}`, and PreNorm's
    `{prefix}.norm`."""
    kind, pre = layers.placement
    weights = {f"{prefix}.W_e": embedding_weight(vocabulary_size, layers.width, scheme)}
    for depth in range(layers.depth):
        for sublayer in layers.sublayers:
            name = f"{prefix}.{depth}.{sublayer}"
            weights |= (feed_forward_weights(name, layers.width, layers.inner, scheme.matrix())
                      if sublayer == "feed_forward" else
                      multihead_weights(name, layers.width, layers.heads, scheme.attention()))
            weights |= norm_weights(f"{name}.norm", kind, layers.width)
    return weights | (norm_weights(f"{prefix}.norm", kind, layers.width) if pre else {})


def noise_shapes(prefix: str, layers: Layers, T: int, S: int, B: int) -> dict[str, tuple[int, ...]]:
    """The shapes of the dropout masks of a stack of T steps, by site. S: the number of steps of the
    source.

    `{prefix}` is the site of the embeddings with positions, `{sublayer}` that of a sublayer's
    output, and `{sublayer}.inner` that of the attention weights (B n, T, S), or of the hidden layer
    (T, B, F).
    """
    shapes: dict[str, tuple[int, ...]] = {prefix: (T, B, layers.width)}
    inner = {"attention": (B * layers.heads, T, T), "source": (B * layers.heads, T, S),
             "feed_forward": (T, B, layers.inner)}
    for depth in range(layers.depth):
        for sublayer in layers.sublayers:
            name = f"{prefix}.{depth}.{sublayer}"
            shapes |= {name: (T, B, layers.width), f"{name}.inner": inner[sublayer]}
    return shapes


def stack_forward(
    prefix: str, layers: Layers, parameters: Mapping[str, Array], ids: np.ndarray, noise: Noise,
    masked: Array | None, source: tuple[Array, Array | None] | None = None,
    places: np.ndarray | None = None,
) -> tuple[Array, StackCache]:
    """The top layer's output (T, B, d) for ids (T, B), and the cache of the backward.

    Arguments: masked, for self-attention, as in `attention.multihead`; source, for a decoder: the
    encoder's output (S, B, d) and its padding; places (T, B), positions of the words, by default
    0, 1 ..
    """
    x, embedding = embedding_forward(parameters[f"{prefix}.W_e"], ids)
    PE = positions(0, len(ids), layers.width, x.real.dtype) if places is None else \
        positions_at(places, layers.width, x.real.dtype)                   # (T, 1, d), (T, B, d)
    x = x * layers.width**0.5 + PE
    mask, (kind, pre) = noise.get(prefix), layers.placement
    x, caches, norm = x if mask is None else x * mask, [], None
    for depth in range(layers.depth):
        for sublayer in layers.sublayers:
            name = f"{prefix}.{depth}.{sublayer}"
            read = source if sublayer == "source" else (None, masked)
            layer = partial(_layer_forward, name, sublayer, parameters, layers.heads, read,
                            noise.get(f"{name}.inner"))
            x, cache = sublayer_forward(f"{name}.norm", layers.placement, parameters, x, layer,
                                        noise.get(name))
            caches.append((sublayer, cache))
    if pre:
        x, norm = norm_forward(f"{prefix}.norm", kind, parameters, x)
    return x, StackCache(prefix, layers, embedding, mask, caches, norm)


def _layer_forward(
    name: str, sublayer: str, parameters: Mapping[str, Array], heads: int, read: Any,
    mask: Array | None, x: Array,
) -> tuple[Array, Any]:
    """F(x) of a sublayer. read: the memory (None for x itself) and its mask."""
    if sublayer == "feed_forward":
        return feed_forward_forward(name, parameters, x, mask)
    memory, masked = read
    return multihead_forward(name, parameters, x, x if memory is None else memory, heads, masked,
                             mask)


def stack_backward(dy: Array, cache: StackCache) -> tuple[Array | None, Gradients]:
    """The gradient of the encoder's output (S, B, d), None for a stack that reads no other, and the
    gradients of the weights by full name. dy: (T, B, d)."""
    gradients, dmemory = Gradients(), None
    if cache.norm is not None:
        dy, gradients = norm_backward(dy, cache.norm)
    for sublayer, sublayer_cache in reversed(cache.sublayers):
        if sublayer == "source":
            dy, d, of_sublayer = sublayer_backward(dy, sublayer_cache, multihead_backward)
            dmemory = d if dmemory is None else dmemory + d
        else:
            back = self_attention_backward if sublayer == "attention" else feed_forward_backward
            dy, of_sublayer = sublayer_backward(dy, sublayer_cache, back)
        gradients |= of_sublayer
    dx = dy if cache.mask is None else dy * cache.mask
    dW_e = embedding_backward(dx * cache.layers.width**0.5, cache.embedding)
    return dmemory, {f"{cache.prefix}.W_e": dW_e, **gradients}


def self_attention_backward(dy: Array, cache: MultiheadCache) -> tuple[Array, Parameters]:
    """dx (T, B, d), the sum over x as queries and as memory, and the gradients of the weights."""
    dx, dmemory, gradients = multihead_backward(dy, cache)
    return dx + dmemory, gradients
