"""Cutting text into words and putting it together again.

`moses` is the tokeniser of the papers. In scripts without spaces, such as Chinese, Japanese and
Thai, it finds hardly any words (and separates Thai vowels from their consonants); `characters` is
for those. `letters` makes each character a token, also in Latin script: the input of a purely
character-based model (Luong, 2016, 5.4.2).
"""

import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

from sacremoses import MosesDetokenizer, MosesTokenizer

from nmt.data.corpus import split_words

UNSPACED = frozenset({"bo", "dz", "ja", "km", "lo", "my", "th", "yue", "zh"})  # language codes
TOKENISERS = ("moses", "characters", "letters", "none", "natural")
SPACE = "\u2581"  # stands for a space between `characters` tokens, as in sentencepiece

# What stays whole among characters: a number, a word in Latin letters.
_RUNS = re.compile(r"[0-9]+(?:[.,][0-9]+)*|[A-Za-z\u00c0-\u024f]+|.", re.DOTALL)


@dataclass(frozen=True)
class Tokeniser:
    """A function that cuts a line of text into words, and its inverse."""

    tokenise: Callable[[str], list[str]]
    detokenise: Callable[[Iterable[str]], str]


def tokeniser(name: str, language: str) -> Tokeniser:
    """The tokeniser of a name in TOKENISERS; `none`: split at spaces; `natural`: by the language,
    see `natural_tokeniser`.

    language: a language code such as en or pt_BR; only `moses` and `natural` use it.
    Raises ValueError for another name.
    """
    if name == "natural":
        return natural_tokeniser(language)
    if name == "none":
        return Tokeniser(split_words, " ".join)
    if name == "moses":
        return moses(language)
    if name == "characters":
        return Tokeniser(_cut_characters, _join_characters)
    if name == "letters":
        return Tokeniser(_cut_letters, _join_characters)
    raise ValueError(f"name: expected one of {', '.join(TOKENISERS)}, got {name!r}")


def natural_tokeniser(language: str) -> Tokeniser:
    """`characters` for a language written without spaces between words, `moses` for others."""
    return tokeniser("characters" if _base(language) in UNSPACED else "moses", language)


@lru_cache
def moses(language: str) -> Tokeniser:
    """The Moses tokeniser and detokeniser (sacremoses), without the escaping of `&` and the like.

    language: a language code; English rules stand in for one that Moses has no rules for.
    Detokenisation restores the usual spacing of the language, not always the original one.
    """
    cut, join = MosesTokenizer(lang=_base(language)), MosesDetokenizer(lang=_base(language))
    return Tokeniser(
        tokenise=lambda text: cut.tokenize(text, escape=False),
        detokenise=lambda tokens: join.detokenize(list(tokens), unescape=False),
    )


def _base(language: str) -> str:
    """The language of a locale: pt for pt_BR."""
    return re.split("[_-]", language)[0]


def _cut_characters(text: str) -> list[str]:
    """Characters with their combining marks; numbers and Latin words whole; spaces as SPACE."""
    tokens: list[str] = []
    for run in _RUNS.findall(" ".join(split_words(text))):
        if tokens and unicodedata.category(run[0]) in ("Mn", "Mc", "Me"):
            tokens[-1] += run
        else:
            tokens.append(SPACE if run == " " else run)
    return tokens


def _cut_letters(text: str) -> list[str]:
    """Every character; spaces as SPACE."""
    return [SPACE if letter == " " else letter for letter in " ".join(split_words(text))]


def _join_characters(tokens: Iterable[str]) -> str:
    return "".join(" " if token == SPACE else token for token in tokens)
