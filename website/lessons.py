"""The lessons as pages: each is executed as a notebook, so that an error in one stops the build.

A lesson's page has its text, its code, what the code printed and drew. Checks are folded; solutions
have a page of their own. `notebooks.zip` holds the notebooks, with and without solutions, as
Jupyter opens them.
"""

from __future__ import annotations

import base64
import io
import json
import os
import re
import sys
import zipfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import indent
from typing import Any

import formulas

DIRECTORY = Path(__file__).resolve().parents[1] / "docs" / "lessons"
sys.path.insert(0, str(DIRECTORY))
import make_notebooks  # noqa: E402

SHARP = "from matplotlib_inline.backend_inline import set_matplotlib_formats as formats"
HEADING = "### Solution"
ADDRESS = re.compile(r"^<.* at 0x\w+>$")  # of an object that a cell happens to end with
Cell = Mapping[str, Any]


def pages(quick: bool) -> dict[str, str | bytes]:
    """Everything of the lessons that is not in docs/, by its path there.

    Arguments: quick, nothing is executed, the pages have code and no output.
    """
    made: dict[str, str | bytes] = {"lessons/notebooks.zip": archive()}
    paths = make_notebooks.LESSONS
    with ThreadPoolExecutor(1 if quick else os.cpu_count()) as pool:
        for path, cells in zip(paths, pool.map(unrun if quick else executed, paths), strict=True):
            made |= lesson(path.stem, cells)
    return made


def unrun(path: Path) -> list[Cell]:
    """The cells of a lesson without outputs."""
    cells: list[Cell] = make_notebooks.notebook(path.read_text("utf-8"))["cells"]
    return cells


def executed(path: Path) -> list[Cell]:
    """The cells of a lesson, run. Raises nbclient's CellExecutionError for one that fails."""
    import nbformat
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient

    book = nbformat.from_dict(make_notebooks.notebook(path.read_text("utf-8")))
    first = nbformat.v4.new_code_cell(f"{SHARP}\nformats('retina')", id="sharp")
    book.cells.insert(0, first)
    with TemporaryDirectory() as directory:
        kernel = AsyncKernelManager(kernel_name="python3", transport="ipc",  # no port is opened
                                    connection_file=f"{directory}/kernel.json")
        NotebookClient(book, km=kernel, timeout=600,
                       resources={"metadata": {"path": str(DIRECTORY)}}).execute(cleanup_kc=True)
    return list(book.cells[1:])


def lesson(name: str, cells: list[Cell]) -> dict[str, str | bytes]:
    """The page of a lesson, that of its solutions, and its figures."""
    figures: dict[str, str | bytes] = {}
    parts: list[str] = []
    solved: list[str] = []
    for cell in cells:
        aside = is_solution(cell)
        if aside and cell["cell_type"] == "markdown":
            number = 1 + sum(entry.startswith("## ") for entry in solved)
            parts.append(f"[Solution of exercise {number}](solutions/{name}.md#exercise-{number})"
                         "{ .solution }")
            solved.append(f"## Exercise {number}")
        text = shown(cell, name, figures, "../" if aside else "")
        (solved if aside else parts).append(text.removeprefix(HEADING).strip("\n"))
    title = parts[0].partition("\n")[0].removeprefix("# ")
    note = (f"*As a notebook: [all lessons](notebooks.zip). "
            f"The file: `docs/lessons/{name}.py`.*")
    head, _, rest = parts[0].partition("\n")
    solutions = [f"# Solutions: {title}", f"The exercises: [{title}](../{name}.md).", *solved]
    return {f"lessons/{name}.md": "\n\n".join([head, note, rest, *parts[1:]]) + "\n",
            f"lessons/solutions/{name}.md": "\n\n".join(solutions) + "\n", **figures}


def linked(text: str) -> str:
    """Links to the lessons' files as links to their pages."""
    return re.sub(r"\]\((\d\d_\w+)\.py\)", r"](\1.md)", text)


def is_solution(cell: Cell) -> bool:
    """Whether a cell gives an exercise away, its text or its code."""
    return "solution" in cell["metadata"].get("tags", ()) or cell["source"].startswith(HEADING)


def shown(cell: Cell, name: str, figures: dict[str, str | bytes], up: str) -> str:
    """A cell in Markdown; its figures are added to `figures`. up: the way to the lessons."""
    if cell["cell_type"] == "markdown":
        return formulas.paragraphs(cell["source"])
    outputs = "\n\n".join(outputs_of(cell, name, figures, up))
    code = f"```python\n{cell['source']}\n```"
    if "check" in cell["metadata"].get("tags", ()):
        title = cell["source"].partition("\n")[0].removeprefix("# ")
        code = f'??? quote "{title}"\n\n{indent(code, " " * 4)}'
    return f"{code}\n\n{outputs}"


def outputs_of(
    cell: Cell, name: str, figures: dict[str, str | bytes], up: str
) -> Iterator[str]:
    """What a cell printed and drew; what it printed in several pieces is one text."""
    for output in joined(cell["outputs"]):
        data = output.get("data", {})
        if "image/png" in data:
            file = f"{name}-{len(figures) + 1}.png"
            figures[f"lessons/{file}"] = base64.b64decode(data["image/png"])
            width = output["metadata"].get("image/png", {}).get("width")
            size = f"{{ width={width} }}" if width else ""
            yield f"![figure {len(figures)} of this lesson]({up}{file}){size}"
        elif (text := output.get("text") or data.get("text/plain")) and not ADDRESS.search(text):
            yield f"```text {{ .output }}\n{text.rstrip()}\n```"


def joined(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Outputs, with texts that follow each other as one."""
    merged: list[dict[str, Any]] = []
    for output in outputs:
        if merged and "text" in output and "text" in merged[-1]:
            merged[-1] = {**output, "text": merged[-1]["text"] + output["text"]}
        else:
            merged.append(output)
    return merged


def archive() -> bytes:
    """The notebooks, and beside them what they import."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archived:
        for path in make_notebooks.LESSONS:
            plain = make_notebooks.notebook(path.read_text("utf-8"))
            book = make_notebooks.with_setup(plain, "../..")
            open_ = book | {"cells": [cell for cell in book["cells"] if not is_solution(cell)]}
            for file, notebook in ((f"{path.stem}.ipynb", open_),
                                   (f"solutions/{path.stem}.ipynb", book)):
                text = json.dumps(notebook, indent=1, ensure_ascii=False)
                archived.writestr(f"lessons/{file}", text)
        for helper in make_notebooks.HELPERS:
            for place in ("lessons", "lessons/solutions"):
                archived.write(DIRECTORY / helper, f"{place}/{helper}")
    return packed.getvalue()
