"""The same work by two trees of this code, interleaved, which shows changes of a few percent.

Each tree has a process that runs `benchmarks/tree_worker.py` of this tree. A second process of the
other tree runs beside them: two runs of the same code also differ, and its column shows by how
much. The three run one after the other, in all orders, with a rest before each (`timing.PAUSE`). A
ratio is this tree's median over the other's; beside it are the quartiles of the ratios of single
calls. Float32; the trees' losses must agree to a hundredth, as a sign that the work is the same,
which `tests/same_numbers` shows.

    git worktree add --detach ../before COMMIT
    python -m benchmarks two-trees --other ../before
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import cycle, islice, permutations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from backend.command import PlainParser, positive
from backend.errors import UserError
from backend.progress import counted
from benchmarks.timing import Timing, describe, environment, rest, summarise

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = 0.2  # seconds that a call takes at least; shorter work is repeated within it
SAME = 0.01  # relative difference of the trees' losses, of float32 after equal updates
BIG: dict[str, Any] = {"layers": 2, "hidden_size": 512, "embedding_size": 512}
STEP: dict[str, Any] = {"model": BIG, "vocabularies": (10000, 10000), "batch": 64, "source": 20,
                        "target": 20, "optimizer": "SGD"}
MULTI30K: dict[str, Any] = {  # multi30k-de-en.yaml, and its corpus's vocabularies and mean lengths
    "model": {"layers": 1, "hidden_size": 256, "embedding_size": 256, "bidirectional": True,
              "bridge": True, "dropout": 0.3},
    "vocabularies": (7857, 5919), "batch": 64, "source": 12, "target": 14, "optimizer": "Adam"}


class Work(NamedTuple):
    """A piece of work: its kind and sizes for `tree_worker`, and its number of tokens."""

    kind: str
    size: Mapping[str, Any]
    tokens: int = 0  # target tokens of a step, where tokens/s are of interest


WORKS = {
    "step": Work("step", STEP),
    "step-no-feeding": Work("step", STEP | {"model": BIG | {"input_feeding": False}}),
    "lstm-64x512": Work("layer", {"steps": 30, "batch": 64, "hidden": 512}),
    "lstm-128x1000": Work("layer", {"steps": 30, "batch": 128, "hidden": 1000}),
    "beam": Work("beam", {"model": BIG, "vocabulary": 10000, "beam": 10, "sentences": 16,
                          "source": 20, "steps": 25}),
    "adam": Work("adam", {"shapes": [[2048, 1024], [2048, 1024], [900, 1000]]}),  # 5.1 million
    "multi30k": Work("step", MULTI30K, 64 * 14),
}
SMALL_MODEL = {"hidden_size": 8, "embedding_size": 6}
SMALL = {"vocabularies": (20, 20), "vocabulary": 20, "batch": 4, "source": 5, "target": 4,
         "steps": 4, "hidden": 8, "sentences": 2, "beam": 3, "shapes": [[30, 20]]}


def main(arguments: list[str]) -> None:
    """Time, and print a line for each piece of work."""
    options = parse(arguments)
    trees = {"other": options.other, "this": ROOT, "other again": options.other}
    print(describe(environment()))
    print(f"{'':16}{'other, ms (quartiles)':>30}{'this':>30}{'this / other':>24}"
          f"{'other / itself':>24}")
    with ExitStack() as stack:
        workers = {name: stack.enter_context(worker(tree)) for name, tree in trees.items()}
        for name in options.only or WORKS:
            work = WORKS[name]
            work = work._replace(size=quick(work.size)) if options.quick else work
            seconds = timed(workers, name, work, options.pairs, 0.0 if options.quick else SAMPLE)
            print(line(name, work, seconds, options.quick), flush=True)


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line. Raises UserError where the other tree is none."""
    parser = PlainParser(
        prog="python -m benchmarks two-trees", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--other", type=Path, required=True, metavar="PATH",
                        help="root of the other work tree")
    parser.add_argument("--pairs", type=positive, default=20, help="iterations, default 20")
    parser.add_argument("--only", nargs="+", choices=WORKS, help="some of the work, default all")
    parser.add_argument("--quick", action="store_true",
                        help="tiny sizes, in seconds: to see that it runs, not how fast")
    options = parser.parse_args(arguments)
    options.other = options.other.resolve()
    if not (options.other / "lstm" / "__init__.py").is_file():
        raise UserError(f"--other: expected the root of a work tree of this code, got "
                        f"{options.other}")
    return options


def quick(size: Mapping[str, Any]) -> dict[str, Any]:
    """Tiny sizes in place of those of users."""
    small = {key: SMALL.get(key, value) for key, value in size.items()}
    return small | ({"model": size["model"] | SMALL_MODEL} if "model" in size else {})


# --- the processes --------------------------------------------------------------------------------


@contextmanager
def worker(tree: Path) -> Iterator[subprocess.Popen[str]]:
    """A process with the packages of `tree`, that waits for commands."""
    script = Path(__file__).with_name("tree_worker.py")
    process = subprocess.Popen([sys.executable, "-P", str(script)], cwd=tree, text=True,
                               env=os.environ | {"PYTHONPATH": str(tree)},
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        process.communicate()  # it ends at the end of its input


def ask(process: subprocess.Popen[str], **command: Any) -> dict[str, float]:
    """The answer to a command. Raises UserError where there is none: the process said why."""
    assert process.stdin is not None and process.stdout is not None
    try:
        print(json.dumps(command), file=process.stdin, flush=True)
        answer = process.stdout.readline()
    except BrokenPipeError:
        answer = ""
    if not answer:
        raise UserError(f"two-trees: a worker ended at {command}; it says why above")
    found: dict[str, float] = json.loads(answer)
    return found


# --- timing ---------------------------------------------------------------------------------------


def timed(
    workers: Mapping[str, subprocess.Popen[str]], name: str, work: Work, pairs: int, sample: float
) -> dict[str, list[float]]:
    """The seconds of every iteration by tree. Raises UserError where the trees' numbers differ."""
    made = {tree: ask(process, prepare=work.kind, size=work.size)
            for tree, process in workers.items()}
    values = [answer["value"] for answer in made.values()]
    if not math.isclose(min(values), max(values), rel_tol=SAME):
        raise UserError(f"{name}: the trees' results differ: {values}")
    calls = max(1, math.ceil(sample / made["other"]["seconds"]))
    found: dict[str, list[float]] = {tree: [] for tree in workers}
    for order in counted(list(islice(cycle(permutations(workers)), pairs)), name):
        for tree in order:
            time.sleep(rest(sample))
            found[tree].append(ask(workers[tree], calls=calls)["seconds"])
    return found


def line(name: str, work: Work, seconds: Mapping[str, list[float]], quick: bool) -> str:
    """Medians, quartiles, ratios and tokens/s of one piece of work."""
    other, this = (summarise(seconds[tree]) for tree in ("other", "this"))
    text = (f"{name:16}{spread(other):>30}{spread(this):>30}"
            f"{ratio(seconds['this'], seconds['other']):>24}"
            f"{ratio(seconds['other again'], seconds['other']):>24}")
    if work.tokens and not quick:
        text += (f"\n{'':16}{work.tokens / other.median:>21,.0f} tokens/s"
                 f"{work.tokens / this.median:>21,.0f} tokens/s")
    return text


def spread(timing: Timing) -> str:
    """A median and its quartiles in milliseconds."""
    low, median, high = (1e3 * value for value in (timing.low, timing.median, timing.high))
    return f"{median:.2f} ({low:.2f}-{high:.2f})"


def ratio(above: list[float], below: list[float]) -> str:
    """The medians' ratio, and the quartiles of the iterations' ratios."""
    low, high = np.percentile(np.divide(above, below), [25, 75])
    return f"{np.median(above) / np.median(below):.3f} ({low:.3f}-{high:.3f})"
