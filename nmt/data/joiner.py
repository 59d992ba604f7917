"""A tokeniser from whose tokens every line of text is restored exactly, in any language.

A token is a word (letters, digits and their marks), a character of a script without spaces, or a
symbol. A JOINER at an end of a token says that no space stood there, as in OpenNMT's tokeniser:
`wasn't 2:30!` becomes `wasn ￭'￭ t 2 ￭:￭ 30 ￭!`. Tokens without a JOINER between them were separated
by a space. Each further space is the token ESCAPE. Other white space, control characters and the
two marks themselves are written as ESCAPE and four hexadecimal digits: a no-break space is `￮00a0`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import regex

from nmt.data.letters import FIRST_MARK

JOINER, ESCAPE = "\uffed", "\uffee"
KNOWN = 1 << 18  # texts between spaces whose tokens are remembered
ENDS = frozenset(".,!?:;")  # symbols that follow words

# Scripts written without spaces between words: each letter, with its marks, is a token.
_UNSPACED = "".join(rf"\p{{scx={script}}}" for script in (
    "Han", "Hira", "Kana", "Bopo", "Thai", "Laoo", "Khmr", "Mymr", "Tibt"))
# A word: its letters may be followed by marks and joiners of letters, and may have invisible format
# characters such as a soft hyphen between them. Otherwise a user-perceived character, \X.
_TOKENS = regex.compile(
    rf"((?:[[\p{{L}}\p{{N}}]--[{_UNSPACED}]](?:[\p{{M}}\u200c\u200d]|\p{{Cf}}+(?=[\p{{L}}\p{{N}}]))*)+"
    rf"|(?=[\p{{L}}&&[{_UNSPACED}]])\X)|\X", regex.V1)
_SPECIAL = regex.compile(rf"[\p{{Z}}\p{{Cc}}{JOINER}{ESCAPE}]")
_ESCAPED = re.compile(f"{ESCAPE}([0-9a-f]{{4}})?")


def cut(text: str) -> list[str]:
    """The tokens of a line; a line of white space has none."""
    if not text or text.isspace():
        return []
    return " ".join(map(_CHUNKS.__getitem__, text.split(" "))).split(" ")


def texts(lines: Iterable[str]) -> list[str]:
    """The tokens of each line without the spaces at its ends, as text: with spaces between."""
    tokens_of = _CHUNKS.__getitem__
    return [" ".join(map(tokens_of, line.split(" "))) if line and not line.isspace() else ""
            for line in [line.strip(" ") for line in lines]]


class _Chunks(dict[str, str]):
    """The tokens, with spaces between, of each text between two spaces that occurred lately."""

    def __missing__(self, chunk: str) -> str:
        if len(self) >= KNOWN:
            self.clear()
        if _is_word(chunk):
            tokens = chunk
        elif _is_word(chunk[:-1]) and chunk[-1] in ENDS:
            tokens = f"{chunk[:-1]} {JOINER}{chunk[-1]}"
        else:
            tokens = " ".join(_cut_chunk(chunk))
        return self.setdefault(chunk, tokens)


def _is_word(chunk: str) -> bool:
    """Whether this is a word without marks, as most are: its characters are below the first mark.
    """
    return chunk.isalnum() and max(chunk) < FIRST_MARK


_CHUNKS = _Chunks()


def _cut_chunk(chunk: str) -> list[str]:
    """The tokens of text between two spaces. A JOINER goes to the symbol rather than to the word
    beside it, and between two symbols to the second."""
    if not chunk:
        return [ESCAPE]
    tokens: list[str] = []
    before_is_word = True
    for match in _TOKENS.finditer(chunk):
        token, is_word = match[0], match[1] is not None
        if not is_word:
            token = _SPECIAL.sub(lambda special: f"{ESCAPE}{ord(special[0]):04x}", token)
        if tokens and is_word and not before_is_word:
            tokens[-1] += JOINER
        elif tokens:
            token = JOINER + token
        tokens.append(token)
        before_is_word = is_word
    return tokens


def join(tokens: Iterable[str]) -> str:
    """The text of tokens, the inverse of `cut`. The same rules join tokens that `cut` never makes
    but a model may write."""
    text, space_before = "", False
    for token in tokens:
        core = token.removeprefix(JOINER)
        text += " " if space_before and core == token else ""
        text += _unescaped(core.removesuffix(JOINER))
        space_before = not token.endswith(JOINER)
    return text


def _unescaped(token: str) -> str:
    """A token's text. An escaped line end, which no line can hold, stays escaped."""
    return _ESCAPED.sub(_character, token) if ESCAPE in token else token


def _character(escaped: re.Match[str]) -> str:
    """The character of an escape."""
    if escaped[1] is None:
        return ""
    character = chr(int(escaped[1], 16))
    return character if _SPECIAL.match(character) and character != "\n" else escaped[0]
