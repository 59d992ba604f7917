"""`nmt plot`: the learning curves of runs, from their logs."""

from __future__ import annotations

import argparse
from pathlib import Path

from nmt.cli.evaluation import names_of_runs
from nmt.evaluation.curves import read_curve
from nmt.evaluation.pictures import draw_curves, draw_scores

COST = "cost"


def add_plot(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt plot`."""
    parser.add_argument("runs", type=Path, nargs="+", metavar="DIR", help="run directories")
    parser.add_argument("--score", default=COST, metavar="NAME",
                        help="what to draw: cost, ln perplexity of dev and training set (default), "
                             "or a score of the dev set, such as perplexity or bleu")
    parser.add_argument("--output", "-o", type=Path, default=Path("curves.png"), metavar="FILE",
                        help="a picture, .png, .svg or .pdf (default: curves.png)")
    parser.set_defaults(run=plot)


def plot(options: argparse.Namespace) -> None:
    """`nmt plot`."""
    curves = [read_curve(run, name)
              for run, name in zip(options.runs, names_of_runs(options.runs), strict=True)]
    if options.score == COST:
        draw_curves(curves, options.output)
    else:
        draw_scores(curves, options.score, options.output)
    print(options.output)
