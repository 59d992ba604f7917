"""`nmt translate`: translate the lines of files, of stdin, or of a dialogue."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from backend.errors import UserError
from backend.host import cores, use_threads
from nmt.cli.arriving import stdin_in_time
from nmt.cli.options import (
    add_aligned_word,
    add_models,
    add_replace_unk,
    add_sampling,
    add_search,
    add_tokens_written,
    tell_precision,
)
from nmt.cli.sources import check_tokens, reads, tell_state_of_text, texts_of_files
from nmt.cli.translated_lines import FREQUENT, Lines
from nmt.console.arguments import at_least_zero, count, natural, positive
from nmt.console.terminal import print
from nmt.data.corpora import EMBEDDED, examples
from nmt.data.corpus import Odd, plain_lines, stream_lines
from nmt.data.stored import StoredSentences
from nmt.system import System
from nmt.training.kept import SUFFIX

BLOCK = 1024  # sentences that are sorted by length, translated, and printed together


def add_translate(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt translate`."""
    parser.add_argument("files", type=Path, nargs="*", metavar="FILE",
                        help="text to translate (default: stdin, or typed text)")
    add_models(parser)
    parser.add_argument("--sources", action="store_true",
                        help="let each model read its own file, in order")
    add_search(parser)
    parser.add_argument("--minimum-length", type=natural, metavar="N",
                        help="write at least N words or pieces")
    parser.add_argument("--minimum-steps", type=positive, metavar="N",
                        help="allow at least N words, for short sources")
    parser.add_argument("--nbest", type=positive, metavar="N",
                        help="print the N best in Moses' format")
    add_sampling(parser)
    parser.add_argument("--draws", type=positive, metavar="N",
                        help="with --sample, take the most probable of N draws")
    parser.add_argument("--every-beam", action="store_true",
                        help="take the best of all beams up to --beam")
    parser.add_argument("--sparse", action="store_true",
                        help="use sparse products of a pruned model (nmt prune)")
    parser.add_argument("--shortlist", type=Path, metavar="DICTIONARY",
                        help="allow only target words that this file gives")
    parser.add_argument("--frequent", type=count, metavar="N",
                        help=f"... and the N most frequent (default: {FREQUENT})")
    parser.add_argument("--shortlist-check", action="store_true",
                        help="count translations that stay the same")
    parser.add_argument("--valid-trees", action="store_true", help="write valid linear trees only")
    parser.add_argument("--target-token", metavar="L",
                        help="choose the target language, such as <2de>")
    parser.add_argument("--prefix", metavar="TEXT", help="begin each translation with this text")
    parser.add_argument("--lm", type=Path, metavar="DIR", help="add a language model's log p")
    parser.add_argument("--lm-weight", type=at_least_zero, metavar="BETA",
                        help="... times BETA, which nmt lm tune finds")
    parser.add_argument("--alignments", type=Path, metavar="FILE",
                        help="write links, 'source-target' positions from 0")
    add_tokens_written(parser)
    parser.add_argument("--show", choices=("attention",), help="draw what the decoder attends to")
    parser.add_argument("--strict", action="store_true",
                        help="stop at a line that cannot be translated")
    parser.add_argument("--unbuffered", action="store_true",
                        help="translate each line alone, as soon as it comes")
    parser.add_argument("--jobs", type=partial(natural, least=1, most=1024), default=1, metavar="N",
                        help="share the sentences among N processes (default: 1)")
    add_replace_unk(parser)
    add_aligned_word(parser)


def run_translate(options: argparse.Namespace) -> None:
    """`nmt translate`: translate files or stdin to stdout, line by line, or hold a dialogue at a
    terminal. A line that cannot be translated has an empty translation and is named on stderr. With
    `--strict` it raises UserError before any line is translated.
    """
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
        """size: how many sentences are translated together."""
        self.done = 0  # sentences printed
        self._lines, self._size = lines, size
        self._block: list[list[str]] = []

    def add(self, words: list[str]) -> None:
        """Take the next sentence; translate and print when there are enough."""
        self._block.append(words)
        if len(self._block) >= self._size:
            self.flush()

    def flush(self) -> None:
        """Translate and print the sentences taken so far."""
        lines, block = self._lines, self._block
        if not block:
            return
        translations = lines.translate(block)
        if not self.done:
            target_words = [lines.system.whole_words(nbest[0]) for nbest in translations]
            tell_precision(lines.system, list(zip(block, target_words, strict=True)))
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
    """Divide the cores among the processes of `--jobs`. Raises UserError for options that exclude
    `--jobs`."""
    if options.jobs == 1:
        return
    if options.sample is not None:
        raise UserError("--jobs: cannot be used with --sample, whose draws follow one another")
    if getattr(options, "backend", "numpy") != "numpy":
        raise UserError("--jobs: expected the backend numpy, got cupy: one process fills a GPU")
    if not hasattr(options, "threads"):
        use_threads(max(1, cores() // options.jobs))


def _sentences(
    system: System, options: argparse.Namespace, before_waiting: Callable[[], None]
) -> Iterator[list[str]]:
    """The words of each line of the files or of stdin, with all sources of a sentence together.

    A line that cannot be translated has no words; with `--strict` it raises UserError.
    before_waiting: called when stdin has had no line for a while.
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
    """Print on stderr that a line is not translated."""
    print(f"{error}; not translated, its line in the output is empty", file=sys.stderr)


def _named(
    system: System, files: Sequence[Path], odd: Odd | None, before_waiting: Callable[[], None]
) -> list[tuple[list[str], Iterator[str]]]:
    """The texts to translate, each with the names of its files."""
    if reads(system) > 1:
        return [([str(path) for path in files], texts_of_files(system, files))]
    read_lines = partial(plain_lines, odd=odd)
    return [([str(path)], stream_lines(path, read_lines)) for path in files] or [
        (["<stdin>"], read_lines(stdin_in_time(before_waiting), "<stdin>"))]


def converse(lines: Lines, options: argparse.Namespace) -> None:
    """Hold a dialogue at a terminal: read a sentence, print its translation and unknown words."""
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
    """The line that the user types; "" at the end of the input."""
    print("> ", end="", file=sys.stderr, flush=True)
    line = next(plain_lines(sys.stdin.buffer, "<stdin>"), None)
    if line is None:
        print(file=sys.stderr)
    return line or ""


def _greeting(system: System, models: Sequence[Path]) -> list[str]:
    """Lines on the languages, on how to end the dialogue and, for the embedded corpus, examples."""
    data = system.recipe.data
    lines = [f"{data.source_language} to {data.target_language} by "
             f"{', '.join(map(str, models))}: a sentence a line; an empty line or Ctrl-D ends."]
    if to_try := examples(data):
        lines += [f"{EMBEDDED} Try:", *(f"  {example}" for example in to_try)]
    return lines


def tell_unknown(system: System, words: Sequence[str]) -> None:
    """Print on stderr which words of a sentence the model does not know."""
    if unknown := system.unknown_words(words):
        treatment = "read letter by letter" if "source" in system.spellings else "read as <unk>"
        print(f"  not in the vocabulary, {treatment}: {', '.join(unknown)}", file=sys.stderr)
