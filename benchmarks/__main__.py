"""`python -m benchmarks NAME... [options]`: runs the named benchmarks, all with the options."""

from __future__ import annotations

import io
import signal
import sys
from collections.abc import Callable
from importlib import import_module

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # during the imports Ctrl-C ends it in silence

from backend.errors import UserError
from benchmarks.registry import ABOUT, MODULES
from nmt.console import progress
from nmt.console.command import guarded
from nmt.console.messages import nearest
from nmt.console.terminal import print


def main(arguments: list[str]) -> None:
    """Run the benchmarks that are named first, one after the other. All get the options that
    follow.

    `nmt.console.command.guarded` turns errors into one line and an exit status.
    """
    count = next((i for i, word in enumerate(arguments) if word.startswith("-")), len(arguments))
    names, options = arguments[:count], arguments[count:]
    if not names and options in ([], ["--help"], ["-h"]):
        print(usage())
        return

    with guarded("benchmarks"):
        if isinstance(sys.stdout, io.TextIOWrapper):  # a file gets each row at once too
            sys.stdout.reconfigure(line_buffering=True)
        benchmarks = {name: find(name) for name in names or options[:1]}
        with progress.shown(redrawn=False):
            for name, run in benchmarks.items():
                with progress.busy(name):
                    run(options)


def find(name: str) -> Callable[[list[str]], None]:
    """The function that runs the benchmark `name` with options. Raises UserError if there is
    none."""
    if name not in ABOUT:
        raise UserError(f"expected one of {', '.join(ABOUT)}, got {name!r}"
                        f"{nearest(name, ABOUT)}")
    module = import_module(f"benchmarks.{MODULES[name]}")
    declared = vars(module).get("BENCHMARKS", {})
    if name not in declared:
        command: Callable[[list[str]], None] = module.redraw if name == "redraw" else module.main
        return command
    from benchmarks.runner import run

    return lambda options: run(name, declared[name], module.__doc__, options)


def usage() -> str:
    """The benchmarks by name."""
    lines = [f"  {name:14}{about}" for name, (_, about) in ABOUT.items()]
    return "\n".join(["usage: python -m benchmarks NAME... [options]", "", *lines, "",
                      "NAME --help lists a benchmark's options. benchmarks/results/ has results."])


if __name__ == "__main__":
    main(sys.argv[1:])
