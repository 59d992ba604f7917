"""The interface of models: what they declare for training, search and the generated checks.

A model holds no parameters and no state between passes: they are passed in and returned. A model
that is trained is `Trainable`. A model or an ensemble that is searched is `Searchable`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import DTypeLike

from backend import Array
from backend.errors import UserError
from backend.rows import Gradient
from lstm.parameters import Parameters, Weight, initialise
from nmt.data.batches import Batch, Side
from nmt.data.lexicon import Lexicon
from nmt.models.variants import Variants

Gradients = dict[str, Gradient]  # names of `weights()`; a RowGradient of a table
Noise = Mapping[str, Array]  # dropout masks by site
SHOWN = 8  # words of a sentence that a message shows


class Losses(NamedTuple):
    """Parts of a loss, 0-d arrays in nats."""

    words: Array  # from it perplexity is computed; the loss itself if there are no other parts
    characters: Array | None = None  # of words that are spelled
    lengths: Array | None = None  # of the targets' lengths; it is also a part of the words' loss


class Cache(Protocol):
    """The parts of a model's cache that all code may read. Only the model reads the others."""

    @property
    def losses(self) -> Losses:
        """The parts of the loss."""
        ...

    @property
    def state(self) -> Any:
        """The state in which a model of streams starts its next batch; None for other models."""
        ...


class Trainable(Protocol):
    """A model with a loss and, derived by hand, its gradient."""

    config: Any  # frozen dataclass: the recipe's `model:` section of this architecture

    def weights(self) -> dict[str, Weight]:
        """All parameters by name, in the order in which they are initialised."""
        ...

    def noise(self, batch: Batch, rng: np.random.Generator, dtype: DTypeLike) -> Noise | None:
        """Dropout masks by site, drawn from `rng` in `dtype`; None if nothing is dropped."""
        ...

    def loss(
        self, parameters: Mapping[str, Array], batch: Batch, noise: Noise | None = None
    ) -> tuple[Array, Cache]:
        """The loss, 0-d, in nats, summed over target tokens; and the cache of `backward`.

        Arguments: noise, from `noise`; None switches dropout off.
        """
        ...

    def backward(self, cache: Any) -> Gradients:
        """The gradient of the loss with respect to every parameter, by name."""
        ...


class Searchable(Protocol):
    """The interface that search needs of a model, an ensemble or a fusion.

    A state belongs to B' sentences with k rows each, grouped by sentence: rows i*k .. (i+1)*k - 1
    are the hypotheses of sentence i. After `encode`, k is 1.
    """

    scores: bool = False  # whether `step` returns scores, which are summed without a softmax
    counts_down: bool = False  # whether lengths are predicted instead of the end marker: Counting

    def encode(self, parameters: Mapping[str, Array], sources: tuple[Side, ...], rows: int) -> Any:
        """The state of `rows` sentences before the first word. A language model has no sources."""
        ...

    def step(
        self, parameters: Mapping[str, Array], state: Any, tokens: np.ndarray
    ) -> tuple[Array, Any, Array | None]:
        """Feed one token per row. Return logits (N, V), the new state, and an alignment or None.

        The logits are unnormalised log-probabilities in nats; the alignment (N, at least the
        longest source still in the state), its columns in the order of the written words, must
        not be written to by later steps.
        """
        ...

    def select(self, state: Any, rows: np.ndarray, sentences: np.ndarray) -> Any:
        """Keep the given rows (N',) of the state and the given sentences (B',) of the state.

        Both are numbered from 0 in the given state, not in the batch that was encoded.
        """
        ...


class Counting(Searchable, Protocol):
    """A Searchable whose targets have no end marker. Their lengths are predicted first."""

    def lengths(self, state: Any) -> Array:
        """The logits (B, L) of the target's length, 0 .. L - 1, of a state from `encode`."""
        ...

    def counting(self, state: Any, sentences: np.ndarray, lengths: np.ndarray) -> Any:
        """The state before the first word, from a state that `encode` returned.

        Arguments: sentences (N,), ascending, in which a sentence may occur several times; lengths
        (N,), their numbers of words, at least 1."""
        ...


def counts_down(config: Any) -> bool:
    """Whether the model of this configuration is `Counting`."""
    return bool(getattr(config, "counts_down", False))


class Model(Trainable, Searchable, Protocol):
    """A model that is trained and searched."""

    def initial_parameters(
        self, rng: np.random.Generator, dtype: DTypeLike = "float32"
    ) -> Parameters:
        """Fresh parameters on the backend in use, drawn from `rng`."""
        return initialise(self.weights(), rng, dtype)


class Tables(NamedTuple):
    """The sizes of tables and other properties of the data that a model depends on."""

    sources: tuple[int, ...]  # size of each source's vocabulary
    target: int  # size of the target's vocabulary
    reverse_source: bool = False  # whether sources in the batches are reversed
    source_characters: int = 0  # size of the characters' vocabulary, if the model reads them
    target_characters: int = 0  # the same, if the model writes characters
    factors: tuple[int, ...] = ()  # number of values of each factor of the source's words
    lexicon: Lexicon | None = None  # translations of the source's words, if a model has such a bias


def check_positions(
    config: Any, lengths: np.ndarray, words: Callable[[int, int], Sequence[str]]
) -> None:
    """Raise UserError for a sentence with more steps than the configuration's `positions`.

    Without this option every length is allowed. The message shows the sentence's first words.
    Arguments: lengths, (N, 1) of sources, or (N, 2) of sources and targets, in words or pieces (a
    target has a further step, `</s>`); words, the function that returns the words of a sentence
    from its row and column of lengths.
    """
    most = getattr(config, "positions", None)
    if most is None or not len(lengths):
        return
    steps = lengths + np.array((0, 1)[: lengths.shape[1]])
    for column, side in enumerate(("source", "target")[: lengths.shape[1]]):
        longest = int(steps[:, column].argmax())
        if (number := int(steps[longest, column])) > most:
            sentence = words(longest, column)
            begin = " ".join([*sentence[:SHOWN], *["..."] * (len(sentence) > SHOWN)])
            raise UserError(f"{side}: expected sentences of at most {most} words or pieces "
                            f"(model.positions), got {number}, of {begin!r}")


def check_lengths_searched(config: Any, lengths: int, error: type[Exception] = UserError) -> None:
    """Raise an error for several lengths to search with a model that does not count down."""
    if lengths > 1 and not counts_down(config):
        raise error("search.lengths: expected 1 without model.target_positions countdown, got "
                        f"{lengths}")


CHARACTERS = ("source_characters", "target_characters")  # fields of `Tables`


def character_tables(config: Any) -> tuple[str, ...]:
    """The names of the character tables that a model of this configuration needs."""
    return tuple(name for name in CHARACTERS if getattr(config, name, False))


class Architecture(NamedTuple):
    """An entry of the registry: everything that other code knows of an architecture."""

    config: type  # its recipe section, a frozen dataclass that checks itself (ValueError)
    build: Callable[[Any, Tables], Any]  # the model of a configuration: Trainable, Searchable
    variants: Callable[[], Mapping[str, Variants]]  # by tier: tiny, at tiny sizes; real, at real
    # sizes; every, whose combinations are all checked, by default those of tiny
    sources: int = 1  # number of source sides; 0: the model is trained on streams
