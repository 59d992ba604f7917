"""The site: its links hold, it opens from a server and as files, loads nothing, finds words.

If SITE names a directory, it is the site that `make docs` has built. Otherwise a quick site is
built here, with lessons that are not executed and one page of the stepper.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest
from axe import findings

for _name in ("mkdocs", "material", "mkdocstrings", "nbclient"):
    pytest.importorskip(_name, reason="the site's builder (extra `docs`) is not installed")

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("index.html", "lessons/02_lstm.html", "derivations/lstm.html", "speed.html",
         "reference/nmt.html", "source/lstm/stack.py.html")
HITS = ".md-search-result__item a"


class Quiet(SimpleHTTPRequestHandler):
    """A handler that writes no log."""

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site; mkdocs.yml is strict, so a broken link fails where it is built."""
    if "SITE" in os.environ:
        return Path(os.environ["SITE"]).resolve(strict=True)
    path = tmp_path_factory.mktemp("site")
    quick = {"SITE_QUICK": "1", "NO_MKDOCS_2_WARNING": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "-q", "-d", str(path)]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | quick, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return path


@pytest.fixture(scope="module", params=["http", "file"])
def address(request: pytest.FixtureRequest, site: Path) -> Iterator[str]:
    """Where the site is, with / at the end."""
    if request.param == "file":
        yield f"{site.as_uri()}/"
        return
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


class Window:
    """A page of the site, with its requests and its errors."""

    def __init__(self, browser: Any, address: str, size: dict[str, int] | None = None) -> None:
        self.page = browser.new_page(viewport=size or {"width": 1300, "height": 900})
        self.address = address
        self.said: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", self.asked)

    def asked(self, request: Any) -> None:
        """A request is to this site, or to none."""
        if not request.url.startswith((self.address, "data:", "blob:", "about:")):
            self.said.append(request.url)

    def open(self, page: str) -> Any:
        """A page, loaded."""
        self.page.goto(self.address + page)
        return self.page


def test_pages_load_nothing_else_and_complain_of_nothing(browser: Any, address: str) -> None:
    window = Window(browser, address)
    for name in PAGES:
        page = window.open(name)
        assert page.inner_text("h1").strip("¶ \n")
    window.open("stepper.html").frame_locator("iframe.stepper").locator("#slider").wait_for(
        state="attached")
    assert not window.said


@pytest.mark.parametrize("name", ["index.html", "lessons/02_lstm.html", "lessons/lecturing.html",
                                  "derivations/lstm.html", "equations.html"])
def test_axe_finds_nothing_grave(name: str, barred: Any, site: Path) -> None:
    for colours, scheme in (("light", "default"), ("dark", "slate")):
        barred.emulate_media(color_scheme=colours)
        barred.goto(f"{site.as_uri()}/{name}", wait_until="domcontentloaded")
        barred.evaluate("localStorage.clear()")  # where the theme keeps the first scheme
        assert findings(barred, [colours]) == []
        assert barred.get_attribute("body", "data-md-color-scheme") == scheme


def test_axe_finds_nothing_grave_on_a_phone(barred: Any, site: Path) -> None:
    """Wide formulas scroll there."""
    barred.set_viewport_size({"width": 390, "height": 844})
    barred.goto(f"{site.as_uri()}/lessons/02_lstm.html")
    barred.wait_for_selector("div.formula[tabindex]")
    assert findings(barred, ["light"]) == []


def test_search_finds_words_and_leads_there(browser: Any, address: str) -> None:
    window = Window(browser, address)
    page = window.open("index.html")
    page.fill(".md-search__input", "location-based attention")
    page.wait_for_selector(HITS)
    results = page.inner_text(".md-search-result__list")
    assert "location" in results.lower()
    page.goto(urljoin(page.url, page.locator(HITS).first.get_attribute("href")))
    assert page.url.startswith(address) and "location" in page.inner_text("article").lower()
    assert not window.said


STILL = """addEventListener("DOMContentLoaded", () => {
  const style = document.createElement("style");
  style.textContent = "* { transition: none !important }";
  document.head.append(style);
})"""
CUT = """() => {
  const wrong = [], excess = document.documentElement.scrollWidth - innerWidth;
  if (excess > 0) wrong.push(`the page is ${excess} px too wide`);
  for (const element of document.querySelectorAll(".md-content :not(.katex *, svg *)")) {
    if (element.scrollWidth <= element.clientWidth + 1 || !element.clientWidth) continue;
    const text = element.textContent.trim().slice(0, 40);
    if (["hidden", "clip"].includes(getComputedStyle(element).overflowX))
      wrong.push(`cut: ${text}`);
    if (element.matches("pre > code") && element.offsetHeight - element.clientHeight < 4)
      wrong.push(`no bar: ${text}`);
  }
  return wrong;
}"""
WIDTHS = 1400, 390


@pytest.fixture(scope="module")
def with_bars(browser: Any) -> Iterator[Any]:
    """A browser that shows scroll bars."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    running = browser.browser_type.launch(executable_path=chromium,
                                          ignore_default_args=["--hide-scrollbars"])
    yield running
    running.close()


@pytest.fixture
def barred(with_bars: Any, site: Path) -> Iterator[Any]:
    """A page with scroll bars, without animations, pictures and the search index."""
    page = with_bars.new_page()
    page.add_init_script(STILL)
    frames = re.escape((site / "explorer").as_uri())
    page.route(re.compile(rf"/search_index\.|^{frames}/|\.png$"), lambda route: route.abort())
    yield page
    page.close()


def test_nothing_is_cut(barred: Any, site: Path) -> None:
    """On all pages (of source files, the longest and every fortieth) the page does not scroll
    sideways, and code that is wider than the page has a scroll bar."""
    pages = sorted(path for path in site.rglob("*.html") if site / "explorer" not in path.parents)
    sources = [path for path in pages if site / "source" in path.parents]
    longest = max(sources, key=lambda path: path.stat().st_size)
    wrong = {}
    for path in [*(path for path in pages if path not in sources), longest, *sources[::40]]:
        barred.goto(path.as_uri(), wait_until="domcontentloaded")
        for width in WIDTHS:
            barred.set_viewport_size({"width": width, "height": 844})
            if cut := barred.evaluate(CUT):
                wrong[f"{path.relative_to(site)}, {width} px"] = cut
    assert not wrong


def test_the_header_of_a_long_table_stays(browser: Any, site: Path) -> None:
    page = Window(browser, f"{site.as_uri()}/").open("equations.html")
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 844})
        box = page.locator(".long").first
        box.evaluate("box => box.scrollTo(0, 1000)")
        assert box.evaluate("box => box.scrollTop") == 1000
        tops = [box.bounding_box()["y"], box.locator("th").first.bounding_box()["y"]]
        assert 0 <= tops[1] - tops[0] <= 2


def test_a_long_table_is_filtered_by_keyboard(browser: Any, site: Path) -> None:
    window = Window(browser, f"{site.as_uri()}/")
    page = window.open("recipe.html")
    rows = page.locator(".long").first.locator("tbody tr")
    count = page.locator(".filter output").first
    everything = rows.count()
    assert count.inner_text() == f"{everything} rows"
    page.locator(".filter input").first.focus()
    page.keyboard.type("vocabulary TARGET")
    shown = [row for row in rows.all() if row.is_visible()]
    assert 0 < len(shown) < everything
    assert count.inner_text() == f"{len(shown)} of {everything} rows"
    assert all("target" in row.inner_text() for row in shown)
    page.keyboard.press("Escape")
    assert count.inner_text() == f"{everything} rows" and rows.first.is_visible()
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    page.wait_for_function("document.activeElement.matches('.long')"
                           " && document.activeElement.scrollTop > 0")
    assert not window.said


def test_symbols_of_prose_are_typeset_and_those_of_code_are_not(site: Path) -> None:
    text = (site / "derivations" / "lstm.html").read_text("utf-8")
    assert "from h<sub>t−1</sub>" in text and "∘ du<sub>t</sub>" in text
    for page in (site / "derivations").glob("*.html"):
        prose = re.sub(r"<(code|pre|math|script|title)\b.*?</\1>", "", page.read_text("utf-8"),
                       flags=re.DOTALL)
        prose = re.sub("<[^>]*>", " ", prose)
        assert not re.search(r"\b[a-z]_\{|\b[a-z]_t\b| o d[a-z]\b", prose), page
    assert "s = u ∘ v" in (site / "equations.html").read_text("utf-8")
    assert "h_{t-1}" in (site / "source/lstm/cells/lstm.py.html").read_text("utf-8")


def test_a_table_of_a_docstring_is_a_table(site: Path) -> None:
    text = (site / "reference" / "attention.html").read_text("utf-8")
    assert "<td>Q</td>" in text and "| here |" not in text


def test_a_link_into_the_code_leads_to_its_line(browser: Any, site: Path) -> None:
    page = Window(browser, f"{site.as_uri()}/").open("equations.html")
    link = page.locator("a[href*='lstm/cells/lstm.py.html#L']").first
    target = link.get_attribute("href").rpartition("#")[2]
    link.click()
    line = page.locator(f"#{target}")
    assert line.inner_text().strip() and line.is_visible()


def test_formulas_are_typeset(site: Path) -> None:
    for name in ("lessons/02_lstm.html", "lessons/05_attention.html"):
        text = (site / name).read_text("utf-8")
        assert text.count('class="katex"') > 20 and "arithmatex" not in text and "$$" not in text
    assert "katex.css" not in (site / "speed.html").read_text("utf-8")  # has no formula


def test_lessons_open_the_stepper_at_a_step(site: Path) -> None:
    for path in sorted((ROOT / "docs" / "lessons").glob("[0-9]*.py")):
        text = (site / "lessons" / f"{path.stem}.html").read_text("utf-8")
        wanted = path.read_text("utf-8").count("# In the stepper:")
        assert text.count('<iframe class="stepper"') == wanted >= 1
        assert "In the stepper:" not in text
    at = re.search(r'src="../explorer/lstm.html#step=(\d+)"',
                   (site / "lessons" / "02_lstm.html").read_text("utf-8"))
    assert at and int(at[1]) > 1


def test_a_lesson_opens_the_stepper_at_its_line(browser: Any, site: Path) -> None:
    page = Window(browser, f"{site.as_uri()}/").open("lessons/02_lstm.html")
    frame = page.locator("iframe.stepper").last
    frame.scroll_into_view_if_needed()
    slider = frame.content_frame.locator("#slider")
    slider.wait_for(state="attached")
    assert frame.get_attribute("src").endswith(f"#step={slider.input_value()}")
    assert int(slider.input_value()) > 1


def test_solutions_stand_apart(site: Path) -> None:
    for path in sorted((ROOT / "docs" / "lessons").glob("[0-9]*.py")):
        lesson = (site / "lessons" / f"{path.stem}.html").read_text("utf-8")
        solutions = (site / "lessons" / "solutions" / f"{path.stem}.html").read_text("utf-8")
        for number in (1, 2, 3):
            assert f"solutions/{path.stem}.html#exercise-{number}" in lesson
            assert f"solution_{number}" in solutions and f"solution_{number}" not in lesson
            assert f"<summary>The check of exercise {number}</summary>" in lesson
    with zipfile.ZipFile(site / "lessons" / "notebooks.zip") as archive:
        names = archive.namelist()
        assert "lessons/01_rnn.ipynb" in names and "lessons/solutions/drawing.py" in names
        assert "solution_1" not in archive.read("lessons/01_rnn.ipynb").decode()


def test_every_derivation_has_its_page(site: Path) -> None:
    """With lines, also where no equation of it is typeset."""
    others = {"__init__", "declaration", "errata", "examples", "hybrid_example", "model",
              "notes", "transformer_example", "translator"}  # which cite no equation
    wanted = {path.stem for path in (ROOT / "grads" / "derivations").glob("*.py")} - others
    assert {path.stem for path in (site / "derivations").glob("*.html")} == wanted
    for name in wanted:
        page = (site / "derivations" / f"{name}.html").read_text("utf-8")
        assert page.count("<tr><td") > 0 or name == "language_model", name  # which is made of calls
        assert f"derivations/{name}.html" in (site / "derivations.html").read_text("utf-8"), name


def test_links_to_pages_read_as_their_titles(site: Path) -> None:
    text = (site / "systems.html").read_text("utf-8")
    assert '<a href="attention.html">Attention variants, compared</a>' in text
    assert not [path for path in site.glob("*.html") if ".md</a>" in path.read_text("utf-8")]


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text("utf-8")
        for loads in ('src="http', "src=http", "fonts.googleapis", "unpkg.com"):
            assert loads not in text, (page.name, loads)
