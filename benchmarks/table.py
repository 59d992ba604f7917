"""Writes the figures of docs/speed.md and docs/speed-tables.md from the records, and draws their
pictures again.

`table` replaces the text between the two markers of each page. It leaves out the rows of missing
files, and writes "not run" for missing GPU results. speed-tables.md has the newest processor that a
benchmark ran on; a GPU has its own rows. A test compares the pages with the files. `redraw` draws
PNG, or SVG or PDF for papers, beside the files or into another directory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from backend.errors import UserError
from benchmarks.kernels import BOTH, ROOFLINE_GOAL, has_share_goal, share
from benchmarks.memory import GOAL as MEMORY_GOAL
from benchmarks.memory import NEEDED
from benchmarks.parts import PARTS
from benchmarks.pictures import draw_record, number
from benchmarks.recipes import shares
from benchmarks.records import (
    LARGEST,
    Row,
    exponent,
    medians,
    nested,
    ratios,
    read_record,
    sizes_of,
    speeds,
)
from benchmarks.registry import MODULES
from benchmarks.result_files import (
    MACHINES,
    Records,
    named,
    place_of,
    read,
    rows_of,
    shown,
)
from benchmarks.runner import RESULTS
from benchmarks.step import PRODUCTS_GOAL
from nmt.console.arguments import PlainParser
from nmt.console.terminal import print
from nmt.files import read_file, write_text

DOCS = Path(__file__).resolve().parents[1] / "docs"
BEGIN = "<!-- speed: written by `python -m benchmarks table` from benchmarks/results -->"
END = "<!-- end of speed -->"
GPU_GOALS = "60,000 target tokens/s, 100,000 with TF32"  # thesis-size
GOALS = "step", "search", "kernels"  # benchmarks with goals beside PyTorch
RECIPES = "recipes", "recipes-large"


def main(arguments: list[str]) -> None:
    """Rewrite the pages, or with --check only report whether they are up to date."""
    parser = PlainParser(prog="python -m benchmarks table", description=__doc__)
    parser.add_argument("--check", action="store_true",
                        help="change nothing, and fail if a page would change")
    parser.add_argument("--pages", type=Path, default=DOCS, metavar="DIR",
                        help="rewrite the pages here (default: docs)")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR",
                        help="read the result files here (default: benchmarks/results)")
    options = parser.parse_args(arguments)
    records = read(options.results)
    for name, sections in PAGES.items():
        text = read_file(options.pages / name, LARGEST, "a page").decode()
        renewed = rewritten(text, [section(records) for section in sections], name)
        if renewed == text:
            print(f"{name}: up to date")
        elif options.check:
            raise UserError(f"{name}: not what the result files say; run "
                            "`python -m benchmarks table`")
        else:
            write_text(options.pages / name, renewed)
            print(f"{name}: written")


def redraw(arguments: list[str]) -> None:
    """Draw every file of a directory in every format, without measuring."""
    parser = PlainParser(prog="python -m benchmarks redraw", description=__doc__)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME",
                        help="draw these result files, named without .json (default: all)")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR",
                        help="read the result files here (default: benchmarks/results)")
    parser.add_argument("--format", choices=("png", "svg", "pdf"), nargs="+", default=["png"],
                        help="draw in these formats (default: png)")
    parser.add_argument("--output", type=Path, metavar="DIR",
                        help="draw into this directory (default: beside the files)")
    options = parser.parse_args(arguments)
    for stem in options.only or sorted(path.stem for path in options.results.glob("*.json")):
        record = read_record(options.results / f"{stem}.json")
        try:
            name = record["benchmark"]
            chart = import_module(f"benchmarks.{MODULES[name]}").BENCHMARKS[name].chart
        except KeyError as error:
            raise UserError(f"{stem}.json: expected a result file, got: {error!r}") from error
        if chart is None:
            print(f"{stem}: its benchmark has no picture")
            continue
        directory = options.output or options.results
        directory.mkdir(parents=True, exist_ok=True)
        for ending in options.format:
            draw_record(directory / f"{stem}.{ending}", chart(record), record)


def rewritten(text: str, sections: Iterable[list[str]], name: str) -> str:
    """`text` with these sections between the markers. Raises UserError without markers."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise UserError(f"{name}: expected the markers {BEGIN} and {END}")
    lines = [line for section in sections if section for line in [*section, ""]]
    return "\n".join([before + BEGIN, "", *lines, END]) + after


def table(head: str, rows: Iterable[str]) -> list[str]:
    """A Markdown table, none where it has no rows. Cells are separated by ` | `."""
    lines = [f"| {row} |" for row in rows]
    return [f"| {head} |", "|" + "---|" * (head.count(" | ") + 1), *lines] if lines else []


def placed(head: str, rows: Iterable[tuple[str, str]]) -> list[str]:
    """A table of rows. A single place stands above it; several places are a column.
    """
    lines = list(rows)
    places = list(dict.fromkeys(place for place, _ in lines))
    if len(places) > 1:
        return table(f"measured on | {head}", (f"{place} | {row}" for place, row in lines))
    return [*measured_on(places), *table(head, (row for _, row in lines))]


def measured_on(places: Sequence[str]) -> list[str]:
    """The line above a table of one place."""
    return [f"Measured on: {places[0]}.", ""] if len(places) == 1 else []


def grid(corner: str, entries: Iterable[tuple[str, str, str, str]]) -> list[str]:
    """A table of named rows and columns, by place, row, column and text; the others are empty."""
    listed = list(entries)
    places = list(dict.fromkeys(place for place, *_ in listed))
    several = len(places) > 1
    cells = nested((row, f"{column}, {place}" if several else column, text)
                   for place, row, column, text in listed)
    return [*measured_on(places), *bare_grid(corner, cells)]


def bare_grid(corner: str, cells: Mapping[str, Mapping[str, str]]) -> list[str]:
    """A table of texts by row and column."""
    columns = list(dict.fromkeys(column for row in cells.values() for column in row))
    return table(" | ".join([corner, *columns]),
                 (" | ".join([name, *(row.get(column, "") for column in columns)])
                  for name, row in cells.items()))


def ms(seconds: float) -> str:
    """Milliseconds."""
    return f"{1e3 * seconds:,.3g} ms" if seconds < 1 else f"{1e3 * seconds:,.0f} ms"


def pairs(row: Row) -> Iterator[tuple[str, float, float, str]]:
    """The other implementations, ours being the first: name, our time, its time, ratio in bold."""
    seconds = medians(row)
    for name, ratio in ratios(row).items():
        yield name, next(iter(seconds.values())), seconds[name], f"**{ratio:.2f}**"


def link(name: str) -> str:
    """A recipe's name, linked to the file of that name if there is one."""
    there = (DOCS.parent / "nmt" / "recipes" / f"{name}.yaml").exists()
    return f"[`{name}`](../nmt/recipes/{name}.yaml)" if there else f"`{name}`"


# --- sections -------------------------------------------------------------------------------------


def work_of(name: str, row: Row, peer: str) -> str | None:
    """A measurement that has a goal, in words: a training step, a search, an LSTM layer."""
    case, sizes = row["case"], row["sizes"]
    if name == "step":
        return "training step, " + case.replace("no feeding", "without feeding").replace(
            "feeding", "input feeding")
    compared = peer == "CTranslate2" or (sizes.get("beam"), sizes.get("sentences")) == (10, 16)
    if name == "search" and compared and peer in row["goals"]:
        kind = case.replace("greedy", "greedy search").replace("beam", "beam search, beam")
        several = "1 sentence" if sizes["sentences"] == 1 else f"{sizes['sentences']} sentences"
        against = "" if peer == "PyTorch" else f", against {peer}"
        return f"{kind}, {several}, {sizes['steps']} steps{against}"
    if has_share_goal(row) or (case == BOTH and peer == "nn.LSTM"):
        return f"LSTM layer, {sizes_of(row)}, against {peer}"
    return None


def summary(records: Records) -> list[str]:
    """Our time over PyTorch's with native kernels, a column for each processor."""
    files = sorted((file.rank, stem) for stem in records
                   if (file := named(stem)).kernels == "native" and not file.tf32)
    cells = [(what, MACHINES[named(stem).machine], ratio)
             for name in GOALS for _, stem in files if named(stem).benchmark == name
             for row in records[stem]["rows"] for peer, _, _, ratio in pairs(row)
             if (what := work_of(name, row, peer)) and named(stem).machine in MACHINES]
    order = list(MACHINES.values())
    cells.sort(key=lambda cell: order.index(cell[1]))
    return bare_grid("our time / PyTorch's", nested(cells))


def against_pytorch(records: Records) -> list[str]:
    """The measurements with goals: training steps, search, LSTM layers."""
    return placed("work | here | PyTorch | ratio | goal", (
        (place, f"{what} | {ms(ours)} | {ms(theirs)} | {ratio} | "
         + (f"{row['goals'][peer]:.2f}" if peer in row["goals"] else ""))
        for name in GOALS for place, row in rows_of(records, name)
        for peer, ours, theirs, ratio in pairs(row) if (what := work_of(name, row, peer))))


def limits(records: Records) -> list[str]:
    """The share of the library's own matrix product (GEMM) that one LSTM layer reaches."""
    return placed("share of the library's own matrix product | GEMM | here | share | goal", (
        (place, f"LSTM layer, {sizes_of(row)}, forward and backward | "
         f"{row['limit'] / 1e9:.0f} GFLOP/s | {share(row) * row['limit'] / 1e9:.0f} GFLOP/s | "
         f"**{share(row):.0%}** | {ROOFLINE_GOAL:.0%}")
        for place, row in rows_of(records, "kernels") if has_share_goal(row)))


def bounds(records: Records) -> list[str]:
    """How much of a training step its matrix products alone would take."""
    return placed("training step | its matrix products alone | here | share | goal", (
        (place, f"{row['case'].replace('feeding', 'input feeding')} | "
         f"{ms(row['amount'] / row['limit'])} | {ms(medians(row)['here'])} | "
         f"**{share(row):.0%}** | {PRODUCTS_GOAL:.0%}")
        for place, row in rows_of(records, "step") if "limit" in row))


def variants(records: Records) -> list[str]:
    """A training step of the 2x512 translator, every attention variant."""
    entries = []
    for place, row in rows_of(records, "variants"):
        name, _, feeding = row["case"].rpartition(", ") if "feeding" in row["case"] else (
            row["case"], "", "no feeding")
        entries += [(place, name, feeding, f"{1e3 * ours:,.0f} / {1e3 * theirs:,.0f} {ratio}")
                    for _, ours, theirs, ratio in pairs(row)]
    return grid("training step, ms here / PyTorch, and ratio", entries)


def recipes(records: Records) -> list[str]:
    """Target tokens/s of the recipes."""
    lines = []
    for place, row in rows_of(records, *RECIPES):
        ours, theirs = (speeds(row).get(name) for name in ("here", "PyTorch"))
        beside = f"{theirs:,.0f} | **{ratios(row)['PyTorch']:.2f}**" if theirs else "no peer | "
        lines.append((place, f"{link(row['case'])} | {ours:,.0f} | {beside}"))
    note = ["", "`thesis-size`: 4 layers of 1000 units, 50,000 words, batch 128. Goal on a GPU: "
            f"{GPU_GOALS}."] if lines else []
    return placed("recipe, target tokens/s | here | PyTorch | time ratio", lines) + note


def parts(records: Records) -> list[str]:
    """Where the time of a step goes, in percent of the parts' sum."""
    entries = [(place, label, row["case"], f"{percent:.0f} %")
               for place, row in rows_of(records, *RECIPES)
               for label, percent in shares(row).items()]
    return grid("part of a step", sorted(entries, key=lambda entry: PARTS.index(entry[1])))


def memory(records: Records) -> list[str]:
    """Peak memory of a step."""
    return placed("memory of a step | parameters | gradients | saved activations | sum | peak | "
                 "ratio | goal", (
        (place, " | ".join([link(row["case"]), *(f"{size / 1e9:.2f} GB" for size in (
            *needed, sum(needed), max(row["bytes"]["peaks"]))), f"**{row['ratio']:.2f}**",
            f"{MEMORY_GOAL}"]))
        for place, row in rows_of(records, "memory")
        for needed in [[row["bytes"][name] for name in NEEDED]]))


def searches(records: Records) -> list[str]:
    """Sentences per second by how many are searched at once."""
    return grid("sentences/s, here / PyTorch / CTranslate2", (
        (place, row["case"], f"{row['sizes']['sentences']} at once",
         " / ".join(f"{speed:.3g}" for speed in speeds(row).values()))
        for place, row in rows_of(records, "search")))


def checks(records: Records) -> list[str]:
    """A gradient check of all parameters, ours and PyTorch's."""
    return placed("gradient check of a 2-layer translator | both methods | complex step | "
                 "`torch.autograd.gradcheck` | ratio, both | ratio, complex step", (
        (place, " | ".join([f"{row['amount']:,} entries", *(f"{value:.2f} s" for value in seconds),
                            *(f"**{value / seconds[-1]:.2f}**" for value in seconds[:-1])]))
        for place, row in rows_of(records, "gradcheck")
        for seconds in [list(medians(row).values())]))


def checkers(records: Records) -> list[str]:
    """The results of each gradient checker on the corpus of right and wrong functions."""
    return placed("gradient checker, on right and wrong functions | false alarms | misses | "
                 "wrong ones named by their cause | processor time for the right ones", (
        (place, f"`{name}` | **{len(verdict['false_alarms'])}** of {row['right']} | "
         f"**{len(verdict['misses'])}** of {row['wrong']} | "
         + (f"{row['wrong'] - len(verdict['unnamed'])} of {row['wrong']}" if "unnamed" in verdict
            else "none") + f" | {verdict['processor_seconds']:.1f} s")
        for place, row in rows_of(records, "checkers")
        for name, verdict in row["checkers"].items()))


def by_size(records: Records, name: str, corner: str) -> list[str]:
    """Milliseconds of forward and backward: a row for each implementation, a column a size."""
    return grid(corner, ((place, implementation, sizes_of(row), text)
                         for place, row in rows_of(records, name) if row["case"] == BOTH
                         for implementation, text in {
                             **{name: number(1e3 * s) for name, s in medians(row).items()},
                             **{name: why.split(":")[0] for name, why in row["absent"].items()},
                         }.items()))


def growth(records: Records) -> list[str]:
    """How time grows with each size: exponents, measured and of the operations."""
    return placed("time as a power of a size | size | measured | of the operations", (
        (place, f"{before}{row['case']}, {row['implementation']} | {row['letter']} | "
         + " | ".join(f"{round(exponent(row, amounts), 2) + 0.0:.2f}"  # no minus before nothing
                      for amounts in (medians(row), row["operations"])))
        for name, before in (("scaling", ""), ("attention", "attention to the source, "))
        for place, row in rows_of(records, name) if row["operations"]))


def machines(records: Records) -> list[str]:
    """The machines of the tables, with BLAS and libraries; those that have the same are one line.
    """
    stems = [stem for name in sorted({named(stem).benchmark for stem in records} - {""})
             for stem in shown(records, name)]
    places: dict[str, list[str]] = {}
    for stem in sorted(stems, key=lambda stem: named(stem).rank):
        said = places.setdefault(software(records[stem]["environment"]), [])
        place = place_of(named(stem), records[stem])
        said += [place] * (place not in said)
    gpu = any(named(stem).kernels == "gpu" for stem in stems)
    return [*(f"- {'; '.join(names)}: {said}" for said, names in places.items()),
            *["- on a GPU: not run"] * (not gpu)]


def software(environment: Mapping[str, Any]) -> str:
    """Processor, BLAS, libraries and GPU."""
    blas = next((f"{pool['internal_api']} {pool['version']} {pool['architecture']}"
                 for pool in environment["thread_pools"] if pool["architecture"]), "unknown BLAS")
    versions = [f"{name} {number}" for name, number in environment["versions"].items() if number]
    gpu = [environment["gpu"]["name"]] if environment.get("gpu") else []
    return ", ".join([environment["cpu"], f"{environment['cores']} cores", blas, *versions, *gpu])


PAGES: dict[str, tuple[Callable[[Records], list[str]], ...]] = {
    "speed.md": (summary,),
    "speed-tables.md": (
        against_pytorch, limits, bounds, variants, recipes, parts, memory, searches, checks,
        checkers, partial(by_size, name="naive", corner="an LSTM layer's forward and backward, ms"),
        partial(by_size, name="peers", corner="the same, ours against others"), growth, machines)}
