"""The translator of Luong (2016), 2.3 and chapter 4: a deep recurrent encoder and decoder.

Parameters: `{side}.W_e` (V, E) and a stack each of `encoder` and `decoder` (`recurrent`);
`bridge.{l}.W`; `attention.W_c` (H, He + H) and the weights of score and position; `output.W_hy`
(V, H), the W_s of Eq. 4.6, and `output.b`. With input feeding the decoder's first layer has the
columns [embedding, h~_{t-1}, h_{t-1}].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from grads.verification.reference.attention import Attention, context, remember
from grads.verification.reference.recurrent import State, stack, step, weights
from grads.verification.reference.tokens import (
    Masks,
    Pairs,
    Parameters,
    drop,
    negative_log_likelihood,
    read_masks,
    read_pairs,
    real,
)

Attend = Callable[[Tensor, int], Tensor]  # h (B, T, H), number of its first step -> c (B, T, He)


def loss(
    config: Any, parameters: Parameters, batch: Any,
    noise: Mapping[str, Any] | None = None, *, reverse_source: bool = False,
) -> Tensor:
    """-log p(y | x), Eqs. 2.52 and 4.4, in nats, summed over the batch's target tokens.

    config: `ModelConfig`. noise: dropout masks of the sites `encoder.{l}` (S, B, width of the
    layer's input), `decoder.{l}` (T, B, width; of layer 0 the embedding's) and `joined`
    (T, B, He + H, or H without attention). reverse_source: the batch's sources are reversed.
    Returns a scalar.
    """
    pairs = read_pairs(batch, parameters["encoder.W_e"])
    masks = read_masks(noise, parameters["encoder.W_e"])
    hbar, first = encode(config, parameters, pairs, masks)
    attend = attention(config, parameters, hbar, pairs.lengths, reverse_source)
    x = F.embedding(pairs.target_in, parameters["decoder.W_e"])  # (T, B, E)
    decode = decode_feeding if config.input_feeding else decode_at_once
    return negative_log_likelihood(                              # (4.6), (2.52)
        decode(config, parameters, x, first, masks, attend), parameters["output.W_hy"],
        parameters.get("output.b"), pairs.target_out, real(pairs.target_lengths, len(x)))


# --- source -------------------------------------------------------------------------------------


def encode(
    config: Any, parameters: Parameters, pairs: Pairs, masks: Masks
) -> tuple[Tensor, list[State]]:
    """hbar (S, B, He), and the decoder's first state of each layer."""
    x = F.embedding(pairs.source, parameters["encoder.W_e"])     # (S, B, E)
    hbar, last = stack(config, parameters, "encoder", config.layers, x, None, masks,
                       lengths=pairs.lengths, bidirectional=config.bidirectional)
    if not config.bridge:
        return hbar, last
    return hbar, [bridge(parameters[f"bridge.{l}.W"], state) for l, state in enumerate(last)]


def bridge(W: Tensor, state: State) -> State:
    """tanh(W [h; c]), cut into h and c."""
    return torch.tanh(torch.cat(state, dim=1) @ W.T).chunk(len(state), dim=1)


def attention(
    config: Any, parameters: Parameters, hbar: Tensor, lengths: Tensor, reverse_source: bool
) -> Attend | None:
    """c_t of h_t for this source; None for a model without attention."""
    if config.attention == "none":
        return None
    score = "concat-identity" if config.concat_identity else config.score
    how = Attention(score, config.attention, config.window, config.renormalise, reverse_source)
    w = {name.removeprefix("attention."): W for name, W in parameters.items()
         if name.startswith("attention.")}
    memory = remember(how, w, hbar, lengths, config.hidden_size)
    return lambda h, t: context(how, w, memory, h, t)


# --- target -------------------------------------------------------------------------------------


def decode_at_once(
    config: Any, parameters: Parameters, x: Tensor, first: list[State], masks: Masks,
    attend: Attend | None,
) -> Tensor:
    """h~_1 .. h~_T (T, B, H), or h_1 .. h_T without attention; x: (T, B, E)."""
    h, _ = stack(config, parameters, "decoder", config.layers, x, first, masks)
    if attend is None:
        return drop(h, masks, "joined")
    c = attend(h.transpose(0, 1), 1).transpose(0, 1)
    joined = drop(torch.cat([c, h], dim=2), masks, "joined")     # [c_t; h_t]
    return torch.tanh(joined @ parameters["attention.W_c"].T)    # (4.5)


def decode_feeding(
    config: Any, parameters: Parameters, x: Tensor, first: list[State], masks: Masks,
    attend: Attend | None,
) -> Tensor:
    """h~_1 .. h~_T (T, B, H), where h~_{t-1} is part of layer 1's input (4.2.3); x: (T, B, E)."""
    assert attend is not None  # a configuration with feeding has attention
    layers = [weights(parameters, f"decoder.{l}", config.hidden_size)
              for l in range(config.layers)]
    W_x, W_fed = layers[0].W_x.split([x.shape[2], config.hidden_size], dim=1)
    a = F.linear(drop(x, masks, "decoder.0"), W_x, layers[0].b).unbind()
    W_c = parameters["attention.W_c"]
    states, h_tilde, found = list(first), torch.zeros_like(first[0][0]), []
    drops = {site: mask.unbind() for site, mask in masks.items()}  # by step
    for t in range(len(x)):
        z = torch.addmm(a[t], h_tilde, W_fed.T)                  # W [x_t; h~_{t-1}] (4.2.3)
        for l, w in enumerate(layers):                           # Algorithm 3 line 8
            states[l] = step(config, z, states[l], w.W_h)
            h = states[l][0]
            if l + 1 < len(layers):
                h = h * drops[f"decoder.{l + 1}"][t] if f"decoder.{l + 1}" in drops else h
                z = F.linear(h, layers[l + 1].W_x, layers[l + 1].b)
        c = attend(h[:, None], t + 1)[:, 0]
        joined = torch.cat([c, h], dim=1)                        # [c_t; h_t]
        joined = joined * drops["joined"][t] if "joined" in drops else joined
        h_tilde = torch.tanh(joined @ W_c.T)                     # (4.5)
        found.append(h_tilde)
    return torch.stack(found)
