"""The translator of Luong (2016), 2.3 and chapter 4: a deep recurrent encoder and decoder.

Parameters: `{side}.W_e` (V, E), and the stacks `encoder` and `decoder` (`recurrent`);
`bridge.{l}.W`; `attention.W_c` (H, He + H) and the weights of score and position; `output.W_hy`
(V, H), the W_s of Eq. 4.6, and `output.b`. With input feeding the decoder's first layer has the
columns [embedding, h~_{t-1}, h_{t-1}].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from grads.verification.reference.attention import Attention, context, remember
from grads.verification.reference.recurrent import Step, cell, stack
from grads.verification.reference.tokens import (
    Masks,
    Parameters,
    Source,
    State,
    Target,
    drop,
    negative_log_likelihood,
    read_masks,
    read_source,
    read_target,
    sampled,
)

Attend = Callable[[Tensor, int], Tensor]  # h (B, T, H), number of its first step -> c (B, T, He)


def loss(
    config: Any, parameters: Parameters, batch: Any,
    noise: Mapping[str, Any] | None = None, *, reverse_source: bool = False, lexicon: Any = None,
) -> Tensor:
    """-log p(y | x), Eqs. 2.52 and 4.4, in nats, summed over the batch's target tokens.

    config: `ModelConfig`. noise: dropout masks of the sites `encoder.{l}` (S, B, width of the
    layer's input), `decoder.{l}` (T, B, width; of layer 0 the embedding's), `decoder.joined`
    (T, B, He + H, or H without attention), `decoder.fed` (T, B, H) and `lexical.output` (T, B, E).
    reverse_source: the batch's sources are reversed. lexicon: `Lexicon`, whose log(x + epsilon) is
    added to the logits.
    Returns a scalar.
    """
    W_e = parameters["decoder.W_e"]
    source, target, masks = read_source(batch, W_e), read_target(batch, W_e), read_masks(noise, W_e)
    hbar, first = encode(config, parameters, source, masks)
    parts = []  # the tensors that a_t averages
    if config.lexical:
        parts.append(drop(vectors(config, parameters, source), masks, "encoder.0"))
    if lexicon is not None:
        parts.append(dense(lexicon, len(parameters["output.W_hy"])).to(W_e)[source.ids])
    f = torch.cat(parts, dim=2) if parts else None
    averages: list[Tensor] = []
    attend = attention(config, parameters, hbar, source.lengths, reverse_source, f=f,
                       averages=averages)
    return predict(config, parameters, target, first, masks, attend, averages)


def predict(
    config: Any, parameters: Parameters, target: Target, first: list[State], masks: Masks,
    attend: Attend | None, averages: Sequence[Tensor] = (),
) -> Tensor:
    """The loss of a decoder that starts from `first`: a scalar.

    averages: the list to which `attend` adds averages for the lexical module and a lexicon,
    (B, T, E), (B, T, V) or both side by side.
    """
    x = F.embedding(target.inputs, parameters["decoder.W_e"])    # (T, B, E)
    h_tilde, _ = decode(config, parameters, x, first, masks, attend)
    h, W, added = brought(config, h_tilde), parameters["output.W_hy"], None
    average = torch.cat(list(averages), dim=1).transpose(0, 1) if averages else None
    if config.lexicon_epsilon is not None and average is not None:
        average, p = average[..., :-len(W)], average[..., -len(W):]
        added = torch.log(p + config.lexicon_epsilon)            # (Nguyen 3.2.5.2 bias)
    if config.lexical and average is not None:
        h_l = lexical(parameters, average)
        h = torch.cat([h, brought(config, drop(h_l, masks, "lexical.output"))], dim=2)
        W = torch.cat([W, parameters["output.W_l"]], dim=1)
    return negative_log_likelihood(                              # (4.6), (2.52)
        h, W, sampled(parameters.get("output.b"), masks), target, added=added)


def dense(lexicon: Any, V: int) -> Tensor:
    """p_lex (V_s, V), a row for each source word."""
    table = torch.zeros(lexicon.size, V, dtype=torch.float64)
    for f, (first, end) in enumerate(zip(lexicon.starts, lexicon.starts[1:], strict=False)):
        table[f, torch.as_tensor(lexicon.words[first:end])] = torch.as_tensor(
            lexicon.p[first:end])
    return table


def brought(config: Any, h: Tensor) -> Tensor:
    """h scaled to the length of fixnorm, if the model has one (Nguyen 3.2.3 fixnorm)."""
    if config.output_norm is None:
        return h
    return config.output_norm * F.normalize(h, dim=-1, eps=1e-5)


def lexical(parameters: Parameters, average: Tensor) -> Tensor:
    """h^l (T, B, E) from the sum over s of a_t(s) f_s."""
    f = torch.tanh(average)                                      # (Nguyen 3.2.4 average)
    return torch.tanh(F.linear(f, parameters["lexical.W"])) + f  # (Nguyen 3.2.4 lexical)


# --- source -------------------------------------------------------------------------------------


def encode(
    config: Any, parameters: Parameters, source: Source, masks: Masks
) -> tuple[Tensor, list[State]]:
    """hbar (S, B, He), and the decoder's first state of each layer."""
    x = vectors(config, parameters, source)
    return encode_vectors(config, parameters, x, source.lengths, masks)


def vectors(config: Any, parameters: Parameters, source: Source) -> Tensor:
    """x (S, B, E), before dropout."""
    tables = ["encoder.W_e", *(f"encoder.W_{name}" for name in config.factors)]
    return torch.cat([F.embedding(ids, parameters[name])         # (Sennrich features)
                      for name, ids in zip(tables, (source.ids, *source.factors), strict=True)], 2)


def encode_vectors(
    config: Any, parameters: Parameters, x: Tensor, lengths: Tensor, masks: Masks
) -> tuple[Tensor, list[State]]:
    """`encode` from the words' vectors x (S, B, E); lengths: (B,), on the host."""
    hbar, last = stack(config, parameters, "encoder", config.layers, x, None, masks,
                       lengths=lengths, bidirectional=config.bidirectional)
    if not config.bridge:
        return hbar, last
    return hbar, [bridge(parameters[f"bridge.{l}.W"], state) for l, state in enumerate(last)]


def bridge(W: Tensor, state: State) -> State:
    """tanh(W [h; c]), cut into h and c."""
    return torch.tanh(torch.cat(state, dim=1) @ W.T).chunk(len(state), dim=1)


def attention(
    config: Any, parameters: Parameters, hbar: Tensor, lengths: Tensor, reverse_source: bool,
    prefix: str = "attention", f: Tensor | None = None, averages: list[Tensor] | None = None,
) -> Attend | None:
    """c_t of h_t for this source; None for a model without attention.

    prefix: of the names of its weights. f (S, B, E): the vectors that the lexical module averages.
    The average (B, T, E) is appended to `averages`.
    """
    if config.attention == "none":
        return None
    score = "concat-identity" if config.concat_identity else config.score
    how = Attention(score, config.attention, config.window, config.renormalise, reverse_source)
    w = {name.removeprefix(f"{prefix}."): W for name, W in parameters.items()
         if name.startswith(f"{prefix}.")}
    memory = remember(how, w, hbar, lengths, config.hidden_size)
    if f is None or averages is None:
        return lambda h, t: context(how, w, memory, h, t)
    words, kept = memory._replace(states=f.transpose(0, 1)), averages

    def attend(h: Tensor, t: int) -> Tensor:
        kept.append(context(how, w, words, h, t))
        return context(how, w, memory, h, t)

    return attend


# --- target -------------------------------------------------------------------------------------


def decode(
    config: Any, parameters: Parameters, x: Tensor, first: list[State], masks: Masks,
    attend: Attend | None,
) -> tuple[Tensor, Sequence[Tensor]]:
    """The inputs of the output layer and of W_c, after dropout. x: (T, B, E).

    h~_1 .. h~_T (T, B, H), and of each step [c_t; h_t] (B, He + H); without attention h_1 .. h_T
    (T, B, H) twice.
    """
    how = decode_feeding if config.input_feeding else decode_at_once
    return how(config, parameters, x, first, masks, attend)


def decode_at_once(
    config: Any, parameters: Parameters, x: Tensor, first: list[State], masks: Masks,
    attend: Attend | None,
) -> tuple[Tensor, Sequence[Tensor]]:
    """`decode` without input feeding: all steps at once."""
    h, _ = stack(config, parameters, "decoder", config.layers, x, first, masks)
    if attend is None:
        h = drop(h, masks, "decoder.joined")
        return h, h.unbind()
    c = attend(h.transpose(0, 1), 1).transpose(0, 1)
    joined = drop(torch.cat([c, h], dim=2), masks, "decoder.joined")     # [c_t; h_t]
    return torch.tanh(F.linear(joined, parameters["attention.W_c"])), joined.unbind()  # (4.5)


def decode_feeding(
    config: Any, parameters: Parameters, x: Tensor, first: list[State], masks: Masks,
    attend: Attend | None,
) -> tuple[Tensor, Sequence[Tensor]]:
    """`decode` where h~_{t-1} is part of layer 1's input (4.2.3).

    Without attention h_t stands for h~_t, and what the output layer reads is dropped after it.
    """
    cells = [cell(config, parameters, f"decoder.{l}") for l in range(config.layers)]
    sites = {"decoder.fed", *(f"decoder.{l}" for l in range(1, config.layers))}
    sites = (sites | {"decoder.joined"} if attend else sites) & masks.keys()
    states, h_tilde, vectors, read = first, torch.zeros_like(first[0][0]), [], []
    for t, x_t in enumerate(drop(x, masks, "decoder.0").unbind()):
        states, h_tilde, joined = step_feeding(
            cells, parameters.get("attention.W_c"), x_t, states, h_tilde,
            None if attend is None else one_step(attend, t + 1),
            {site: masks[site][t] for site in sites}, config.residual)
        vectors.append(h_tilde)
        read.append(joined)
    out = torch.stack(vectors)
    if attend:
        return out, read
    out = drop(out, masks, "decoder.joined")
    return out, out.unbind()


def one_step(attend: Attend, t: int) -> Callable[[Tensor], Tensor]:
    """The function from h_t (B, H) to c_t (B, He)."""
    return lambda h: attend(h[:, None], t)[:, 0]


def step_feeding(
    cells: list[Step], W_c: Tensor | None, x: Tensor, states: list[State], h_tilde: Tensor,
    attend: Callable[[Tensor], Tensor] | None, masks: Masks, residual: bool = False,
) -> tuple[list[State], Tensor, Tensor]:
    """Every layer's state at time t, h~_t (B, H), and its input [c_t; h_t], or h_t without
    attention.

    cells: of each layer, from `recurrent.cell`. x: (B, E), the embedding of y_{t-1}. h_tilde:
    h~_{t-1}. attend: from h_t (B, H) to c_t (B, He), or None. masks: of time t.
    """
    h, after = torch.cat([x, drop(h_tilde, masks, "decoder.fed")], dim=1), []  # (4.2.3)
    for l, (run, state) in enumerate(zip(cells, states, strict=True)):  # Algorithm 3 line 8
        after.append(run(drop(h, masks, f"decoder.{l}"), state))
        h = after[-1][0] + h if residual and l else after[-1][0]
    if attend is None or W_c is None:
        return after, h, h
    joined = drop(torch.cat([attend(h), h], dim=1), masks, "decoder.joined")  # [c_t; h_t]
    return after, torch.tanh(F.linear(joined, W_c)), joined      # (4.5)
