"""The interface of models: what they declare for training, search and the generated checks.

A model holds no parameters and no state between passes: they are passed in and returned. Whatever
is trained is `Trainable`; whatever is searched is `Searchable`, a model as well as an ensemble.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import DTypeLike

from backend import Array
from backend.errors import UserError
from backend.rows import Gradient
from lstm.cells import CELLS
from lstm.parameters import Parameters, Weight, initialise
from nmt.data.batches import Batch, Side
from nmt.data.lexicon import Lexicon

Gradients = dict[str, Gradient]  # names of `weights()`; a RowGradient of a table
Noise = Mapping[str, Array]  # dropout masks by site
SHOWN = 8  # words of a sentence that a message names it by
NEVER = 1e6  # limit of element-wise clipping above all gradients in the catalogue
PLAIN = tuple(unit for unit in CELLS if unit != "lstm-norm")  # which has variants of its own there


class Losses(NamedTuple):
    """Parts of a loss, 0-d arrays in nats."""

    words: Array  # from which perplexity is computed; the loss itself where there is nothing else
    characters: Array | None = None  # of words that are spelled
    lengths: Array | None = None  # of the targets' lengths, a part of the words' too


class Cache(Protocol):
    """What everybody may read of a model's cache; the rest is its own."""

    @property
    def losses(self) -> Losses:
        """The parts of the loss."""
        ...

    @property
    def state(self) -> Any:
        """Where the next batch of a model of streams goes on; None of other models."""
        ...


class Trainable(Protocol):
    """A model with a loss and, derived by hand, its gradient."""

    config: Any  # frozen dataclass: the recipe's `model:` section of this architecture

    def weights(self) -> dict[str, Weight]:
        """All parameters by name, in the order in which they are initialised."""
        ...

    def noise(self, batch: Batch, rng: np.random.Generator, dtype: DTypeLike) -> Noise | None:
        """Dropout masks by site, drawn from `rng` in `dtype`; None where nothing is dropped."""
        ...

    def loss(
        self, parameters: Mapping[str, Array], batch: Batch, noise: Noise | None = None
    ) -> tuple[Array, Cache]:
        """The loss, 0-d, in nats, summed over target tokens; and what `backward` reads.

        noise, from `noise`; None switches dropout off.
        """
        ...

    def backward(self, cache: Any) -> Gradients:
        """The gradient of the loss with respect to every parameter, by name."""
        ...


class Searchable(Protocol):
    """What search asks of a model, an ensemble or a fusion.

    A state belongs to B' sentences with k rows each, grouped by sentence: rows i*k .. (i+1)*k - 1
    are the hypotheses of sentence i. After `encode`, k is 1.
    """

    scores: bool = False  # whether `step` returns scores, which are added up without a softmax
    counts_down: bool = False  # whether lengths are predicted in place of the end marker: Counting

    def encode(
        self, parameters: Mapping[str, Array], sources: tuple[Side, ...], rows: int
    ) -> Any:
        """The state of `rows` sentences before the first word; a language model has no sources."""
        ...

    def step(
        self, parameters: Mapping[str, Array], state: Any, tokens: np.ndarray
    ) -> tuple[Array, Any, Array | None]:
        """Feed one token per row; return logits (N, V), the new state, and an alignment or None.

        The logits are unnormalised log-probabilities in nats; the alignment (N, at least the
        longest source still in the state), its columns in the order of the written words, must
        not be written to by later steps.
        """
        ...

    def select(self, state: Any, rows: np.ndarray, sentences: np.ndarray) -> Any:
        """Keep the given rows (N',) of the state and the given sentences (B',) of the state.

        Both count from 0 in the state handed in, not in the batch that was encoded.
        """
        ...


class Counting(Searchable, Protocol):
    """A searchable whose targets have no end marker: their lengths are predicted first."""

    def lengths(self, state: Any) -> Array:
        """The logits (B, L) of the target's length, 0 .. L - 1, of a state from `encode`."""
        ...

    def counting(self, state: Any, sentences: np.ndarray, lengths: np.ndarray) -> Any:
        """The state before the first of lengths (N,) words, at least 1, of sentences (N,) of a
        state from `encode`; ascending, a sentence may be there several times."""
        ...


def counts_down(config: Any) -> bool:
    """Whether the model of a configuration is `Counting`."""
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
    target: int  # size of the target's
    reverse_source: bool = False  # whether sources in the batches are reversed
    source_characters: int = 0  # size of the characters' vocabulary, if the model reads them
    target_characters: int = 0  # likewise, if it writes them
    factors: tuple[int, ...] = ()  # values of each factor of the source's words
    lexicon: Lexicon | None = None  # translations of the source's words, where a model has a bias


def check_positions(
    config: Any, lengths: np.ndarray, words: Callable[[int, int], Sequence[str]]
) -> None:
    """Raise UserError for a sentence with more steps than the configuration's `positions`, with
    the words that it begins with; without this option every length is allowed.

    lengths: (N, 1) of sources, or (N, 2) of sources and targets, in words or pieces; a target has a
    step more, `</s>`. words: those of a sentence, by its row and column of lengths.
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


def check_lengths_searched(
    config: Any, lengths: int, error: type[Exception] = UserError
) -> None:
    """Raise an error for several lengths to search with a model that does not count down."""
    if lengths > 1 and not counts_down(config):
        raise error("search.lengths: expected 1 without model.target_positions countdown, got "
                        f"{lengths}")


CHARACTERS = ("source_characters", "target_characters")  # fields of `Tables`


def character_tables(config: Any) -> tuple[str, ...]:
    """The names of the tables of characters that a model of this configuration needs."""
    return tuple(name for name in CHARACTERS if getattr(config, name, False))


class Variants(NamedTuple):
    """What the catalogue of gradient checks combines into configurations of an architecture."""

    choices: Mapping[str, Sequence[Any]]  # option -> its values, the usual one first
    together: tuple[str, ...] = ()  # options of which all combinations occur, and not only pairs


class Architecture(NamedTuple):
    """An entry of the registry: everything that the rest of the code knows of an architecture."""

    config: type  # its recipe section, a frozen dataclass that checks itself (ValueError)
    build: Callable[[Any, Tables], Any]  # the model of a configuration: Trainable, Searchable
    variants: Callable[[], Mapping[str, Variants]]  # by tier: tiny, of tiny sizes; real, of real
    # ones; every, all of whose combinations are checked, by default tiny's
    sources: int = 1  # sides that it reads; 0: it is trained on streams
