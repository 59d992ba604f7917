"""`nmt annotate` and `nmt restore`: the methods for rare words of thesis section 3.2, on files."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from backend.errors import UserError
from nmt.cli.alignment_error import file_links, sizes_of
from nmt.cli.lines import read_pairs_of_words, write_or_print
from nmt.cli.options import add_drop_bad_links
from nmt.console.arguments import add_output, natural, options_given, positive
from nmt.console.messages import several
from nmt.console.progress import counted
from nmt.console.terminal import print
from nmt.data.align import Link
from nmt.data.annotation import METHODS, WINDOW, Rules, annotate, link_probabilities
from nmt.data.corpus import Pair, read_lines, read_parallel, split_words, write_lines
from nmt.data.rare_words import read_dictionary
from nmt.data.restoration import resolve, restore
from nmt.data.vocabulary import SPECIALS, Vocabulary
from nmt.files import make_directory

SIDES = ("source", "target")
VOCABULARIES = ("source.vocab", "target.vocab")  # files that `nmt annotate` writes
OUTCOMES = {  # outcome of an unknown word -> its name in messages
    "unknown": "unknown", "pointed": "with a pointer", "null": "null",
    "far": f"null because linked farther than {WINDOW} words",
    "outside": "pointers outside the sentence, to the nearest word instead",
}


def add_annotate(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt annotate`."""
    parser.add_argument("source", type=Path, help="sentences in the source language, in tokens")
    parser.add_argument("target", type=Path, nargs="?",
                        help="their translations; leave it out for sentences to translate")
    parser.add_argument("--method", choices=METHODS, required=True, metavar="METHOD",
                        help=f"mark unknown words by {', '.join(METHODS)}")
    parser.add_argument("--links", type=Path, metavar="FILE",
                        help="read alignments of the pairs, of words between spaces; noalign "
                             "needs none")
    add_drop_bad_links(parser)
    for side in SIDES:
        parser.add_argument(f"--{side}-vocabulary", required=side == "source", metavar="N|FILE",
                            help="keep the N most frequent words, <unk> and </s> included, or "
                                 "those of a file that this command wrote")
    parser.add_argument("--max-length", type=positive, metavar="N",
                        help="leave out training pairs with an empty side or more than N words "
                             "(default: keep all lines)")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR",
                        help="write both files here under their own names, and "
                             f"{' and '.join(VOCABULARIES)}")


def add_restore(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt restore`."""
    parser.add_argument("source", type=Path, help="the sentences as written, not annotated")
    parser.add_argument("translations", type=Path, help="in tokens, before detokenisation")
    parser.add_argument("--method", choices=METHODS, required=True, metavar="METHOD",
                        help=f"read the marks of {', '.join(METHODS)}")
    parser.add_argument("--dictionary", type=Path, metavar="FILE",
                        help="translate unknown words by this file, with source word, tab, "
                             "translation on a line (default: copy the words)")
    parser.add_argument("--source-vocabulary", type=Path, metavar="FILE",
                        help=f"read {VOCABULARIES[0]} of the training corpus, which noalign and "
                             "copyable need")
    parser.add_argument("--keep-unknown", action="store_true",
                        help="write <unk> for every unknown word")
    add_output(parser, "text")


# --- annotate -------------------------------------------------------------------------------------


def run_annotate(options: argparse.Namespace) -> None:
    """`nmt annotate`."""
    _check(options)
    paths = _outputs(options)
    pairs, links = _kept(*_linked_pairs(options), options.max_length)
    vocabularies = [_vocabulary(getattr(options, f"{name}_vocabulary"),
                                [pair[side] for pair in pairs], f"--{name}-vocabulary")
                    for side, name in enumerate(SIDES[:len(paths)])]
    known = [frozenset(vocabulary.words) for vocabulary in vocabularies] + [frozenset[str]()]
    rules = Rules(options.method, known[0], known[1], link_probabilities(pairs, links))
    counts: Counter[str] = Counter()
    annotated = [annotate(pair, sentence, rules, counts)
                 for pair, sentence in zip(counted(pairs, "annotating"), links, strict=True)]
    for side, path in enumerate(paths):
        write_lines(path, (" ".join(pair[side]) for pair in annotated))
        vocabularies[side].write(options.output / VOCABULARIES[side])
    if options.target is None:
        print(f"{options.output}: {several(len(pairs), 'sentence')}")
    else:
        print(f"{options.output}: {several(len(pairs), 'pair')}; unknown words of the target: "
              f"{_told(counts)}")


def _check(options: argparse.Namespace) -> None:
    """Raise UserError unless the target's options are given exactly if TARGET is given."""
    if options.target is None:
        for option in options_given(options, "links", "target_vocabulary", "max_length"):
            raise UserError(f"{option}: needs TARGET")
        return
    if options.target_vocabulary is None:
        raise UserError("TARGET: needs --target-vocabulary N|FILE")
    if options.method != "noalign" and options.links is None:
        raise UserError(f"--method {options.method}: needs --links FILE")


def _outputs(options: argparse.Namespace) -> list[Path]:
    """The paths of the output files. Raises UserError if they would overwrite each other or an
    input file."""
    texts = [path for path in (options.source, options.target) if path is not None]
    names = [*(path.name for path in texts), *VOCABULARIES]
    if len(set(names)) < len(names):
        raise UserError(f"{', '.join(map(str, texts))}: expected different names, and none of "
                        f"{' and '.join(VOCABULARIES)}")
    make_directory(options.output)
    for path in texts:
        if path.resolve() == (options.output / path.name).resolve():
            raise UserError(f"--output: expected a directory other than that of {path}")
    return [options.output / path.name for path in texts]


def _linked_pairs(options: argparse.Namespace) -> tuple[list[Pair], list[list[Link]]]:
    """The pairs and their links. Without a target file, targets are empty; noalign has no links."""
    if options.target is None:
        sources = [split_words(line) for line in read_lines(options.source)]
        return [(source, []) for source in sources], [[] for _ in sources]
    pairs = read_pairs_of_words(options.source, options.target)
    if options.method == "noalign":
        return pairs, [[] for _ in pairs]
    return pairs, file_links(options.links, sizes_of(pairs), options.drop_bad_links)


def _kept(
    pairs: Sequence[Pair], links: Sequence[list[Link]], max_length: int | None
) -> tuple[list[Pair], list[list[Link]]]:
    """The pairs to annotate and their links. With a limit, some are left out; prints how many."""
    if max_length is None:
        return list(pairs), list(links)
    kept = [n for n, pair in enumerate(pairs)
            if min(map(len, pair)) and max(map(len, pair)) <= max_length]
    print(f"left out: {several(len(pairs) - len(kept), 'pair')} with an empty side or over "
          f"{several(max_length, 'word')}")
    return [pairs[n] for n in kept], [links[n] for n in kept]


def _vocabulary(text: str, sentences: Sequence[Sequence[str]], option: str) -> Vocabulary:
    """The vocabulary of `N|FILE`."""
    if not (text.isascii() and text.isdecimal()):
        return Vocabulary.read(text)
    try:
        return Vocabulary.build(sentences, max_size=natural(text, len(SPECIALS)))
    except argparse.ArgumentTypeError as error:
        raise UserError(f"{option}: {error}") from None


# --- restore --------------------------------------------------------------------------------------


def run_restore(options: argparse.Namespace) -> None:
    """`nmt restore`: write the translations, and print the outcomes of unknown words on stderr."""
    words = _source_words(options)
    dictionary = {} if options.dictionary is None else read_dictionary(options.dictionary)
    lines, counts = [], Counter[str]()
    pairs = zip(*read_parallel(options.source, options.translations), strict=True)
    for number, (source, text) in enumerate(counted(pairs, "restoring"), 1):
        written = split_words(source)
        try:
            resolved = resolve(split_words(text), written, options.method, words)
        except ValueError as error:  # a symbol of another method
            raise UserError(f"{options.translations}:{number}: {error}") from None
        counts += resolved.counts
        restored = (resolved.words if options.keep_unknown
                    else restore(resolved, written, dictionary))
        lines.append(" ".join(restored))
    write_or_print(options.output, lines)
    print(f"unknown words: {_told(counts)}", file=sys.stderr)
    if counts["stray"]:
        print(several(counts["stray"], "positional symbol follows no word and is left out",
                      "positional symbols follow no word and are left out"), file=sys.stderr)


def _source_words(options: argparse.Namespace) -> frozenset[str]:
    """The source vocabulary; an empty set if the method does not need it."""
    if options.method not in ("noalign", "copyable"):
        return frozenset()
    if options.source_vocabulary is None:
        raise UserError(f"--method {options.method}: needs --source-vocabulary FILE")
    return frozenset(Vocabulary.read(options.source_vocabulary).words)


def _told(counts: Counter[str]) -> str:
    """The counts of outcomes as text."""
    return ", ".join(f"{counts[name]} {text}" for name, text in OUTCOMES.items() if counts[name]) \
        or "none"
