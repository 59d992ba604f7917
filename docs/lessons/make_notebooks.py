"""Turns the lessons into Jupyter notebooks: `make notebooks`, or
`python docs/lessons/make_notebooks.py [DIRECTORY]`.

A lesson is a Python file in the percent format: `# %%` begins a cell of code, `# %% [markdown]` one
of text, and a cell may carry tags, `# %% tags=["solution"]`. Solutions, and checks, which contain
them, are folded in notebooks.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
HELPERS = ("drawing.py", "exercises.py", "mistakes.py", "tasks.py")  # what the lessons import
LESSONS = sorted(HERE.glob("[0-9]*.py"))
NOTEBOOKS = [*LESSONS, HERE / "training_log.py"]  # the last is no lesson: it has no exercises
FOLDED = frozenset({"solution", "check"})  # tags of cells that give an exercise away
SETUP = """\
# Run this first. Where the project is installed it does next to nothing. Elsewhere, as in Colab, it
# installs the project from a checkout: clone or upload the repository, and say where it lies.
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

CHECKOUT = Path("{checkout}")  # the directory that holds pyproject.toml

sys.path.append(str(CHECKOUT / "docs" / "lessons"))  # the lessons' own modules
if find_spec("exercises") is None:
    raise SystemExit(f"CHECKOUT: expected a checkout of the project, found none in {{CHECKOUT}}")
if find_spec("grads") is None or find_spec("matplotlib") is None:
    wanted = f"{{CHECKOUT.resolve()}}[plot]"
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", wanted], check=True)"""
MARK = re.compile(r"^# %%( \[markdown\])?(?: tags=(\[.*\]))?$", re.MULTILINE)


def cells(text: str) -> list[dict[str, Any]]:
    """The cells of a lesson, as a notebook has them. Raises ValueError for text before the first.

    Arguments: text of the file.
    """
    before, *parts = MARK.split(text)
    if before.strip():
        raise ValueError(f"text: expected it to begin with # %%, got {before.strip()[:40]!r}")
    return [_cell(bool(markdown), json.loads(tags or "[]"), body.strip("\n"))
            for markdown, tags, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True)]


def _cell(markdown: bool, tags: list[str], body: str) -> dict[str, Any]:
    """One cell: of text without its comment marks, or of code."""
    metadata: dict[str, Any] = {"tags": tags} if tags else {}
    if markdown:
        source = re.sub(r"^# ?", "", body, flags=re.MULTILINE)
        return {"cell_type": "markdown", "metadata": metadata, "source": source}
    if FOLDED.intersection(tags):
        metadata["jupyter"] = {"source_hidden": True}
    return {"cell_type": "code", "execution_count": None, "metadata": metadata, "outputs": [],
            "source": body}


def notebook(text: str) -> dict[str, Any]:
    """The notebook (nbformat 4.5) of a lesson's text; its cells have not been run."""
    numbered = [{"id": f"cell-{number}", **cell} for number, cell in enumerate(cells(text), 1)]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": numbered, "metadata": {"kernelspec": kernel}, "nbformat": 4,
            "nbformat_minor": 5}


def with_setup(book: dict[str, Any], checkout: str) -> dict[str, Any]:
    """A notebook whose first cell of code installs what is missing from a checkout."""
    title, *others = book["cells"]
    setup = _cell(False, [], SETUP.format(checkout=checkout))
    return book | {"cells": [title, {"id": "setup", **setup}, *others]}


def main(directory: Path = HERE) -> None:
    """Write all notebooks. The directory is made where it is missing."""
    directory.mkdir(parents=True, exist_ok=True)
    for lesson in NOTEBOOKS:
        path = directory / f"{lesson.stem}.ipynb"
        checkout = Path(os.path.relpath(HERE.parents[1], directory)).as_posix()
        book = with_setup(notebook(lesson.read_text("utf-8")), checkout)
        text = json.dumps(book, indent=1, ensure_ascii=False)
        path.write_text(text + "\n", "utf-8")
        print(path)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
