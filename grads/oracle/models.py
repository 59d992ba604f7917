"""PyTorch twins of the catalogue's entries of `nmt.models` and of whole models; `grads.oracle`.

The parts are put together from `grads.oracle.units`; whole translators are the benchmarks' peer,
`benchmarks.peer_torch.TorchTranslator`, which reads our parameters by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional

from attention.way import Way
from benchmarks import peer_attention
from benchmarks.peer_torch import TorchTranslator
from grads.oracle import STATES, recurrent_weights
from grads.oracle.units import (
    Options,
    State,
    Tensors,
    dropped,
    look,
    named,
    run_cell,
    run_layer,
    run_stack,
    state_of,
    summed_loss,
)
from nmt.models.translator import ModelConfig
from nmt.text.vocabulary import END


class Masks(NamedTuple):
    """Frozen dropout of the decoder, or None in each place."""

    layers: Sequence[np.ndarray | None]  # of each layer's input, (T, B, width)
    joined: np.ndarray | None  # of [c_t; h_t]


Memory = Callable[[Tensor, int], Tensor]  # h (B, Q, H), time of the first -> contexts (B, Q, He)


def remember(hbar: Tensor, keys: Tensor, lengths: np.ndarray | None) -> Memory:
    """A memory for global attention by products: hbar (B, S, He), keys (B, S, H), lengths (B,)."""
    return lambda h, t: look(h, hbar, keys, lengths)


def bridge(a: Tensors, facts: Options, options: Options) -> dict[str, Tensor]:
    """tanh(W [h; c]) a layer, each the two ends side by side; or the last states as they are."""
    config: ModelConfig = facts["config"]
    directions = 2 if config.bidirectional else 1
    first: list[Sequence[Tensor]] = []
    for layer in range(config.layers):
        ends = [state_of(a, f"last.{layer}.{d}", config.unit) for d in range(directions)]
        if not config.bridge:
            first.append([part * 1.0 for part in ends[0]])
            continue
        joined = torch.cat([part for parts in zip(*ends, strict=True) for part in parts], dim=1)
        out = functional.linear(joined, a[f"bridge.{layer}.W"]).tanh()
        first.append(out.chunk(STATES[config.unit], dim=1))
    return named("first", first)


def encoder(a: Tensors, facts: Options, options: Options) -> dict[str, Tensor]:
    """Embeddings and layers, from zero states."""
    config: ModelConfig = facts["config"]
    x = functional.embedding(torch.tensor(facts["ids"]), a["encoder.W_e"])
    zero = (x.new_zeros(x.shape[1], config.hidden_size),) * STATES[config.unit]
    initial = [[zero] * (2 if config.bidirectional else 1)] * config.layers
    h, last = run_stack(
        a, "encoder", config.unit, x, initial, facts["lengths"], facts["masks"]
    )
    return {"states": h, **named("last", last)}


def decoder(a: Tensors, facts: Options, options: Options) -> dict[str, Tensor]:
    """Embeddings, layers and attention over a padded memory."""
    config: ModelConfig = facts["config"]
    initial = [state_of(a, f"initial.{layer}", config.unit) for layer in range(config.layers)]
    memory = None
    if config.attention != "none":
        memory = remember(a["hbar"], a["keys"], facts["lengths"])
    masks = Masks(facts["masks"], facts["joined_mask"])
    return {"h": decode(a, config, facts["ids"], initial, memory, masks)}


def decode(
    a: Tensors, config: ModelConfig, ids: np.ndarray, initial: list[State],
    memory: Memory | None, masks: Masks,
) -> Tensor:
    """What the output layer reads (T, B, H): under input feeding step by step, else all at once."""
    x = functional.embedding(torch.tensor(ids), a["decoder.W_e"])
    if config.input_feeding and memory is not None:
        return feed(a, config, x, list(initial), memory, masks)
    first = [[state] for state in initial]
    h, _ = run_stack(a, "decoder", config.unit, x, first, None, masks.layers)
    if memory is None:
        return dropped(h, masks.joined)
    c = memory(h.transpose(0, 1), 1).transpose(0, 1)
    return attentional_vector(a, c, h, masks.joined)


def feed(
    a: Tensors, config: ModelConfig, x: Tensor, states: list[State], memory: Memory, masks: Masks
) -> Tensor:
    """h~ (T, B, H), the one of step t - 1 beside the embedding of step t (section 4.2.3)."""
    outs: list[Tensor] = []
    h_tilde = torch.zeros_like(states[0][0])
    for t in range(len(x)):
        now = [None if mask is None else mask[t] for mask in (*masks.layers, masks.joined)]
        h = torch.cat([dropped(x[t], now[0]), h_tilde], dim=1)
        for layer in range(config.layers):
            name = f"decoder.{layer}"
            weights = (a[f"{name}.T"], a.get(f"{name}.b"))
            read = dropped(h, now[layer]) if layer else h
            states[layer] = run_cell(config.unit, read, states[layer], weights)
            h = states[layer][0]
        h_tilde = attentional_vector(a, memory(h[:, None], t + 1)[:, 0], h, now[-1])
        outs.append(h_tilde)
    return torch.stack(outs)


def remember_any(a: Tensors, way: Way, hbar: Tensor, lengths: Sequence[int]) -> Memory:
    """A memory for any way, as the benchmarks' peer has it; no sentence is padded."""
    weights = {name.split(".")[1]: a[name] for name in a if name.startswith("attention.")}
    kept = peer_attention.Memory(hbar, peer_attention.make_keys(way, weights, hbar), None,
                                 torch.tensor(lengths))
    return lambda h, t: peer_attention.look(way, weights, h, kept, t)


def attentional_vector(a: Tensors, c: Tensor, h: Tensor, mask: np.ndarray | None) -> Tensor:
    """tanh(W_c [c_t; h_t]) (Eq. 4.5)."""
    joined = dropped(torch.cat([c, h], dim=-1), mask)
    return functional.linear(joined, a["attention.W_c"]).tanh()


def output(a: Tensors, facts: Options, options: Options) -> dict[str, Tensor]:
    """The summed loss of the real words."""
    targets, lengths = facts["targets"], facts["lengths"]
    real = np.arange(len(targets))[:, None] < lengths
    h = a["h"][torch.tensor(real)]
    return {"loss": summed_loss(h, targets[real], a["output.W_hy"], a.get("output.b"))}


def translator(a: Tensors, facts: Options, options: Options) -> dict[str, Tensor]:
    """The peer of the benchmarks, holding our tensors."""
    config: ModelConfig = facts["config"]
    if config.unit == "gru":  # the peer is made of PyTorch's own modules, and has none
        return assembled(a, facts, options)
    source, target = (len(a[f"{side}.W_e"]) for side in ("encoder", "decoder"))
    peer = TorchTranslator(config, source, target, facts["reverse"]).double()
    names = {id(parameter): name for name, parameter in peer.named_parameters()}
    weights: dict[str, Any] = {names[id(where)]: a[name] for name, where in peer.plain()}
    for name, ih, hh, bias in peer.recurrent:
        made = recurrent_weights(config.unit, a[f"{name}.T"], a.get(f"{name}.b"))
        weights |= {names[id(ih)]: made["weight_ih"], names[id(hh)]: made["weight_hh"]}
        if bias is not None:
            weights[names[id(bias)]] = made["bias_ih"]
    masks = (facts["encoder_masks"], (facts["decoder_masks"], facts["joined_mask"]))
    return {"loss": functional_call(peer, weights, (facts["batch"], masks))}


def assembled(a: Tensors, facts: Options, options: Options) -> dict[str, Tensor]:
    """A translator put together from the twins of its parts."""
    config: ModelConfig = facts["config"]
    read = encoder(a, {**facts, "ids": facts["source_ids"], "masks": facts["encoder_masks"]}, {})
    begin = bridge({**a, **read}, facts, {})
    initial = [state_of(begin, f"first.{layer}", config.unit) for layer in range(config.layers)]
    memory = None
    if config.attention != "none":
        hbar, W_a = read["states"].transpose(0, 1), a.get("attention.W_a")
        keys = hbar if W_a is None else functional.linear(hbar, W_a)
        memory = remember(hbar, keys, facts["lengths"])
    masks = Masks(facts["decoder_masks"], facts["joined_mask"])
    h = decode(a, config, facts["target_in"], initial, memory, masks)
    found = {"targets": facts["target_out"], "lengths": facts["target_lengths"]}
    return output({**a, "h": h}, found, {})


# --- the derivations: one sentence after another, first states as columns (H, 1) -----------------


def derived_language_model(a: Tensors, facts: Options, options: Options) -> dict[str, Tensor]:
    """Algorithms 1 and 2: the losses of all sentences, each from the same first state."""
    first = tuple(a[name].T for name in ("h_0", "c_0")[: STATES[facts["unit"]]])
    loss = a["W_e"].new_zeros(())
    for x, y in facts["sentences"]:
        v = functional.embedding(torch.tensor(x), a["W_e"])[:, None]
        h, _ = run_layer(facts["unit"], v, [first], [(a["T"], a.get("b"))], None)
        loss = loss + summed_loss(h[:, 0], np.array(y), a["W_hy"], a.get("b_hy"))
    return {"loss": loss}


def derived_translation(a: Tensors, facts: Options, options: Options) -> dict[str, Tensor]:
    """Algorithm 4 with and without attention: the losses of all pairs."""
    config: ModelConfig = facts["config"]
    whole: list[np.ndarray | None] = [None] * config.layers
    first = [[(a[f"h_0.{l}"].T, a[f"c_0.{l}"].T)] for l in range(1, config.layers + 1)]
    loss = a["encoder.W_e"].new_zeros(())
    for x, y in facts["sentences"]:
        v = functional.embedding(torch.tensor(x), a["encoder.W_e"])[:, None]
        states, last = run_stack(a, "encoder", config.unit, v, first, None, whole)
        memory = None
        if config.attention != "none":
            way = config.way(facts["reverse"])
            memory = remember_any(a, way, states.transpose(0, 1), [len(x)])
        h = decode(a, config, np.array([[END, *y]]).T, [ends[0] for ends in last], memory,
                   Masks(whole, None))
        targets = np.array([*y, END])
        loss = loss + summed_loss(h[:, 0], targets, a["output.W_hy"], a.get("output.b"))
    return {"loss": loss}


TWINS = {
    "bridge": bridge, "encoder": encoder, "decoder": decoder, "output": output,
    "translator": translator, "derivation language model": derived_language_model,
    "derivation translation": derived_translation,
}
