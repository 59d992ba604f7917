"""Runs all tests and timings of a GPU in at most nine minutes.

First the kernels are compared with their sources, and matrix products are tested. Then training is
timed in float32 and with TF32, beside eager PyTorch and cuDNN: a step with and without input
feeding, a Transformer, and the thesis's size. Then come beam search, memory, the size from which
the GPU is faster than the CPU, the kernels' times, the commands, and in the remaining time the
gradient catalogue in float32 and float64. Each section has a budget. A section without enough time
is cut, and the next run continues it. Finished work is in a journal beside the records, a line of
JSON for each piece, and is not repeated: run the command until nothing is left.

--rehearse runs everything without a GPU, on the tests' stand-in, with tiny sizes and a few tests.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import backend
from backend.errors import UserError
from benchmarks.devices import TESTS
from benchmarks.runner import RESULTS
from benchmarks.timing import describe, environment
from nmt.console.arguments import PlainParser, above_zero
from nmt.console.terminal import print

TOTAL = 520.0  # seconds of all sections, without the grace of the last
GRACE = 20.0  # seconds over its budget after which a section with a running case or test is ended
FEW = 3  # tests of a file in a rehearsal
SLOW = 20  # factor by which a rehearsal may be slower, beside other work on a small machine
JOURNAL = "gpu.journal"
CUT = 75  # exit status of tests that were stopped by the budget: EX_TEMPFAIL of sysexits


class Section(NamedTuple):
    """A part of the run: tests of tests/gpu, or a benchmark."""

    name: str
    budget: float  # seconds
    tests: tuple[str, ...] = ()  # files
    benchmark: tuple[str, ...] = ()  # name and options


GENERAL = "--only", "global general", "Transformer"
TF32 = "--gemm", "tf32"
GRID = "--batches", "1", "16", "64", "256", "--hidden", "128", "512", "1024"
SECTIONS = (
    Section("kernels against their sources, products", 20, ("test_fused.py", "test_products.py")),
    Section("training against NumPy", 35, ("test_training.py",)),
    Section("training step", 35, (), ("variants", "--seconds", "4", *GENERAL)),
    Section("training step, TF32", 25, (), ("variants", "--seconds", "2", *TF32, *GENERAL)),
    Section("thesis size", 25, (), ("recipes-large",)),
    Section("thesis size, TF32", 25, (), ("recipes-large", *TF32)),
    Section("beam search", 85, (), ("search", "--seconds", "2")),
    Section("memory", 20, (), ("memory",)),
    Section("CPU against GPU", 55, (), ("crossover", "--seconds", "1", *GRID)),
    Section("each kernel's time", 95, (), ("kernels", "--seconds", "0.5")),
    Section("commands", 40, ("test_commands.py",)),
    Section("catalogue", TOTAL, ("test_catalogue.py",)),  # what is left of all
)


def main(arguments: list[str]) -> None:
    """Run the sections that the journal does not have. Raises UserError at the end if a test or a
    section has failed."""
    parser = PlainParser(prog="python -m benchmarks gpu", description=__doc__)
    parser.add_argument("--output", type=Path, default=None, metavar="DIR",
                        help="write records and journal here (default: benchmarks/results; a "
                             "rehearsal keeps nothing)")
    parser.add_argument("--total", type=above_zero, default=TOTAL, metavar="SECONDS",
                        help=f"end all sections after this time (default: {TOTAL:g})")
    parser.add_argument("--only", nargs="+", metavar="TEXT",
                        help="run the sections with this text in their names")
    parser.add_argument("--rehearse", action="store_true",
                        help="run without a GPU, on the tests' stand-in")
    options = parser.parse_args(arguments)
    if not TESTS.is_dir():
        raise UserError("gpu: expected a checkout, which has tests/gpu; got none")
    if not options.rehearse:
        backend.load("cupy")  # says what is missing
    print(describe(environment()))
    for library, purpose in (("torch", "PyTorch beside ours"), ("pytest", "the tests")):
        if find_spec(library) is None:
            print(f"{purpose}: skipped, {library} is not installed")
    with tempfile.TemporaryDirectory() as temporary:
        output = options.output or (Path(temporary) if options.rehearse else RESULTS)
        output.mkdir(parents=True, exist_ok=True)
        run_sections(output, options.total * (SLOW if options.rehearse else 1), options.rehearse,
                     options.only or [""])


def run_sections(output: Path, total: float, rehearse: bool, names: list[str]) -> None:
    """Run the sections in turn, and write each into the journal when it ends."""
    end, journal = time.monotonic() + total, output / JOURNAL
    write(journal, {"environment": environment()})
    for section in SECTIONS:
        if not any(name.lower() in section.name.lower() for name in names):
            continue
        left = end - time.monotonic()
        if read(journal)["sections"].get(section.name, {}).get("state") == "done":
            print(f"\n== {section.name}: done before")
            continue
        if section.tests and find_spec("pytest") is None:
            outcome: dict[str, Any] = {"state": "skipped", "why": "pytest is not installed"}
        elif left <= 0:
            outcome = {"state": "cut", "why": f"{total:g} s are over"}
        else:
            budget = min(section.budget * (SLOW if rehearse else 1), left)
            print(f"\n== {section.name}: at most {budget:.0f} s", flush=True)
            outcome = run_section(section, budget, output, rehearse)
        write(journal, {"section": section.name, **outcome})
    print("\n".join(["", *report(journal)]))
    states = read(journal)["sections"]
    wrong = [name for name, state in states.items() if state["state"] == "failed"]
    if wrong:
        raise UserError(f"gpu: failed: {'; '.join(wrong)}")


def run_section(section: Section, budget: float, output: Path, rehearse: bool) -> dict[str, Any]:
    """The state of a section after its process (done, cut, ended or failed), and its seconds."""
    if section.tests:
        words = ["gpu_session", str(output / JOURNAL), str(budget),
                 str(FEW if rehearse else 0),
                 *(str(TESTS / "gpu" / test) for test in section.tests)]
    else:
        words = ["benchmarks", *section.benchmark, "--output", str(output), "--resume", "--go-on",
                 "--budget", str(budget), "--device", "stand-in" if rehearse else "gpu",
                 *["--quick"] * rehearse]
    start = time.monotonic()
    search = [str(TESTS.parent), str(TESTS), os.environ.get("PYTHONPATH", "")]
    process = subprocess.Popen(
        [sys.executable, "-m", *words], cwd=TESTS.parent, start_new_session=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(search)}
        | ({"NMT_GPU": "stand-in"} if rehearse else {}))
    try:
        status = process.wait(None if rehearse else budget + GRACE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        status = None
    outcome: dict[str, Any] = {"seconds": round(time.monotonic() - start, 1)}
    if status is None:
        return outcome | {"state": "ended", "why": f"{GRACE:g} s over its budget"}
    if status not in (0, CUT):
        return outcome | {"state": "failed", "why": f"exit status {status}"}
    name, tag = "".join(section.benchmark[:1]), "-tf32" * ("tf32" in section.benchmark)
    record = output / f"{name}{tag}-{'stand-in' if rehearse else 'gpu'}.json"
    if status == CUT or (record.exists() and json.loads(record.read_text(encoding="utf-8"))["cut"]):
        return outcome | {"state": "cut", "why": "its budget is spent"}
    return outcome | {"state": "done"}


def write(journal: Path, entry: dict[str, Any]) -> None:
    """Append a line."""
    with journal.open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")


def read(journal: Path) -> dict[str, dict[str, Any]]:
    """The last entry of each section and of each test. An incomplete line is left out."""
    journalled: dict[str, dict[str, Any]] = {"sections": {}, "tests": {}}
    for line in journal.read_text(encoding="utf-8").splitlines() if journal.exists() else []:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        for kind in journalled:
            if kind[:-1] in entry:
                journalled[kind][entry[kind[:-1]]] = entry
    return journalled


def report(journal: Path) -> list[str]:
    """A line for each section, and the failures."""
    entries = read(journal)
    lines = [f"{name:44}{entry['state']:8}{entry.get('seconds', 0):7.1f} s  {entry.get('why', '')}"
             for name, entry in entries["sections"].items()]
    outcomes = [entry["outcome"] for entry in entries["tests"].values()]
    lines.append(", ".join(f"{outcomes.count(kind)} tests {kind}"
                           for kind in ("passed", "failed", "skipped")))
    return lines + [f"FAILED {name}: {entry['message']}" for name, entry in entries["tests"].items()
                    if entry["outcome"] == "failed"]
