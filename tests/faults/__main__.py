"""Tries all faults, in some minutes: `python -m tests.faults [PART ...] [--kills N] [--seed N]`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from faults import faults, systems
from faults.harness import FULL, READ_ONLY, Case
from tiny_run import write_corpus, write_recipe


def main() -> None:
    """Try all faults, and print how many of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART",
                        help="of the names of faults: only those that hold one (default: all)")
    parser.add_argument("--kills", type=int, default=100, help="at random moments (default: 100)")
    parser.add_argument("--step", type=int, default=1, help="every how many calls of a run a fault "
                                                            "happens (default: 1, before each)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        write_corpus(directory, pairs=24)
        write_recipe(directory / "r.yaml",
                     train={"epochs": 2, "checkpoint_every": 2, "log_every": 1})
        case = Case(directory)
        case.make_whole()
        print(f"a run: {case.calls} calls, {case.seconds:.1f} s", flush=True)
        total = sum(faults.timed(partial(print, flush=True), what, fault)
                    for what, fault in all_faults(case, options).items()
                    if not options.parts or any(word in what for word in options.parts))
    print(f"{total} faults, each run then ended in the same bits, each file was whole")


def all_faults(case: Case, options: argparse.Namespace) -> dict[str, Callable[[], int]]:
    """The kinds of faults by name."""
    saves, others = case.directory / "save", case.directory / "systems"
    saves.mkdir()
    others.mkdir()
    calls = range(1, case.calls + 1, options.step)
    return {
        "kill -9 between two calls of a save": partial(faults.kills_between_calls_of_a_save, saves),
        "kill -9 in a loop of saves": partial(faults.kills_in_a_loop_of_saves, saves, options.kills,
                                              options.seed),
        "disk full in a save": partial(faults.errors_in_a_save, saves, FULL),
        "read-only in a save": partial(faults.errors_in_a_save, saves, READ_ONLY),
        "kill -9 at random moments": partial(faults.kills_at_random, case, options.kills,
                                             options.seed),
        "kill -9 between two calls of a run": partial(faults.kills_between_calls_of_a_run, case,
                                                      calls),
        "kill -9 between two calls of a run of every system": partial(
            faults.kills_of_every_system, systems.prepare(others).values(), options.step),
        "kill -9 twice while a run begins": partial(faults.kills_while_it_begins_again, case,
                                                    range(1, 2 * faults.BEGUN)),
        "Ctrl-C and SIGTERM": partial(faults.signals, case),
        "disk full in a run": partial(faults.full_disk, case, calls),
        "limit on the size of files": partial(faults.limited_files, case),
        "read-only directory": partial(faults.read_only, case),
        "directory moved": partial(faults.moved, case, calls),
        "directory deleted": partial(faults.deleted, case, calls),
        "two processes": partial(faults.two_processes, case),
    }


if __name__ == "__main__":
    main()
