"""The Transformer (Vaswani et al., 2017; Nguyen 1.2 and 3.3), sentences first: (B, T, d).

| norm | PyTorch |
|---|---|
| layer | `layer_norm` |
| rms | `rms_norm` |
| scale, fixed-scale | `normalize`, times g or sqrt(d) |
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from grads.verification.reference.tokens import (
    Masks,
    Parameters,
    Target,
    drop,
    negative_log_likelihood,
    read_masks,
    read_source,
    read_target,
    real,
)

EPS = 1e-5


def norm(kind: str, w: Parameters, name: str, x: Tensor) -> Tensor:
    """x (..., d) normalised."""
    d, g = x.shape[-1:], w.get(f"{name}.g")
    if kind == "layer":
        return F.layer_norm(x, d, g, w[f"{name}.b"], EPS)
    if kind == "rms":
        return F.rms_norm(x, d, g, EPS)
    return F.normalize(x, dim=-1, eps=EPS) * (d[0] ** 0.5 if g is None else g)  # (Nguyen 3.6)


def sinusoids(steps: int, width: int, like: Tensor) -> Tensor:
    """PE (T, d) (Nguyen 1.14, Nguyen 1.15)."""
    pos = torch.arange(steps, device=like.device, dtype=torch.float64)[:, None]
    i = torch.arange(width, device=like.device) // 2
    angle = pos * torch.exp(-torch.log(torch.tensor(1e4, dtype=torch.float64)) * 2 * i / width)
    even = torch.arange(width, device=like.device) % 2 == 0
    return torch.where(even, angle.sin(), angle.cos()).to(like)


def attention(
    w: Parameters, name: str, x: Tensor, memory: Tensor, heads: int, masked: Tensor | None,
    masks: Masks,
) -> Tensor:
    """(B, T, d) of x (B, T, d) and memory (B, S, d); masked, bool, broadcast to (B, n, T, S)."""
    q = F.linear(x, w[f"{name}.W_q"], w[f"{name}.b_q"])
    k = F.linear(memory, w[f"{name}.W_k"])
    v = F.linear(memory, w[f"{name}.W_v"], w[f"{name}.b_v"])
    q, k, v = (x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in (q, k, v))
    e = q @ k.mT / q.shape[-1] ** 0.5
    a = (e if masked is None else e.masked_fill(masked, -torch.inf)).softmax(-1)  # (Nguyen 1.8)
    a = drop(a.flatten(0, 1), masks, f"{name}.inner").unflatten(0, e.shape[:2])
    return F.linear((a @ v).transpose(1, 2).flatten(2), w[f"{name}.W_o"], w[f"{name}.b_o"])


def feed_forward(w: Parameters, name: str, x: Tensor, masks: Masks) -> Tensor:
    """W_2 max(0, W_1 x + b_1) + b_2 (Nguyen 1.13)."""
    u = F.relu(F.linear(x, w[f"{name}.W_1"], w[f"{name}.b_1"]))
    return F.linear(drop(u, masks, f"{name}.inner"), w[f"{name}.W_2"], w[f"{name}.b_2"])


def stack(
    config: Any, w: Parameters, side: str, ids: Tensor, masked: Tensor | None, masks: Masks,
    source: tuple[Tensor, Tensor | None] | None = None, places: Tensor | None = None,
) -> Tensor:
    """The output (B, T, d) of encoder or decoder.

    source: the states to which a decoder attends, and their mask. places: (B, T), the positions of
    the words if they are not 0, 1 .."""
    x = w[f"{side}.W_e"][ids.T] * config.hidden_size**0.5
    waves = sinusoids(x.shape[1], x.shape[2], x)
    x = drop(x + (waves if places is None else F.embedding(places, waves)), masks, side)
    for layer in range(config.encoder_layers if source is None else config.decoder_layers):
        for kind in ("attention", "source", "feed_forward"):
            name = f"{side}.{layer}.{kind}"
            if kind == "source" and source is None:
                continue
            read = norm(config.norm, w, f"{name}.norm", x) if config.pre_norm else x
            if kind == "feed_forward":
                z = feed_forward(w, name, read, masks)
            else:
                memory, hidden = source if kind == "source" and source else (read, masked)
                z = attention(w, name, read, memory, config.heads, hidden, masks)
            x = x + drop(z, masks, name)                        # (Nguyen 3.2)
            x = x if config.pre_norm else norm(config.norm, w, f"{name}.norm", x)
    return norm(config.norm, w, f"{side}.norm", x) if config.pre_norm else x


def loss(config: Any, parameters: Parameters, batch: Any, noise: Any = None) -> Tensor:
    """-log p(y | x) in nats, summed over target tokens; with a countdown -log of Eq. 4.1."""
    like = parameters["encoder.W_e"]
    source, target = read_source(batch, like), read_target(batch, like)
    masks = {site: mask if site.endswith(("attention.inner", "source.inner"))
             else mask.transpose(0, 1) for site, mask in read_masks(noise, like).items()}
    padding = ~real(source.lengths, len(source.ids)).T[:, None, None].to(like.device)
    memory = stack(config, parameters, "encoder", source.ids, padding, masks)
    places, of_length = None, 0.0
    if config.target_positions == "countdown":
        words, T = target.lengths - 1, max(len(target.inputs) - 1, 1)
        target = Target(target.inputs[:T], target.outputs[:T], words)
        places = (words[:, None] - 1 - torch.arange(T)).clamp(min=0).to(like.device)
        of_length = length_loss(parameters, memory, ~padding[:, 0, 0], words)
    T = len(target.inputs)
    future = torch.ones(T, T, dtype=torch.bool, device=like.device).triu(1)
    h = stack(config, parameters, "decoder", target.inputs, future, masks, (memory, padding),
              places)
    return of_length + negative_log_likelihood(
        h.transpose(0, 1), parameters["output.W_hy"], parameters.get("output.b"), target,
        config.label_smoothing)                                 # (Nguyen 4.1)


def length_loss(w: Parameters, memory: Tensor, known: Tensor, words: Tensor) -> Tensor:
    """-log p_length(m | x) in nats, summed over sentences (Nguyen 4.1.2).

    memory: (B, S, d). known: (B, S) bool, False on padding. words: (B,), m.
    """
    mean = (memory * known[..., None]).sum(1) / known.sum(1)[:, None]
    s = F.linear(mean, w["length.W"], w["length.b"])
    return F.cross_entropy(s, words.to(s.device), reduction="sum")
