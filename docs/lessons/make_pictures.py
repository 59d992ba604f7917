"""The figures of the lessons for slides: `python docs/lessons/make_pictures.py [DIRECTORY]`.

Each lesson is executed and each of its figures written as SVG, with its text as text.
"""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path

import matplotlib

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE))


def main(directory: Path = Path("pictures")) -> None:
    """Write the figures. The directory is made where it is missing."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams["svg.fonttype"] = "none"
    directory.mkdir(parents=True, exist_ok=True)
    for lesson in sorted(HERE.glob("[0-9]*.py")):
        plt.close("all")
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(lesson.read_text("utf-8"), lesson.name, "exec"), {"__name__": "__main__"})
        for number in plt.get_fignums():
            path = directory / f"{lesson.stem}-{number}.svg"
            plt.figure(number).savefig(path)
            print(path)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
