"""`nmt back-translate`: make synthetic sources for text in the target language."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from backend.errors import UserError
from nmt.cli.options import add_model, add_sampling
from nmt.cli.translating import BLOCK
from nmt.console.arguments import positive
from nmt.console.messages import several
from nmt.console.terminal import print
from nmt.data.corpora import tokenisers
from nmt.data.corpus import split_words, stream_lines, write_lines
from nmt.data.stored import StoredPairs, StoredSentences
from nmt.files import check_writable
from nmt.search.interface import chosen
from nmt.system import System
from nmt.translation import Translation

Translate = Callable[[Sequence[Sequence[str]]], list[list[Translation]]]


def add_back_translate(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt back-translate`."""
    parser.add_argument("text", type=Path, help="sentences of the target language, one per line")
    add_model(parser)
    parser.add_argument("--source", type=Path, required=True, metavar="FILE",
                        help="write the translations here")
    parser.add_argument("--target", type=Path, required=True, metavar="FILE",
                        help="write the text that they translate here")
    parser.add_argument("--beam", type=positive, metavar="N",
                        help="keep N hypotheses; 1 is greedy (default: recipe's)")
    add_sampling(parser)


def run_back_translate(options: argparse.Namespace) -> None:
    """`nmt back-translate`.

    Translate text in the target language with a run of the opposite direction, and write two files
    to train on, line by line: the translations as sources, and the text. Lines that are empty, or
    have an empty translation, are left out of both. Both files are written at the end, or neither.
    """
    if options.sample is not None and options.beam is not None:
        raise UserError("--sample: cannot be used with --beam")
    if options.source.resolve() == options.target.resolve():
        raise UserError(f"--target: expected a file other than --source, got {options.target}")
    for path in (options.source, options.target):
        check_writable(path)
    system = System.open(options.model, options.checkpoint)
    lines = _lines(system, options.text)
    pairs = _translated(system, lines, _search(system, options))
    if not pairs:
        raise UserError(f"{options.text}: expected sentences, found none that have a translation")
    _write_both(options.source, options.target, pairs)
    print(f"{several(len(pairs), 'pair')} of {several(len(lines), 'line')}; left out: "
          f"{len(lines) - len(pairs)}, empty or with an empty translation", file=sys.stderr)


def _lines(system: System, path: Path) -> StoredSentences:
    """The lines of the text, split at spaces. Raises UserError for a line that is too long."""
    sentences = StoredSentences()
    for number, line in enumerate(stream_lines(path), 1):
        system.check_sources([system.cut_source(line)], str(path), [number])
        sentences.append(split_words(line))
    return sentences


def _search(system: System, options: argparse.Namespace) -> Translate:
    """The translation function. It never writes `<unk>`, unless the model spells unknown words."""
    spells = "target" in system.spellings
    search = replace(chosen(system.recipe.search, options.beam), nbest=1, unknown=spells)
    if options.sample is None:
        return lambda sentences: system.translate(sentences, search)
    rng = np.random.default_rng(options.seed)
    return lambda sentences: system.sample(sentences, search, options.sample, rng)


def _translated(system: System, lines: StoredSentences, translate: Translate) -> StoredPairs:
    """Pairs (translation, line), without those that are empty on a side."""
    cut, pairs = tokenisers(system.recipe.data)[0].tokenise, StoredPairs()
    for first in range(0, len(lines), BLOCK):
        block = lines[first : first + BLOCK]
        for nbest, line in zip(translate([cut(" ".join(words)) for words in block]), block,
                               strict=True):
            if words := split_words(system.text(nbest[0])):
                pairs.append((words, line))
    return pairs


def _write_both(source: Path, target: Path, pairs: StoredPairs) -> None:
    """Write both sides. If the second cannot be written, the first is removed."""
    write_lines(source, (" ".join(words) for words, _ in pairs))
    try:
        write_lines(target, (" ".join(words) for _, words in pairs))
    except BaseException:
        with suppress(OSError):
            source.unlink()
        raise
