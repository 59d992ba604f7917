"""The softmax over target words with optional terms, in any combination that `ModelConfig` allows:

- fixnorm: h~ is scaled to a fixed length, h~ <- r h~ / |h~| (Nguyen 3.2.3). The parametrization
  `Normalized` scales the words' vectors; input feeding reads h~ before the scaling;
- the lexical module (`nmt.models.heads.lexical`), whose vector stands beside h~;
- a lexicon's bias on the logits (`nmt.models.heads.lexicon`);
- a sampled vocabulary in training (`lstm.sampled`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from attention.norm_cache import NormCache
from attention.norms import scale_norm_backward, scale_norm_forward
from backend import Array
from backend.workspace import Workspace
from lstm.parameters import Weight
from lstm.prediction import (
    Bias,
    OutputCache,
    bias_backward,
    bias_of_rows,
    output_backward,
    output_forward,
    output_step,
    prediction_forward,
)
from lstm.sampled import SITE, SampledCache, sample_of, sampled_backward, sampled_forward
from nmt.data.batches import Batch, Side
from nmt.data.lexicon import BatchEntries, Lexicon
from nmt.models.contract import Gradients, Losses, Noise
from nmt.models.heads.head import Decoded, HeadState
from nmt.models.heads.lexical import SITE as LEXICAL_SITE
from nmt.models.heads.lexical import (
    LexicalCache,
    lexical_backward,
    lexical_forward,
    lexical_step,
    lexical_weights,
)
from nmt.models.heads.lexicon import (
    LexiconCache,
    batch_entries,
    lexicon_backward,
    lexicon_forward,
    lexicon_step,
)
from nmt.models.heads.softmax import Softmax
from nmt.models.translator_config import ModelConfig


class TermsCache(NamedTuple):
    losses: Losses
    output: OutputCache | SampledCache  # SampledCache with a sampled vocabulary
    length: NormCache | None  # of h~, if it is scaled to a length
    lexical: LexicalCache | None
    lexicon: LexiconCache | None


def has_terms(config: ModelConfig) -> bool:
    """Whether a configuration has one of the terms."""
    return config.lexical or any(option is not None for option in (
        config.output_norm, config.lexicon_epsilon, config.target_sample))


class SoftmaxWithTerms(Softmax):
    """The head of Luong's translator with fixnorm, lexical module, lexicon or sampled vocabulary.
    """

    def __init__(
        self, config: ModelConfig, target_size: int, workspace: Workspace,
        lexicon: Lexicon | None = None, reverse_source: bool = False,
    ) -> None:
        """lexicon: with `config.lexicon_epsilon`. reverse_source: whether sources are reversed."""
        super().__init__(config, target_size, workspace)
        self.lexicon, self.epsilon = lexicon, config.lexicon_epsilon or 0.0
        self.reverse_source = reverse_source
        terms = {"alignment", "source"} if config.lexical else {"alignment"} if lexicon else set()
        self.reads = frozenset({"h_tilde", *terms})
        if config.lexical:
            self.mask_widths = {LEXICAL_SITE: config.embedding_size}       # of h^l

    def weights(self) -> dict[str, Weight]:
        """The weights of the softmax, and of the lexical module."""
        config, weights = self.config, super().weights()
        if config.lexical:
            weights |= lexical_weights("lexical", config.embedding_size, self.target_size,
                                       config.scheme)
        return weights

    def noise(self, batch: Batch, rng: np.random.Generator, dtype: DTypeLike) -> Noise:
        """The words sampled for the batch."""
        return sample_of(self.config, batch, self.target_size, rng, dtype)

    # --- training -------------------------------------------------------------------------------

    def forward(
        self, parameters: Mapping[str, Array], decoded: Decoded, batch: Batch, noise: Noise
    ) -> tuple[Array, TermsCache]:
        """As the softmax's; of a sampled vocabulary, its estimate."""
        h, config = decoded.h_tilde, self.config                           # (T, B, H)
        length = lexical = lexicon = bias = None
        if config.output_norm is not None:
            h, length = scale_norm_forward(h, config.output_norm)
        if config.lexical:
            h, parameters, lexical = lexical_forward(
                "lexical", parameters, h, decoded.source, decoded.alignment, config.output_norm,
                noise.get(LEXICAL_SITE))
        if self.lexicon is not None:
            words, p = self._entries(batch.sources, h)
            values, lexicon = lexicon_forward(decoded.alignment, p, self.epsilon)
            bias = bias_of_rows(Bias(words, values), batch.target.lengths)
        arguments = ("output", parameters, h, batch.target_out, batch.target.lengths,
                     self.workspace)
        predict = partial(prediction_forward, bias=bias)
        loss, output = (sampled_forward(*arguments, noise[SITE]) if SITE in noise
                        else output_forward(*arguments, predict=predict))
        return loss, TermsCache(Losses(loss), output, length, lexical, lexicon)

    def backward(self, cache: TermsCache) -> tuple[Decoded, Gradients]:
        """Gradients of h~ and of the other inputs of the terms."""
        _, output, length, lexical, lexicon = cache
        if isinstance(output, SampledCache):
            dh, gradients = sampled_backward(output, self.workspace)
        else:
            dh, gradients = output_backward(output, self.workspace)
        d_align = d_source = None
        if lexical is not None:
            dh, d_align, d_source, gradients = lexical_backward(dh, gradients, lexical)
        if lexicon is not None:
            assert isinstance(output, OutputCache)  # not with a sampled vocabulary
            of_lexicon = lexicon_backward(bias_backward(output), lexicon)
            d_align = of_lexicon if d_align is None else d_align + of_lexicon
        if length is not None:
            dh, _ = scale_norm_backward(dh, length)
        return Decoded(dh, alignment=d_align, source=d_source), gradients

    def _entries(self, sources: tuple[Side, ...], like: Array) -> BatchEntries:
        """The lexicon of a batch's sources, in the real dtype of an array."""
        assert self.lexicon is not None
        return batch_entries(self.lexicon, sources[0], self.reverse_source, like.real.dtype)

    # --- search ---------------------------------------------------------------------------------

    def start(
        self, parameters: Mapping[str, Array], sources: tuple[Side, ...], read: Decoded
    ) -> HeadState:
        """The data of the sources that the terms read."""
        entries = (None if self.lexicon is None
                   else self._entries(sources, parameters["output.W_hy"]))
        return HeadState(read.source, entries)

    def step(
        self, parameters: Mapping[str, Array], state: HeadState, decoded: Decoded,
        tokens: np.ndarray,
    ) -> tuple[Array, HeadState]:
        """Logits (N, V) from h~ (N, H) and the alignment (N, S)."""
        h, config = decoded.h_tilde, self.config
        if config.output_norm is not None:
            h, _ = scale_norm_forward(h, config.output_norm)
        logits = output_step("output", parameters, h)                      # (N, V)
        if state.source is not None:
            logits += lexical_step(
                "lexical", parameters, state.source, decoded.alignment, config.output_norm)
        if state.entries is not None:
            lexicon_step(logits, decoded.alignment, state.entries, self.epsilon)
        return logits, state

    def select(self, state: HeadState, rows: Array, sentences: Array) -> HeadState:
        """Keep some sentences."""
        source, entries, _ = state
        return state._replace(
            source=None if source is None else source[sentences],
            entries=entries and BatchEntries(*(array[sentences] for array in entries)))
