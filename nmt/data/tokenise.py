"""Tokenisers: cutting text into words, and joining words into text.

`joiner` restores every line exactly, in any language (`nmt.data.joiner`). `moses` is the tokeniser
of the papers; it does not restore lines exactly, and finds hardly any words in scripts without
spaces, such as Chinese, Japanese and Thai. `characters` is for those scripts. `letters` makes each
character a token, also in Latin script, for a purely character-based model (Luong, 2016, 5.4.2).
All tokenisers read text in normal form C and keep letters with their marks (`nmt.data.letters`).
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from backend.errors import check_among
from nmt.data import joiner
from nmt.data.corpus import split_words
from nmt.data.letters import composed, is_mark, letters

UNSPACED = frozenset({"bo", "dz", "ja", "km", "lo", "my", "th", "yue", "zh"})  # language codes
TOKENISERS = ("joiner", "moses", "characters", "letters", "none", "natural")
BY_LANGUAGE = ("moses", "natural")  # the tokenisers whose rules depend on the language
SPACE = "\u2581"  # stands for a space between `characters` tokens, as in sentencepiece

Cut = Callable[[str], list[str]]
Join = Callable[[Iterable[str]], str]
_LEFT_OUT = re.compile(r"[\s\x00-\x1f]")  # characters that Moses drops: spaces and controls

# Runs that `characters` keeps whole: a number, a word in Latin letters.
_RUNS = re.compile(r"[0-9]+(?:[.,][0-9]+)*|"
                   r"[A-Za-z\u00c0-\u024f][A-Za-z\u00c0-\u024f\u0300-\u036f]*|.", re.DOTALL)


@dataclass(frozen=True)
class Tokeniser:
    """A function that cuts a line of text into words, and its inverse."""

    tokenise: Cut
    detokenise: Join

    def texts(self, lines: Iterable[str]) -> list[str]:
        """The words of lines in normal form C, with spaces between."""
        return [" ".join(self.tokenise(line)) for line in lines]


class Joiner(Tokeniser):
    """`joiner` for lines without the spaces at their ends, many at a time."""

    def texts(self, lines: Iterable[str]) -> list[str]:
        """The words of lines in normal form C, with spaces between."""
        return joiner.texts(lines)


def tokeniser(name: str, language: str) -> Tokeniser:
    """The tokeniser of a name in TOKENISERS. `none` splits at spaces; `natural` depends on the
    language, see `natural_tokeniser`.

    language: a language code such as en or pt_BR; only `moses` and `natural` use it. Raises
    ValueError for another name.
    """
    if name == "natural":
        return natural_tokeniser(language)
    check_among("name", name, TOKENISERS)
    cut, join = _moses(language) if name == "moses" else _CUTS[name]
    return Tokeniser(lambda text: cut(composed(text)), lambda tokens: composed(join(tokens)))


def natural_tokeniser(language: str) -> Tokeniser:
    """`characters` for a language that is written without spaces, `moses` for others."""
    return tokeniser("characters" if _base(language) in UNSPACED else "moses", language)


@lru_cache
def _moses(language: str) -> tuple[Cut, Join]:
    """The Moses tokeniser and detokeniser (sacremoses), without escapes such as `&amp;`.

    language: a language code; a language without rules gets those of English. Detokenisation
    restores the usual spacing of the language, which is not always the original one.
    """
    from sacremoses import MosesDetokenizer, MosesTokenizer  # slow to import

    cut, join = MosesTokenizer(lang=_base(language)), MosesDetokenizer(lang=_base(language))
    return (lambda text: _with_marks(lambda bare: cut.tokenize(bare, escape=False), text),
            lambda tokens: join.detokenize(list(tokens), unescape=False))


def _with_marks(cut: Cut, text: str) -> list[str]:
    """The tokens of a text, cut without its marks, because Moses would split words at them."""
    characters = letters(text)
    if len(characters) == len(text):
        return cut(text)
    visible = [character for character in characters if not _LEFT_OUT.match(character)]
    tokens = cut("".join(character[0] for character in characters))
    bases = [character[0] for character in visible]
    if [*"".join(tokens)] != bases:  # Moses added or dropped a character
        return cut(text)
    following = iter(visible)
    return ["".join(islice(following, len(token))) for token in tokens]


def _base(language: str) -> str:
    """The language of a locale: pt for pt_BR."""
    return re.split("[_-]", language)[0]


def _cut_characters(text: str) -> list[str]:
    """Characters with their marks, numbers and Latin words as tokens, and SPACE for spaces."""
    tokens: list[str] = []
    for run in _RUNS.findall(" ".join(split_words(text))):
        if tokens and tokens[-1] != SPACE and is_mark(run[0]):
            tokens[-1] += run
        else:
            tokens.append(SPACE if run == " " else run)
    return tokens


def _cut_letters(text: str) -> list[str]:
    """Every character with its marks as a token, and SPACE for spaces."""
    return [SPACE if letter == " " else letter for letter in letters(" ".join(split_words(text)))]


def _join_characters(tokens: Iterable[str]) -> str:
    return "".join(" " if token == SPACE else token for token in tokens)


_CUTS: dict[str, tuple[Cut, Join]] = {
    "joiner": (joiner.cut, joiner.join),
    "none": (split_words, " ".join), "characters": (_cut_characters, _join_characters),
    "letters": (_cut_letters, _join_characters)}
