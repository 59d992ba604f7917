"""The gradient matrix: every pair and every configuration, and how right its gradients are.

`build` checks entries of the catalogue and makes a line of each. Every number is a relative error,
the worst over all tensors and shapes: by complex step and by Ridders' central differences as
`grads.check` finds them; against PyTorch's automatic differentiation (`grads.oracle`), against the
same kernels on CuPy and against themselves in float32, the largest difference in a tensor as a
part of its largest gradient. `grads.matrix.page` writes it down.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import backend
from backend.errors import UserError
from backend.files import write_text
from grads import oracle
from grads.case import SHAPES, Case, Entry, dense, draw
from grads.catalogue import CONFIGURATIONS, DERIVATIONS, ENTRIES, check
from grads.check import SAMPLE

NO_GPU, NO_TORCH, NO_TWIN = "not run: no GPU", "not run: no PyTorch", "no twin"
LIMITS = {"torch": 1e-10, "cupy": 1e-10, "float32": 1e-3}  # more is wrong; `check` has its own
NOISE = 1e-4  # of the largest gradient: a tensor below it is measured by it, being mostly rounding
WHOLE = ("language model", "translator")

Arrays = Mapping[str, Any]


class Line(NamedTuple):
    """An entry of the catalogue and what was found about it."""

    section: str
    name: str
    options: dict[str, Any]
    shapes: tuple[str, ...]
    tensors: int  # that the gradient is taken with respect to
    checked: int  # entries of them differentiated one by one, over all shapes
    size: int  # all entries they have
    errors: dict[str, float | str]  # complex, ridders, torch, cupy, float32; or why there is none
    wrong: tuple[str, ...]  # what is wrong: tensors, findings, comparisons

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.wrong


def sections() -> dict[str, list[Entry]]:
    """All entries by section: kernels by package, models, the derivations."""
    found: dict[str, list[Entry]] = {}
    for entry in ENTRIES:
        package = entry.covers[0].split(".")[0] if entry.covers else ""
        found.setdefault(f"Kernels of `{package}`" if package else "Whole models", []).append(entry)
    for kind in WHOLE:
        found[f"Every {kind}"] = [entry for entry in CONFIGURATIONS if entry.kind == kind]
    return found | {"Derivations": DERIVATIONS}


def build(
    entries: Mapping[str, Iterable[Entry]], seed: int = 0, device: Any = None
) -> Iterator[Line]:
    """A line for every entry, one after another.

    Arguments: entries by section; seed of inputs and upstream gradients; device, the array module
    of the CuPy column, None to leave it out.
    """
    for section, members in entries.items():
        for entry in members:
            yield measure(section, entry, seed, device)


def measure(section: str, entry: Entry, seed: int, device: Any) -> Line:
    """One entry at all its shapes."""
    worst: dict[str, float | str] = {}
    wrong: dict[str, None] = {}  # a set that keeps its order
    tensors = checked = size = 0
    for shape in entry.shapes:
        sample = SAMPLE if entry.kind in WHOLE else entry.sample
        report = check(entry, shape, seed, sample=sample)
        for row in report.rows:
            for method, error in row.errors.items():
                keep_worst(worst, method, error)
            if row.upstream == "all":
                checked, size = checked + row.checked, size + row.size
            if row.status != "ok":
                wrong[row.name] = None
        wrong |= {f"{finding.name}: {finding.kind}": None for finding in report.findings}
        tensors = max(tensors, len({row.name for row in report.rows if row.size}))
        case = entry.make(np.random.default_rng(seed), SHAPES[shape])
        for column, found in compare(entry, case, seed, device).items():
            keep_worst(worst, column, found)
            if not isinstance(found, str) and not found <= LIMITS[column]:
                wrong[column] = None
    return Line(section, entry.name, plain_options(entry), entry.shapes, tensors, checked, size,
                worst, tuple(wrong))


def keep_worst(worst: dict[str, float | str], column: str, error: float | str) -> None:
    """Remember the larger error; not a number is the largest, a text stays."""
    before = worst.get(column, 0.0)
    if isinstance(error, str) or isinstance(before, str):
        worst[column] = error
    else:
        worst[column] = before if before >= error or np.isnan(before) else error


def plain_options(entry: Entry) -> dict[str, Any]:
    """An entry's options, those that JSON can write."""
    return {name: value for name, value in entry.options.items()
            if isinstance(value, (str, int, float, bool, type(None)))}


# --- comparisons --------------------------------------------------------------------------------


def compare(entry: Entry, case: Case, seed: int, device: Any) -> dict[str, float | str]:
    """The error of a case's float64 gradients by column, or why there is none."""
    rng = np.random.default_rng(seed)
    upstream = {name: draw(rng, *np.shape(out))
                for name, out in case.forward(case.inputs).items()}
    ours = on_host(case.backward(case.inputs, upstream))
    single = [{name: a.astype(np.float32) for name, a in given.items()}
              for given in (case.inputs, upstream)]
    found: dict[str, float | str] = {"torch": NO_TWIN, "cupy": NO_GPU}
    if entry.kind and oracle.available():
        found["torch"] = distance(ours, oracle.gradients(entry, case, upstream))
    elif entry.kind:
        found["torch"] = NO_TORCH
    if device is not None and entry.kind:
        with backend.using(device):
            moved = [{name: backend.to_device(a) for name, a in given.items()}
                     for given in (case.inputs, upstream)]
            found["cupy"] = distance(on_host(case.backward(*moved)), ours)
    elif device is not None:
        found["cupy"] = "not run: NumPy only"
    return found | {"float32": distance(on_host(case.backward(*single)), ours)}


def on_host(gradients: Arrays) -> dict[str, np.ndarray]:
    """Gradients written out in full."""
    return {name: backend.to_host(dense(gradient)) for name, gradient in gradients.items()}


def distance(found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> float:
    """The worst of the tensors' largest differences, each as a part of its largest gradient."""
    largest = {name: float(np.abs(array).max(initial=0.0)) for name, array in expected.items()}
    floor = NOISE * max(largest.values(), default=0.0)
    worst = 0.0
    for name, array in expected.items():
        gap = float(np.abs(found[name] - array).max(initial=0.0))
        scale = max(largest[name], floor)
        error = gap / scale if scale else np.inf if gap else 0.0
        worst = worst if worst >= error or np.isnan(worst) else error
    return worst


# --- the command --------------------------------------------------------------------------------


def write(path: Path, seed: int = 0) -> int:
    """Build the whole matrix and write it to `path` and, as JSON, beside it; 1 if any is wrong."""
    from grads.matrix import page

    try:
        device = backend.load("cupy")
    except UserError:
        device = None
    everything, lines = sections(), []
    for line in build(everything, seed, device):
        lines.append(line)
        if not line.ok:
            print(f"{line.name}: WRONG: {', '.join(line.wrong)}")
        elif not len(lines) % 50:
            print(f"{len(lines)} of {sum(map(len, everything.values()))}")
    text = page.to_json(lines, seed)
    write_text(path.with_suffix(".json"), text)
    write_text(path, page.to_markdown(text))
    wrong = sum(not line.ok for line in lines)
    print(f"{path}: {len(lines)} rows, {wrong} wrong")
    return int(wrong > 0)
