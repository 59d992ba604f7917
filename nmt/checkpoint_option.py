"""The option `--checkpoint`: which of a run's two checkpoints a command uses.

`best` has the parameters with the best validation score, `last` those after the last epoch, which
papers report.
"""

from __future__ import annotations

import argparse

CHECKPOINTS = ("best", "last")
DEFAULT = CHECKPOINTS[0]
BOTH = "both"


def add_checkpoint(parser: argparse.ArgumentParser, *, both: bool = False) -> None:
    """Add `--checkpoint best|last`, and `both` for commands that compare models."""
    parser.add_argument("--checkpoint", choices=(*CHECKPOINTS, *([BOTH] if both else [])),
                        default=DEFAULT,
                        help=f"compare best, last or both epochs (default: {DEFAULT})" if both else
                             f"take the best or the last epoch (default: {DEFAULT})")
