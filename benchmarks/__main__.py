"""`python -m benchmarks NAME... [options]`: runs the named benchmarks, all with the options."""

from __future__ import annotations

import io
import signal
import sys
from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # during the imports Ctrl-C ends it in silence

from backend import progress
from backend.command import guarded
from backend.errors import UserError

BENCHMARKS = {
    "step": "a training step of a 2x512 translator against eager PyTorch",
    "recipes": "target tokens/s of the recipes, with the time split by part",
    "memory": "peak memory of a training step, beside what it cannot do without",
    "search": "greedy and beam search against batched PyTorch",
    "sparse": "search with a pruned model: sparse products against dense ones",
    "hybrid": "a training step of a hybrid model against the word model's",
    "kernels": "each kernel against PyTorch, and against the roofline of the machine",
    "naive": "textbook code, then the structural ideas added one by one",
    "peers": "an LSTM layer against nn.LSTM, thinc and CS231n's",
    "scaling": "time against length, width, vocabulary, batch and window, with exponents",
    "attention": "attention's time against the source's length: a local window's does not grow",
    "ranks": "data-parallel updates against ranks x threads, and a model of their time",
    "crossover": "batch x width: where the GPU overtakes the CPU",
    "gradcheck": "our gradient check against torch.autograd.gradcheck",
    "checkers": "gradient checkers on right and wrong functions: false alarms, misses, time",
    "two-trees": "this work tree against another one, the same work interleaved",
    "redraw": "draws the pictures of result files again, as PNG, SVG or PDF",
    "table": "rewrites the figures of docs/speed.md from the result files",
}  # each is the module of that name, - written as _; its docstring says more


def main(arguments: list[str]) -> int:
    """Run the benchmarks named first, one after the other; all get the options that follow.

    Returns the exit status: see `backend.command.guarded`.
    """
    count = next((i for i, word in enumerate(arguments) if word.startswith("-")), len(arguments))
    names, options = arguments[:count], arguments[count:]
    if not names and options in (["--help"], ["-h"]):
        print(usage())
        return 0

    def run() -> None:
        if isinstance(sys.stdout, io.TextIOWrapper):  # a file gets each row at once too
            sys.stdout.reconfigure(line_buffering=True)
        found = {name: find(name) for name in names or [""]}
        with progress.shown(redrawn=False):
            for name, one in found.items():
                with progress.busy(name):
                    one(options)

    return guarded("benchmarks", run)


def find(name: str) -> Callable[[list[str]], None]:
    """The `main` of the benchmark `name`; UserError where there is none."""
    if name not in BENCHMARKS:
        near = get_close_matches(name, BENCHMARKS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise UserError(f"expected one of {', '.join(BENCHMARKS)}, got {name or 'nothing'!r}{hint}")
    run: Callable[[list[str]], None] = import_module(module_of(name)).main
    return run


def module_of(name: str) -> str:
    """The module of a benchmark."""
    return f"benchmarks.{name.replace('-', '_')}"


def usage() -> str:
    """The benchmarks by name."""
    lines = [f"  {name:12}{what}" for name, what in BENCHMARKS.items()]
    return "\n".join(["usage: python -m benchmarks NAME... [options]", "", *lines, "",
                      "NAME --help lists the options of one; what has run is in "
                      "benchmarks/results/"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
