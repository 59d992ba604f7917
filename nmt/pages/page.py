"""Assemble a page: one HTML file that contains all it needs and loads nothing.

A page is made from the files of a `Layout`: HTML, style sheets, plain JavaScript modules. The
modules are inlined as one script. Each becomes a function that is called once and returns the
module's exports; its imports become constants, taken from what the other functions returned. Data
is gzipped, since a sentence of ten words in the explorer would not fit otherwise.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from backend.errors import UserError
from nmt.files import write_text

ASSETS = Path(__file__).parent / "assets"
BASE = ASSETS / "base.css"  # style sheet of every page, including the report of a check
LIMIT = 1_000_000  # a page has fewer bytes
IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./(\w+)\.js";$', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class) (\w+))", re.MULTILINE)


class Layout(NamedTuple):
    """The files of a page, in `assets/` and in directories of its own."""

    templates: tuple[str, ...]  # HTML that follows the head, which all pages share
    styles: tuple[str, ...]
    modules: tuple[str, ...]  # each module after those that it imports
    smaller: str = ""  # what to do about a page that is too large
    directories: tuple[Path, ...] = (ASSETS,)  # a file comes from the first one that has it
    elements: Mapping[str, Callable[[dict[str, Any]], Any]] = {}  # further data beside `data`
    texts: Mapping[str, Callable[[dict[str, Any]], str]] = {}  # HTML made from the data
    connects: str = "'none'"  # the sources from which scripts may fetch


SEARCH_STYLES = ("stepping.css", "search.css")
SEARCH_MODULES = ("format", "packed", "weights", "address", "search_state", "search_tree",
                  "search_panels", "play", "search_player")
SEARCH = Layout(("search",), SEARCH_STYLES, (*SEARCH_MODULES, "search_page"),
                "take a smaller beam or a shorter sentence")


def write_page(data: dict[str, Any], path: str | Path, layout: Layout) -> None:
    """Write the page that shows `data`.

    Raises `UserError` for a page of 1 MB or more and for a path that cannot be written; neither
    changes a file that exists.
    """
    save_page(page_of(data, layout), path, layout)


def save_page(page: str, path: str | Path, layout: Layout) -> None:
    """Write a page that `page_of` has made; errors as those of `write_page`."""
    size = size_of(page)
    if size >= LIMIT:
        raise UserError(
            f"{path}: expected a page under {LIMIT / 1e6:.0f} MB, got {size / 1e6:.2f} MB: "
            f"{layout.smaller}")
    write_text(Path(path), page)


def size_of(page: str) -> int:
    """The size of a page in bytes."""
    return len(page.encode("utf-8"))


def page_of(data: dict[str, Any], layout: Layout) -> str:
    """The HTML of the page that shows `data`, which has a "title"."""
    script = inlined(layout)
    parts = {
        "title": html.escape(data["title"]), "policy": policy_of(layout),
        "style": "\n".join([BASE.read_text("utf-8"), *(read(layout, style)
                                                       for style in layout.styles)]),
        "data": packed(data), "script": script,
        **{name: packed(make(data)) for name, make in layout.elements.items()},
        **{name: make(data) for name, make in layout.texts.items()},
    }
    text = "".join(read(layout, f"{name}.html") for name in ("head", *layout.templates, "end"))
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], text)


def policy_of(layout: Layout) -> str:
    """The Content-Security-Policy of a page: it allows the page's script, and loads nothing."""
    hashed = hashlib.sha256(inlined(layout).encode("utf-8")).digest()
    digest = base64.b64encode(hashed).decode("ascii")
    return (f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
            f"font-src data:; connect-src {layout.connects}; base-uri 'none'; form-action 'none'")


def packed(value: Any) -> str:
    """A value as JSON in gzip in base64.

    This takes a quarter of the space, and nothing in it can end the HTML element. Raises ValueError
    for a NaN or an infinity, which the data has to hold as strings.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode("utf-8"), 9, mtime=0)).decode("ascii")


def inlined(layout: Layout) -> str:
    """A layout's JavaScript modules as one script."""
    script = "\n".join(_module(name, read(layout, f"{name}.js")) for name in layout.modules)
    statement = re.search(r"^(import|export)\b.*|</script.*", script, re.MULTILINE)
    if statement:
        raise ValueError("a module: expected imports and exports of plain names, got "
                         f"{statement[0]}")
    return f"\n{script}"


def _module(name: str, source: str) -> str:
    """The code of a module as a function that is called once and returns the module's exports."""
    exports = ", ".join(match[1] for match in EXPORT.finditer(source))
    body = EXPORT.sub("", IMPORT.sub(r"const \1 = \2_module;", source))
    return (f"const {name}_module = await (async () => {{\n{body}\n"
            f"return {{ {exports} }};\n}})();\n")


def read(layout: Layout, name: str) -> str:
    """The text of one of a layout's files."""
    paths = (directory / name for directory in layout.directories)
    return next(filter(Path.is_file, paths)).read_text(encoding="utf-8")
