"""The hybrid word-character model of Luong (2016), chapter 5, around the translator of `luong`.

Parameters: those of `luong`; `source_characters.W_e` (C, Ec) and a stack `source_characters` whose
states are as wide as a word's vector (E); `target_characters.W_e` (C, Ec), a stack
`target_characters` of the decoder's width (H), `target_characters.output.W_hy` (C, H) and `.b`;
`target_characters.W_c` (H, He + H), the W' of Eq. 5.6, with the separate path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from grads.verification.reference.luong import attention, decode, encode_vectors
from grads.verification.reference.recurrent import stack, zero_state
from grads.verification.reference.tokens import (
    Masks,
    Parameters,
    Spelled,
    State,
    drop,
    negative_log_likelihood,
    read_masks,
    read_source,
    read_spelled,
    read_target,
)

SOURCE, TARGET = "source_characters", "target_characters"


def loss(
    config: Any, parameters: Parameters, batch: Any,
    noise: Mapping[str, Any] | None = None, *, reverse_source: bool = False,
) -> Tensor:
    """J_w + alpha J_c, Eq. 5.5, in nats, summed over target tokens and their characters.

    config: `HybridConfig`. noise: `luong`'s sites, and of the length group g, counted from 0,
    `source_characters.{g}.{l}` and `target_characters.{g}.{l}` (L, N, width of the layer's input)
    and `target_characters.{g}.output` (L, N, H). reverse_source: the batch's sources are reversed;
    the characters of a word are never reversed.
    Returns a scalar.
    """
    W_e = parameters["decoder.W_e"]
    source, target, masks = read_source(batch, W_e), read_target(batch, W_e), read_masks(noise, W_e)
    x = F.embedding(source.ids, parameters["encoder.W_e"])       # (S, B, E)
    if config.source_characters:
        groups = read_spelled(batch.sources[0], W_e)
        x = represent(config, parameters, x, groups, masks)      # (5.3.2)
    hbar, first = encode_vectors(config, parameters, x, source.lengths, masks)
    attend = attention(config, parameters, hbar, source.lengths, reverse_source)
    y = F.embedding(target.inputs, W_e)                          # (T, B, E), <unk> as it is
    h_tilde, joined = decode(config, parameters, y, first, masks, attend)  # (5.4)
    J = negative_log_likelihood(                                 # J_w: (5.1), (5.2), (5.3)
        h_tilde, parameters["output.W_hy"], parameters.get("output.b"), target)
    if config.target_characters:
        groups = read_spelled(batch.target, W_e)
        seeds = seeds_of(config, parameters, h_tilde, joined)
        J = J + config.alpha * spell(config, parameters, seeds, groups, masks)  # (5.5)
    return J


# --- source (5.3.2) -----------------------------------------------------------------------------


def represent(
    config: Any, parameters: Parameters, x: Tensor, groups: Sequence[Spelled], masks: Masks
) -> Tensor:
    """x (S, B, E), in which each spelled word has the vector made of its characters."""
    vectors = x.flatten(0, 1)                                    # (S B, E)
    like = of_width(config, x.shape[2])
    for g, (word, places, words) in enumerate(groups):
        v = F.embedding(word.outputs, parameters[f"{SOURCE}.W_e"])  # (L, N, Ec)
        _, last = stack(like, parameters, SOURCE, config.character_layers, v, None,
                        masks_of(masks, SOURCE, g), lengths=word.lengths)
        vectors = vectors.index_copy(0, places, last[-1][0][words])  # the top layer's last h
    return vectors.view_as(x)


# --- target (5.3.3) -----------------------------------------------------------------------------


def seeds_of(
    config: Any, parameters: Parameters, h_tilde: Tensor, joined: Sequence[Tensor]
) -> Tensor:
    """The initial hidden state of a speller at each step and sentence, (T, B, H)."""
    if config.path == "same":
        return h_tilde
    return torch.tanh(F.linear(torch.stack(list(joined)), parameters[f"{TARGET}.W_c"]))  # (5.6)


def spell(
    config: Any, parameters: Parameters, seeds: Tensor, groups: Sequence[Spelled], masks: Masks
) -> Tensor:
    """J_c: -log p of the characters of all words, including boundaries. seeds: (T, B, H)."""
    J = seeds.new_zeros(())
    like = of_width(config, seeds.shape[2])
    for g, (word, places, words) in enumerate(groups):
        v = F.embedding(word.inputs, parameters[f"{TARGET}.W_e"])  # (L, N, Ec)
        seed = seeds.new_zeros(v.shape[1], seeds.shape[2])
        seed = seed.index_copy(0, words, seeds.flatten(0, 1)[places])  # (N, H): one a token
        group = masks_of(masks, TARGET, g)
        h, _ = stack(like, parameters, TARGET, config.character_layers, v,
                     first_states(like, config.character_layers, seed), group)
        J = J + negative_log_likelihood(
            drop(h, group, f"{TARGET}.output"), parameters[f"{TARGET}.output.W_hy"],
            parameters.get(f"{TARGET}.output.b"), word)
    return J


def first_states(like: Any, layers: int, seed: Tensor) -> list[State]:
    """Each layer's state: layer 1's hidden state is the seed (N, H), all other states are zero."""
    _, *cells = zero_state(like, seed[None])
    return [(seed, *cells), *(zero_state(like, seed[None]) for _ in range(layers - 1))]


# --- both ---------------------------------------------------------------------------------------


def of_width(config: Any, width: int) -> Any:
    """The fields of a configuration that `recurrent.stack` reads, with another width."""
    return SimpleNamespace(unit=config.unit, clip_elements=config.clip_elements, hidden_size=width)


def masks_of(masks: Masks, prefix: str, g: int) -> Masks:
    """The masks of a length group under the names of a stack's sites."""
    own_sites = f"{prefix}.{g}."
    return {f"{prefix}.{site.removeprefix(own_sites)}": mask for site, mask in masks.items()
            if site.startswith(own_sites)}
