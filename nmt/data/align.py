"""Word alignments: links between the words of two sentences, their files, their error rate.

A link is a pair of positions (source word, target word), always counted from 0 in memory.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from backend.errors import UserError
from nmt.console.messages import several
from nmt.data.corpus import Pair, read_lines, split_words

Link = tuple[int, int]  # source word, target word, from 0
Sizes = tuple[int, int]  # words of the source sentence, words of the target sentence

MOST_PAIRS = 10**7  # most sentence pairs of a file of links without its sentences
_SCORE = r"(?::-?[0-9.]+(?:e-?[0-9]+)?)?"  # after a link; not used
_PHARAOH = re.compile(rf"([0-9]{{1,9}})([-?p])([0-9]{{1,9}}){_SCORE}")  # -: sure; ? and p: possible
_PHARAOH_OF_ANY_SIZE = re.compile(rf"[0-9]+[-?p][0-9]+{_SCORE}")
BAR = "|||"  # between the tokens of a pair, as fast_align and eflomal read them
COUNTED = ("; positions count words between spaces, or the tokens that --tokens FILE of nmt align "
           "or nmt translate wrote")
_NAACL = re.compile(r"([0-9]{1,9}) ([0-9]{1,9}) ([0-9]{1,9})(?: ([SP]))?"
                    r"(?: [0-9.]+)?")  # confidence


class Gold(NamedTuple):
    """The gold links of one sentence pair, annotated by hand."""

    sure: frozenset[Link]
    possible: frozenset[Link]  # the sure links are among them


@dataclass(frozen=True)
class GoldOptions:
    """The conventions of a file of links that the file itself does not state.

    first: the number of a sentence's first word; None: 0 in a Pharaoh file and 1 in a NAACL file.
    swapped: whether the file names the target word first. drop: whether links that do not fit their
    sentence are left out and counted; otherwise they are an error.
    """

    first: int | None = None
    swapped: bool = False
    drop: bool = False


class GoldFile(NamedTuple):
    """A gold file, read."""

    gold: list[Gold]  # one for each sentence pair
    dropped: int  # links left out because they do not fit their sentence


class _Entry(NamedTuple):
    """One link as written in a file."""

    line: int  # from 1
    sentence: int  # from 0
    text: str
    link: tuple[int, int]  # as numbered and ordered in the file
    sure: bool


def read_gold(
    path: str | Path, sizes: Sequence[Sizes | None], options: GoldOptions | None = None
) -> GoldFile:
    """Read alignments in Pharaoh or NAACL format; the first line with text decides which.

    Pharaoh: a line for each sentence pair, with links `3-4` (sure), `3?4` or `3p4` (possible). A
    score after a link, `3-4:0.9`, is ignored.
    NAACL (Mihalcea and Pedersen 2003): a line for each link, `sentence source target`, optionally
    followed by S (sure, the default) or P (possible), and by a confidence, which is ignored.
    Sentences count from 1; those without a line have no links. A byte order mark at the beginning
    is skipped. A link that occurs twice counts once, and is sure if either occurrence is.

    sizes: words of each sentence pair, source and target; None where they are not known.
    Raises UserError, with file and line, for a line in neither format, a sentence or (unless
    `options.drop`) a word that does not exist, and a Pharaoh file with another number of lines than
    there are pairs.
    """
    options = options or GoldOptions()
    lines = read_lines(path)
    is_pharaoh = _is_pharaoh(lines)
    if is_pharaoh and len(lines) != len(sizes):
        raise UserError(f"{path}: expected a line for each of "
                        f"{several(len(sizes), 'sentence pair')}, found {len(lines)}")
    first = (0 if is_pharaoh else 1) if options.first is None else options.first
    sure: defaultdict[int, set[Link]] = defaultdict(set)  # by sentence: most may have none
    possible: defaultdict[int, set[Link]] = defaultdict(set)
    dropped = 0
    for entry in _entries(path, lines):
        if not 0 <= entry.sentence < len(sizes):
            raise UserError(f"{path}:{entry.line}: expected a sentence from 1 to {len(sizes)}, got "
                            f"{entry.sentence + 1}")
        link = _positions(entry, first, options.swapped)
        problem = _outside(link, sizes[entry.sentence], first)
        if problem and not options.drop:
            known = sizes[entry.sentence] is not None
            raise UserError(f"{path}:{entry.line}: link {entry.text!r}: {problem}"
                            + COUNTED * known)
        if problem:
            dropped += 1
            continue
        possible[entry.sentence].add(link)
        if entry.sure:
            sure[entry.sentence].add(link)
    gold = [Gold(frozenset(sure.get(place, ())), frozenset(possible.get(place, ())))
            for place in range(len(sizes))]
    return GoldFile(gold, dropped)


def number_of_pairs(*paths: str | Path) -> int:
    """The number of sentence pairs of files of links, where no sentences are given.

    It is the number of lines of the first file in Pharaoh format. If all files are in NAACL format,
    where sentences without links have no line, it is the largest sentence number of the first file.
    Raises UserError, with file and line, for a line in neither format.
    """
    files = [(path, read_lines(path)) for path in paths]
    for _, lines in files:
        if _is_pharaoh(lines):
            return len(lines)
    path, lines = files[0]
    last = max(_entries(path, lines), key=lambda entry: entry.sentence)
    if last.sentence >= MOST_PAIRS:
        raise UserError(f"{path}:{last.line}: expected a sentence from 1 to {MOST_PAIRS:,}, got "
                        f"{last.sentence + 1}")
    return last.sentence + 1


def _entries(path: str | Path, lines: Sequence[str]) -> Iterator[_Entry]:
    """The links of a file in either format."""
    return _pharaoh(path, lines) if _is_pharaoh(lines) else _naacl(path, lines)


def _is_pharaoh(lines: Sequence[str]) -> bool:
    """Whether the first word of a file is a link in Pharaoh format; True for a file without words.
    """
    words = next((words for words in map(split_words, lines) if words), None)
    return words is None or _PHARAOH_OF_ANY_SIZE.fullmatch(words[0]) is not None


def _pharaoh(path: str | Path, lines: Sequence[str]) -> Iterator[_Entry]:
    """The links of a Pharaoh file."""
    for number, line in enumerate(lines, 1):
        for word in split_words(line):
            match = _PHARAOH.fullmatch(word)
            if match is None:
                raise UserError(f"{path}:{number}: expected links such as 3-4 (sure) or 3?4 "
                                f"(possible), got {word!r}")
            link = int(match[1]), int(match[3])
            yield _Entry(number, number - 1, word, link, match[2] == "-")


def _naacl(path: str | Path, lines: Sequence[str]) -> Iterator[_Entry]:
    """The links of a NAACL file; blank lines are skipped."""
    for number, line in enumerate(lines, 1):
        text = " ".join(split_words(line))
        if not text:
            continue
        match = _NAACL.fullmatch(text)
        if match is None:
            raise UserError(f"{path}:{number}: expected 'sentence source target', then S or P or "
                            f"nothing, got {text!r}")
        link = int(match[2]), int(match[3])
        yield _Entry(number, int(match[1]) - 1, text, link, match[4] != "P")


def _positions(entry: _Entry, first: int, swapped: bool) -> Link:
    """Source and target word from 0."""
    source, target = entry.link[::-1] if swapped else entry.link
    return source - first, target - first


def _outside(link: Link, size: Sizes | None, first: int) -> str:
    """The error message for a link outside its sentence, in the file's numbering; "" for a link
    inside."""
    for side, place, words in zip(("source", "target"), link, size or (None, None), strict=True):
        if place < 0 or (words is not None and place >= words):
            last = "on" if words is None else f"to {words - 1 + first}"
            return f"expected a {side} word from {first} {last}, got {place + first}"
    return ""


def pharaoh_line(links: Iterable[Link]) -> str:
    """One sentence's links as a line of a Pharaoh file, counted from 0."""
    return " ".join(f"{source}-{target}" for source, target in links)


def tokens_line(source: Sequence[str], target: Sequence[str]) -> str:
    """A line with the tokens of a pair, whose positions the links count."""
    return f"{' '.join(source)} {BAR} {' '.join(target)}"


def read_tokens(path: str | Path) -> list[Pair]:
    """The pairs of a file that `tokens_line` wrote. Raises UserError, with file and line, for a
    line of another form."""
    pairs = []
    for number, line in enumerate(read_lines(path), 1):
        source, *target = (split_words(side) for side in f" {line} ".split(f" {BAR} "))
        if len(target) != 1:
            raise UserError(f"{path}:{number}: expected source tokens, {BAR} and target tokens, "
                            f"got {line!r:.60}")
        pairs.append((source, target[0]))
    return pairs


class AlignmentScore(NamedTuple):
    """The counts of links over a corpus, and the scores that follow from them (Och and Ney 2003).
    """

    links: int  # |A|
    sure: int  # |S|
    hit_sure: int  # |A and S|
    hit_possible: int  # |A and P|

    @property
    def error_rate(self) -> float:
        """AER = 1 - (|A and S| + |A and P|) / (|A| + |S|): 0 is best, 1 worst (4.4.4 aer)."""
        return 1.0 - (self.hit_sure + self.hit_possible) / (self.links + self.sure)

    @property
    def precision(self) -> float:
        """|A and P| / |A|; 0 without links."""
        return self.hit_possible / self.links if self.links else 0.0

    @property
    def recall(self) -> float:
        """|A and S| / |S|; 0 without sure links."""
        return self.hit_sure / self.sure if self.sure else 0.0


def alignment_score(links: Sequence[Collection[Link]], gold: Sequence[Gold]) -> AlignmentScore:
    """Alignment error rate of a corpus, with sure and possible links (section 4.4.4).

    links: an aligner's, for each sentence pair. gold: links made by people, in the same order.
    Raises ValueError if there is neither a link nor a sure gold link.
    """
    predicted = [set(sentence) for sentence in links]
    score = AlignmentScore(
        sum(map(len, predicted)),
        sum(len(annotated.sure) for annotated in gold),
        sum(len(a & annotated.sure) for a, annotated in zip(predicted, gold, strict=True)),
        sum(len(a & annotated.possible) for a, annotated in zip(predicted, gold, strict=True)),
    )
    if not score.links + score.sure:
        raise ValueError("links, gold: expected at least one link, got none")
    return score
