"""`nmt translate`: lines in, lines out."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from backend.errors import UserError
from backend.files import check_writable
from nmt.cli.evaluation import need_attention, tell_precision, unk_replacement
from nmt.data.align import pharaoh_line
from nmt.data.corpora import check_lengths, tokenisers
from nmt.data.corpus import plain_lines, split_words, write_lines
from nmt.data.stored import StoredSentences
from nmt.pruning.inference import use_sparse_products
from nmt.search.interface import SearchOptions, chosen
from nmt.system import System, Translation

BLOCK = 1024  # sentences that are sorted by length and translated before they are printed


def translate(options: argparse.Namespace) -> None:
    """`nmt translate`: stdin to stdout; lines stay aligned, and a bad one is found before any."""
    system = System.open_all(options.model, options.average, options.checkpoint)
    search = _search_options(system.recipe.search, options)
    if options.sparse:
        _use_sparse_products(system, options)
    _check_alignments(options.alignments, system)
    replacement = unk_replacement(options, system)
    rng = np.random.default_rng(options.seed)
    cut = tokenisers(system.recipe.data)[0].tokenise
    sentences = StoredSentences(map(cut, plain_lines(sys.stdin.buffer, "<stdin>")))
    check_lengths(sentences, system.recipe.data, "<stdin>")
    links = StoredSentences()
    cut_words = smaller = 0
    for first in range(0, len(sentences), BLOCK):
        block = sentences[first : first + BLOCK]
        if options.sample is not None:
            found = system.sample(block, search, options.sample, rng, options.draws or 1)
        else:
            found = system.translate(block, search)
        if not first:
            made = [nbest[0].words for nbest in found]
            tell_precision(system, list(zip(block, made, strict=True)))
        for number, nbest in enumerate(found, first):
            for translation in nbest:
                text = system.text(translation) if replacement is None else \
                    system.text_without_unknown(translation, sentences[number], replacement)
                print(_output_line(text, number, translation, options.nbest))
                if options.alignments is not None:
                    found_links = system.links(translation, options.aligned_word)
                    links.append(split_words(pharaoh_line(found_links)))
                cut_words += translation.cut_words
            smaller += (nbest[0].beam or search.beam) < search.beam
        sys.stdout.flush()
    if search.every_beam and options.sample is None:
        print(f"{smaller} of {len(sentences)} sentences: a beam below {search.beam} found a better "
              "translation", file=sys.stderr)
    if cut_words:
        print(f"{cut_words} spelled words were cut at {search.longest_word} characters "
              "(--longest-word, search.longest_word)", file=sys.stderr)
    if options.alignments is not None:
        write_lines(options.alignments, map(" ".join, links))


def _search_options(search: SearchOptions, options: argparse.Namespace) -> SearchOptions:
    """The recipe's search settings with those of the command line."""
    if options.sample is not None:
        if options.beam is not None or options.nbest is not None or options.every_beam:
            raise UserError("--sample: expected no --beam, --every-beam or --nbest beside it")
    elif options.draws is not None:
        raise UserError("--draws: expected --sample beside it")
    return chosen(search, options.beam, options.nbest, options.length_factor,
                  options.length_normalisation, options.longest_word, options.every_beam or None)


def _use_sparse_products(system: System, options: argparse.Namespace) -> None:
    """What `--sparse` does; which weights it is about goes to stderr."""
    if len(options.model) > 1:
        raise UserError("--sparse: expected one model, got an ensemble")
    names = use_sparse_products(system)
    print(f"sparse products: {', '.join(names) or 'none, more than a tenth of each is left'}",
          file=sys.stderr)


def _check_alignments(path: Path | None, system: System) -> None:
    """Raise UserError if there will be no alignments, or no place for them, before the work."""
    if path is None:
        return
    need_attention(system, "--alignments")
    check_writable(path)


def _output_line(text: str, number: int, translation: Translation, nbest: int | None) -> str:
    """Plain text, or Moses' n-best format: line number from 0, text, features, score."""
    if nbest is None:
        return text
    return (f"{number} ||| {text} ||| log_p= {translation.log_probability:.4f} "
            f"cut= {int(not translation.finished)} ||| {translation.score:.4f}")
