"""`nmt plot`: draw the learning curves of runs, or the learned lengths of norms by depth."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path

from nmt.analysis.scales import draw_depths, scales_of
from nmt.cli.options import names_of_runs
from nmt.console.terminal import print
from nmt.evaluation.curves import read_curve
from nmt.evaluation.pictures import draw_curves, draw_scores, require_drawing
from nmt.system import System

COST = "cost"


def add_plot(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt plot`."""
    parser.add_argument("runs", type=Path, nargs="+", metavar="DIR", help="run directories")
    parser.add_argument("--score", default=COST, metavar="NAME",
                        help="draw the cost (ln perplexity) of dev and training set (default), a "
                             "score of the dev set, such as perplexity or bleu, or a value of "
                             "the updates, such as gradient_norm")
    parser.add_argument("--scales", action="store_true",
                        help="draw the learned g of a Transformer's ScaleNorms by depth")
    parser.add_argument("--output", "-o", type=Path, default=Path("curves.png"), metavar="FILE",
                        help="write this picture, .png, .svg or .pdf (default: curves.png)")


def run_plot(options: argparse.Namespace) -> None:
    """`nmt plot`."""
    names = names_of_runs(options.runs)
    if options.scales:
        plot_scales(dict(zip(names, options.runs, strict=True)), options.output)
        return
    curves = [read_curve(run, name) for run, name in zip(options.runs, names, strict=True)]
    if options.score == COST:
        draw_curves(curves, options.output)
    else:
        draw_scores(curves, options.score, options.output)
    print(options.output)


def plot_scales(runs: Mapping[str, Path], output: Path) -> None:
    """`nmt plot --scales`: draw the picture, and print its numbers."""
    require_drawing("--scales")
    scales = {name: scales_of(System.open(run), str(run)) for name, run in runs.items()}
    draw_depths(scales, output)
    for name, scales_of_run in scales.items():
        for sublayer, group in groupby(scales_of_run, key=lambda scale: scale.sublayer):
            print(f"{name}: {sublayer}:", *(f"{scale.g:.2f}" for scale in group))
    print(output)
