"""The texts that verbs read, including the second source of models that read two."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from backend.errors import UserError
from nmt.console.messages import several
from nmt.console.terminal import print
from nmt.data.annotation import is_language
from nmt.data.corpora import check_lengths, tokenisers
from nmt.data.corpus import Pair, read_lines, read_parallel, stream_texts
from nmt.data.prepared import attached, signs
from nmt.data.sources import as_text, parts
from nmt.system import System

OPTION = "--second-source"
FEW = 4  # a message is printed if more than one word in this many is unknown


def add_second_source(parser: argparse.ArgumentParser) -> None:
    """Add `--second-source FILE`."""
    parser.add_argument(OPTION, type=Path, metavar="FILE",
                        help="read the second source, for models with two")


def reads(system: System) -> int:
    """How many sources a system reads."""
    return len(system.readers)


def need_one_source(system: System, request: str) -> None:
    """Raise UserError, naming the request, for a system that reads several sources."""
    if reads(system) > 1:
        raise UserError(f"{request}: expected a model of one source, got one that reads "
                        f"{reads(system)}")


def check_second_source(systems: Iterable[System], options: argparse.Namespace) -> None:
    """Raise UserError for a second source that no system reads, or that a system needs and lacks.
    """
    readers_of_two = [system for system in systems if reads(system) > 1]
    if readers_of_two and options.second_source is None:
        raise UserError(f"{OPTION}: expected a file, since the model reads two sources, got none")
    if options.second_source is not None and not readers_of_two:
        raise UserError(f"{OPTION}: expected a model that reads two sources, got one of one source")


def source_files(system: System, options: argparse.Namespace) -> list[Path]:
    """The source files of a command that a system reads."""
    return [options.source, *([options.second_source] if reads(system) > 1 else [])]


def source_texts(system: System, lines: Sequence[str], options: argparse.Namespace) -> list[str]:
    """The texts that a system reads: the lines of the first source, with those of a second.

    Raises UserError for a second source with another number of lines, and for a line that is empty
    in one source only.
    """
    if reads(system) == 1:
        return list(lines)
    names, second = source_files(system, options), read_lines(options.second_source)
    if len(second) != len(lines):
        raise UserError(f"parallel files differ in length: {names[0]} has "
                        f"{several(len(lines), 'line')}, {names[1]} has {len(second)}")
    pairs = zip(lines, second, strict=True)
    return [as_text(pair, names, number) for number, pair in enumerate(pairs, 1)]


def texts_of_files(system: System, files: Sequence[Path]) -> Iterator[str]:
    """The texts that a system of several sources translates. Raises UserError unless there is a
    file for each source."""
    if len(files) != reads(system):
        count = str(len(files)) if files else "standard input"
        raise UserError(f"FILE: expected {reads(system)} files, one of each source that is read, "
                        f"got {count}")
    return stream_texts(files)


def read_sources(
    system: System, lines: Sequence[str], options: argparse.Namespace
) -> list[list[str]]:
    """The words that a system reads: `lines`, which are those of `options.source`, and those of a
    second source."""
    sources = [system.cut_source(text) for text in source_texts(system, lines, options)]
    files = [str(path) for path in source_files(system, options)]
    system.check_sources(sources, files)
    return sources


def read_pairs(system: System, options: argparse.Namespace) -> list[Pair]:
    """The pairs of the files as words, including empty ones, so that lines stay aligned."""
    lines = read_parallel(options.source, options.target)
    sources = read_sources(system, lines[0], options)
    targets = [tokenisers(system.recipe.data)[1].tokenise(line) for line in lines[1]]
    check_lengths(targets, system.recipe.data, str(options.target))
    return list(zip(sources, targets, strict=True))


def tell_state_of_text(system: System, sentences: Sequence[Sequence[str]]) -> None:
    """Print a line on stderr if sentences look tokenised unlike the model's training text, or if
    many of their words are unknown."""
    data = system.recipe.data
    texts = list(map(tokenisers(data)[0].detokenise, sentences))
    if data.tokenise != "none" and (description := signs(texts)):
        print(f"the text looks tokenised already: {description}. The model tokenises it again "
              f"(data.tokenise {data.tokenise})", file=sys.stderr)
        return
    piece_count = sum(len(system.reader.pieces(words)) for words in sentences)
    unknown = Counter(word for words in sentences for word in system.reader.unknown(words))
    if "source" in system.spellings or FEW * unknown.total() <= piece_count:
        return
    unit = "words" if system.source.codes is None else "pieces"
    raw = attached(texts) if data.tokenise == "none" and unit == "words" else ""
    advice = f"{raw}, and the model reads text in tokens (data.tokenise none): prepare this " \
        "text as its training text was" if raw else \
        "--replace-unk copies such words, and subwords (data.subwords) leave fewer"
    print(f"{unknown.total()} of {piece_count} {unit} are read as <unk> ("
          f"{', '.join(word for word, _ in unknown.most_common(3))}); {advice}", file=sys.stderr)


def check_tokens(system: System, words: Sequence[str], place: str) -> None:
    """Raise UserError for a symbol of a language, such as <2de>, that the model does not know. For
    a model without such symbols it is a word like any other."""
    known = list(filter(is_language, system.source.words))
    for word in parts(words)[0] if known else ():
        if is_language(word) and word not in known:
            raise UserError(f"{place}: expected a language that the model was trained to write, "
                            f"{', '.join(known)}, got {word}")
