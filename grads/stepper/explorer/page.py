"""Writes the explorer's page: one self-contained HTML file, opened from disk, that loads nothing.

The page is put together from `assets/`: HTML, style sheets, plain JavaScript modules. The modules
are inlined as one module script: each becomes a function that returns what it exports, called once,
and its imports become constants taken from what the others returned. Data is gzipped: without that,
a sentence of ten words would not fit.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from backend.errors import UserError
from backend.files import write_text
from grads import check
from grads.stepper.explorer.formulas import ASSETS, used

LIMIT = 1_000_000  # bytes of a page
BASE = Path(check.__file__).parent / "assets" / "base.css"  # shared with the report of a check
IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./(\w+)\.js";$', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class) (\w+))", re.MULTILINE)


class Layout(NamedTuple):
    """What a page is put together from, in `assets/`."""

    template: str  # what follows the head, which all pages share
    styles: tuple[str, ...]
    modules: tuple[str, ...]  # each after those that it imports
    smaller: str  # what to do about a page that is too large


DERIVATION = Layout("page", ("katex.css", "page.css"), (
    "format", "packed", "weights", "data", "evaluate", "address", "state", "code", "heatmap",
    "network", "alignment", "charts", "formula", "verification", "breaks", "flow", "guide",
    "jumps", "keys", "play", "player"), "take fewer words, fewer layers or a smaller hidden size")
SEARCH = Layout("search", ("page.css", "search.css"), (
    "format", "packed", "weights", "address", "search_state", "search_tree", "search_panels",
    "play", "search_player"), "take a smaller beam or a shorter sentence")


def write_page(data: dict[str, Any], path: str | Path, layout: Layout = DERIVATION) -> None:
    """Write the page that shows `data`, as `grads.stepper.explorer.build` makes it for a
    derivation, and `build_search` for a search.

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


def page_of(data: dict[str, Any], layout: Layout = DERIVATION) -> str:
    """The page that shows `data`, as HTML."""
    script = inlined(layout.modules)
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    parts = {
        "title": html.escape(data["title"]),
        "policy": f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
                  "font-src data:; base-uri 'none'; form-action 'none'",
        "style": "\n".join([BASE.read_text("utf-8"), *map(_read, layout.styles)]),
        "data": packed(data),
        "formulas": packed(used(data.get("steps", ()))),
        "script": script,
    }
    text = _read("head.html") + _read(f"{layout.template}.html")
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], text)


def packed(value: Any) -> str:
    """A value as JSON, gzip, base64: a quarter of the size, and nothing in it can end the element.

    Raises ValueError for a NaN or an infinity: those are strings in the data.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode("utf-8"), 9, mtime=0)).decode("ascii")


def inlined(modules: Iterable[str]) -> str:
    """JavaScript modules as one script, in this order: each after those that it imports."""
    script = "\n".join(map(_module, modules))
    left = re.search(r"^(import|export)\b.*|</script.*", script, re.MULTILINE)
    if left:
        raise ValueError(f"a module: expected imports and exports of plain names, got {left[0]}")
    return f"\n{script}"


def _module(name: str) -> str:
    """A module as a function that is called once and returns what the module exports."""
    source = _read(f"{name}.js")
    exports = ", ".join(match[1] for match in EXPORT.finditer(source))
    body = EXPORT.sub("", IMPORT.sub(r"const \1 = \2_module;", source))
    return (f"const {name}_module = await (async () => {{\n{body}\n"
            f"return {{ {exports} }};\n}})();\n")


def _read(name: str) -> str:
    """A text of `assets/`."""
    return (ASSETS / name).read_text(encoding="utf-8")
