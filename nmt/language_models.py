"""Training a language model on a text; perplexity; sampling from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from backend import Array, to_device, to_host
from backend.errors import UserError
from nmt.base_system import BaseSystem
from nmt.console.progress import counted
from nmt.data.batches import Batch, stream_batches
from nmt.data.corpus import LONGEST_OF_TEXT, read_lines, split_words, stream_lines
from nmt.data.letters import composed, letters
from nmt.data.stored import Lazy, StoredSentences, StoredText
from nmt.data.vocabulary import END, Vocabulary
from nmt.data.word_files import read_words
from nmt.evaluation.scores import perplexity
from nmt.models.language_model import LanguageModel
from nmt.recipe import LanguageModelRecipe, TextConfig
from nmt.run_directory import RunDirectory, Training
from nmt.search.sample import draw
from nmt.training.finite import naming_overflow
from nmt.training.progress import Observer

LINE_END = "\\n"  # two characters, so that it differs from every character of a text
WRITTEN = {" ": "\u2581", "\t": "\\t"}  # substitutes for characters that no vocabulary can hold


def tokens_of(lines: Sequence[str], level: str) -> list[str]:
    """A text as a stream of tokens: words with `</s>` after each line, or characters and line
    ends."""
    return [token for line in lines for token in _tokens_of_line(line, level)]


def _tokens_of_line(line: str, level: str) -> list[str]:
    """The tokens of a line and its end."""
    if level == "words":
        return [*split_words(line), "</s>"]
    return [*(WRITTEN.get(character, character) for character in letters(line)), LINE_END]


def text_of(tokens: Sequence[str], level: str) -> str:
    """The inverse of `tokens_of`."""
    if level == "characters":
        letter_of = {written: letter for letter, written in WRITTEN.items()} | {LINE_END: "\n"}
        return "".join(letter_of.get(token, token) for token in tokens)
    lines: list[list[str]] = [[]]
    for token in tokens:
        if token == "</s>":
            lines.append([])
        else:
            lines[-1].append(token)
    return "\n".join(" ".join(line) for line in lines)


class Streams:
    """A text as a batch source for the trainer: its pieces in order, so that the model's state
    passes from each batch to the next."""

    def __init__(self, ids: Sequence[int], text: TextConfig) -> None:
        self._batches = stream_batches(ids, text.streams, text.length)

    def epoch(self, rng: np.random.Generator) -> range:
        """The numbers of the pieces, in order: streams are not shuffled."""
        return range(len(self._batches))

    def clock(self, keys: Sequence[int]) -> np.ndarray:
        """(len(keys) + 1,) the updates that the schedule counts before each piece, and in all."""
        return np.arange(len(keys) + 1)

    def batch(self, key: int) -> Batch:
        """The piece of this number."""
        return self._batches[key]

    def tokens(self, batch: Batch) -> int:
        """The number of predictions in a piece."""
        return batch.target_out.size

    def weight(self, batch: Batch) -> int:
        """The number of streams, by which a piece's gradient is divided."""
        return len(batch.indices)


@dataclass
class LanguageSystem(BaseSystem):
    """Recipe, vocabulary, model and parameters of a language model."""

    kind, recipes, names = "language model", LanguageModelRecipe, ("text",)

    recipe: LanguageModelRecipe
    model: LanguageModel

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of words or characters."""
        return self.vocabularies["text"]

    def ids(self, lines: Sequence[str], name: str) -> list[int]:
        """The ids of a text, after an end marker. Raises UserError for an empty text."""
        level = self.recipe.text.level
        ids = [END, *_ids(self.vocabulary, tokens_of(lines, level))]
        if len(ids) < 2:
            raise UserError(f"{name}: expected text, found none")
        return ids

    def nats(self, ids: Sequence[int]) -> tuple[float, int]:
        """-log p of a text in nats, summed, and the number of predictions."""
        total, tokens = 0.0, 0
        state = None
        for piece in counted(stream_batches(ids, 1, 256), "perplexity, pieces"):
            with naming_overflow(self.parameters):
                loss, cache = self.model.loss(self.parameters, replace(piece, state=state))
            state = cache.state
            total += float(to_host(loss))
            tokens += piece.target_out.size
        return total, tokens

    def perplexity(self, tokens: Sequence[str]) -> float:
        """exp of the mean negative log-likelihood of a text's tokens."""
        return perplexity(*self.nats([END, *_ids(self.vocabulary, tokens)]))

    def sample(self, prompt: str, length: int, temperature: float, rng: np.random.Generator) -> str:
        """The prompt and `length` tokens drawn from softmax(logits / temperature)."""
        level = self.recipe.text.level
        tokens = tokens_of(composed(prompt).split("\n"), level)[:-1] if prompt else []
        states = self.model.encode(self.parameters, (), 1)
        for token in [END, *_ids(self.vocabulary, tokens)]:
            logits, states, _ = self.model.step(self.parameters, states, np.array([token]))
        for _ in counted(range(length), "drawing"):
            uniform = to_device(rng.random(1))
            token = int(to_host(draw(logits, logits.max(axis=1), uniform, temperature))[0])
            tokens += self.vocabulary.tokens([token])
            logits, states, _ = self.model.step(self.parameters, states, np.array([token]))
        return text_of(tokens, level)


def train(
    recipe: LanguageModelRecipe, directory: str | Path, observer: Observer, *,
    resume: bool = False, start: LanguageSystem | None = None,
) -> LanguageSystem:
    """Train in a run directory and return the system with its best parameters.

    Arguments and errors as `nmt.translator_training.train`.
    """
    run, text = RunDirectory(directory, recipe, resume), recipe.text
    train_tokens, dev_tokens = read_text(text)

    def build() -> dict[str, Vocabulary]:
        if text.vocabulary:
            return {"text": Vocabulary(read_words(text.vocabulary))}
        return {"text": Vocabulary.build([train_tokens], text.min_frequency, text.max_vocabulary)}

    system = start or LanguageSystem.create(
        recipe, run.vocabularies(LanguageSystem.names, build), run.pruning())
    train_ids = StreamIds(system.vocabulary, train_tokens)

    def validate(parameters: dict[str, Array]) -> dict[str, float]:
        validated = replace(system, parameters=system.plain(parameters))
        return {"perplexity": validated.perplexity(dev_tokens)}

    training = Training(Streams(train_ids, text), validate, train_tokens, dev=dev_tokens)
    with run.trainer(system, training, observer) as trainer:
        trainer.train()
    return system


def _ids(vocabulary: Vocabulary, tokens: Sequence[str]) -> list[int]:
    """The ids of tokens; `</s>` is the end marker here, not an unknown word."""
    ids = vocabulary.ids(tokens)
    return [END if token == "</s>" else i for token, i in zip(tokens, ids, strict=True)]


class StreamIds(Lazy[int]):
    """The ids of a stream, preceded by an end marker; looked up lazily."""

    def __init__(self, vocabulary: Vocabulary, tokens: Sequence[str]) -> None:
        self._vocabulary, self._tokens = vocabulary, tokens

    def __len__(self) -> int:
        return len(self._tokens) + 1

    def item(self, place: int) -> int:
        """The id at a position."""
        return self.items(range(place, place + 1))[0]

    def items(self, places: range) -> list[int]:
        """The ids at consecutive positions."""
        if places.step != 1:
            return super().items(places)
        tokens = self._tokens[max(places.start - 1, 0) : max(places.stop - 1, 0)]
        return [END] * (places.start == 0 < places.stop) + _ids(self._vocabulary, tokens)


def read_text(text: TextConfig) -> tuple[StoredText, list[str]]:
    """Training and dev tokens. Raises UserError when a file is missing or too short."""
    lines = StoredSentences(_tokens_of_line(line, text.level)
                            for line in stream_lines(text.train, longest=LONGEST_OF_TEXT))
    if text.dev:
        train = StoredText(lines, len(lines))
        dev = tokens_of(read_lines(text.dev, LONGEST_OF_TEXT), text.level)
    else:
        cut = len(lines) - max(1, round(len(lines) * text.dev_share))
        train = StoredText(lines, max(cut, 0))
        dev = [token for line in lines[max(cut, 0):] for token in line]
    if len(train) <= text.streams or not dev:
        raise UserError(f"{text.train}: expected more than {text.streams} tokens to train on and "
                        f"some to test on, got {len(train)} and {len(dev)}")
    return train, dev
