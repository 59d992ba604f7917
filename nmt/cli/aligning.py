"""`nmt align --method`: word alignment from the corpus alone, without a translator."""

from __future__ import annotations

import argparse

from backend import progress
from nmt.data.align import Link
from nmt.data.aligner import METHODS, AlignerOptions, Links, Words, align
from nmt.data.aligner.eflomal import align_by_eflomal
from nmt.data.aligner.symmetrise import SYMMETRISATIONS
from nmt.data.corpus import read_parallel, split_words

ALIGNERS = (*METHODS, "eflomal")
SYMMETRISE = next(iter(SYMMETRISATIONS))  # the default


def links_of_files(options: argparse.Namespace) -> list[list[Link]]:
    """The links of each pair of lines; words are those between spaces."""
    lines = read_parallel(options.source, options.target)
    sources, targets = ([split_words(line) for line in side] for side in lines)
    join = SYMMETRISATIONS[options.symmetrise or SYMMETRISE]
    both = _both_directions(sources, targets, options.method)
    return [join(*pair) for pair in zip(*both, strict=True)]


def _both_directions(sources: Words, targets: Words, method: str) -> tuple[Links, Links]:
    """Links of both directions."""
    if method == "eflomal":
        with progress.busy("eflomal"):
            return align_by_eflomal(sources, targets)
    with progress.told("EM, iterations") as tell:
        return align(sources, targets, AlignerOptions(method), tell)
