"""Gradient checkers on the corpus of right and wrong functions: false alarms, misses, time.

Ours beside `torch.autograd.gradcheck` and `jax.test_util.check_grads`, all with their defaults, on
the same NumPy functions (tests/grads/corpus). A false alarm is a right function that is not
accepted, a miss a wrong one that is. The time is that of checking all right functions, float64.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from backend.errors import UserError
from benchmarks.checker_peers import jax_check, torch_check
from benchmarks.options import make_parser, parse
from benchmarks.paired import timed
from benchmarks.pictures import bars, titled
from benchmarks.record import publish_rows
from benchmarks.timing import describe, environment, installed
from grads.check import check_case
from grads.check.analytic import gradients_case, pair_case
from grads.check.case import Case
from grads.check.user_code import load_module

CORPUS = Path(__file__).resolve().parents[1] / "tests" / "gradient_corpus.py"
OURS, GRADCHECK, CHECK_GRADS = "grads.check", "torch.autograd.gradcheck", "jax check_grads"
LEAST = 3  # passes over the right functions; one takes half a minute
EVERY = 25  # --quick: one in so many functions, and its first mistake

Check = Callable[[Case], bool]


def main(arguments: list[str]) -> None:
    """Compare, print, and write `results/checkers-<kernels>.json`."""
    parser = make_parser("checkers", __doc__, 60.0)
    options = parse(parser, arguments)
    if not CORPUS.is_file():
        raise UserError("checkers: the corpus is not installed; run it in a checkout, which has "
                        "tests/grads/corpus")
    corpus = load_module(CORPUS)
    pairs = corpus.PAIRS[::EVERY] if options.quick else corpus.PAIRS
    right = {pair.name: make_case(pair) for pair in pairs}
    wrong = {f"{pair.name}: {one.what}": make_case(pair, one) for pair in pairs
             for one in (pair.wrong[:1] if options.quick else pair.wrong)}
    checks = make_checks()
    found = environment()
    print(describe(found))
    print(f"jax {installed('jax') or 'not installed'}; {len(right)} right and {len(wrong)} wrong")
    verdicts = {name: measure(check, right, wrong) for name, check in checks.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of NaN in the functions being checked
        timings = timed({name: partial(run_all, check, right)
                         for name, check in checks.items()}, options.seconds,
                        1 if options.quick else LEAST)
    rows = [{"checker": name, "right": len(right), "wrong": len(wrong), **verdicts[name],
             "seconds": timings[name]._asdict()} for name in checks]
    for row in rows:
        print_row(row)
    publish_rows("checkers", vars(options) | {"jax": installed("jax")}, rows, picture,
                 directory=options.output)


def make_case(pair: Any, wrong: Any = None) -> Case:
    """A pair of the corpus as a case; a scalar's backward multiplies by the upstream gradient."""
    forward, backward = pair.functions(wrong)
    if not pair.scalar:
        return pair_case(forward, backward, pair.inputs(), {})
    case, _ = gradients_case(forward, pair.inputs(), backward, None, {})

    def vjp(d: Mapping[str, Any], cache: Any) -> dict[str, Any]:
        return {name: gradient * d["f"] for name, gradient in case.vjp({}, cache).items()}

    return Case(case.inputs, case.forward, vjp)


def make_checks() -> dict[str, Check]:
    """The checkers that are installed, ours first."""
    checks: dict[str, Check] = {OURS: lambda case: check_case(case).ok}
    for library, name, make in (("torch", GRADCHECK, torch_check),
                                ("jax", CHECK_GRADS, jax_check)):
        if find_spec(library) is None:
            print(f"{name}: not run: {library} is not installed")
        else:
            checks[name] = make()
    return checks


def accepts(check: Check, case: Case) -> bool:
    """The verdict; a check that ends in an error has not accepted."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return check(case)
        except Exception:  # any error of a checker or a function
            return False


def measure(check: Check, right: Mapping[str, Case], wrong: Mapping[str, Case]) -> dict[str, Any]:
    """The names of the false alarms and of the misses, and the slowest right function's seconds."""
    alarms, slowest = [], (-math.inf, "")
    for name, case in right.items():
        start = time.perf_counter()
        if not accepts(check, case):
            alarms.append(name)
        slowest = max(slowest, (time.perf_counter() - start, name))
    return {"false_alarms": alarms, "slowest": {"name": slowest[1], "seconds": slowest[0]},
            "misses": [name for name, case in wrong.items() if accepts(check, case)]}


def run_all(check: Check, cases: Mapping[str, Case]) -> None:
    """Check every right function once; this is timed."""
    for case in cases.values():
        accepts(check, case)


def print_row(row: Mapping[str, Any]) -> None:
    """Counts and time of one checker, and the names of what it got wrong."""
    print(f"{row['checker']:26}{len(row['false_alarms'])} false alarms of {row['right']}, "
          f"{len(row['misses'])} misses of {row['wrong']}, {row['seconds']['median']:.3f} s")
    for kind, names in (("false alarm", row["false_alarms"]), ("miss", row["misses"])):
        for name in names:
            print(f"  {kind}: {name}")


def picture(plt: Any, record: dict[str, Any]) -> Any:
    """A bar of time for each checker; its counts are in the legend."""
    rows = record["rows"]
    timings = {f"{row['checker']}: {len(row['false_alarms'])} false alarms, "
               f"{len(row['misses'])} misses": row["seconds"] for row in rows}
    figure = bars(plt, {"all": timings}, log=True)
    titled(figure, f"Gradient checkers on {rows[0]['right']} right functions",
           record["environment"], "further left is faster, each mark on the axis is 2 or 2.5 times "
           "the one before; the legend counts right functions called wrong, and wrong ones passed.",
           "float64")
    return figure
