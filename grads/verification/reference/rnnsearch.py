"""RNNsearch and RNNencdec (Bahdanau et al., 2015, Appendix A.2).

Parameters: `encoder.W_e`, `decoder.W_e` (V, E); the stack `encoder`, one layer (`recurrent`);
`decoder.0.W` with the columns [word, context, state] and `.b`; `bridge.W_s` (H, H), `bridge.b`;
`attention.W_a`, `.U_a`, `.v_a`; `output.U_o`, `.V_o`, `.C_o` of state, word and context, `.b_t`;
`output.W_o` (V, M), `output.b`; without a hidden layer `output.W_hy` (V, H) of the state. With deep
fusion a language model, `lm.W_e` and the stack `lm`, and `output.L_o`, `.v_g`, `.b_g`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from grads.verification.reference.attention import Attention, context, remember
from grads.verification.reference.recurrent import stack, step, weights
from grads.verification.reference.tokens import (
    Parameters,
    Source,
    negative_log_likelihood,
    read_masks,
    read_source,
    read_target,
    sampled,
)

ADDITIVE = Attention("additive")


def loss(
    config: Any, parameters: Parameters, batch: Any, noise: Mapping[str, Any] | None = None
) -> Tensor:
    """-log p(y | x), A.2, in nats, summed over the batch's target tokens.

    config: `RNNSearchConfig`. noise: only the site `output.sample` (V,), since the model has no
    dropout. Returns a scalar.
    """
    W_e = parameters["decoder.W_e"]
    source, target = read_source(batch, W_e), read_target(batch, W_e)
    masks = read_masks(noise, W_e)
    s_0, search = encode(config, parameters, source)
    y = F.embedding(target.inputs, W_e)                          # E y_{i-1}, (T, B, E)
    s, c = decode(config, parameters, y, s_0, search)
    s = s[:-1] if config.deep_state == "before" else s[1:]       # s_{i-1} or s_i (erratum 18)
    b = sampled(parameters.get("output.b"), masks)
    if config.layer == "none":                                   # (Nair 5 logits)
        return negative_log_likelihood(s, parameters["output.W_hy"], b, target)
    language = language_part(config, parameters, target.inputs) if config.language else 0.0
    t = hidden_layer(config, parameters, s, y, c, language)
    return negative_log_likelihood(                              # (Bahdanau A.2.2 output)
        t, parameters["output.W_o"], b, target)


def encode(
    config: Any, parameters: Parameters, source: Source
) -> tuple[Tensor, Callable[[Tensor, Tensor], Tensor]]:
    """s_0 (B, H), and the function from s_{i-1} (B, H) and E y_{i-1} (B, E) to c_i (B, He)."""
    x, H = F.embedding(source.ids, parameters["encoder.W_e"]), config.hidden_size  # (S, B, E)
    searches = config.context == "search"
    annotations, ((last,),) = stack(config, parameters, "encoder", 1, x, lengths=source.lengths,
                                    bidirectional=searches)      # (Bahdanau A.2.1), (Bahdanau 7)
    first = last[:, -H:]                                         # <-h_1 (erratum 19)
    s_0 = torch.tanh(F.linear(                                   # (Bahdanau A.2.2 initial)
        first, parameters["bridge.W_s"], parameters.get("bridge.b")))
    if not searches:
        return s_0, lambda s, y: last                            # RNNencdec
    w = {name: parameters[f"attention.{name}"] for name in ("W_a", "U_a", "v_a")}
    memory = remember(ADDITIVE, w, annotations, source.lengths, H)
    if config.query == "state-word":                             # (Nair 7.2 score)
        return s_0, lambda s, y: context(ADDITIVE, w, memory, torch.cat([s, y], 1)[:, None])[:, 0]
    return s_0, lambda s, y: context(ADDITIVE, w, memory, s[:, None])[:, 0]  # (Bahdanau 5)


def decode(
    config: Any, parameters: Parameters, y: Tensor, s_0: Tensor,
    search: Callable[[Tensor, Tensor], Tensor],
) -> tuple[Tensor, Tensor]:
    """s_0 .. s_T (T + 1, B, H) and c_1 .. c_T (T, B, He)."""
    w = weights(config, parameters, "decoder.0")
    W_y, W_c = w.W_x[:, : y.shape[2]], w.W_x[:, y.shape[2] :]
    a, s, c = F.linear(y, W_y, w.b).unbind(), [s_0], []
    for i in range(len(y)):
        c.append(search(s[i], y[i]))                             # c_i
        z = torch.addmm(a[i], c[i], W_c.T)                       # W E y_{i-1} + C c_i
        s += step(config, z, (s[i],), w.W_h)                     # (Bahdanau A.2.2 state)
    return torch.stack(s), torch.stack(c)


def hidden_layer(
    config: Any, parameters: Parameters, s: Tensor, y: Tensor, c: Tensor, language: Tensor | float
) -> Tensor:
    """t_i (T, B, M), maxout units of two or, in the simplified model, tanh. language: the part that
    deep fusion adds."""
    U_o, V_o, C_o = (parameters[f"output.{name}"] for name in ("U_o", "V_o", "C_o"))
    b_t = parameters.get("output.b_t")
    t_tilde = F.linear(s, U_o, b_t) + y @ V_o.T + c @ C_o.T + language  # (Bahdanau A.2.2 deep)
    if config.layer == "tanh":
        return torch.tanh(t_tilde)
    return t_tilde.unflatten(2, (-1, 2)).amax(dim=3)             # (Bahdanau A.2.2 maxout)


def language_part(config: Any, parameters: Parameters, inputs: Tensor) -> Tensor:
    """L_o (g_i s_LM), (T, B, 2M): the gated state of a language model that has read y_1 .. y_{i-1}.
    """
    x = F.embedding(inputs, parameters["lm.W_e"])                # (T, B, E_LM)
    language = SimpleNamespace(unit=config.lm_unit, hidden_size=config.lm_hidden_size,
                               clip_elements=config.clip_elements)
    s, _ = stack(language, parameters, "lm", config.lm_layers, x)
    g = torch.sigmoid(s @ parameters["output.v_g"] + parameters["output.b_g"])  # (Sennrich fusion)
    return (g[:, :, None] * s) @ parameters["output.L_o"].T      # (Sennrich fusion)
