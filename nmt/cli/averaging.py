"""`nmt average`: make a run directory whose parameters are the mean of several checkpoints."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from backend.errors import UserError
from nmt.cli.options import add_new_run
from nmt.console.arguments import natural
from nmt.console.messages import several
from nmt.console.progress import counted
from nmt.console.terminal import print
from nmt.pruning.run import open_system
from nmt.run_directory import RunDirectory, epochs_of
from nmt.run_files import check_new
from nmt.training.average import average
from nmt.training.kept import SUFFIX, kept
from nmt.training.run import LAST


def add_average(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt average`."""
    parser.add_argument("checkpoints", type=Path, nargs="+", metavar="RUN|FILE",
                        help=f"a run directory, for the checkpoints that it kept, or a {SUFFIX} "
                             "file in one")
    parser.add_argument("--last", type=lambda text: natural(text, 2), metavar="K",
                        help="average the last K kept checkpoints (default: all)")
    parser.add_argument("--force", action="store_true",
                        help="average different runs, too, although their units may not correspond")
    add_new_run(parser)


def run_average(options: argparse.Namespace) -> None:
    """`nmt average`.

    Write a run directory whose parameters are the mean of several checkpoints of one run: those
    that the run kept (train.keep), or the files named.
    """
    check_new(options.output)
    paths = [path for argument in options.checkpoints for path in _files(argument, options.last)]
    systems = [open_system(path) for path in counted(paths, "reading checkpoints")]
    averaged = average([str(path) for path in paths], systems)
    runs = list(dict.fromkeys(path.resolve().parent for path in paths))
    if len(runs) > 1 and not options.force:
        raise UserError(f"{options.checkpoints[-1]}: expected checkpoints of one run, got those of "
                        f"{', '.join(map(str, runs))}, whose units need not agree (--force)")
    epochs = [epoch for path in paths if (epoch := epochs_of(path)) is not None]
    RunDirectory(options.output, averaged.recipe, resume=False).write(
        averaged, {"epoch": max(epochs, default=None), "averaged": [path.name for path in paths]})
    print(f"{options.output / LAST}: mean of {several(len(paths), 'checkpoint')}: "
          f"{', '.join(path.name for path in paths)}")
    print(f"run directory: {options.output}")


def _files(path: Path, last: int | None) -> Sequence[Path]:
    """The checkpoints that an argument names. Raises UserError for a run that kept too few."""
    if path.suffix == SUFFIX and not path.is_dir():
        return [path]
    checkpoints = kept(path)
    if not checkpoints or len(checkpoints) < (last or 1):
        raise UserError(f"{path}: expected a run that kept {last or 'its last'} checkpoints "
                        f"(train.keep), found {len(checkpoints)}")
    return checkpoints[-last:] if last else checkpoints
