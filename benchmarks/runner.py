"""Runs all benchmarks: options, equality, interleaved timing, rows, records, pictures.

A benchmark declares its cases. Each case is compared first, then timed, printed, and written into
the record. So finished cases are kept: `--resume` continues, `--only` adds or replaces some rows.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import backend
from backend.errors import UserError, missing
from benchmarks.case import Case
from benchmarks.devices import CPU, Device, device_options, devices
from benchmarks.pictures import Chart, draw_record
from benchmarks.records import ratios, read_record, sizes_of, speeds
from benchmarks.timing import Timing, blas_kernels, describe, environment, timed
from nmt.console.arguments import Help, PlainParser, above_zero, natural, positive
from nmt.console.arguments import seconds as time_above_zero
from nmt.console.terminal import print
from nmt.files import write_text

RESULTS = Path(__file__).parent / "results"
# Options that do not change what is measured
FREE = ("output", "seconds", "device", "gemm", "only", "resume", "budget", "go_on", "machine")
USES = {  # an option of a benchmark -> its help
    "batch": "put N sentences into a batch",
    "batches": "time N batches",
    "beams": "search with these beams",
    "data": "read the text here",
    "depth": "use N layers in a Transformer",
    "hidden": "use N hidden units",
    "layers": "use N layers",
    "length": "use sentences of N words",
    "other": "read the other tree here",
    "percents": "prune these percentages",
    "recipe": "measure these recipes",
    "repeats": "time N updates",
    "seed": "seed random numbers",
    "sentences": "search N sentences at once",
    "source": "use sources of N words",
    "sources": "use sources of these lengths",
    "steps": "take N steps of the decoder",
    "target": "use targets of N words",
    "vocabularies": "use vocabularies of N words",
    "vocabulary": "use a vocabulary of N words",
    "width": "make a Transformer N wide",
    "window": "use windows of N words on either side",
}
EXTRAS = {"torch": "oracle", "scipy": "sparse", "mpi4py": "mpi"}

Record = dict[str, Any]
Row = dict[str, Any]


class Benchmark(NamedTuple):
    """The declaration of a benchmark. Its module's docstring says what it does."""

    cases: Callable[[argparse.Namespace], Iterable[Case]]
    sizes: Mapping[str, Any] = {}  # options and their defaults; a list takes several
    quick: Mapping[str, Any] = {}  # what --quick makes of them
    seconds: float = 4.0  # approximately, for which a case is timed
    gpu: bool = False  # whether it takes --device
    needs: tuple[str, ...] = ()  # libraries without which nothing is compared
    free: tuple[str, ...] = ()  # options that a committed record may have
    chart: Callable[[Record], Chart] | None = None
    summary: Callable[[Record], list[str]] = lambda _: []  # lines after the last row


def run(name: str, benchmark: Benchmark, about: str | None, arguments: list[str]) -> None:
    """Run a benchmark: `python -m benchmarks NAME ARGUMENTS`."""
    options = parse(name, benchmark, about, arguments)
    for library in benchmark.needs:
        if find_spec(library) is None:
            raise UserError(f"{name}: {missing(library, EXTRAS[library])}")
    chosen = devices(options.device, options.gemm) if benchmark.gpu else [CPU]
    print(describe(environment()))
    for device in chosen:
        run_on(name, benchmark, device, options)


def run_on(name: str, benchmark: Benchmark, device: Device, options: argparse.Namespace) -> None:
    """Run all cases on a device. Raises UserError if --only names none of them."""
    cases = list(benchmark.cases(options))
    chosen = [case for case in cases
              if any(text.lower() in case.title.lower() for text in options.only or [""])]
    if not chosen:
        raise UserError(f"{name}: --only: expected words of one of "
                        f"{'; '.join(dict.fromkeys(case.name for case in cases))}; got "
                        f"{' '.join(options.only)!r}")
    path, start = record_path(name, device, options), time.monotonic()
    record, rows = new_record(name, options), dict[str, Row]()
    if options.only or options.resume:
        rows = rows_of(path, record)
    record["cut"], record["failed"] = [], []
    for case in chosen:
        if options.resume and key_of(case) in rows:
            print(f"{case.title}: already in the record")
        elif time.monotonic() - start > options.budget:
            print(f"{case.title}: cut, {options.budget:g} s are over")
            record["cut"].append(case.title)
        else:
            try:
                row = rows[key_of(case)] = run_case(case, device, options)
                print_row(row)
            except Exception as error:
                if not options.go_on:
                    raise
                record["failed"].append(f"{case.title}: {type(error).__name__}: {error}")
                print(f"FAILED {record['failed'][-1]}")
        record["rows"] = [rows[key_of(case)] for case in cases if key_of(case) in rows]
        write_text(path, json.dumps(record, indent=1) + "\n")
    record = read_record(path)
    print("\n".join([*(benchmark.summary(record) if record["rows"] else []),
                     f"written: {path.name}"]))
    if benchmark.chart is not None and record["rows"]:
        draw_record(path.with_suffix(".png"), benchmark.chart(record), record)
    if record["failed"]:
        raise UserError(f"{name}: {len(record['failed'])} of {len(chosen)} cases failed")


def run_case(case: Case, device: Device, options: argparse.Namespace) -> Row:
    """Compare and time a case. Returns its row."""
    with backend.using(device.backend):
        prepared = case.prepare(device)
    calls = dict(prepared.calls)
    if prepared.limit is not None:
        calls["limit"] = prepared.limit.call
    try:
        timings = timed(calls, case.seconds * options.seconds,
                        1 if options.quick else case.least) if calls else {}
    finally:
        prepared.end()
    row = {"case": case.name, "sizes": dict(case.sizes), "device": device.name,
           "amount": case.amount, "unit": case.unit, "goals": dict(case.goals),
           "differences": dict(prepared.differences), "absent": dict(prepared.absent),
           "seconds": {name: timing._asdict() for name, timing in timings.items()
                       if name != "limit"}}
    if prepared.limit is not None:
        row["limit"] = prepared.limit.work / timings["limit"].median
    return row | dict(prepared.fields(timings))


class HelpWithParagraphs(Help):
    """Help whose description keeps its paragraphs."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        fill = super()._fill_text
        paragraphs = text.strip().split("\n\n")
        return "\n\n".join(fill(paragraph, width, indent) for paragraph in paragraphs)


def parse(
    name: str, benchmark: Benchmark, about: str | None, arguments: list[str]
) -> argparse.Namespace:
    """The options, with the directory of the results.

    Raises UserError if a part of a benchmark, or another size of it, would overwrite its record.
    """
    parser = PlainParser(prog=f"python -m benchmarks {name}", description=about,
                         formatter_class=HelpWithParagraphs)
    for option, default in benchmark.sizes.items():
        first = default[0] if isinstance(default, list) else default
        kind: Any = (natural if option == "seed" else positive) if isinstance(first, int) else str
        shown = " ".join(map(str, default)) if isinstance(default, list) else default
        metavar = "DIR" if default is None else "N" if isinstance(first, int) else "NAME"
        parser.add_argument(f"--{option}", type=kind, default=default, metavar=metavar,
                            nargs="+" if isinstance(default, list) else None,
                            help=USES[option] + (", needed unless --quick" if shown is None
                                                 else f" (default: {shown})"))
    parser.add_argument("--quick", action="store_true",
                        help="use tiny sizes, to see within seconds that it runs")
    parser.add_argument("--seconds", type=time_above_zero, default=benchmark.seconds,
                        help=f"time each case for about this long (default: "
                             f"{benchmark.seconds:g})")
    parser.add_argument("--output", type=Path, metavar="DIR", help="write the record and the "
                        "picture here (default: benchmarks/results)")
    parser.add_argument("--only", nargs="+", metavar="TEXT", help="run the cases with this text in "
                        "their title, and keep the record's other rows")
    parser.add_argument("--resume", action="store_true", help="skip the cases in the record")
    parser.add_argument("--go-on", action="store_true", help="continue after a case that fails")
    parser.add_argument("--budget", type=above_zero, default=1e9, metavar="SECONDS",
                        help="start no further case after this time")
    parser.add_argument("--machine", type=one_word, metavar="NAME", help="put this word into the "
                        "record's file name, to keep the rows of several machines")
    if benchmark.gpu:
        device_options(parser)
    options = parser.parse_args(arguments)
    if options.output is None:
        for option, value in vars(options).items():
            if option not in (*FREE, *benchmark.free) and value != parser.get_default(option):
                raise UserError(f"--{option}: needs --output DIR, so that the record of the usual "
                                "run stays")
    options.output = options.output or RESULTS
    if options.quick:
        vars(options).update({"seconds": 0.01} | dict(benchmark.quick))
    return options


def record_path(name: str, device: Device, options: argparse.Namespace) -> Path:
    """`<name>[-tf32]-<kernels>[-<machine>].json`, gpu or stand-in in place of the BLAS kernels."""
    tag = "-tf32" if vars(options).get("gemm", "float32") != "float32" else ""
    kernels = blas_kernels() if device.name == "cpu" else device.name
    machine = f"-{options.machine}" if options.machine else ""
    return Path(options.output) / f"{name}{tag}-{kernels}{machine}.json"


def one_word(text: str) -> str:
    """Letters and digits, as a type of argparse."""
    if not text.isalnum():
        raise argparse.ArgumentTypeError(f"expected letters and digits, got {text!r}")
    return text


def new_record(name: str, options: argparse.Namespace) -> Record:
    """A record without rows; paths of this machine are left out."""
    def named(value: Any) -> Any:
        if isinstance(value, list):
            return [named(item) for item in value]
        file = isinstance(value, str) and value.endswith((".yaml", ".yml"))
        return Path(value).stem if file else value

    return {"benchmark": name, "environment": environment(), "rows": [], "options": {
        option: named(value) for option, value in vars(options).items()
        if option not in ("output", "data", "other", "only", "resume", "budget", "go_on",
                          "machine")}}


def rows_of(path: Path, record: Record) -> dict[str, Row]:
    """The rows of a record that was made with the same options on the same machine, by key."""
    if not path.exists():
        return {}
    before = read_record(path)
    same_machine = all(before["environment"][key] == record["environment"][key]
                       for key in ("cpu", "cores", "kernels", "versions", "gpu"))
    timing = "seconds", "device"
    if not same_machine or any(before["options"].get(key, value) != value
                               for key, value in record["options"].items() if key not in timing):
        return {}
    return {key_of(row): row for row in before["rows"]}


def key_of(case: Case | Row) -> str:
    """The key that distinguishes a row from the others of its record."""
    name, sizes = (case.name, case.sizes) if isinstance(case, Case) else (case["case"],
                                                                          case["sizes"])
    return json.dumps([name, dict(sizes)])


def print_row(row: Row) -> None:
    """A line for the case, and one for each implementation: time, rate, and ours over it. Rates of
    floating-point operations and bytes are in billions."""
    equal = max(row["differences"].values(), default=None)
    print(f"\n{row['case']}  {sizes_of(row)}, {row['device']}"
          + ("" if equal is None else f"   (equal to {equal:.0e})"))
    width = max(map(len, [*row["seconds"], *row["absent"], ""])) + 2
    unit, ratio = row["unit"], ratios(row) if row["seconds"] else {}
    for name, speed in speeds(row).items():
        text = f"  {name:{width}}{Timing(**row['seconds'][name])}"
        if unit:
            said = f"{speed / 1e9:,.1f} G" if unit in ("FLOP", "B") else f"{speed:,.4g} "
            text += f"{f'{said}{unit}/s':>24}"
        if name in ratio:
            text += f"   ratio {ratio[name]:.2f}"
            text += f", goal {row['goals'][name]}" if name in row["goals"] else ""
        elif "limit" in row:
            text += f"{speed / row['limit']:6.0%} of the limit"
        print(text, flush=True)
    for name, why in row["absent"].items():
        print(f"  {name:{width}}{why}", flush=True)
