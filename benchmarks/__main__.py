"""`python -m benchmarks <name> [options]`; `--help` after a name lists its options."""

from __future__ import annotations

import sys
from collections.abc import Callable

from backend.errors import UserError
from benchmarks import gradcheck, step

BENCHMARKS: dict[str, Callable[[list[str]], None]] = {
    "gradcheck": gradcheck.main, "step": step.main,
}


def main(arguments: list[str]) -> int:
    """Run the benchmark named first; returns the exit status, 2 where the user can help it."""
    if not arguments or arguments[0] not in BENCHMARKS:
        print(f"usage: python -m benchmarks {{{','.join(BENCHMARKS)}}} [options]", file=sys.stderr)
        return 2
    try:
        BENCHMARKS[arguments[0]](arguments[1:])
    except UserError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
