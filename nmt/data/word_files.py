"""Vocabularies and word vectors in the files of other programs."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from itertools import chain
from pathlib import Path

import numpy as np

from backend.errors import UserError
from nmt.data.corpus import read_lines, stream_lines
from nmt.data.vocabulary import SPECIALS

# Symbols in other programs' vocabularies, which are no words.
SYMBOLS = {*SPECIALS, "<s>", "<pad>", "<blank>", "<UNK>", "<EOS>", "<BOS>", "<PAD>", "eos", "UNK"}
NAMES = ("eos", "UNK")  # those that are symbols in Nematus' JSON only
_COUNTED = re.compile(r"(\S+)[ \t]+-?[0-9.]+(?:e-?[0-9]+)?")  # SentencePiece: a log-probability
_HEADER = re.compile(r"[0-9]+ ([0-9]+)")


def read_words(path: str | Path) -> list[str]:
    """The words of a vocabulary's file, in order and without repetition; symbols for unknown words,
    ends, starts and padding are left out.

    The file has a word on each line, which may be followed by a space or a tab and a count
    (fairseq, subword-nmt) or a log-probability (SentencePiece); or it is Nematus' JSON, word -> id.
    Raises UserError, with file and line, for another line, and for a file without words.
    """
    lines = read_lines(path)
    if lines and lines[0].startswith("{"):
        words, symbols = _of_json(path, "\n".join(lines)), SYMBOLS
    else:
        words, symbols = _of_lines(path, lines), SYMBOLS.difference(NAMES)
    kept = [word for word in dict.fromkeys(words) if word not in symbols]
    if not kept:
        raise UserError(f"{path}: expected a vocabulary, a word a line or JSON, got no word")
    return kept


def _of_lines(path: str | Path, lines: Iterable[str]) -> list[str]:
    """The words of lines, without the counts. Raises UserError for a line with more than a word and
    its count."""
    filled = [(number, line.strip(" \t")) for number, line in enumerate(lines, 1) if line.strip()]
    for number, line in filled:
        if _COUNTED.fullmatch(line) is None and len(line.replace("\t", " ").split(" ")) > 1:
            raise UserError(f"{path}:{number}: expected a word, or a word and its count, got "
                            f"{line!r:.60}")
    return [re.split("[ \t]", line)[0] for _, line in filled]


def _of_json(path: str | Path, text: str) -> list[str]:
    """The words of a JSON object, in the order of their ids."""
    try:
        ids = json.loads(text)
        words = sorted(ids, key=ids.__getitem__)
    except (ValueError, TypeError) as error:
        raise UserError(f"{path}: expected JSON, word -> id, got: {error}") from None
    if bad := next((word for word in words if not word or set(word) & set(" \t\n")), None):
        raise UserError(f"{path}: expected words without spaces, got {bad!r}")
    return words


def read_vectors(path: str | Path, words: Collection[str], size: int) -> dict[str, np.ndarray]:
    """The vectors of words in a file: word -> (size,) float32, for the words that have one.

    The file is in word2vec's text format, whose first line has the numbers of words and dimensions,
    or in GloVe's, which has no such line. Of a word's vectors the first counts. Raises UserError,
    with file and line, for a vector of another size, and for what is not a finite number.
    """
    vectors: dict[str, np.ndarray] = {}
    lines = stream_lines(path)
    first = next(lines, "")
    header = _HEADER.fullmatch(first.strip())
    for number, line in enumerate(lines if header else chain([first], lines), 2 if header else 1):
        word, *numbers = line.rstrip(" ").rsplit(" ", size)
        if len(numbers) != size or (number <= 2 and " " in word):
            number_count = int(header[1]) if header else line.rstrip(" ").count(" ")
            raise UserError(f"{path}:{number}: expected a word and {size} numbers, the size of the "
                            f"embeddings (model.embedding_size), got {number_count}")
        if word in words and word not in vectors:
            try:
                vectors[word] = np.array(numbers, np.float32)
            except ValueError:
                raise UserError(f"{path}:{number}: expected {size} numbers behind {word!r}, got "
                                f"{' '.join(numbers)!r:.60}") from None
            if not np.isfinite(vectors[word]).all():
                raise UserError(f"{path}:{number}: expected finite numbers behind {word!r}")
    return vectors
