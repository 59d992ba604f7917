"""Constituency trees as sequences: reading treebank files, writing symbols, rebuilding trees.

Source: Vinyals et al. (2015), "Grammar as a Foreign Language", which section 6.1 of the thesis
follows. A tree is written depth first, with `(NP` where a constituent opens, `)NP` where it closes,
and XX for each word, whatever its tag:

    (ROOT (S (NP-SBJ (DT the) (NN dog)) (VP (VBZ barks)) (. .)))
    (S (NP XX XX )NP (VP XX )VP XX )S

Labels have no function tags (NP for NP-SBJ). The root, traces and constituents of traces alone are
left out. The words are the source sequence from which a model predicts the symbols. No function is
recursive, since a model's output may be nested as deeply as it is long.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from backend.errors import UserError
from nmt.data.corpus import read_lines

WORD = "XX"
ROOTS = frozenset({"", "ROOT", "TOP", "S1"})  # labels of a root, which is not written
TRACE = "-NONE-"
# Words that mostly have the tag of punctuation (`,` `:` `.` or a quotation mark), plain and as
# Moses escapes them. Hyphens and dashes mostly have the tag of a symbol.
PUNCTUATION = frozenset(", . ? ! : ; -- — ... .. … ' \" ` `` '' ‘ ’ “ ” &apos; &quot; "
                        "&apos;&apos;".split())

_TOKEN = re.compile(r"[()]|[^ \t()]+")
_BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}


class Tree(NamedTuple):
    """A tree: its symbols, with an XX for each word, and its words."""

    symbols: list[str]
    words: list[str]
    tags: list[str]  # of each word; XX if the tag is not known


class Span(NamedTuple):
    """A constituent over the words from start to end - 1."""

    label: str
    start: int
    end: int


def plain_label(label: str) -> str:
    """A label without function tags and indices: NP for NP-SBJ-1, NP=2 and NP|X."""
    return re.split("[-=|]", label, maxsplit=1)[0] or label


# --- treebank files -------------------------------------------------------------------------------


def read_trees(path: str | Path) -> list[Tree]:
    """The trees of a file in the Penn Treebank's brackets; a tree may extend over several lines.

    Words that are escaped brackets are unescaped: `(` for `-LRB-`. A tree without words is left
    out. Raises UserError if the file cannot be read, and, with the line, for brackets that do not
    match and for anything but `(TAG word)` and `(LABEL constituents)`.
    """
    reader = _Reader(path)
    for reader.line, line in enumerate(read_lines(path), 1):
        for token in _TOKEN.findall(line):
            reader.take(token)
    return reader.finish()


@dataclass
class _Open:
    """A bracket that is not closed yet."""

    line: int
    label: str | None = None
    word: str | None = None
    place: int | None = None  # index of its symbol; None if no symbol is written
    children: int = 0


@dataclass
class _Reader:
    """A parser of brackets, labels and words, fed one token at a time."""

    path: str | Path
    line: int = 0
    trees: list[Tree] = field(default_factory=list)
    tree: Tree = field(default_factory=lambda: Tree([], [], []))
    open: list[_Open] = field(default_factory=list)

    def take(self, token: str) -> None:
        """Read the next token."""
        if token == "(":
            self._begin()
        elif not self.open:
            raise self._error(f"expected '(', with which a tree begins, got {token!r}")
        elif token == ")":
            self._end(self.open.pop())
        elif self.open[-1].label is None:
            self.open[-1].label = token
        elif self.open[-1].word is None and not self.open[-1].children:
            self.open[-1].word = token
        else:
            raise self._error(f"expected '(' or ')', got {token!r}")

    def finish(self) -> list[Tree]:
        """All trees, at the end of the file."""
        if self.open:
            self.line = self.open[0].line
            raise self._error(f"the tree that begins here lacks {len(self.open)} ')'")
        return self.trees

    def _begin(self) -> None:
        """Read an opening bracket, which makes the bracket around it a constituent."""
        if self.open:
            outer = self.open[-1]
            if outer.word is not None:
                raise self._error(f"expected ')' behind the word {outer.word!r}, got '('")
            if not outer.children:
                self._open_constituent(outer)
            outer.children += 1
        self.open.append(_Open(self.line))

    def _open_constituent(self, bracket: _Open) -> None:
        """Write a constituent's opening symbol, unless it is the root."""
        bracket.label = bracket.label or ""
        if len(self.open) == 1 and bracket.label in ROOTS:
            return
        if not bracket.label:
            raise self._error("expected a label behind '(', got '('")
        bracket.place = len(self.tree.symbols)
        self.tree.symbols.append(f"({plain_label(bracket.label)}")

    def _end(self, bracket: _Open) -> None:
        """Read a closing bracket."""
        if bracket.label is None or (bracket.word is None and not bracket.children):
            raise self._error("expected a word or constituents in '"
                              f"({bracket.label or ''}' of line {bracket.line}, got ')'")
        if bracket.word is not None and bracket.label != TRACE:
            self.tree.symbols.append(WORD)
            self.tree.words.append(_BRACKETS.get(bracket.word, bracket.word))
            self.tree.tags.append(bracket.label)
        elif bracket.place is not None:
            _close(self.tree.symbols, bracket.place)
        if not self.open:
            if self.tree.words:
                self.trees.append(self.tree)
            self.tree = Tree([], [], [])

    def _error(self, message: str) -> UserError:
        return UserError(f"{self.path}:{self.line}: {message}")


def _close(symbols: list[str], place: int) -> None:
    """Close the constituent that opened at `place`, or drop it if it is empty."""
    if len(symbols) == place + 1:
        symbols.pop()
    else:
        symbols.append(f"){symbols[place][1:]}")


# --- symbols --------------------------------------------------------------------------------------


def repair(symbols: Iterable[str]) -> list[str]:
    """Make the symbols of a tree from a model's output; a valid tree is unchanged.

    A closing symbol closes the innermost open constituent of its label and all open constituents
    inside it; without such a constituent it is dropped. Constituents that are open at the end are
    closed. Constituents without a word, and tokens that are not symbols, are dropped.
    """
    kept: list[str] = []
    places: list[int] = []  # of the open constituents
    for symbol in symbols:
        if symbol == WORD:
            kept.append(symbol)
        elif symbol[:1] == "(" and symbol[1:]:
            places.append(len(kept))
            kept.append(symbol)
        elif symbol[:1] == ")" and f"({symbol[1:]}" in [kept[place] for place in places]:
            while kept[place := places.pop()] != f"({symbol[1:]}":
                _close(kept, place)
            _close(kept, place)
    while places:
        _close(kept, places.pop())
    return kept


def rebuild(symbols: Iterable[str], words: Sequence[str]) -> Tree | None:
    """The tree of repaired symbols over words; None unless there is one XX for each word."""
    repaired = repair(symbols)
    if repaired.count(WORD) != len(words):
        return None
    return Tree(repaired, list(words), [WORD] * len(words))


def spans(symbols: Iterable[str]) -> list[Span]:
    """The constituents of a tree's symbols, in the order in which they close."""
    closed, opened, place = [], list[tuple[str, int]](), 0
    for symbol in symbols:
        if symbol == WORD:
            place += 1
        elif symbol[0] == "(":
            opened.append((symbol[1:], place))
        else:
            closed.append(Span(*opened.pop(), place))
    return closed


def bracketed(tree: Tree) -> str:
    """A tree in the Penn Treebank's brackets, on one line, for EVALB and other programs.

    Punctuation without a known tag gets the tag of a full stop, so that EVALB recognises it.
    """
    tags = ("." if tag == WORD and word in PUNCTUATION else tag
            for tag, word in zip(tree.tags, tree.words, strict=True))
    leaves = iter(zip(tags, tree.words, strict=True))
    return f"(ROOT {' '.join(_bracketed(tree.symbols, leaves))})".replace(" )", ")")


def _bracketed(symbols: Iterable[str], leaves: Iterator[tuple[str, str]]) -> Iterator[str]:
    """The symbols in brackets, with tags and words in place of XX."""
    for symbol in symbols:
        if symbol == WORD:
            tag, word = next(leaves)
            yield f"({tag} {word.replace('(', '-LRB-').replace(')', '-RRB-')})"
        else:
            yield ")" if symbol[0] == ")" else symbol


# --- a corpus -------------------------------------------------------------------------------------


class Split(NamedTuple):
    """The documents of the training, dev and test sets."""

    train: list[Path]
    dev: list[Path]
    test: list[Path]


def split(documents: Iterable[Path], dev: Sequence[Path] = (), test: Sequence[Path] = ()) -> Split:
    """The documents of the three sets. dev, test: the documents of these sets, if given.

    Otherwise the documents are sorted by name; the 10th, 20th ... are for testing and the 5th, 15th
    ... for validation. So the split is always the same, and has documents of each kind where names
    begin with the kind. Raises UserError for a document in two sets, and if there is none to train
    on or to validate on.
    """
    ordered = sorted(_once(documents), key=lambda path: (path.name, path))
    if not dev and not test:
        dev, test = ordered[4::10], ordered[9::10]
    dev, test = _once(dev), _once(test)
    for path in dev:
        if path in test:
            raise UserError(f"{path}: expected in --dev or in --test, got in both")
    train = [path for path in ordered if path not in dev and path not in test]
    if not train or not dev:
        raise UserError(f"expected a document to train on and one for --dev, got {len(train)} and "
                        f"{len(dev)}; without --dev and --test it takes five to split")
    return Split(train, dev, test)


def _once(paths: Iterable[Path]) -> list[Path]:
    """Each file once, even if several paths lead to it."""
    return list(dict.fromkeys(path.resolve() for path in paths))
