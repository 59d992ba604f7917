"""Assembling a page: one self-contained HTML file that loads nothing.

It is made from the files of a `Layout`: HTML, style sheets, plain JavaScript modules. The modules
are inlined as one module script: each becomes a function that returns what it exports, called once,
and its imports become constants taken from what the others returned. Data is gzipped: without that,
the explorer's sentences of ten words would not fit.
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
LIMIT = 1_000_000  # largest page, in bytes
IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./(\w+)\.js";$', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class) (\w+))", re.MULTILINE)


class Layout(NamedTuple):
    """The files of a page, in `assets/` and in directories of its own."""

    templates: tuple[str, ...]  # the HTML after the head, which all pages share
    styles: tuple[str, ...]
    modules: tuple[str, ...]  # each after those that it imports
    smaller: str = ""  # what to do about a page that is too large
    directories: tuple[Path, ...] = (ASSETS,)  # a file is taken from the first that has it
    elements: Mapping[str, Callable[[dict[str, Any]], Any]] = {}  # further data beside `data`
    texts: Mapping[str, Callable[[dict[str, Any]], str]] = {}  # HTML made from the data
    connects: str = "'none'"  # where scripts may fetch from


SEARCH_STYLES = ("stepping.css", "search.css")
SEARCH_MODULES = ("format", "packed", "weights", "address", "search_state", "search_tree",
                  "search_panels", "play", "search_player")
SEARCH = Layout(("search",), SEARCH_STYLES, (*SEARCH_MODULES, "search_page"),
                "take a smaller beam or a shorter sentence")


def write_page(data: dict[str, Any], path: str | Path, layout: Layout) -> None:
    """Write the page that shows `data`.

    Raises `UserError` for a page of 1 MB or more, and for a path that cannot be written; the file
    is then as it was before.
    """
    page = page_of(data, layout)
    size = size_of(page)
    if size >= LIMIT:
        raise UserError(
            f"{path}: expected a page under {LIMIT / 1e6:.0f} MB, got {size / 1e6:.2f} MB: "
            f"{layout.smaller}")
    write_text(Path(path), page)


def size_of(page: str) -> int:
    """The bytes of a page."""
    return len(page.encode("utf-8"))


def page_of(data: dict[str, Any], layout: Layout) -> str:
    """The page that shows `data`, which has a "title", as HTML."""
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
    """The Content-Security-Policy of a page: this script and no other, nothing from elsewhere."""
    hashed = hashlib.sha256(inlined(layout).encode("utf-8")).digest()
    digest = base64.b64encode(hashed).decode("ascii")
    return (f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
            f"font-src data:; connect-src {layout.connects}; base-uri 'none'; form-action 'none'")


def packed(value: Any) -> str:
    """A value as JSON, gzip, base64: a quarter of the size, and nothing in it can end the element.

    Raises ValueError for a NaN or an infinity: those are strings in the data.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode("utf-8"), 9, mtime=0)).decode("ascii")


def inlined(layout: Layout) -> str:
    """A layout's JavaScript modules as one script, each after those that it imports."""
    script = "\n".join(_module(name, read(layout, f"{name}.js")) for name in layout.modules)
    statement = re.search(r"^(import|export)\b.*|</script.*", script, re.MULTILINE)
    if statement:
        raise ValueError("a module: expected imports and exports of plain names, got "
                         f"{statement[0]}")
    return f"\n{script}"


def _module(name: str, source: str) -> str:
    """A module as a function that is called once and returns what the module exports."""
    exports = ", ".join(match[1] for match in EXPORT.finditer(source))
    body = EXPORT.sub("", IMPORT.sub(r"const \1 = \2_module;", source))
    return (f"const {name}_module = await (async () => {{\n{body}\n"
            f"return {{ {exports} }};\n}})();\n")


def read(layout: Layout, name: str) -> str:
    """The text of one of a layout's files."""
    paths = (directory / name for directory in layout.directories)
    return next(filter(Path.is_file, paths)).read_text(encoding="utf-8")
