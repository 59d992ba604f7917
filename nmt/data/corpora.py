"""Loading the corpus of a recipe's data section: sentence pairs and evaluation sets."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, cycle
from operator import itemgetter
from pathlib import Path
from typing import cast

import numpy as np

from backend.errors import UserError
from nmt.console.messages import several
from nmt.data import reversal
from nmt.data.cldr import CldrOptions, generate
from nmt.data.corpus import (
    Pair,
    PreparedPairs,
    choose_pairs,
    choose_texts,
    stream_lines,
    stream_parallel,
)
from nmt.data.kept_corpus import ReadPairs, kept
from nmt.data.monolingual import PAIRINGS
from nmt.data.prepared import watched
from nmt.data.sources import BOUNDARY, parts, tokenise_each
from nmt.data.stored import blocks
from nmt.data.tokenise import Joiner, Tokeniser, tokeniser
from nmt.data.transliteration import latin
from nmt.recipe import PAIRS, DataConfig

EMBEDDED = ("It was trained on generated phrases of dates, times, durations, measures, money, "
            "countries and languages, and knows no other words.")
EXAMPLES, EXAMPLE_SEED = 3, 7  # how many examples of the embedded corpus, and their seed
LEAST_TO_DRAW = 10  # at most one pair in this many is drawn for validation


@dataclass(frozen=True)
class EvaluationSet:
    """Source sentences and their reference translations, line by line."""

    sources: list[list[str]]  # words; an empty list for an empty line
    references: list[str]  # plain text as in the file
    pairs: list[Pair]  # words of both sides, without empty lines: for perplexity


@dataclass(frozen=True)
class ParallelCorpus:
    """Training pairs and evaluation sets, as words."""

    train: Sequence[Pair]
    dev: EvaluationSet
    test: EvaluationSet | None
    empty: int  # training pairs left out because a side is empty
    too_long: int  # training pairs left out because a side is over the limit
    repeated: int = 0  # lines that repeat a source, if pairs were drawn for validation


def tokenisers(data: DataConfig) -> tuple[Tokeniser, Tokeniser]:
    """The tokenisers of source and target; the source's puts a `target_token` first.

    A text of two sources is one text, as `nmt.data.sources` describes.
    """
    languages = [data.source_language, data.target_language]
    if data.corpus in PAIRINGS:
        languages[1] = data.source_language
    name = {"cldr": "natural", "reverse": "none"}.get(data.corpus, data.tokenise)
    source, target = (tokeniser(name, language) for language in languages)
    if name == "joiner":
        source, target = (Joiner(partial(_without_ends, made.tokenise), made.detokenise)
                          for made in (source, target))
    cut, join = source.tokenise, source.detokenise
    if data.transliterate:
        source = Tokeniser(cut := partial(_in_latin, cut), join)
    if data.train_second_source:
        cutters = [cut, tokeniser(name, data.second_source_language).tokenise]
        source = Tokeniser(cut := partial(tokenise_each, cutters), join)
    if data.target_token:
        source = Tokeniser(partial(_after_token, data.target_token, cut), join)
    return source, target


def _without_ends(cut: Callable[[str], list[str]], line: str) -> list[str]:
    """The words of a line without the spaces at its ends."""
    return cut(line.strip(" "))


def _in_latin(cut: Callable[[str], list[str]], line: str) -> list[str]:
    """The words of a line in Latin letters."""
    return latin(cut(line))


def _after_token(token: str, cut: Callable[[str], list[str]], line: str) -> list[str]:
    """A symbol and the words of a line; nothing for an empty line."""
    words = cut(line)
    return [token, *words] if words else words


def load_corpus(data: DataConfig) -> ParallelCorpus:
    """Generate or read the corpus.

    Raises UserError as the readers do, if there is nothing to train on or to evaluate, and for a
    sentence of an evaluation set over `max_translate_length`, which is found before training.
    """
    return LOADERS[data.corpus](data)


def _from_cldr(data: DataConfig) -> ParallelCorpus:
    """The embedded corpus."""
    corpus = generate(CldrOptions(
        data.source_language, data.target_language, data.train_size or PAIRS, data.dev_size,
        data.test_size, data.seed,
    ))

    def written(pairs: list[Pair]) -> list[Pair]:
        return [(latin(x), y) for x, y in pairs] if data.transliterate else pairs

    def evaluation(pairs: list[Pair], references: list[str]) -> EvaluationSet:
        return EvaluationSet([source for source, _ in pairs], references, pairs)

    test = evaluation(written(corpus.test), corpus.test_references) if corpus.test else None
    dev = evaluation(written(corpus.dev), corpus.dev_references)
    return ParallelCorpus(written(corpus.train), dev, test, 0, 0)


def _reversal(data: DataConfig) -> ParallelCorpus:
    """The reverse task."""
    drawn = reversal.generate(data.train_size or PAIRS, data.dev_size, data.test_size, data.seed)

    def evaluation(pairs: list[Pair]) -> EvaluationSet:
        return EvaluationSet([x for x, _ in pairs], [" ".join(y) for _, y in pairs], pairs)

    test = evaluation(drawn.test) if drawn.test else None
    return ParallelCorpus(drawn.train, evaluation(drawn.dev), test, 0, 0)


def _from_files(data: DataConfig) -> ParallelCorpus:
    """Line-aligned text files; without dev files, some training pairs are drawn for validation."""
    paths = _paths(data, "train")
    read = kept(data, paths, partial(_read_pairs, data, paths))
    train = read.train
    _need_pairs(train, _named(paths), data)
    test = _read_evaluation(data, "test") if data.test_source else None
    if data.dev_source:
        dev = _read_evaluation(data, "dev")
    else:
        dev = _evaluation(data, read.drawn, paths, [place + 1 for place in read.places])
    return ParallelCorpus(train.pairs, dev, test, train.empty, train.too_long, read.repeated)


def _read_pairs(data: DataConfig, paths: Sequence[Path]) -> ReadPairs:
    """The pairs of the training files. Without dev files, some are drawn for validation."""
    source, target = tokenisers(data)
    places, repeated = ([], 0) if data.dev_source else _drawn_places(data, paths)
    drawn: list[tuple[str, str]] = []
    streamed = _streamed(paths)
    if data.tokenise != "none":
        streamed = watched(streamed, lambda pair: [*pair[0].split(BOUNDARY), pair[1]], paths)
    lines = _without(streamed, places, drawn)
    texts = ((source.texts(x for x, _ in block), target.texts(y for _, y in block))
             for block in lines)
    train = choose_texts(texts, data.max_length, data.cut_long, data.train_size)
    deque(lines, maxlen=0)  # the rest, which may have drawn pairs; finds files of unequal length
    return ReadPairs(train, places, drawn, repeated)


def _paths(data: DataConfig, name: str) -> list[Path]:
    """The files of the train, dev or test set: those of the sources and, last, of the target."""
    files = (getattr(data, f"{name}_{side}") for side in ("source", "second_source", "target"))
    return [Path(data.directory) / file for file in files if file]


def _named(paths: Sequence[Path]) -> str:
    """Files in a message."""
    return ", ".join(map(str, paths))


def _streamed(paths: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """Pairs of a source text, which may have several sources, and a target line."""
    parallel = stream_parallel(*paths)
    return ((BOUNDARY.join(sources), target) for *sources, target in parallel) \
        if len(paths) > 2 else cast(Iterator[tuple[str, str]], parallel)


def _drawn_places(data: DataConfig, paths: Sequence[Path]) -> tuple[list[int], int]:
    """The numbers, from 0, of the lines that are kept for validation, and how many lines repeat a
    source.

    `dev_size` lines are drawn at random, at most a tenth of all. If a source occurs several times,
    all its lines are taken, so that no source of the dev set is trained on.
    """
    for path in paths:
        if os.path.exists(path) and not os.path.isfile(path):
            raise UserError(f"{path}: expected a regular file, because it is read twice to draw "
                            "lines for validation; files of --dev avoid that")
    hashes = np.fromiter(map(hash, map(itemgetter(0), _streamed(paths))), np.int64)  # (N,)
    pairs = len(hashes)
    if pairs < LEAST_TO_DRAW:
        raise UserError(f"{_named(paths)}: expected dev files, or at least {LEAST_TO_DRAW} "
                        f"pairs to draw some from for validation, got {pairs}")
    size = min(data.dev_size, pairs // LEAST_TO_DRAW)
    values, counts = np.unique(hashes, return_counts=True)
    size = max(size, int(counts.min()))  # at least the lines of one source
    chosen: set[int] = set()
    for place in _in_random_order(pairs, size, data.seed):
        count = counts[np.searchsorted(values, hashes[place])]
        if place not in chosen and len(chosen) + count <= min(size, pairs - 1):
            chosen.update([place] if count == 1 else
                          np.flatnonzero(hashes == hashes[place]).tolist())
        if len(chosen) == size:
            break
    if not chosen:
        raise UserError(f"{_named(paths)}: expected dev files, or sources that differ to draw some "
                        f"from for validation, got {several(len(values), 'source')} in {pairs} "
                        "lines")
    return sorted(chosen), pairs - len(values)


def _in_random_order(pairs: int, first: int, seed: int) -> Iterator[int]:
    """The positions of all pairs: `first` drawn ones, then all in random order."""
    rng = np.random.default_rng(seed)
    yield from rng.choice(pairs, first, replace=False).tolist()
    yield from map(int, rng.permutation(pairs))


def _without(
    lines: Iterable[tuple[str, str]], places: Sequence[int], drawn: list[tuple[str, str]]
) -> Iterator[list[tuple[str, str]]]:
    """The lines that are not at `places`, in order and in blocks. Those at `places` are appended to
    `drawn`."""
    start = 0
    for block in blocks(lines):
        size = len(block)
        inside = places[bisect_left(places, start) : bisect_left(places, start + size)]
        drawn += [block[place - start] for place in inside]
        for place in reversed(inside):
            del block[place - start]
        start += size
        yield block


def _read_evaluation(data: DataConfig, name: str) -> EvaluationSet:
    """The dev or the test set, from its files."""
    paths = _paths(data, name)
    lines = list(_streamed(paths))
    return _evaluation(data, lines, paths, range(1, len(lines) + 1))


def _evaluation(
    data: DataConfig, lines: Sequence[Sequence[str]], paths: Sequence[Path],
    numbers: Iterable[int],
) -> EvaluationSet:
    """An evaluation set made of lines. numbers: their line numbers in the files, for errors."""
    cut_source, cut_target = (t.tokenise for t in tokenisers(data))
    sources = [cut_source(line) for line, _ in lines]
    targets = [cut_target(reference) for _, reference in lines]
    pairs = [(x, y) for x, y in zip(sources, targets, strict=True) if x and y]
    if not pairs:
        raise UserError(f"{_named(paths)}: expected at least one pair of sentences, got none")
    check_lengths(sources, data, [str(path) for path in paths[:-1]], numbers)
    return EvaluationSet(sources, [reference for _, reference in lines], pairs)


def _need_pairs(train: PreparedPairs, name: str, data: DataConfig) -> None:
    """Raise UserError, naming `name`, if nothing is left to train on."""
    if not train.pairs:
        raise UserError(
            f"{name}: expected at least one pair to train on, got none: {train.empty} with an "
            f"empty side, {train.too_long} over {data.max_length} words"
        )


def _from_text(data: DataConfig) -> ParallelCorpus:
    """Pairs made of one text: copies, halves, neighbours, dummy sources."""
    directory = Path(data.directory)
    path = directory / data.train_source
    lines = stream_lines(path)
    if data.tokenise != "none":
        lines = watched(lines, lambda line: [line], [path])
    sentences = map(tokenisers(data)[0].tokenise, lines)
    train = choose_pairs(PAIRINGS[data.corpus](sentences), data.max_length,
                         data.cut_long, data.train_size)
    _need_pairs(train, str(path), data)
    test = _paired_evaluation(data, directory / data.test_source) if data.test_source else None
    dev = _paired_evaluation(data, directory / data.dev_source)
    return ParallelCorpus(train.pairs, dev, test, train.empty, train.too_long)


def _paired_evaluation(data: DataConfig, path: Path) -> EvaluationSet:
    """An evaluation set made of one text; its references are detokenised like a model's output."""
    sentences = list(map(tokenisers(data)[0].tokenise, stream_lines(path)))
    check_lengths(sentences, data, str(path))
    pairs = [pair for pair in PAIRINGS[data.corpus](sentences) if all(pair)]
    if not pairs:
        raise UserError(f"{path}: expected sentences that make a pair, got none")
    join = tokenisers(data)[1].detokenise
    return EvaluationSet([source for source, _ in pairs], [join(target) for _, target in pairs],
                         pairs)


def examples(data: DataConfig) -> list[str]:
    """Example sentences for a translator of the embedded corpus; none for other corpora."""
    if data.corpus != "cldr":
        return []
    generated = generate(CldrOptions(data.source_language, data.target_language, 10, EXAMPLES, 0,
                                     seed=EXAMPLE_SEED))
    return [tokenisers(data)[0].detokenise(source) for source, _ in generated.dev]


def check_lengths(
    sources: Iterable[Sequence[str]], data: DataConfig, name: str | Sequence[str],
    numbers: Iterable[int] | None = None,
) -> None:
    """Raise UserError, with file and line, for a sentence that is too long to be translated.

    name: the file's name; for several sources, the names of their files. numbers: those of the
    sentences' lines; None: 1, 2 and so on.
    """
    names = [name] if isinstance(name, str) else name
    for number, words in zip(numbers or count(1), sources, strict=False):
        for file, source_words in zip(cycle(names), parts(words), strict=False):
            if len(source_words) > data.max_translate_length:
                raise UserError(f"{file}:{number}: expected at most {data.max_translate_length} "
                                f"words (data.max_translate_length), got {len(source_words)}")


LOADERS = {"files": _from_files, "cldr": _from_cldr, "reverse": _reversal,
           **dict.fromkeys(PAIRINGS, _from_text)}
