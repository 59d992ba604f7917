"""Follows the pages: `python -m tests.follow [PAGE ...]`, by default the README and all of docs/.

The console blocks of a page are run in their order in a new directory and compared with what the
page prints below each command:

    ```console
    $ nmt corpus phrases --train 2000
    phrases/train.en
    ...
    ```

`...` stands for what differs from run to run, as in doctest. A block below `<!-- minutes -->` takes
minutes: `make test` leaves it out, and this command runs it. Its decimal numbers may differ, since
they depend on the processor. Other blocks are not run, because they need corpora and hours. But the
parser must accept each command of `nmt` and `grads` in them.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"(<!-- minutes -->\n\n?)?^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
SHELL = ("", "sh", "bash", "console")
OURS = re.compile(r"^(?:\$ )?(?:\.venv/bin/)?(?:python -m )?(nmt|grads) (?=[\w-])(.*)")
DECIMALS = re.compile(r"\d+\.\d+")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Step(NamedTuple):
    """A command of a console block, and its output according to the page."""

    command: str
    expected: str
    minutes: bool


def steps(text: str) -> list[Step]:
    """The commands of a page's console blocks, in their order."""
    commands_of_page = []
    for minutes, kind, body in BLOCK.findall(text):
        if kind == "console":
            for block in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                command, _, expected = block.replace("\\\n", " ").partition("\n")
                commands_of_page.append(Step(command, expected, bool(minutes)))
    return commands_of_page


def run(step: Step, directory: Path) -> str:
    """What is wrong with a command's output; "" if nothing is."""
    environment = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                   "PYTHONPATH": str(ROOT), "COLUMNS": "100"}
    done = subprocess.run(["bash", "-o", "pipefail", "-c", step.command], cwd=directory, text=True,
                          env=os.environ | environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, check=False)
    printed, expected = done.stdout, step.expected
    if step.minutes:  # decimals of a training depend on the processor
        printed, expected = (DECIMALS.sub("N", text) for text in (printed, expected))
    if doctest.OutputChecker().check_output(expected, printed, FLAGS):
        return ""
    return f"$ {step.command}\nexpected:\n{step.expected}got:\n{done.stdout}"


def follow(page: Path, directory: Path, minutes: bool) -> list[str]:
    """What is wrong with a page's commands, run in the directory. minutes: whether to run the long
    ones."""
    wanted = [step for step in steps(page.read_text("utf-8")) if minutes or not step.minutes]
    return [fault for step in wanted if (fault := run(step, directory))]


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of `nmt` and `grads` in the shell blocks of a page, indented ones too."""
    shell = "".join(body for _, kind, body in BLOCK.findall(text) if kind in SHELL)
    rest = BLOCK.sub("", text)
    shell += "\n".join(line.strip() for line in rest.split("\n") if line.startswith("    "))
    for line in shell.replace("\\\n", " ").split("\n"):
        for piece in line.split("; do "):
            match = OURS.match(piece.strip())
            if match and " [" not in piece and "$" not in piece:  # a synopsis; of a loop
                yield match[1], words(match[2])


def words(text: str) -> list[str]:
    """A command's arguments, up to a comment, a pipe or a redirection."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    parsed: list[str] = []
    for word in lexer:
        if set(word) <= set("();<>|&"):
            break
        parsed.append(word)
    return parsed


def main(pages: Sequence[str]) -> int:
    """Follow the pages; return 1 if an output differs."""
    faults = 0
    for page in [Path(page) for page in pages] or PAGES:
        with tempfile.TemporaryDirectory() as directory:
            differences = follow(page.resolve(), Path(directory), minutes=True)
        if steps(page.read_text("utf-8")):
            print(f"{page}: {'as printed' if not differences else f'{len(differences)} differ'}",
                  flush=True)
        print("\n".join(differences), end="\n" if differences else "")
        faults += len(differences)
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
