"""`nmt evaluate --restore`: evaluate systems of annotated text beside others."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from backend.errors import UserError
from nmt.cli.alignment_error import file_links, sizes_of
from nmt.cli.lines import pairs_of_words
from nmt.evaluation.restoring import Copying, annotated, method_of
from nmt.system import System


def add_restore(parser: argparse.ArgumentParser) -> None:
    """Add `--restore [DICTIONARY]` and `--links FILE`."""
    parser.add_argument("--restore", nargs="?", const="", metavar="DICTIONARY",
                        help="score models of annotated text (nmt annotate) before and after "
                             "unknown words are replaced")
    parser.add_argument("--links", type=Path, metavar="FILE",
                        help="with --restore, read alignments of the references")


def check_restore(options: argparse.Namespace) -> None:
    """Raise UserError for `--links` without `--restore`, and for `--without-unk` with it."""
    if options.links is not None and options.restore is None:
        raise UserError("--links: needs --restore")
    if options.without_unk and options.restore is not None:
        raise UserError("--without-unk: cannot be used with --restore")


def copying_of(
    name: str, system: System, lines: Sequence[list[str]], options: argparse.Namespace
) -> Copying | None:
    """The restoration of `--restore` for a system; None without the option, and for a system
    without symbols, whose unknown words are replaced by attention.

    Raises UserError if the system's words are not separated by spaces, or if links are missing.
    """
    method = None if options.restore is None else method_of(system)
    if method is None:
        return None
    if system.recipe.data.tokenise != "none":
        raise UserError(f"--restore: expected models of text in tokens (tokenise: none), got "
                        f"{name}")
    pairs = pairs_of_words(*lines)
    if method == "noalign":
        links = None
    elif options.links is None:
        raise UserError(f"--restore: needs --links FILE, by which the references of {name} are "
                        "annotated")
    else:
        links = file_links(options.links, sizes_of(pairs), options.drop_bad_links)
    return annotated(system, method, pairs, links)
