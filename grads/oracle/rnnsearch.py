"""PyTorch twins of RNNsearch, RNNencdec and their parts; see `grads.oracle`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from grads.oracle.units import Options, Tensors, run_cell, run_layer, summed_loss
from nmt.models.rnnsearch import RNNSearchConfig
from nmt.text.batches import make_batch


def deep_layer(a: Tensors, facts: Options, options: Options) -> dict[str, Tensor]:
    """Maxout over pairs, or tanh."""
    return {"t": hidden(a["t_tilde"], options["layer"])}


def hidden(t_tilde: Tensor, layer: str) -> Tensor:
    """The units of the output's hidden layer."""
    if layer == "tanh":
        return t_tilde.tanh()
    return t_tilde.unflatten(1, (-1, 2)).amax(dim=2)


def deep_output(a: Tensors, facts: Options, options: Options) -> dict[str, Tensor]:
    """t from rows of states, words and contexts."""
    return {"t": deep(a, (a["s"], a["y"], a["c"]), options["layer"])}


def deep(a: Tensors, parts: Sequence[Tensor], layer: str) -> Tensor:
    """One linear map of all that is read, side by side."""
    matrix = torch.cat([a[f"output.{name}"] for name in ("U_o", "V_o", "C_o")], dim=1)
    return hidden(functional.linear(torch.cat(list(parts), dim=1), matrix, a.get("output.b_t")),
                  layer)


def first_state(a: Tensors, facts: Options, options: Options) -> dict[str, Tensor]:
    """tanh of a linear map."""
    return {"s_0": begin(a, a["last"])}


def begin(a: Tensors, last: Tensor) -> Tensor:
    """s_0."""
    return functional.linear(last, a["bridge.W_s"], a.get("bridge.b")).tanh()


def look(a: Tensors, s: Tensor, h: Tensor, keys: Tensor) -> Tensor:
    """c (1, He) of one sentence: s (1, H), annotations h (S, He), keys U_a h (S, H)."""
    e = (functional.linear(s, a["attention.W_a"]) + keys).tanh() @ a["attention.v_a"]
    return e.softmax(dim=0)[None] @ h


def turn(a: Tensors, unit: str, y: Tensor, c: Tensor, s: Tensor) -> Tensor:
    """s_i."""
    weights = a["decoder.0.T"], a.get("decoder.0.b")
    return run_cell(unit, torch.cat([y, c], dim=1), (s,), weights)[0]


def context_decoder(a: Tensors, facts: Options, options: Options) -> dict[str, Tensor]:
    """Sentence after sentence: all states, words and contexts."""
    found: dict[str, list[Tensor]] = {"s": [], "y": [], "c": []}
    words = functional.embedding(torch.tensor(facts["ids"]), a["decoder.W_e"])  # (T, B, E)
    T, B, _ = words.shape
    for b in range(B):
        S, s = int(facts["lengths"][b]), a["s_0"][b : b + 1]
        states, contexts = [s], []
        for i in range(T):
            c = (look(a, s, a["hbar"][b, :S], a["keys"][b, :S]) if "hbar" in a
                 else a["fixed"][b : b + 1])
            s = turn(a, facts["unit"], words[i, b : b + 1], c, s)
            states.append(s)
            contexts.append(c)
        found["s"].append(torch.cat(states))
        found["c"].append(torch.cat(contexts))
    if not B:
        H, He = a["s_0"].shape[1], a["fixed"].shape[1]
        return {"s": words.new_zeros(T + 1, 0, H), "y": words, "c": words.new_zeros(T, 0, He)}
    return {"s": torch.stack(found["s"], dim=1), "y": words, "c": torch.stack(found["c"], dim=1)}


def rnnsearch(a: Tensors, facts: Options, options: Options) -> dict[str, Tensor]:
    """A whole model, sentence after sentence and word after word."""
    config, batch = facts["config"], facts["batch"]
    ends = (".forward", ".backward") if config.context == "search" else ("",)
    weights = [(a[f"encoder.0{end}.T"], a.get(f"encoder.0{end}.b")) for end in ends]
    loss = a["bridge.W_s"].new_zeros(())
    for b in range(len(batch.indices)):
        x = torch.tensor(batch.sources[0].ids[: batch.sources[0].lengths[b], b])
        v = functional.embedding(x, a["encoder.W_e"])[:, None]
        zero = (v.new_zeros(1, config.hidden_size),)
        h, last = run_layer(config.unit, v, [zero] * len(ends), weights, None)
        s = begin(a, last[-1][0])
        for i in range(int(batch.target.lengths[b])):
            y = a["decoder.W_e"][int(batch.target_in[i, b])][None]
            c = last[0][0]
            if config.context == "search":
                c = look(a, s, h[:, 0], functional.linear(h[:, 0], a["attention.U_a"]))
            after = turn(a, config.unit, y, c, s)
            t = deep(a, (s if config.deep_state == "before" else after, y, c), config.layer)
            loss = loss + summed_loss(t, batch.target_out[i, b : b + 1], a["output.W_o"],
                                      a.get("output.b"))
            s = after
    return {"loss": loss}


# --- the derivations: matrices apart as in the paper, one sentence after another ------------------


def stacked(a: Tensors, prefix: str = "") -> dict[str, Tensor]:
    """T = [W C U] and b of a unit, its gates r, z and the proposal from above."""
    gates, names = ("_r", "_z", ""), [m for m in "WCU" if f"{prefix}{m}" in a]
    found = {"T": torch.cat([torch.cat([a[f"{prefix}{m}{gate}"] for m in names], dim=1)
                             for gate in gates])}
    if f"{prefix}b" in a:
        found["b"] = torch.cat([a[f"{prefix}b{gate}"] for gate in gates])
    return found


def derived_step(a: Tensors, facts: Options, options: Options) -> dict[str, Tensor]:
    """One step from columns."""
    read = torch.cat([a[name] for name in ("x", "c") if name in a]).T
    made = stacked(a)
    return {"after": run_cell("gru", read, (a["before"].T,), (made["T"], made.get("b")))[0].T}


def derived_rnnsearch(a: Tensors, facts: Options, options: Options) -> dict[str, Tensor]:
    """The whole model; both units and the output as the product has them."""
    prefixes = ("encoder.0.forward.", "encoder.0.backward.", "decoder.0.")
    kept = {name: value for name, value in a.items() if not name.startswith(prefixes)}
    for prefix in prefixes:
        kept |= {f"{prefix}{name}": value for name, value in stacked(a, prefix).items()}
    config = RNNSearchConfig(hidden_size=len(a["bridge.W_s"]), deep_state=facts["deep_state"])
    batch = make_batch(facts["sentences"], range(len(facts["sentences"])), reverse_source=False)
    return rnnsearch(kept, {"config": config, "batch": batch}, options)


TWINS = {
    "derivation gru": derived_step, "derivation rnnsearch": derived_rnnsearch,
    "deep layer": deep_layer, "deep output": deep_output, "first state": first_state,
    "context decoder": context_decoder, "rnnsearch": rnnsearch,
}
