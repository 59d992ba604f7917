"""The figures of docs/speed.md, written from the records; and their pictures, drawn again.

`table`: the text between the two markers of the page is replaced. The rows of missing files are
left out; GPU results that are missing are called "not run". A test compares the page with the
files. `redraw`: as PNG beside the files, or as SVG or PDF, which suit papers, where they are asked
for.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from backend.command import PlainParser
from backend.errors import UserError
from backend.files import write_text
from benchmarks.kernels import (
    BOTH,
    ROOFLINE_GOAL,
    ROOFLINE_SIZES,
    exponent,
    medians,
)
from benchmarks.memory import GOAL as MEMORY_GOAL
from benchmarks.memory import NEEDED
from benchmarks.parts import PARTS
from benchmarks.pictures import draw_record, number
from benchmarks.registry import MODULES
from benchmarks.runner import RESULTS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "speed.md"
BEGIN = "<!-- speed: written by `python -m benchmarks table` from benchmarks/results -->"
END = "<!-- end of speed -->"
LABELS = {"haswell": "Haswell", "native": "native", "gpu": "GPU"}  # by the suffix of a file's name
GPU_GOALS = "60,000 target tokens/s, 100,000 with TF32"  # thesis-size

Records = Mapping[str, Mapping[str, Any]]  # result files by name, without `.json`
Row = Mapping[str, Any]
Timing = Mapping[str, float]


def main(arguments: list[str]) -> None:
    """Rewrite the page, or with --check only report whether it is up to date."""
    parser = PlainParser(prog="python -m benchmarks table", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; fail if it would")
    parser.add_argument("--page", type=Path, default=PAGE, help="default: docs/speed.md")
    parser.add_argument("--results", type=Path, default=RESULTS,
                        help="directory of the result files")
    options = parser.parse_args(arguments)
    text = options.page.read_text(encoding="utf-8")
    made = rewritten(text, read(options.results), options.page.name)
    if made == text:
        print(f"{options.page.name}: up to date")
    elif options.check:
        raise UserError(f"{options.page.name}: not what the result files say; run "
                        "`python -m benchmarks table`")
    else:
        write_text(options.page, made)
        print(f"{options.page.name}: written")


def redraw(arguments: list[str]) -> None:
    """Draw every file of a directory in every format, without measuring."""
    parser = PlainParser(prog="python -m benchmarks redraw", description=__doc__)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME",
                        help="of result files without .json (default: all)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the files are")
    parser.add_argument("--format", choices=("png", "svg", "pdf"), nargs="+", default=["png"])
    parser.add_argument("--output", type=Path, metavar="DIR", help="default: beside the files")
    options = parser.parse_args(arguments)
    for stem in options.only or sorted(path.stem for path in options.results.glob("*.json")):
        try:
            record = json.loads((options.results / f"{stem}.json").read_text(encoding="utf-8"))
            name = record["benchmark"]
            chart = import_module(f"benchmarks.{MODULES[name]}").BENCHMARKS[name].chart
        except (OSError, ValueError, KeyError) as error:
            raise UserError(f"{stem}.json: expected a result file, got: {error!r}") from error
        directory = options.output or options.results
        directory.mkdir(parents=True, exist_ok=True)
        for ending in options.format:
            draw_record(directory / f"{stem}.{ending}", chart(record), record)


def read(directory: Path) -> dict[str, dict[str, Any]]:
    """All result files of a directory, by name. Raises UserError if there is none, or if one is of
    a run with --quick."""
    if not directory.is_dir():
        raise UserError(f"{directory}: expected a directory of result files, found none")
    try:
        records = {path.stem: json.loads(path.read_text(encoding="utf-8"))
                   for path in sorted(directory.glob("*.json"))}
    except (ValueError, RecursionError) as error:
        raise UserError(f"{directory}: expected JSON in its result files, got: {error}") from error
    for name, record in records.items():
        if record.get("options", {}).get("quick"):
            raise UserError(f"{name}.json: expected a measurement, got a run with --quick")
    return records


def rewritten(text: str, records: Records, name: str) -> str:
    """`text` with the figures between the markers. Raises UserError without markers."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise UserError(f"{name}: expected the markers {BEGIN} and {END}")
    return "\n".join([before + BEGIN, "", *page(records), END]) + after


def page(records: Records) -> list[str]:
    """The lines between the markers, an empty one after each section."""
    sections: list[Callable[[Records], list[str]]] = [
        against_pytorch, limits, variants, recipes, parts, memory, searches, checks, checkers,
        forms, peers, growth, machines,
    ]
    return [line for section in sections if (lines := section(records)) for line in [*lines, ""]]


def rows_of(records: Records, *names: str) -> Iterator[tuple[str, Row]]:
    """Kernels in words and row of the files of these names, those with TF32 products too."""
    for name in names:
        for tag, said in (("", ""), ("-tf32", ", TF32")):
            for kernels, label in LABELS.items():
                for row in records.get(f"{name}{tag}-{kernels}", {}).get("rows", []):
                    yield label + said, row


def table(head: str, rows: list[str]) -> list[str]:
    """A Markdown table, none where it has no rows. Cells are separated by ` | `."""
    columns = head.count(" | ") + 1
    return [f"| {head} |", "|" + "---|" * columns, *(f"| {row} |" for row in rows)] if rows else []


def grid(corner: str, cells: Mapping[str, Mapping[str, str]]) -> list[str]:
    """A table of named rows and columns; a cell that is not there is empty."""
    columns = list(dict.fromkeys(column for own in cells.values() for column in own))
    return table(" | ".join([corner, *columns]),
                 [" | ".join([name, *(own.get(column, "") for column in columns)])
                  for name, own in cells.items()])


def ms(timing: Timing) -> str:
    """A median in milliseconds."""
    return f"{1e3 * timing['median']:,.3g} ms" if timing["median"] < 1 else (
        f"{1e3 * timing['median']:,.0f} ms")


def pairs(row: Row) -> Iterator[tuple[str, Timing, Timing, str]]:
    """Each implementation beside ours, the first: its name, our time, its, and bold their ratio."""
    (_, ours), *others = row["seconds"].items()
    for name, theirs in others:
        yield name, ours, theirs, f"**{ours['median'] / theirs['median']:.2f}**"


def speeds(row: Row) -> dict[str, float]:
    """Amount a second by implementation."""
    return {name: row["amount"] / timing["median"] for name, timing in row["seconds"].items()}


def sizes_of(row: Row) -> str:
    """The sizes of a row by letter."""
    return " ".join(f"{name}={size}" for name, size in row["sizes"].items())


def link(name: str) -> str:
    """A recipe's name, with its file where it has one of that name."""
    there = (PAGE.parents[1] / "nmt" / "recipes" / f"{name}.yaml").exists()
    return f"[`{name}`](../nmt/recipes/{name}.yaml)" if there else f"`{name}`"


# --- sections -------------------------------------------------------------------------------------


def against_pytorch(records: Records) -> list[str]:
    """The measurements with goals: training steps, search, LSTM layers."""
    lines = []
    for name in ("step", "search", "kernels"):
        for label, row in rows_of(records, name):
            sizes = row["sizes"]
            for peer, ours, theirs, ratio in pairs(row):
                goal = row["goals"].get(peer)
                if name == "step":
                    what = "training step, " + row["case"].replace("no feeding", "without feeding"
                                                                   ).replace("feeding",
                                                                             "input feeding")
                elif name == "search" and (sizes["beam"], sizes["sentences"]) == (10, 16):
                    what = f"beam search, beam 10, 16 sentences, {sizes['steps']} steps"
                elif row["case"] == BOTH and (peer == "nn.LSTM" or sizes == ROOFLINE_SIZES):
                    what = f"LSTM layer, {sizes_of(row)}, against {peer}"
                else:
                    continue
                lines.append(f"{what} | {label} | {ms(ours)} | {ms(theirs)} | {ratio} | "
                             + ("" if goal is None else f"{goal:.2f}"))
    return table("work | kernels | here | PyTorch | ratio | goal", lines)


def limits(records: Records) -> list[str]:
    """The share of the library's own matrix product (GEMM) that the LSTM layer of the goal
    reaches."""
    lines = []
    for label, row in rows_of(records, "kernels"):
        if (row["case"], row["sizes"]) == (BOTH, ROOFLINE_SIZES):
            ours = next(iter(speeds(row).values()))
            lines.append(f"LSTM layer, {sizes_of(row)}, forward and backward | {label} | "
                         f"{row['limit'] / 1e9:.0f} GFLOP/s | {ours / 1e9:.0f} GFLOP/s | "
                         f"**{ours / row['limit']:.0%}** | {ROOFLINE_GOAL:.0%}")
    return table("share of the library's own matrix product | kernels | GEMM | here | share | goal",
                 lines)


def variants(records: Records) -> list[str]:
    """A training step of the 2x512 translator, every attention variant."""
    cells = defaultdict[str, dict[str, str]](dict)
    for label, row in rows_of(records, "variants"):
        for _, ours, theirs, ratio in pairs(row):
            cells[row["case"]] |= {
                f"{label}, ms": f"{1e3 * ours['median']:,.0f} / {1e3 * theirs['median']:,.0f}",
                f"{label}, ratio": ratio}
    return grid("training step, here / PyTorch", cells)


def recipes(records: Records) -> list[str]:
    """Target tokens/s of the recipes."""
    lines = []
    for label, row in rows_of(records, "recipes", "recipes-large"):
        speed, ratio = speeds(row), next((found for name, *_, found in pairs(row)
                                          if name == "PyTorch"), "")
        theirs = f"{speed['PyTorch']:,.0f}" if ratio else "no peer"
        lines.append(f"{link(row['case'])} | {label} | {speed['here']:,.0f} | {theirs} | {ratio}")
    note = ["", "`thesis-size`: 4 layers of 1000 units, 50,000 words, batch 128. Goal on a GPU: "
            f"{GPU_GOALS}."] if lines else []
    return table("recipe, target tokens/s | kernels | here | PyTorch | time ratio", lines) + note


def parts(records: Records) -> list[str]:
    """Where the time of a step goes, in percent of the parts' sum."""
    cells = defaultdict[str, dict[str, str]](dict)
    for label, row in rows_of(records, "recipes", "recipes-large"):
        for part, seconds in row["parts"].items():
            share = f"{100 * seconds / sum(row['parts'].values()):.0f} %"
            cells[part][f"{row['case']}, {label}"] = share
    return grid("part of a step", {part: cells[part] for part in PARTS if part in cells})


def memory(records: Records) -> list[str]:
    """Peak memory of a step."""
    lines = []
    for label, row in rows_of(records, "memory"):
        needed = [row["bytes"][name] for name in NEEDED]
        cells = [f"{size / 1e9:.2f} GB"
                 for size in (*needed, sum(needed), max(row["bytes"]["peaks"]))]
        lines.append(" | ".join([link(row["case"]), label, *cells, f"**{row['ratio']:.2f}**",
                                 f"{MEMORY_GOAL}"]))
    return table("memory of a step | kernels | parameters | gradients | saved activations | sum | "
                 "peak | ratio | goal", lines)


def searches(records: Records) -> list[str]:
    """Sentences per second by how many are searched at once."""
    cells = defaultdict[str, dict[str, str]](dict)
    for label, row in rows_of(records, "search"):
        text = " / ".join(f"{speed:.3g}" for speed in speeds(row).values())
        cells[f"{row['case']} | {label}"][f"{row['sizes']['sentences']} at once"] = text
    return grid("sentences/s, here / PyTorch | kernels", cells)


def checks(records: Records) -> list[str]:
    """A gradient check of all parameters, ours and PyTorch's."""
    lines = []
    for label, row in rows_of(records, "gradcheck"):
        seconds = [timing["median"] for timing in row["seconds"].values()]
        lines.append(" | ".join([f"{row['amount']:,} entries", label,
                                 *(f"{one:.2f} s" for one in seconds),
                                 *(f"**{one / seconds[-1]:.2f}**" for one in seconds[:-1])]))
    return table("gradient check of a 2-layer translator | kernels | both methods | complex step | "
                 "`torch.autograd.gradcheck` | ratio, both | ratio, complex step", lines)


def checkers(records: Records) -> list[str]:
    """The results of each gradient checker on the corpus of right and wrong functions."""
    lines = [f"`{name}` | {label} | **{len(one['false_alarms'])}** of {row['right']} | "
             f"**{len(one['misses'])}** of {row['wrong']} | {ms(row['seconds'][name])}"
             for label, row in rows_of(records, "checkers")
             for name, one in row["checkers"].items()]
    return table("gradient checker, on right and wrong functions | kernels | false alarms | "
                 "misses | time for the right ones", lines)


def by_size(records: Records, name: str, corner: str) -> list[str]:
    """Milliseconds of forward and backward: a row for each implementation, a column a size."""
    cells = defaultdict[str, dict[str, str]](dict)
    for label, row in rows_of(records, name):
        if row["case"] == BOTH:
            for one, timing in row["seconds"].items():
                cells[one][f"{sizes_of(row)}, {label}"] = number(1e3 * timing["median"])
            for one, why in row["absent"].items():
                cells[one][f"{sizes_of(row)}, {label}"] = why.split(":")[0]
    return grid(corner, cells)


def forms(records: Records) -> list[str]:
    """From textbook code to the kernel."""
    return by_size(records, "naive", "an LSTM layer's forward and backward, ms")


def peers(records: Records) -> list[str]:
    """Other implementations of a layer."""
    return by_size(records, "peers", "the same, ours against others")


def growth(records: Records) -> list[str]:
    """How time grows with each size: exponents, measured and of the operations."""
    lines = []
    for name, before in (("scaling", ""), ("attention", "attention to the source, ")):
        lines += [f"{before}{row['case']}, {row['implementation']} | {row['letter']} | {label} | "
                  f"{power(exponent(row, medians(row)))} | "
                  f"{power(exponent(row, row['operations']))}"
                  for label, row in rows_of(records, name) if row["operations"]]
    return table("time as a power of a size | size | kernels | measured | of the operations", lines)


def power(exponent: float) -> str:
    """Two digits, and no minus before nothing."""
    return f"{round(exponent, 2) + 0.0:.2f}"


def machines(records: Records) -> list[str]:
    """The machines of the measurements."""
    lines = []
    for kernels, name in LABELS.items():
        own = [record["environment"] for stem, record in records.items()
               if stem.endswith(f"-{kernels}")]
        lines += [f"- {name}: {said}" for said in dict.fromkeys(map(machine, own))]
    if not any(stem.endswith("-gpu") for stem in records):
        lines.append("- on a GPU: not run")
    return lines


def machine(environment: Mapping[str, Any]) -> str:
    """Processor, BLAS, libraries and GPU of one file, in one line."""
    blas = next((f"{pool['internal_api']} {pool['version']} {pool['architecture']}"
                 for pool in environment["thread_pools"] if pool["architecture"]), "unknown BLAS")
    versions = [f"{name} {number}" for name, number in environment["versions"].items() if number]
    device = environment.get("gpu")
    return ", ".join([environment["cpu"], f"{environment['cores']} cores", blas, *versions,
                      *([device["name"]] if device else [])])
