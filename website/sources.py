"""Source files as pages, so that a link from a page into the code stays on the site.

A link that leaves docs/, `[..](../lstm/stack.py#L113)`, becomes one to the page of that file, whose
lines have the anchors that GitHub gives them; a link to a directory, one to a list of its files. A
file named in prose, `lstm/stack.py`, becomes a link.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import TextLexer, get_lexer_for_filename
from pygments.util import ClassNotFound

ROOT = Path(__file__).resolve().parents[1]
PAGES = "source"  # where they lie in the site
LINK = re.compile(r"\]\((\.\./[^)#\s]+)((?:#[^)\s]*)?)\)")
NAMED = re.compile(r"(?<![\[`])`([\w-]+(?:/[\w.-]+)+\.(?:py|yaml|txt|cu|js))`(?![\]`])")
PICTURES = (".png", ".svg", ".pdf")
FRONT = "---\nsearch: {exclude: true}\nhide: [navigation, toc]\n---\n"


def page_of(path: str) -> str:
    """The page, below docs/, that shows a file or directory of the repository; a picture is
    itself."""
    return f"{PAGES}/{path}" + ("" if path.endswith(PICTURES) else ".md")


def target(page: str, link: str) -> str | None:
    """The path in the repository that a page's link leads to, None where it stays in docs/."""
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link))
    return None if path.startswith(("docs/", "../")) or not (ROOT / path).exists() else path


def linked(page: str, text: str) -> Iterator[str]:
    """Paths in the repository that the text of a page links or names."""
    for link, _ in LINK.findall(text):
        if path := target(page, link):
            yield path
    yield from (name for name in NAMED.findall(text) if (ROOT / name).is_file())


def rewritten(page: str, text: str) -> str:
    """The text of a page with its links into the repository as links to source pages."""
    here = posixpath.dirname(page)

    def link(match: re.Match[str]) -> str:
        path = target(page, match[1])
        if path is None:
            return match[0]
        return f"]({posixpath.relpath(page_of(path), here)}{match[2]})"

    def name(match: re.Match[str]) -> str:
        known = (ROOT / match[1]).is_file() and not match[1].startswith("docs/")
        return f"[{match[0]}]({posixpath.relpath(page_of(match[1]), here)})" if known else match[0]

    return NAMED.sub(name, LINK.sub(link, text))


def pages(paths: Iterable[str]) -> dict[str, str | bytes]:
    """The Markdown of the source pages of paths, of directories with all that is in them; pictures
    as they are."""
    made: dict[str, str | bytes] = {}
    waiting = list(dict.fromkeys(paths))
    while waiting:
        path = waiting.pop()
        if page_of(path) in made:
            continue
        if path.endswith(PICTURES):
            made[page_of(path)] = (ROOT / path).read_bytes()
        elif (ROOT / path).is_dir():
            inside = [child.relative_to(ROOT).as_posix()
                      for child in sorted((ROOT / path).iterdir()) if shown(child)]
            waiting += inside
            rows = [f"- [`{posixpath.basename(child)}`]"
                    f"({posixpath.relpath(page_of(child), posixpath.dirname(page_of(path)))})"
                    for child in inside]
            made[page_of(path)] = f"{FRONT}# `{path}/`\n\n" + "\n".join(rows) + "\n"
        else:
            made[page_of(path)] = f"{FRONT}# `{path}`\n"
    return made


def shown(path: Path) -> bool:
    """Whether a list of a directory names the path."""
    return not path.name.startswith(("__pycache__", ".")) and path.suffix not in PICTURES


def content(page: str) -> tuple[str, set[str]]:
    """The lines of a source page's file as HTML, and their anchors; empty for a directory."""
    path = ROOT / page.removeprefix(f"{PAGES}/").removesuffix(".md")
    if not path.is_file():
        return "", set()
    lines = coloured(path).rstrip("\n").split("\n")
    rows = [f'<span class="line" id="L{number}">{line}\n</span>'
            for number, line in enumerate(lines, 1)]
    html = f'<div class="highlight source"><pre><code>{"".join(rows)}</code></pre></div>'
    return html, {f"L{number}" for number in range(1, len(lines) + 1)}


def coloured(path: Path) -> str:
    """The text of a file with its syntax in spans, one line of HTML a line."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return escape(text)
    try:
        lexer = get_lexer_for_filename(path.name, stripnl=False)
    except ClassNotFound:
        lexer = TextLexer(stripnl=False)
    html: str = highlight(text, lexer, HtmlFormatter(nowrap=True))
    return html
