"""The head of a hybrid model: a softmax over words, and a network that spells each target `<unk>`.

Source: Luong (2016), 5.3.3; the network is in `nmt.models.spelling`. J = J_w + alpha J_c (5.5).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from attention.attention import attentional_backward, attentional_forward
from backend import Array, array_module, to_device
from backend.rows import RowGradient
from backend.workspace import Workspace
from lstm.parameters import Weight, axis
from lstm.prediction import OutputCache
from lstm.sampled import SampledCache
from nmt.data.batches import Batch
from nmt.models.contract import CHARACTERS, Gradients, Losses, Noise, Tables
from nmt.models.heads.head import Decoded, HeadCache
from nmt.models.heads.softmax import Softmax
from nmt.models.hybrid_config import HybridConfig
from nmt.models.spelling import (
    Written,
    character_sites,
    check_characters,
    spelled_backward,
    spelled_forward,
    speller_weights,
)

SPELLER = CHARACTERS[1]  # name of the weights' prefix, the option and the table


class Seeds(NamedTuple):
    """The spellers' initial states for the words to spell, N in all groups together."""

    t: Array  # (N,) the steps that predict <unk>
    b: Array  # (N,) the sentences
    joined: Array | None  # (N, He + H), the input of W'
    seeds: Array  # (N, H)


class SpellingCache(NamedTuple):
    losses: Losses  # J_w and J_c; J_c is None if there is no word to spell
    words: HeadCache  # of the softmax
    parameters: Mapping[str, Array]
    seeds: Seeds | None  # None: no word to spell
    written: list[Written]

    @property
    def output(self) -> OutputCache | SampledCache:
        """The cache of the words' prediction layer."""
        return self.words.output


class Spelling(Softmax):
    """Predicts words, including `<unk>`, and spells each `<unk>`."""

    config: HybridConfig

    def __init__(self, config: HybridConfig, tables: Tables, workspace: Workspace) -> None:
        super().__init__(config, tables.target, workspace)
        self._characters = tables.target_characters
        self.stack = config.character_stack(config.hidden_size)  # its first state is as h~_t
        self.reads = frozenset({"h_tilde", "joined"} if config.seed_matrix else {"h_tilde"})

    def weights(self) -> dict[str, Weight]:
        """The softmax's weights, `speller_weights`, and on the separate path W', which makes the
        seeds, `target_characters.W_c` (H, He + H)."""
        config = self.config
        weights = super().weights() | speller_weights(
            SPELLER, self.stack, self._characters, config.character_embedding_size,
            config.output_bias, config.scheme)
        if config.seed_matrix:
            H, He = config.hidden_size, config.hidden_size * (1 + config.bidirectional)
            axes = axis("unit", H), axis("column", {"c": He, "h": H})
            weights[f"{SPELLER}.W_c"] = Weight(axes, config.scheme.matrix())
        return weights

    def character_sites(self, batch: Batch) -> dict[str, tuple[int, ...]]:
        """Shapes of the masks of `character_dropout`, by site."""
        config, groups = self.config, batch.target.characters
        sites = character_sites(SPELLER, self.stack, config.character_embedding_size, groups)
        if config.dropout_sites == "vertical":
            sites |= {f"{SPELLER}.{g}.output": (*group.ids.shape, config.hidden_size)
                      for g, group in enumerate(groups)}
        return sites

    def forward(
        self, parameters: Mapping[str, Array], decoded: Decoded, batch: Batch, noise: Noise
    ) -> tuple[Array, SpellingCache]:
        """J = J_w + alpha J_c (5.5), in nats, summed over words and characters.

        J_w is the softmax's loss, with `<unk>` as a word. J_c is the loss of the characters of each
        target token outside the vocabulary, and of the boundary after it. Other words are spelled
        if the batch has their characters (`character_sample`); `</s>` is never spelled. All words
        are decoded before the spelling: `<unk>` is fed back as its own embedding, "as is". The
        cache has both losses separately.
        Raises ValueError if the batch lacks the characters of an unknown word.
        """
        check_characters("target", batch.target_out, batch.target)
        J_w, words = super().forward(parameters, decoded, batch, noise)
        groups = batch.target.characters
        if not groups:
            return J_w, SpellingCache(Losses(J_w), words, parameters, None, [])
        seeds = self.seeds(parameters, decoded, np.concatenate([group.places for group in groups]))
        J_c, written = spelled_forward(SPELLER, self.stack, parameters, seeds.seeds, groups, noise,
                                       self.workspace)
        return J_w + self.config.alpha * J_c, SpellingCache(               # J  (5.5)
            Losses(J_w, J_c), words, parameters, seeds, written)

    def seeds(self, parameters: Mapping[str, Array], decoded: Decoded, places: np.ndarray) -> Seeds:
        """The spellers' initial states at places (N,) of the target's steps (T B).

        W' reads the same input as W_c, [c_t; h_t] after its dropout mask (the author's
        `attnInfos.input`).
        """
        B = decoded.h_tilde.shape[1]
        t, b = to_device(places // B), to_device(places % B)
        if not self.config.seed_matrix:
            return Seeds(t, b, None, decoded.h_tilde[t, b])                # h~_t, the same path
        joined = decoded.joined[t, b]                                      # (N, He + H)
        return Seeds(t, b, joined, attentional_forward(
            joined, parameters[f"{SPELLER}.W_c"]))                         # (5.6)

    def backward(self, cache: Any) -> tuple[Decoded, Gradients]:
        """The sum of the words' gradient and of alpha times the speller's gradient."""
        d, gradients = super().backward(cache.words)
        if cache.seeds is None:
            return d, gradients
        alpha, (t, b, joined, seeds) = self.config.alpha, cache.seeds
        d_seeds, of_speller = spelled_backward(cache.written, self.workspace)
        d_seeds = alpha * d_seeds                          # for the words' model too (5.5)
        gradients |= {name: _scaled(gradient, alpha) for name, gradient in of_speller.items()}
        if joined is None:
            d.h_tilde[t, b] += d_seeds                     # places are distinct
            return d, gradients
        W = cache.parameters[f"{SPELLER}.W_c"]
        d_rows, da = attentional_backward(d_seeds, seeds, W)               # (5.6)
        xp = array_module(d_rows)
        gradients[f"{SPELLER}.W_c"] = xp.matmul(da.T, joined)
        d_joined = xp.zeros((*d.h_tilde.shape[:2], W.shape[1]), dtype=d_rows.dtype)
        d_joined[t, b] = d_rows
        return d._replace(joined=d_joined), gradients


def _scaled(gradient: Any, alpha: float) -> Any:
    """alpha times a gradient. The gradient is an array or rows of a table."""
    if alpha == 1.0:
        return gradient
    if isinstance(gradient, RowGradient):
        return gradient._replace(values=alpha * gradient.values)
    return alpha * gradient
