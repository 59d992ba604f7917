"""Which of a run's two checkpoints a command uses: one option for every command line.

`best` has the parameters with the best validation score, `last` those of where training stands:
what papers report is the last epoch.
"""

from __future__ import annotations

import argparse

CHECKPOINTS = ("best", "last")
DEFAULT = CHECKPOINTS[0]
BOTH = "both"


def add_checkpoint(parser: argparse.ArgumentParser, *, both: bool = False) -> None:
    """`--checkpoint best|last`, or of commands that set models side by side `both`."""
    parser.add_argument("--checkpoint", choices=(*CHECKPOINTS, *([BOTH] if both else [])),
                        default=DEFAULT,
                        help=f"best score, last epoch{', or both' if both else ''} (default: "
                             f"{DEFAULT})")
