"""The figures of docs/speed.md, generated from the result files.

The text between the two markers is replaced. The rows of missing files are left out; GPU results
that are missing are called "not run". A test compares the page with the files.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from backend.command import PlainParser
from backend.errors import UserError
from backend.files import write_text
from benchmarks.kernel_list import LSTM_GOALS, ROOFLINE_GOAL, ROOFLINE_SIZES
from benchmarks.memory import GOAL as MEMORY_GOAL
from benchmarks.pictures import number
from benchmarks.record import RESULTS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "speed.md"
BEGIN = "<!-- speed: written by `python -m benchmarks table` from benchmarks/results -->"
END = "<!-- end of speed -->"
LABELS = {"haswell": "Haswell", "native": "native", "gpu": "GPU"}  # by the suffix of a file's name
# Goals for our time / PyTorch's: those of a prototype on another machine of two cores.
STEP_GOALS = {"step": {"haswell": 0.75, "native": 0.45},
              "step-no-feeding": {"haswell": 1.1, "native": 0.70}}
SEARCH_GOALS = {"haswell": 0.7, "native": 0.45}  # beam 10, 16 sentences
GPU_GOALS = "60,000 target tokens/s, 100,000 with TF32"  # thesis-size

Records = Mapping[str, Mapping[str, Any]]  # result files by name, without `.json`


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


def read(directory: Path) -> dict[str, dict[str, Any]]:
    """All result files of a directory, by name. Raises UserError if there is none, or if one is of
    a
    run with --quick."""
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
        against_pytorch, rooflines, variants, recipes, parts, memory, searches, checks, corpus,
        ideas, peers, growth, machines,
    ]
    return [line for section in sections if (lines := section(records)) for line in [*lines, ""]]


def found(records: Records, name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The kernels for which there is a file `name`, and its content."""
    for kernels in LABELS:
        if f"{name}-{kernels}" in records:
            yield kernels, records[f"{name}-{kernels}"]


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


def ms(timing: Mapping[str, float]) -> str:
    """A median in milliseconds."""
    return f"{1e3 * timing['median']:,.3g} ms" if timing["median"] < 1 else (
        f"{1e3 * timing['median']:,.0f} ms")


def ratio(value: float, goal: float | None) -> str:
    """Our time / theirs, bold, and the goal: two cells."""
    return f"**{value:.2f}** | {'' if goal is None else f'{goal:.2f}'}"


# --- sections -------------------------------------------------------------------------------------


def against_pytorch(records: Records) -> list[str]:
    """The measurements with goals: training steps, search, LSTM layers."""
    rows = [*step_rows(records), *search_rows(records), *layer_rows(records)]
    return table("work | kernels | here | PyTorch | ratio | goal", rows)


def step_rows(records: Records) -> Iterator[str]:
    """A training step of the 2x512 translator, each decoder and attention variant."""
    names = sorted({name.rpartition("-")[0] for name in records if name.startswith("step")})
    for name in names:
        for kernels, record in found(records, name):
            options, seconds = record["options"], record["seconds"]
            variant = f"{options.get('attention', 'global')} {options.get('score', 'general')}"
            feeding = "without input feeding" if options["no_feeding"] else "input feeding"
            goal = STEP_GOALS.get(name, {}).get(kernels)
            yield (f"training step, {variant}, {feeding} | {LABELS[kernels]} | "
                   f"{ms(seconds['ours'])} | {ms(seconds['pytorch'])} | "
                   f"{ratio(record['ratio'], goal)}")


def variants(records: Records) -> list[str]:
    """A training step of the 2x512 translator, every attention variant."""
    cells = defaultdict[str, dict[str, str]](dict)
    for kernels, record in found(records, "variants"):
        for name, row in record["rows"].items():
            here, theirs = (f"{1e3 * row['seconds'][which]['median']:,.0f}"
                            for which in ("ours", "pytorch"))
            cells[name][f"{LABELS[kernels]}, ms"] = f"{here} / {theirs}"
            cells[name][f"{LABELS[kernels]}, ratio"] = f"**{row['ratio']:.2f}**"
    return grid("training step, here / PyTorch", cells)


def search_rows(records: Records) -> Iterator[str]:
    """Beam search of the size that has a goal."""
    for kernels, record in found(records, "search"):
        for row in record["rows"]:
            if (row["beam"], row["sentences"]) == (10, 16) and "ratio" in row:
                yield (f"beam search, beam 10, 16 sentences, {row['steps']} steps | "
                       f"{LABELS[kernels]} | {ms(row['seconds']['ours'])} | "
                       f"{ms(row['seconds']['pytorch'])} | "
                       f"{ratio(row['ratio'], SEARCH_GOALS.get(kernels))}")


def ours(kernels: str) -> str:
    """The name of our implementation in the records of kernels."""
    return "CuPy" if kernels == "gpu" else "NumPy"


def layer_rows(records: Records) -> Iterator[str]:
    """LSTM layers, forward and backward: against nn.LSTM, and others with a goal."""
    goals = {(tuple(zip("TBH", shape, strict=True)), peer): goal
             for shape, own in LSTM_GOALS.items() for (peer, _), goal in own.items()}
    for kernels, record in found(records, "kernels"):
        end = ", CUDA" if kernels == "gpu" else ""
        timed = [row for row in record["rows"]
                 if (row["kernel"], row["pass"]) == ("LSTM layer", "both") and row["median"]]
        by_size = {str(row["sizes"]): row for row in timed
                   if row["implementation"] == ours(kernels)}
        for row in timed:
            own, name = by_size.get(str(row["sizes"])), row["implementation"]
            peer = name.removesuffix(", CUDA")
            goal = goals.get((tuple(row["sizes"].items()), peer))
            if own and name == peer + end and (peer == "nn.LSTM" or goal):
                yield (f"LSTM layer, {sizes_of(row)}, against {name} | {LABELS[kernels]} | "
                       f"{ms(own)} | {ms(row)} | " + ratio(
                           own["median"] / row["median"], goal if kernels == "native" else None))


def rooflines(records: Records) -> list[str]:
    """The fraction of the library's own matrix product (GEMM) that the LSTM layer of the goal
    reaches."""
    rows = [f"LSTM layer, {sizes_of(row)}, forward and backward | {LABELS[kernels]} | "
            f"{row['roofline'] / 1e9:.0f} GFLOP/s | {row['rate'] / 1e9:.0f} GFLOP/s | "
            f"**{row['fraction']:.0%}** | {ROOFLINE_GOAL:.0%}"
            for kernels, record in found(records, "kernels") for row in record["rows"]
            if (row["kernel"], row["sizes"], row["pass"], row["implementation"])
            == ("LSTM layer", ROOFLINE_SIZES, "both", ours(kernels))]
    return table("share of the library's own matrix product | kernels | GEMM | here | share | goal",
                 rows)


def checks(records: Records) -> list[str]:
    """A gradient check of all parameters, ours and PyTorch's."""
    names = ("both methods", "complex step", "gradcheck")
    rows = [" | ".join([f"{record['entries']:,} entries", LABELS[kernels],
                        *(f"{record['seconds'][name]['median']:.2f} s" for name in names),
                        *(f"**{record['ratios'][name]:.2f}**" for name in names[:2])])
            for kernels, record in found(records, "gradcheck")]
    return table("gradient check of a 2-layer translator | kernels | both methods | complex step | "
                 "`torch.autograd.gradcheck` | ratio, both | ratio, complex step", rows)


def corpus(records: Records) -> list[str]:
    """The results of each gradient checker on the corpus of right and wrong functions."""
    rows = [f"`{row['checker']}` | {LABELS[kernels]} | **{len(row['false_alarms'])}** of "
            f"{row['right']} | **{len(row['misses'])}** of {row['wrong']} | {ms(row['seconds'])}"
            for kernels, record in found(records, "checkers") for row in record["rows"]]
    return table("gradient checker, on right and wrong functions | kernels | false alarms | "
                 "misses | time for the right ones", rows)


def every_row(records: Records, *names: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Kernels in words and row of the files of these names, those with TF32 products too."""
    for name, tag in product(names, ("", "-tf32")):
        for kernels, record in found(records, name + tag):
            for row in record["rows"]:
                yield LABELS[kernels] + (", TF32" if tag else ""), row


def recipe_rows(records: Records) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Kernels and row of every recipe that was timed."""
    return every_row(records, "recipes", "recipes-large")


def recipes(records: Records) -> list[str]:
    """Target tokens/s of the recipes."""
    rows = []
    for kernels, row in recipe_rows(records):
        speed = row["tokens_per_second"]
        theirs = f"{speed['pytorch']:,.0f}" if "pytorch" in speed else "no peer"
        compared = f"**{row['ratio']:.2f}**" if "ratio" in row else ""
        rows.append(f"{link(row['recipe'])} | {kernels} | {speed['ours']:,.0f} | {theirs} | "
                    f"{compared}")
    note = ["`thesis-size`: 4 layers of 1000 units, 50,000 words, batch 128. Goal on a GPU: "
            f"{GPU_GOALS}."] if rows else []
    return joined(table("recipe, target tokens/s | kernels | here | PyTorch | time ratio", rows),
                  note)


def link(name: str) -> str:
    """A recipe's name, with its file where it has one of that name."""
    there = (PAGE.parents[1] / "nmt" / "recipes" / f"{name}.yaml").exists()
    return f"[`{name}`](../nmt/recipes/{name}.yaml)" if there else f"`{name}`"


def parts(records: Records) -> list[str]:
    """Where the time of a step goes, in percent of the parts' sum."""
    columns = list(recipe_rows(records))
    names = list(dict.fromkeys(part for _, row in columns for part in row["parts"]))
    rows = []
    for part in names:
        cells = [f"{100 * row['parts'].get(part, 0) / sum(row['parts'].values()):.0f} %"
                 for _, row in columns]
        rows.append(" | ".join([part, *cells]))
    head = " | ".join(["part of a step", *(f"{row['recipe']}, {kernels}"
                                           for kernels, row in columns)])
    return table(head, rows)


def memory(records: Records) -> list[str]:
    """Peak memory of a step."""
    rows = []
    for kernels, record in found(records, "memory"):
        for row in record["rows"]:
            sizes = row["bytes"]
            needed = [sizes[name] for name in ("parameters", "gradients", "saved")]
            cells = [f"{size / 1e9:.2f} GB" for size in (*needed, sum(needed), max(sizes["peaks"]))]
            rows.append(" | ".join([link(row["recipe"]), LABELS[kernels], *cells,
                                    f"**{row['ratio']:.2f}**", f"{MEMORY_GOAL}"]))
    return table("memory of a step | kernels | parameters | gradients | saved activations | sum | "
                 "peak | ratio | goal", rows)


def searches(records: Records) -> list[str]:
    """Sentences per second by how many are searched at once."""
    timed = list(every_row(records, "search"))
    sizes = sorted({row["sentences"] for _, row in timed})
    cells: dict[tuple[str, str], dict[int, str]] = {}
    for kernels, row in timed:
        name = "greedy" if row["beam"] == 1 else f"beam {row['beam']}"
        speeds = [f"{speed:.3g}" for speed in row["sentences_per_second"].values()]
        cells.setdefault((name, kernels), {})[row["sentences"]] = " / ".join(speeds)
    rows = [" | ".join([*key, *(own.get(size, "") for size in sizes)])
            for key, own in cells.items()]
    head = ["sentences/s, here / PyTorch", "kernels", *(f"{size} at once" for size in sizes)]
    return table(" | ".join(head), rows)


def ideas(records: Records) -> list[str]:
    """From textbook code to the kernel: milliseconds of each form, a column for each size."""
    cells = defaultdict[str, dict[str, str]](dict)
    for kernels, record in found(records, "naive"):
        for row in record["rows"]:
            column = f"{sizes_of(row)}, {LABELS[kernels]}"
            cells[row["form"]][column] = number(1e3 * row["median"])
    return grid("an LSTM layer's forward and backward, ms", cells)


def peers(records: Records) -> list[str]:
    """Other implementations: milliseconds of each, a column for each size."""
    cells = defaultdict[str, dict[str, str]](dict)
    for kernels, record in found(records, "peers"):
        for row in record["rows"]:
            if row["pass"] == "both":
                column = f"{sizes_of(row)}, {LABELS[kernels]}"
                cells[row["implementation"]][column] = (
                    number(1e3 * row["median"]) if row["median"] else row["note"].split(":")[0])
    return grid("the same, ours against others", cells)


def growth(records: Records) -> list[str]:
    """How time grows with each size: exponents, measured and of the operations."""
    rows = []
    for kernels, record in found(records, "scaling"):
        sweeps = {(row["sweep"], row["letter"], row["implementation"]): row
                  for row in record["rows"]}
        rows += [f"{sweep}, {name} | {letter} | {LABELS[kernels]} | {power(row['exponent'])} | "
                 f"{power(row['expected'])}" for (sweep, letter, name), row in sweeps.items()]
    for kernels, record in found(records, "attention"):
        rows += [f"attention to the source, {name}, NumPy | S | {LABELS[kernels]} | "
                 f"{power(row['exponents']['step'])} | {power(row['exponents']['operations'])}"
                 for name, row in record["variants"].items()]
    return table("time as a power of a size | size | kernels | measured | of the operations", rows)


def power(exponent: float) -> str:
    """Two digits, and no minus before nothing."""
    return f"{round(exponent, 2) + 0.0:.2f}"


def sizes_of(row: Mapping[str, Any]) -> str:
    """The sizes of a row by letter."""
    return " ".join(f"{name}={size}" for name, size in row["sizes"].items())


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


def joined(*sections: list[str]) -> list[str]:
    """Sections with an empty line between those that are there."""
    lines: list[str] = []
    for section in filter(None, sections):
        lines += [*([""] if lines else []), *section]
    return lines
