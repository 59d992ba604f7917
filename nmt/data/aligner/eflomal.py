"""The aligner eflomal (Östling and Tiedemann 2016), run as a program. It samples without a seed."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from backend.errors import UserError, install
from nmt.data.align import Link
from nmt.data.aligner.word_pairs import Words
from nmt.data.corpus import read_lines, write_lines

PROGRAM = "eflomal-align"


def align_by_eflomal(sources: Words, targets: Words) -> tuple[list[list[Link]], list[list[Link]]]:
    """Links of both directions, as `nmt.data.aligner.align` returns them.

    Raises UserError if eflomal is not installed, or if it fails.
    """
    program = _program()
    filled = [n for n, pair in enumerate(zip(sources, targets, strict=True)) if all(pair)]
    links: list[list[list[Link]]] = [[[] for _ in sources] for _ in range(2)]
    with tempfile.TemporaryDirectory() as name:
        files = {option: Path(name) / option for option in "stfr"}
        for option, sentences in (("s", sources), ("t", targets)):
            write_lines(files[option], (" ".join(map(_one_word, sentences[n])) for n in filled))
        _run([program, *(argument for option, path in files.items()
                         for argument in (f"-{option}", str(path)))])
        for direction, option in zip(links, "fr", strict=True):
            for n, line in zip(filled, read_lines(files[option]), strict=True):
                direction[n] = [_link(text) for text in line.split()]
    return links[0], links[1]


def _program() -> str:
    """The path of the program, on PATH or in the directory of this Python."""
    directory = str(Path(sys.executable).parent)
    program = shutil.which(PROGRAM) or shutil.which(PROGRAM, path=directory)
    if program is None:
        raise UserError(f"--method eflomal: expected the program {PROGRAM}, found none; "
                        f"{install('align')}, or take --method hmm")
    return program


def _one_word(word: str) -> str:
    """The word with `_` in place of white space, such as U+00A0, at which eflomal would split it.
    """
    return "_".join(word.split()) or "_"


def _run(command: list[str]) -> None:
    """Run eflomal. Raises UserError with the last line of its output if it fails."""
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        lines = process.stderr.strip().splitlines() or ["nothing said"]
        raise UserError(f"{PROGRAM}: failed with status {process.returncode}: {lines[-1]}")


def _link(text: str) -> Link:
    """The link that a text such as `3-4` stands for."""
    source, target = text.split("-")
    return int(source), int(target)
