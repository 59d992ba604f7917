"""Pictures for slides, as SVG: `python docs/lessons/make_pictures.py [DIRECTORY [NAME ...]]`.

They are the figures of each lesson, which is executed; the drawing of each cell; and from the
stepper's pages the network and the charts of each derivation, or of those with a NAME. The pages
need the extra `browser` and a chromium, and take minutes.
"""

from __future__ import annotations

import contextlib
import io
import re
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import matplotlib

from grads.stepper.explorer import explore
from grads.stepper.explorer.drawings import DRAWINGS, standalone
from grads.stepper.explorer.vanishing import explore_vanishing
from grads.stepper.tracing.derivations import DERIVATIONS

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE))
VANISHING = "vanishing"
GRAPHS = "#network svg, #flow .chart, #charts .chart"
TITLE = "(svg) => svg.closest('figure')?.querySelector('h2, h3').textContent ?? 'network'"
STYLED = """(svg) => {  // a copy that needs no style sheet
    const copy = svg.cloneNode(true), every = (root) => [root, ...root.querySelectorAll("*")];
    const copies = every(copy), [, , width, height] = svg.getAttribute("viewBox").split(" ");
    every(svg).forEach((element, k) => {
        const style = getComputedStyle(element);
        if (style.display === "none") copies[k].remove();
        copies[k].removeAttribute("class");
        copies[k].setAttribute("style", ["fill", "fill-opacity", "stroke", "stroke-width",
            "opacity", "stroke-dasharray", "stroke-linejoin", "marker-start", "marker-end",
            "visibility", "font-family", "font-size", "font-weight", "font-style",
            "text-anchor", "transform"]
            .map((name) => `${name}: ${style.getPropertyValue(name)}`).join("; "));
    });
    copy.setAttribute("width", width);
    copy.setAttribute("height", height);
    return new XMLSerializer().serializeToString(copy);
}"""


def main(directory: Path = Path("pictures"), *names: str) -> None:
    """Write all pictures. The directory is made where it is missing."""
    directory.mkdir(parents=True, exist_ok=True)
    write_lessons(directory)
    for name, drawing in DRAWINGS.items():
        save(directory / f"cell-{name.replace(' ', '-')}.svg", standalone(drawing))
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        print("The networks and charts of the stepper need pip install -e '.[browser]'.")
        return
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium)
        for name in names or [*DERIVATIONS, VANISHING]:
            write_graphs(browser.new_page(color_scheme="light"), directory, name)
        browser.close()


def write_lessons(directory: Path) -> None:
    """Write the figures of the lessons, with their text as text."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams["svg.fonttype"] = "none"
    for lesson in sorted(HERE.glob("[0-9]*.py")):
        plt.close("all")
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(lesson.read_text("utf-8"), lesson.name, "exec"), {"__name__": "__main__"})
        for number in plt.get_fignums():
            file = io.StringIO()
            plt.figure(number).savefig(file, format="svg")
            save(directory / f"lesson-{lesson.stem}-{number}.svg", file.getvalue())


def write_graphs(window: Any, directory: Path, name: str) -> None:
    """Write the network and the charts of a page of the stepper."""
    with TemporaryDirectory() as made:
        page = Path(made) / "page.html"
        if name == VANISHING:
            explore_vanishing(page)
        else:
            explore(name, page)
        window.goto(page.as_uri())
        window.wait_for_selector("html[data-ready]")
    for graph in window.query_selector_all(GRAPHS):
        place = "flow" if graph.evaluate("(svg) => svg.closest('#flow')") else name  # alike on all
        title = re.sub(r"\W+", "-", f"{place} {graph.evaluate(TITLE)}".lower())
        save(directory / f"{title}.svg", graph.evaluate(STYLED))
    window.close()


def save(path: Path, text: str) -> None:
    """Write a file and say so."""
    path.write_text(text, "utf-8")
    print(path)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]), *sys.argv[2:])
