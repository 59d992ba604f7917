"""The lines that `nmt translate` writes for blocks of sentences."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from backend.errors import UserError
from nmt.cli.fusing import fused
from nmt.cli.options import (
    need_attention,
    search_options,
    unk_replacement,
)
from nmt.cli.sources import check_tokens, need_one_source
from nmt.cli.trees import trees_only
from nmt.console.arguments import options_given
from nmt.console.messages import several
from nmt.console.terminal import print
from nmt.data.align import pharaoh_line, tokens_line
from nmt.data.annotation import is_language
from nmt.data.corpora import tokenisers
from nmt.data.corpus import split_words, write_lines
from nmt.data.joiner import JOINER
from nmt.data.rare_words import read_dictionary
from nmt.data.sources import places
from nmt.data.stored import StoredSentences
from nmt.evaluation.alignment_map import in_terminal
from nmt.files import check_writable
from nmt.joint_sources import JointSources
from nmt.pruning.inference import use_sparse_products
from nmt.search.constraint import Restriction
from nmt.search.interface import SearchOptions
from nmt.search.shortlist import Shortlist
from nmt.system import System
from nmt.translation import Translation

FREQUENT = 500  # the most frequent words, which --shortlist always allows


class Lines:
    """Translates blocks of sentences by a command's options, and makes lines of the translations.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.system = fused(_towards(_opened(options), options.target_token), options)
        self.search = _search_options(self.system, options)
        self._options = options
        if options.sparse:
            _use_sparse_products(self.system, options)
        for option in options_given(options, "alignments", "replace_unk", "shortlist",
                                    "target_token"):
            need_one_source(self.system, option)
        _check_alignments(options, self.system)
        if options.show is not None:
            need_attention(self.system, "--show attention")
        self._replacement = unk_replacement(options, self.system)
        self._prefix = _prefix(self.system, options)
        self._rng = np.random.default_rng(options.seed)
        self._shortlist = _shortlist(self.system, options)
        self._restriction: Restriction | None = self._shortlist
        if options.valid_trees:
            self._restriction = _trees_only(self.system, self.search, options)
        self._cut_words = self._smaller = self._same = 0
        self._links, self._tokens = StoredSentences(), StoredSentences()

    def translate(self, block: Sequence[Sequence[str]]) -> list[list[Translation]]:
        """The translations of each sentence, best first."""
        if self._options.sample is not None:
            translations = self.system.sample(block, self.search, self._options.sample, self._rng,
                                              self._options.draws or 1, self._prefix,
                                              self._restriction)
        else:
            jobs = self._options.jobs
            translations = self.system.translate(
                block, self.search, restriction=self._restriction, jobs=jobs, prefix=self._prefix)
            if self._options.shortlist_check:
                unrestricted = self.system.translate(block, self.search, jobs=jobs)
                self._same += sum(restricted[0].words == nbest[0].words for restricted, nbest
                                  in zip(translations, unrestricted, strict=True))
        self._cut_words += sum(translation.cut_words for nbest in translations
                               for translation in nbest)
        self._smaller += sum((nbest[0].beam or self.search.beam) < self.search.beam
                             for nbest in translations)
        if self._options.alignments is not None:
            for words, nbest in zip(block, translations, strict=True):
                for translation in nbest:
                    self._links.append(self._pharaoh_words(translation, words))
                    if self._options.tokens is not None:
                        target_words = self.system.whole_words(translation)
                        self._tokens.append(split_words(tokens_line(words, target_words)))
        return translations

    def line(self, translation: Translation, words: Sequence[str], number: int) -> str:
        """A translation as plain text, or with `--nbest` as a line of Moses' n-best format."""
        text = self.system.text(translation) if self._replacement is None else \
            self.system.text_without_unknown(translation, words, self._replacement)
        if self._options.nbest is None:
            return text
        return (f"{number} ||| {text} ||| log_p= {translation.log_probability:.4f} "
                f"cut= {int(not translation.finished)} ||| {translation.score:.4f}")

    def show_attention(self, translation: Translation, words: Sequence[str]) -> None:
        """Draw the map of `--show attention` on stderr, so that the lines of stdout stay aligned.
        """
        if self._options.show is not None and translation.alignment is not None:
            columns = self.system.source_columns(words)
            for source in places(columns):
                print(in_terminal(columns[source], translation.words,
                                  translation.alignment[:, source])
                      + "\n", file=sys.stderr)

    def close(self, sentences: int) -> None:
        """Write the alignments, and print counts on stderr, at the end of the text."""
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
                print(f"{self._same} of {several(sentences, 'sentence')}: the same translation "
                      "as in a search of all words", file=sys.stderr)
        if self._cut_words:
            cut = several(self._cut_words, "spelled word was", "spelled words were")
            print(f"{cut} cut at {several(self.search.longest_word, 'character')} "
                  "(--longest-word, search.longest_word)", file=sys.stderr)

    def _pharaoh_words(self, translation: Translation, words: Sequence[str]) -> list[str]:
        """The links of a translation of `words`, `i-j` each."""
        links = self.system.word_links(translation, words, self._options.aligned_word)
        return split_words(pharaoh_line(links))


def _towards(system: System, token: str | None) -> System:
    """The system with `token`, which chooses the target language, in front of each source. Raises
    UserError for a token that the model does not know."""
    if token is None:
        return system
    if not is_language(token):
        raise UserError(f"--target-token: expected a token such as <2de>, got {token!r}")
    if not any(map(is_language, system.source.words)):
        raise UserError("--target-token: expected a model of several target languages, got one "
                        "without language tokens")
    check_tokens(system, [token], "--target-token")
    recipe = system.recipe
    return replace(system, recipe=replace(recipe, data=replace(recipe.data, target_token=token)))


def _opened(options: argparse.Namespace) -> System:
    """The system of `--model`: a model, an ensemble, or with `--sources` models that read a file
    each."""
    if not options.sources:
        return System.open_all(options.model, options.average, options.checkpoint)
    if len(options.model) < 2:
        raise UserError("--sources: expected a model for each source in --model, got one")
    return JointSources.open_each(options.model, options.average, options.checkpoint)


def _search_options(system: System, options: argparse.Namespace) -> SearchOptions:
    """The recipe's search options, changed by those of the command line. Raises UserError for
    options that exclude each other."""
    if options.sample is not None:
        if any(options_given(options, "beam", "nbest", "every_beam")):
            raise UserError("--sample: cannot be used with --beam, --every-beam or --nbest")
    elif options.draws is not None:
        raise UserError("--draws: needs --sample")
    return search_options(system, options, options.nbest, options.every_beam)


def _prefix(system: System, options: argparse.Namespace) -> list[str]:
    """The words of `--prefix`. Raises UserError if translations cannot begin with them."""
    if options.prefix is None:
        return []
    if options.shortlist is not None:
        raise UserError("--prefix: cannot be used with --shortlist")
    words = tokenisers(system.recipe.data)[1].tokenise(options.prefix)
    try:
        system.prefix_ids(words)
    except UserError as error:
        followed = [*words[:-1], words[-1] + JOINER]  # the mark of J' before its next word
        with suppress(UserError):
            system.prefix_ids(followed)
            return followed
        raise UserError(f"--{error}") from None
    return words


def _shortlist(system: System, options: argparse.Namespace) -> Shortlist | None:
    """The shortlist of `--shortlist`; None without the option."""
    if options.shortlist is None:
        for option in options_given(options, "shortlist_check", "frequent"):
            raise UserError(f"{option}: needs --shortlist DICTIONARY")
        return None
    for option in options_given(options, "sparse", "sample"):
        raise UserError(f"{option}: cannot be used with --shortlist")
    if getattr(system.recipe.model, "lexicon_epsilon", None) is not None:
        raise UserError("--shortlist: expected a model without model.lexicon_epsilon, whose bias "
                        "needs all target words")
    candidates = {word: system.target_ids(translations)
                  for word, translations in read_dictionary(options.shortlist).items()}
    frequent = FREQUENT if options.frequent is None else options.frequent
    return Shortlist(candidates, frequent, len(system.target))


def _trees_only(system: System, search: SearchOptions, options: argparse.Namespace) -> Restriction:
    """The restriction of `--valid-trees`."""
    for option in options_given(options, "shortlist", "prefix"):
        raise UserError(f"--valid-trees: cannot be used with {option}")
    return trees_only("--model", system, search)


def _use_sparse_products(system: System, options: argparse.Namespace) -> None:
    """Use sparse matrix products (`--sparse`), and print on stderr for which weights."""
    if len(options.model) > 1:
        raise UserError("--sparse: expected one model, got an ensemble")
    names = use_sparse_products(system)
    print(f"sparse products: {', '.join(names) or 'none, more than a tenth of each is left'}",
          file=sys.stderr)


def _check_alignments(options: argparse.Namespace, system: System) -> None:
    """Raise UserError if the model has no alignments, or if their files cannot be written."""
    if options.alignments is None:
        if options.tokens is not None:
            raise UserError("--tokens: needs --alignments, which count them")
        return
    need_attention(system, "--alignments")
    check_writable(options.alignments)
    if options.tokens is not None:
        check_writable(options.tokens)
