"""The gradient matrix: the errors of gradients for families of configurations, by method.

`build` checks the catalogue and makes a line of every entry; the page has a row for each family,
with the worst of its lines, and is made from the JSON beside it, which has them all. Errors have
one digit, since only their magnitude matters. There is no date, so that the same code on the same
machine writes the same files.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import backend
from backend.errors import UserError
from grads.check.report import Report
from grads.verification import catalogue, derivations
from grads.verification.cases import RandomModel, model_case
from grads.verification.device import on_device
from grads.verification.rules import FLOAT32, distance, gradients_of
from grads.verification.translators import ARCHITECTURES
from nmt.console.messages import several
from nmt.console.progress import counted
from nmt.console.terminal import print
from nmt.files import write_text

COLUMNS = {"complex": "complex step", "directions": "directions", "torch": "PyTorch",
           "float32": "float32", "cupy": "CuPy"}
LIMITS = {"torch": 1e-10, "float32": FLOAT32, "cupy": 1e-10}  # larger errors are wrong
NO_GPU, NO_TORCH = "not run: no GPU", "not run: no PyTorch"
EXACT = 1e-17  # errors below are shown as none
UNSPLIT = ("unit", "norm", "path", "context")  # options whose values are one family
TOGETHER = {  # derivations that are one family, by the first words of their names
    "rnn, adding, gated, lstm, gru, residual": (
        "rnn", "adding", "gated", "lstm", "gru", "residual"),
    "nmt, multitask, encoder-decoder, simplified, features": (
        "nmt", "multitask", "encoder", "simplified", "features"),
    "two-sources, factored-input, deep-fusion": ("two", "factored", "deep"),
    "transformer": ("transformer", "multihead", "smoothing", "layer", "scale", "rms", "countdown"),
}
FAMILIES = 4  # values of an architecture's first option, at most, that are families of their own

Errors = dict[str, float | str]  # column -> error, or why there is none


class Line(NamedTuple):
    """The results of an entry of the catalogue."""

    family: str
    name: str
    entries: int  # of its tensors, differentiated one by one
    directions: int
    errors: Errors
    wrong: tuple[str, ...] = ()  # what is wrong: tensors, findings, columns


def build(seed: int = 0, device: Any = None) -> Iterator[Line]:
    """A line for every entry of the catalogue, one after another.

    device, the array module of the CuPy column, None to leave it out.
    """
    for entry in counted([*catalogue.entries(*catalogue.TIERS)], "checks"):
        yield measure(entry, seed, device)
    for declared in counted([*derivations.entries()], "derivations"):
        reports = [derivations.check(declared, every_entry=True), derivations.check(declared)]
        yield _line(family_of_derivation(declared.derivation), declared.name, reports, {})


def measure(entry: catalogue.Entry, seed: int = 0, device: Any = None) -> Line:
    """Check one entry: along directions, and at every entry of its tensors if these are small."""
    reports = [catalogue.check(entry, seed)]
    if entry.tier == "tiny":
        reports.append(catalogue.check(entry, seed, every_entry=True))
    drawn = catalogue.random_model(entry, seed)
    case = model_case(drawn)
    gradients = gradients_of(case)
    errors: Errors = {
        "torch": against_reference(entry, drawn, gradients),
        "float32": distance(gradients_of(case, np.float32), gradients),
        "cupy": NO_GPU}
    if device is not None:
        with backend.using(device):
            errors["cupy"] = distance(gradients_of(on_device(case)), gradients)
    return _line(family_of(entry), entry.name, reports, errors)


def family_of(entry: catalogue.Entry) -> str:
    """Architecture, tier, and of tiny models the value of their first option, except for UNSPLIT
    ones, so that the page fits one screen."""
    choices = catalogue.architectures()[entry.architecture].variants()["tiny"].choices
    option, values = next(iter(choices.items()), ("", ()))
    if entry.architecture in ARCHITECTURES:
        return ", ".join([*ARCHITECTURES, entry.tier])
    split = entry.tier == "tiny" and option not in UNSPLIT and 1 < len(values) <= FAMILIES
    value = [f"{option} {entry.options[option]}"] if split else []
    return ", ".join([entry.architecture, *value, entry.tier])


def family_of_derivation(name: str) -> str:
    """The family of the derivation's first word (`attention-step` is in `attention`), or the common
    family of several such words."""
    first = name.partition("-")[0]
    return f"derivation {next((f for f, names in TOGETHER.items() if first in names), first)}"


def against_reference(
    entry: catalogue.Entry, drawn: RandomModel, gradients: Mapping[str, np.ndarray]
) -> float | str:
    """The distance to PyTorch's gradients of an independent implementation; or why there is none.
    """
    try:
        from grads.verification import reference as references
    except ImportError:
        return NO_TORCH
    loss = references.reference_of(catalogue.architectures()[entry.architecture].config)
    if loss is None:
        return "no reference"
    _, theirs = references.gradients(loss, drawn.model.config, drawn.parameters, drawn.batch,
                                     drawn.noise, **references.options_of(loss, drawn.tables))
    return distance(gradients, theirs)


def _line(family: str, name: str, reports: Sequence[Report], others: Errors) -> Line:
    """The worst of some reports, and errors of other comparisons."""
    rows = [row for report in reports for row in report.rows]
    kinds = {kind for row in rows for kind in row.errors}
    errors: Errors = {kind: worst(row.errors[kind] for row in rows if kind in row.errors)
                      for kind in sorted(kinds)}
    wrong = [row.name for row in rows if row.status != "ok"]
    wrong += [f"{finding.name}: {finding.kind}"
              for report in reports for finding in report.findings]
    wrong += [column for column, error in others.items()
              if not isinstance(error, str) and not error <= LIMITS[column]]
    return Line(family, name, sum(row.checked for row in rows),
                sum(row.directions for row in rows), errors | others, tuple(dict.fromkeys(wrong)))


def worst(errors: Iterable[float | str]) -> float | str:
    """The largest error; NaN counts as the largest of all, texts are ignored."""
    values = [*errors]
    numbers = [error for error in values if not isinstance(error, str)]
    return float(np.max(numbers)) if numbers else next(iter(values), "")


# --- JSON, and the page that is made of it --------------------------------------------------------


def to_json(lines: Iterable[Line], seed: int) -> str:
    """How the lines were made, and the lines, one on each line of the text, as strict JSON.

    A line is its name, the numbers of entries and directions, the errors in the order of COLUMNS
    (null where there is none), and what is wrong.
    """
    head = {"seed": seed, "limits": LIMITS,
            "versions": {name: installed(name) for name in ("numpy", "torch", "cupy")}}
    parts = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in head.items()]
    families: dict[str, list[str]] = {}
    for line in lines:
        errors = [digit(line.errors[kind]) if kind in line.errors else None for kind in COLUMNS]
        row = [line.name, line.entries, line.directions, errors, *([line.wrong] * bool(line.wrong))]
        families.setdefault(line.family, []).append(
            json.dumps(row, allow_nan=False, separators=(",", ":")))
    parts.append('"families": {\n' + ",\n".join(
        f"{json.dumps(family)}: [\n" + ",\n".join(rows) + "]"
        for family, rows in families.items()) + "}")
    return "{" + ",\n".join(parts) + "}\n"


def from_json(text: str) -> tuple[dict[str, Any], list[Line]]:
    """What `to_json` wrote: the head, and the lines, family by family."""
    page = json.loads(text)
    lines = [Line(family, name, entries, directions,
                  {kind: error for kind, error in zip(COLUMNS, errors, strict=True)
                   if error is not None}, tuple(*wrong))
             for family, rows in page.pop("families").items()
             for name, entries, directions, errors, *wrong in rows]
    return page, lines


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
    if not math.isfinite(error):
        return str(error)
    return 0.0 if error < EXACT else float(f"{error:.0e}")


PAGE = """# The gradient matrix

{checks} gradient checks of every architecture and derivation, {wrong} wrong. They compare {entries}
entries and {directions} random directions. A row has the largest relative error of its family.

- *tiny*: every value and every pair of values of an architecture's options, with six shapes of
  small batches. *real*: sizes above every threshold in the code. *every*: some thousand other
  combinations.
- *complex step*: the error at single entries; at tiny sizes all of them, otherwise one per tensor.
- *directions*: the error along two random directions per tensor.
- *PyTorch*: the difference from an independent implementation, relative to the largest entry of the
  tensor. *float32*, *CuPy*: the difference of the same kernels in single precision and on a GPU.
  The limits of these three are {limits}.{why}

`grads matrix` writes this page, and all configurations into `gradient-matrix.json`. Made with
{made}, seed {seed}.

"""


def to_markdown(text: str) -> str:
    """The page of what `to_json` wrote. A column in which nothing ran is a sentence."""
    page, lines = from_json(text)
    families: dict[str, list[Line]] = {}
    for line in lines:
        families.setdefault(line.family, []).append(line)
    why = {kind: not_run(kind, lines) for kind in COLUMNS}
    columns = [kind for kind in COLUMNS if not why[kind]]
    wrong = sum(bool(line.wrong) for line in lines)
    head = PAGE.format(
        limits=", ".join(f"{limit:g}" for limit in page["limits"].values()),
        checks=len(lines), wrong=wrong, seed=page["seed"],
        entries=f"{sum(line.entries for line in lines):,}",
        directions=f"{sum(line.directions for line in lines):,}",
        made=", ".join(f"{name} {version}" for name, version in page["versions"].items()
                       if version),
        why="".join(f" {COLUMNS[kind]}: {said}." for kind, said in why.items() if said))
    titles = ["family", "checks", *(COLUMNS[kind] for kind in columns)]
    titles += [""] * bool(wrong)
    rows = [_row(name, family, columns) for name, family in families.items()]
    return head + "".join(f"| {' | '.join(cells)} |\n"
                          for cells in [titles, ["---"] * len(titles), *rows])


def not_run(kind: str, lines: Iterable[Line]) -> str:
    """Why no line has an error of a kind; "" where one has."""
    errors = {line.errors[kind] for line in lines if kind in line.errors}
    first = next(iter(errors), "")
    return first if len(errors) == 1 and first in (NO_GPU, NO_TORCH) else ""


def _row(name: str, family: Sequence[Line], columns: Iterable[str]) -> list[str]:
    """The worst of a family."""
    errors = [worst(_number(line.errors[kind]) for line in family if kind in line.errors)
              for kind in columns]
    wrong = [line.name for line in family if line.wrong]
    return [name, str(len(family)), *map(_written, errors),
            *[f"WRONG: {'; '.join(wrong)}"] * bool(wrong)]


def _number(error: float | str) -> float | str:
    return float(error) if error in ("nan", "inf") else error


def _written(error: float | str) -> str:
    return error if isinstance(error, str) else f"{error:.0e}" if error else "0"


# --- the command ----------------------------------------------------------------------------------


def write(path: Path, seed: int = 0) -> int:
    """Build the whole matrix and write it to `path` and, as JSON, beside it; 1 if any is wrong."""
    try:
        device = backend.load("cupy")
    except UserError:
        device = None
    lines = []
    for line in build(seed, device):
        lines.append(line)
        if line.wrong:
            print(f"{line.name}: WRONG: {', '.join(line.wrong)}")
    text = to_json(lines, seed)
    write_text(path.with_suffix(".json"), text)
    write_text(path, to_markdown(text))
    wrong = sum(bool(line.wrong) for line in lines)
    print(f"{path}: {several(len(lines), 'check')}, {wrong} wrong")
    return int(wrong > 0)
