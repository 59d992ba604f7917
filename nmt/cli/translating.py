"""`nmt translate`: translate lines of text, or in a dialogue."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from select import select

import numpy as np

from backend.errors import UserError
from backend.host import cores, use_threads
from nmt.cli.fusing import fused
from nmt.cli.options import (
    add_aligned_word,
    add_models,
    add_replace_unk,
    add_search,
    add_tokens_written,
    need_attention,
    search_options,
    tell_precision,
    unk_replacement,
)
from nmt.cli.sources import need_one_source, reads, tell_state_of_text, texts_of_files
from nmt.console.arguments import above_zero, at_least_zero, count, natural, positive
from nmt.console.messages import several
from nmt.console.terminal import print
from nmt.data.align import pharaoh_line, tokens_line
from nmt.data.annotation import is_language
from nmt.data.corpora import EMBEDDED, examples
from nmt.data.corpus import Odd, Readable, plain_lines, split_words, stream_lines, write_lines
from nmt.data.rare_words import read_dictionary
from nmt.data.sources import parts, places
from nmt.data.stored import StoredSentences
from nmt.evaluation.alignment_map import in_terminal
from nmt.files import check_writable
from nmt.joint_sources import JointSources
from nmt.pruning.inference import use_sparse_products
from nmt.search.interface import SearchOptions
from nmt.search.shortlist import Shortlist
from nmt.system import System
from nmt.training.kept import SUFFIX
from nmt.translation import Translation

BLOCK = 1024  # sentences in a block, which is sorted by length and translated before it is printed
PAUSE = 0.05  # seconds without a line of stdin, after which those that came are translated
AT_ONCE = 1 << 13  # bytes read of stdin
FREQUENT = 500  # words that every batch may be translated into, with --shortlist


def add_translate(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt translate`."""
    parser.add_argument("files", type=Path, nargs="*", metavar="FILE",
                        help="what to translate (default: stdin, or what you type; of two "
                             "sources a file of each)")
    add_models(parser)
    parser.add_argument("--sources", action="store_true",
                        help="each model reads its own file, in order")
    add_search(parser)
    parser.add_argument("--nbest", type=positive, metavar="N",
                        help="print the N best: 'line ||| translation ||| log_p= X cut= 1 if at "
                             "the limit on length ||| score'")
    parser.add_argument("--sample", type=above_zero, metavar="TEMPERATURE",
                        help="sample a translation, no search")
    parser.add_argument("--seed", type=natural, default=1, help="of --sample")
    parser.add_argument("--draws", type=positive, metavar="N",
                        help="with --sample: the most probable of N draws")
    parser.add_argument("--every-beam", action="store_true",
                        help="the best of all beams up to --beam")
    parser.add_argument("--sparse", action="store_true",
                        help="sparse products of a pruned model (nmt prune)")
    parser.add_argument("--shortlist", type=Path, metavar="DICTIONARY",
                        help="restrict the target words to its translations")
    parser.add_argument("--frequent", type=count, metavar="N",
                        help=f"... and the N most frequent (default: {FREQUENT})")
    parser.add_argument("--shortlist-check", action="store_true",
                        help="report how often all words give the same")
    parser.add_argument("--target-token", metavar="L",
                        help="the target language, such as <2de>")
    parser.add_argument("--lm", type=Path, metavar="DIR",
                        help="add a language model's log p (shallow fusion)")
    parser.add_argument("--lm-weight", type=at_least_zero, metavar="BETA",
                        help="... times BETA, which nmt lm tune finds")
    parser.add_argument("--alignments", type=Path, metavar="FILE",
                        help="write 'source-target' positions of tokens, from 0")
    add_tokens_written(parser)
    parser.add_argument("--show", choices=("attention",),
                        help="draw what the decoder attends to")
    parser.add_argument("--strict", action="store_true",
                        help="stop at a line that cannot be translated")
    parser.add_argument("--unbuffered", action="store_true",
                        help="translate each line as it comes, alone")
    parser.add_argument("--jobs", type=partial(natural, least=1, most=1024), default=1,
                        metavar="N", help="processes that share the sentences (default: 1)")
    add_replace_unk(parser)
    add_aligned_word(parser)


def run_translate(options: argparse.Namespace) -> None:
    """`nmt translate`: files or stdin to stdout, line by line; at a terminal, a dialogue. A line
    that cannot be translated has an empty one, and is named on stderr; with `--strict` it raises
    UserError before any line is translated."""
    _check_models(options.model)
    _share_out(options)
    lines = Lines(options)
    if not options.files and sys.stdin.isatty() and reads(lines.system) == 1:
        converse(lines, options)
        return
    output = Output(lines, 1 if options.unbuffered else BLOCK)
    sentences: Iterable[list[str]] = _sentences(lines.system, options, output.flush)
    for words in StoredSentences(sentences) if options.strict else sentences:
        output.add(words)
    output.flush()
    lines.close(output.done)


class Output:
    """Collects sentences into blocks, and prints their translations."""

    def __init__(self, lines: Lines, size: int) -> None:
        """size: sentences in a block, which is sorted by length."""
        self.done = 0  # sentences printed
        self._lines, self._size = lines, size
        self._block: list[list[str]] = []

    def add(self, words: list[str]) -> None:
        """The next sentence."""
        self._block.append(words)
        if len(self._block) >= self._size:
            self.flush()

    def flush(self) -> None:
        """Translate and print the sentences that wait."""
        lines, block = self._lines, self._block
        if not block:
            return
        translations = lines.translate(block)
        if not self.done:
            made = [lines.system.whole_words(nbest[0]) for nbest in translations]
            tell_precision(lines.system, list(zip(block, made, strict=True)))
            tell_state_of_text(lines.system, block)
        pairs = zip(block, translations, strict=True)
        for number, (words, nbest) in enumerate(pairs, self.done):
            for translation in nbest:
                print(lines.line(translation, words, number))
            lines.show_attention(nbest[0], words)
        sys.stdout.flush()
        self.done += len(block)
        self._block = []


def _check_models(models: Sequence[Path]) -> None:
    """Raise UserError for a file among the run directories: `--model` takes all that follows."""
    for path in models:
        if path.is_file() and path.suffix != SUFFIX:
            raise UserError(f"{path}: expected a run directory, got a file; files to translate "
                            "come first: nmt translate FILE --model DIR")


def _share_out(options: argparse.Namespace) -> None:
    """What `--jobs` asks for can be: as many threads for each process as there are cores for it.
    """
    if options.jobs == 1:
        return
    if options.sample is not None:
        raise UserError("--jobs: expected no --sample beside it: its draws follow one another")
    if getattr(options, "backend", "numpy") != "numpy":
        raise UserError("--jobs: expected the backend numpy, got cupy: one process fills a GPU")
    if not hasattr(options, "threads"):
        use_threads(max(1, cores() // options.jobs))


def _sentences(
    system: System, options: argparse.Namespace, before_waiting: Callable[[], None]
) -> Iterator[list[str]]:
    """The words of each line of the files, or of stdin; of several sources those of all. Those of a
    line that cannot be translated are none, unless `--strict`.

    before_waiting: is called when stdin has no line for a while.
    """
    odd = None if options.strict else _tell_odd
    for names, lines in _named(system, options.files, odd, before_waiting):
        for number, words in enumerate(map(system.cut_source, lines), 1):
            try:
                system.check_sources([words], names, [number])
                check_tokens(system, words, f"{names[0]}:{number}")
            except UserError as error:
                if odd is None:
                    raise
                odd(error)
                words = []
            yield words


def _tell_odd(error: UserError) -> None:
    """Say that a line is not translated."""
    print(f"{error}; not translated, its line in the output is empty", file=sys.stderr)


def _named(
    system: System, files: Sequence[Path], odd: Odd | None, before_waiting: Callable[[], None]
) -> list[tuple[list[str], Iterator[str]]]:
    """The texts to translate, with the names of the files that they stand in."""
    if reads(system) > 1:
        return [([str(path) for path in files], texts_of_files(system, files))]
    read = partial(plain_lines, odd=odd)
    return [([str(path)], stream_lines(path, read)) for path in files] or [
        (["<stdin>"], read(_stdin(before_waiting), "<stdin>"))]


def _stdin(before_waiting: Callable[[], None]) -> Readable:
    """Standard input, which says so before it waits, where it has a descriptor."""
    file = sys.stdin.buffer
    try:
        descriptor = file.fileno()
    except OSError:  # a stand-in, as of tests
        return file
    return Arriving(descriptor, before_waiting)


class Arriving:
    """Lines of a descriptor, with a call when none has arrived for a while."""

    def __init__(self, descriptor: int, before_waiting: Callable[[], None]) -> None:
        self._descriptor, self._before_waiting = descriptor, before_waiting
        self._left, self._ended = b"", False  # bytes that were read and not given

    def readline(self, size: int) -> bytes:
        """The next line with its end, or as many bytes of it; b"" at the end."""
        parts = [self._left]
        while b"\n" not in parts[-1] and sum(map(len, parts)) < size and not self._ended:
            if not select([self._descriptor], [], [], PAUSE)[0]:
                self._before_waiting()
            parts.append(os.read(self._descriptor, AT_ONCE))
            self._ended = not parts[-1]
        arrived = b"".join(parts)
        end = arrived.find(b"\n", 0, size) + 1 or min(size, len(arrived))
        self._left = arrived[end:]
        return arrived[:end]


def check_tokens(system: System, words: Sequence[str], where: str) -> None:
    """Raise UserError for a symbol of a language, such as <2de>, that the model never read. For a
    model without such symbols it is a word like others."""
    known = list(filter(is_language, system.source.words))
    for word in parts(words)[0] if known else ():
        if is_language(word) and word not in known:
            raise UserError(f"{where}: expected a language that the model was trained to write, "
                            f"{', '.join(known)}, got {word}")


def _towards(system: System, token: str | None) -> System:
    """The system with `token` in front of each source, which chooses the language to write."""
    if token is None:
        return system
    if not is_language(token):
        raise UserError(f"--target-token: expected such as <2de>, got {token!r}")
    if not any(map(is_language, system.source.words)):
        raise UserError("--target-token: expected a model of several target languages, got one "
                        "without symbols of languages")
    check_tokens(system, [token], "--target-token")
    recipe = system.recipe
    return replace(system, recipe=replace(recipe, data=replace(recipe.data, target_token=token)))


def _opened(options: argparse.Namespace) -> System:
    """The model, the ensemble, or with `--sources` models that read a file each."""
    if not options.sources:
        return System.open_all(options.model, options.average, options.checkpoint)
    if len(options.model) < 2:
        raise UserError("--sources: expected a model for each source in --model, got one")
    return JointSources.open_each(options.model, options.average, options.checkpoint)


class Lines:
    """Translates blocks of sentences by a command's options, and writes them as lines."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.system = fused(_towards(_opened(options), options.target_token), options)
        self.search = _search_options(self.system, options)
        self._options = options
        if options.sparse:
            _use_sparse_products(self.system, options)
        for name in ("alignments", "replace_unk", "shortlist", "target_token"):
            if getattr(options, name) is not None:
                need_one_source(self.system, f"--{name.replace('_', '-')}")
        _check_alignments(options, self.system)
        if options.show is not None:
            need_attention(self.system, "--show attention")
        self._replacement = unk_replacement(options, self.system)
        self._rng = np.random.default_rng(options.seed)
        self._shortlist = _shortlist(self.system, options)
        self._cut_words = self._smaller = self._same = 0
        self._links, self._tokens = StoredSentences(), StoredSentences()

    def translate(self, block: Sequence[Sequence[str]]) -> list[list[Translation]]:
        """The translations of each sentence, best first."""
        if self._options.sample is not None:
            translations = self.system.sample(block, self.search, self._options.sample, self._rng,
                                              self._options.draws or 1)
        else:
            jobs = self._options.jobs
            translations = self.system.translate(block, self.search, shortlist=self._shortlist,
                                                 jobs=jobs)
            if self._options.shortlist_check:
                whole = self.system.translate(block, self.search, jobs=jobs)
                self._same += sum(ours[0].words == theirs[0].words
                                  for ours, theirs in zip(translations, whole, strict=True))
        self._cut_words += sum(one.cut_words for nbest in translations for one in nbest)
        self._smaller += sum((nbest[0].beam or self.search.beam) < self.search.beam
                             for nbest in translations)
        if self._options.alignments is not None:
            for words, nbest in zip(block, translations, strict=True):
                for translation in nbest:
                    self._links.append(self._pharaoh_words(translation, words))
                    if self._options.tokens is not None:
                        made = self.system.whole_words(translation)
                        self._tokens.append(split_words(tokens_line(words, made)))
        return translations

    def line(self, translation: Translation, words: Sequence[str], number: int) -> str:
        """Plain text, or Moses' n-best format: line number from 0, text, features, score."""
        text = self.system.text(translation) if self._replacement is None else \
            self.system.text_without_unknown(translation, words, self._replacement)
        if self._options.nbest is None:
            return text
        return (f"{number} ||| {text} ||| log_p= {translation.log_probability:.4f} "
                f"cut= {int(not translation.finished)} ||| {translation.score:.4f}")

    def show_attention(self, translation: Translation, words: Sequence[str]) -> None:
        """What `--show attention` draws, on stderr, so that the lines of stdout stay aligned."""
        if self._options.show is not None and translation.alignment is not None:
            columns = self.system.source_columns(words)
            for source in places(columns):
                print(in_terminal(columns[source], translation.words,
                                  translation.alignment[:, source])
                      + "\n", file=sys.stderr)

    def close(self, sentences: int) -> None:
        """At the end: write the alignments, and print the counts on stderr."""
        if self._options.alignments is not None:
            write_lines(self._options.alignments, map(" ".join, self._links))
            if self._options.tokens is not None:
                write_lines(self._options.tokens, map(" ".join, self._tokens))
        if self.search.every_beam and self._options.sample is None:
            print(f"{self._smaller} of {several(sentences, 'sentence')}: a beam below "
                  f"{self.search.beam} found a better translation", file=sys.stderr)
        if self._shortlist is not None and self._shortlist.counts:
            counts = self._shortlist.counts
            print(f"{sum(counts) / len(counts):.0f} of {self._shortlist.size} target words a batch "
                  "on average", file=sys.stderr)
            if self._options.shortlist_check:
                print(f"{self._same} of {several(sentences, 'sentence')}: the translation of a "
                      "search of all words", file=sys.stderr)
        if self._cut_words:
            cut = several(self._cut_words, "spelled word was", "spelled words were")
            print(f"{cut} cut at {several(self.search.longest_word, 'character')} "
                  " (--longest-word, search.longest_word)", file=sys.stderr)

    def _pharaoh_words(self, translation: Translation, words: Sequence[str]) -> list[str]:
        """The links of a translation of `words`, `i-j` each."""
        links = self.system.word_links(translation, words, self._options.aligned_word)
        return split_words(pharaoh_line(links))


def converse(lines: Lines, options: argparse.Namespace) -> None:
    """A dialogue at a terminal: a sentence, its translation, its unknown words."""
    system, number = lines.system, 0
    print("\n".join(_greeting(system, options.model)), file=sys.stderr)
    cut = system.cut_source
    while (line := _asked()).strip():
        words = cut(line)
        try:
            system.check_sources([words], "sentence")
            check_tokens(system, words, "sentence")
            nbest = lines.translate([words])[0]
        except UserError as error:
            print(error, file=sys.stderr)
            continue
        for translation in nbest:
            print(lines.line(translation, words, number), flush=True)
        lines.show_attention(nbest[0], words)
        tell_unknown(system, words)
        number += 1
    lines.close(number)


def _asked() -> str:
    """A line that the user types; an empty one at the end of the input."""
    print("> ", end="", file=sys.stderr, flush=True)
    line = next(plain_lines(sys.stdin.buffer, "<stdin>"), None)
    if line is None:
        print(file=sys.stderr)
    return line or ""


def _greeting(system: System, models: Sequence[Path]) -> list[str]:
    """The languages, how to end the dialogue, and for the demonstration some examples."""
    data = system.recipe.data
    lines = [f"{data.source_language} to {data.target_language} by "
             f"{', '.join(map(str, models))}: a sentence a line; an empty line or Ctrl-D ends."]
    if to_try := examples(data):
        lines += [f"{EMBEDDED} Try:", *(f"  {example}" for example in to_try)]
    return lines


def tell_unknown(system: System, words: Sequence[str]) -> None:
    """Say on stderr which words of a sentence the model does not know."""
    if unknown := system.unknown_words(words):
        how = "read letter by letter" if "source" in system.spellings else "read as <unk>"
        print(f"  not in the vocabulary, {how}: {', '.join(unknown)}", file=sys.stderr)


def _search_options(system: System, options: argparse.Namespace) -> SearchOptions:
    """The recipe's search settings with those of the command line."""
    if options.sample is not None:
        if options.beam is not None or options.nbest is not None or options.every_beam:
            raise UserError("--sample: expected no --beam, --every-beam or --nbest beside it")
    elif options.draws is not None:
        raise UserError("--draws: expected --sample beside it")
    return search_options(system, options, options.nbest, options.every_beam)


def _shortlist(system: System, options: argparse.Namespace) -> Shortlist | None:
    """What `--shortlist` asks for."""
    if options.shortlist is None:
        if options.frequent is not None or options.shortlist_check:
            name = "--shortlist-check" if options.shortlist_check else "--frequent"
            raise UserError(f"{name}: expected --shortlist DICTIONARY beside it")
        return None
    if options.sample is not None or options.sparse:
        name = "--sparse" if options.sparse else "--sample"
        raise UserError(f"{name}: expected no --shortlist beside it")
    if getattr(system.recipe.model, "lexicon_epsilon", None) is not None:
        raise UserError("--shortlist: expected a model without model.lexicon_epsilon, whose bias "
                        "is of all target words")
    candidates = {word: system.target_ids(translations)
                  for word, translations in read_dictionary(options.shortlist).items()}
    frequent = FREQUENT if options.frequent is None else options.frequent
    return Shortlist(candidates, frequent, len(system.target))


def _use_sparse_products(system: System, options: argparse.Namespace) -> None:
    """Use sparse matrix products (`--sparse`); print on stderr for which weights."""
    if len(options.model) > 1:
        raise UserError("--sparse: expected one model, got an ensemble")
    names = use_sparse_products(system)
    print(f"sparse products: {', '.join(names) or 'none, more than a tenth of each is left'}",
          file=sys.stderr)


def _check_alignments(options: argparse.Namespace, system: System) -> None:
    """Raise UserError if the model has no alignments, or their files cannot be written."""
    if options.alignments is None:
        if options.tokens is not None:
            raise UserError("--tokens: expected --alignments beside it, which count them")
        return
    need_attention(system, "--alignments")
    check_writable(options.alignments)
    if options.tokens is not None:
        check_writable(options.tokens)
