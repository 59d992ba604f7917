"""The gradient matrix as JSON, and the page that is made of the JSON and of nothing else.

Numbers are written with one digit: their size is what counts, and the digits differ between BLAS
libraries. There is no date, so that the same code on the same machine writes the same files.
"""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from itertools import groupby
from typing import Any

from grads.case import SHAPES, E, H, V
from grads.catalogue.configurations import NEVER
from grads.matrix import LIMITS, Line

COLUMNS = {"complex": "complex step", "ridders": "central (Ridders)", "torch": "PyTorch",
           "cupy": "CuPy", "float32": "float32"}
# A configuration's option -> the column's heading, and what values are called there.
OPTIONS: dict[str, tuple[str, dict[Any, str]]] = {
    "unit": ("unit", {}),
    "layers": ("layers", {}),
    "biases": ("bias", {True: "yes", False: "no"}),
    "bidirectional": ("encoder", {True: "both ends", False: "one end"}),
    "bridge": ("bridge", {True: "yes", False: "no"}),
    "attention": ("attention", {}),
    "score": ("score", {}),
    "concat_identity": ("identity", {True: "yes", False: "no"}),
    "renormalise": ("renormalised", {True: "yes", False: "no"}),
    "window": ("D", {}),
    "location_length": ("L_max", {}),
    "input_feeding": ("feeding", {True: "yes", False: "no"}),
    "dropout": ("dropout", {0.0: "no"}),
    "clip_dh": ("clip [^clip]", {None: "no", NEVER: "yes"}),
    "output_bias": ("output bias", {True: "yes", False: "no"}),
}
CLIP_TESTS = (  # where element-wise clipping that acts is held to literal loops
    ("tests/lstm/test_recurrent.py", "test_clipping_is_the_literal_loop"),
    ("tests/lstm/test_language_model.py", "test_clipping_is_the_literal_loop"),
    ("tests/nmt/models/test_translator.py", "test_clipping_dh_is_the_literal_loop"),
    ("tests/nmt/models/test_translator.py", "test_both_clippings_together"),
)
NOTES = {
    "clip": "Element-wise clipping of dh during backpropagation (section 2.2.2) is no gradient: "
            "where it acts, what comes back is by design not the derivative. The limit in these "
            f"rows, {NEVER:g}, never acts, so they prove the path through the code that clips. "
            "Clipping that acts is held to literal loops by "
            + ", ".join(f"`{file}::{test}`" for file, test in CLIP_TESTS) + ".",
    "nobody": "A batch of no sequence. Gradients of parameters are compared, and are exactly zero; "
              "other tensors have no entries.",
    "one word": "The softmax over one word is one: loss and gradients are exactly zero, and so are "
                "all opinions.",
}


# --- JSON ---------------------------------------------------------------------------------------


def to_json(lines: Iterable[Line], seed: int) -> str:
    """The lines, and what they were made with, as strict JSON: a line of text for each."""
    head = {
        "seed": seed, "versions": {name: installed(name) for name in ("numpy", "torch", "cupy")},
        "sizes": {"V": V, "E": E, "H": H}, "limits": LIMITS,
        "shapes": {name: {"lengths": list(shape.lengths), "steps": shape.steps}
                   for name, shape in SHAPES.items()},
    }
    rows = [{**line._asdict(), "ok": line.ok,
             "errors": {name: digit(error) for name, error in line.errors.items()}}
            for line in lines]
    parts = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in head.items()]
    parts.append('"rows": [\n' + ",\n".join(json.dumps(row, allow_nan=False) for row in rows) + "]")
    return "{" + ",\n".join(parts) + "}\n"


def installed(name: str) -> str | None:
    """The version of a package, under whichever of its names it is installed."""
    for known in (name, f"{name}-cuda12x", f"{name}-cuda13x"):
        try:
            return version(known)
        except PackageNotFoundError:
            continue
    return None


def digit(error: float | str) -> float | str:
    """An error to one digit; a text, or what JSON cannot write as a number, as text."""
    if isinstance(error, str):
        return error
    return float(f"{error:.0e}") if math.isfinite(error) else str(error)


# --- Markdown -----------------------------------------------------------------------------------


def to_markdown(text: str) -> str:
    """The page of what `to_json` wrote."""
    page = json.loads(text)
    parts = [introduction(page)]
    for section, rows in groupby(page["rows"], lambda row: row["section"]):
        parts.append(f"## {section}\n\n" + table(list(rows)))
    parts.append("\n".join(f"[^{mark.replace(' ', '-')}]: {note}" for mark, note in NOTES.items()))
    return "\n\n".join(parts) + "\n"


def introduction(page: Mapping[str, Any]) -> str:
    """How to read the tables, and what they were made with."""
    rows, limits = page["rows"], page["limits"]
    made = ", ".join(f"{name} {number}" for name, number in page["versions"].items() if number)
    wrong = sum(not row["ok"] for row in rows)
    shapes = "\n".join(
        f"| {mark} | {name}{' [^nobody]' * (name == 'nobody')} | "
        f"{', '.join(map(str, shape['lengths'])) or 'none'} | {shape['steps']} |"
        for mark, (name, shape) in enumerate(page["shapes"].items(), 1))
    sizes = ", ".join(f"{name} = {size}" for name, size in page["sizes"].items())
    paragraph = f"""
        Written by `grads matrix` (`python -m grads matrix`); do not edit. A row is a
        forward/backward pair, or a model with one choice of options, checked in float64 with
        random upstream gradients on all outputs together and on each alone; an error is relative,
        the worst over all tensors and shapes. Complex step and Ridders' extrapolated central
        differences take the forward pass one entry after another (`entries`, over all shapes), and
        `grads check` decides which difference is rounding: its limits follow the size of what was
        summed and, for the differences, their estimated error. The other columns are the largest
        difference in a tensor as a part of its largest gradient: between the kernel and PyTorch's
        automatic differentiation of an independent twin (more than {limits["torch"]:g} is wrong),
        the same kernel on a GPU ({limits["cupy"]:g}), the same kernel computed in float32
        ({limits["float32"]:g}). {len(rows)} rows, {wrong} wrong. Made with {made}, seed
        {page["seed"]}, {sizes} unless a row says otherwise. Numbers have one digit, and it may
        differ between BLAS libraries. Other shapes are drawn by Hypothesis in
        `tests/grads/test_shapes.py`.
    """
    filled = textwrap.fill(" ".join(paragraph.split()), 100, break_on_hyphens=False)
    return f"""# The gradient matrix

{filled}

| shape | called | real steps of each sequence | padded to |
|---|---|---|---|
{shapes}"""


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows of one section: with a column for each option if they are configurations."""
    unnamed = all(set(row["options"]) <= set(OPTIONS) and ":" in row["name"] for row in rows)
    options = [name for name in OPTIONS if any(name in row["options"] for row in rows)]
    first = [OPTIONS[name][0] for name in options] if unnamed else ["row"]
    headings = [*first, "shapes", "tensors", "entries", *COLUMNS.values(), ""]
    lines = [headings, ["---"] * len(headings)]
    for row in rows:
        named = [called(name, row["options"]) for name in options] if unnamed else [
            row["name"] + " [^one-word]" * row["name"].endswith("one word")]
        lines.append([*named, marks(row["shapes"]), str(row["tensors"]), coverage(row),
                      *(written(row["errors"].get(column, "")) for column in COLUMNS),
                      "ok" if row["ok"] else f"WRONG: {', '.join(row['wrong'])}"])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def called(option: str, options: Mapping[str, Any]) -> str:
    """The value of an option in words, a dash where there is nothing to choose."""
    if option not in options:
        return "-"
    value = options[option]
    return next((word for known, word in OPTIONS[option][1].items()
                 if known == value and type(known) is type(value)), str(value))


def marks(shapes: Sequence[str]) -> str:
    """The numbers of the shapes, runs of them joined."""
    numbers = sorted([*SHAPES].index(shape) + 1 for shape in shapes)
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def coverage(row: Mapping[str, Any]) -> str:
    """How many entries were differentiated, and of how many if not of all."""
    checked, size = row["checked"], row["size"]
    return str(checked) if checked == size else f"{checked} of {size}"


def written(error: float | str) -> str:
    """An error as a cell."""
    return error if isinstance(error, str) else f"{error:.0e}" if error else "0"
