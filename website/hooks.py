"""What MkDocs calls while it builds the site (`mkdocs.yml` names this file).

The environment variable SITE_QUICK, set to anything, leaves out what takes minutes: the outputs of
the lessons and all pages of the stepper but one. Tests build that.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable
from typing import Any

import derivations
import formulas
import lessons
import sources
import stepper
import symbols
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.structure.toc import AnchorLink
from mkdocs.utils import get_relative_url

FILE_LINK = re.compile(r"\[[\w./-]+\.md\]\(([\w./-]+\.md)((?:#[\w-]*)?)\)")
# In the errata's formulas, which are plain text, an underscore is no emphasis.
UNDERSCORE = re.compile(r"(`[^`]*`|\]\([^)]*\)|^ {4}.*$)|_", re.MULTILINE)
STYLE = "stylesheets/katex.css"  # with its fonts, for pages with formulas only


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made: lessons, stepper, derivations, and the sources they link."""
    quick = bool(os.environ.get("SITE_QUICK"))
    made: dict[str, str | bytes] = {
        **lessons.pages(quick), **stepper.pages(quick), **derivations.pages()}
    add(files, config, made)
    texts = {file.src_uri: file.content_string for file in files.documentation_pages()}
    linked = [path for page, text in sorted(texts.items()) for path in sources.linked(page, text)]
    add(files, config, sources.pages(linked))
    return files


def add(files: Files, config: MkDocsConfig, made: Any) -> None:
    """Files that are made while the site is built, by their path in docs/."""
    for path, content in made.items():
        files.append(File.generated(config, path, content=content))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links into the code lead to the pages of its files, those of lessons to the lessons."""
    name = page.file.src_uri
    if name.startswith("lessons/"):
        markdown = lessons.linked(markdown)
        markdown = stepper.framed(markdown, lambda derivation: text_of(files, derivation))
    if name == "errata.md":
        markdown = UNDERSCORE.sub(lambda match: match[1] or r"\_", markdown)
    return sources.rewritten(name, titled(name, markdown, files))


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """The theme's search dialog with a name, for screen readers."""
    return output.replace('role="dialog"', 'role="dialog" aria-label="Search"', 1)


def text_of(files: Files, derivation: str) -> str:
    """The text of a derivation's page. Raises ValueError where the site has none."""
    file = files.get_file_from_path(f"explorer/{derivation}.html")
    if file is None:
        raise ValueError(f"{derivation}: the site has no page of it (website/stepper.py)")
    return file.content_string


def titled(name: str, markdown: str, files: Files) -> str:
    """Links that read as the name of a page's file, with the page's title instead."""
    def link(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(name), match[1]))
        file = files.get_file_from_path(path)
        title = file and re.search(r"^# (.+?)(?::.*)?$", file.content_string, re.MULTILINE)
        return f"[{title[1]}]({match[1]}{match[2]})" if title else match[0]

    return FILE_LINK.sub(link, markdown)


def titles(contents: Iterable[AnchorLink]) -> None:
    """The symbols in the titles of a list of contents, typeset."""
    for link in contents:
        link.title = symbols.written(link.title)
        titles(link.children)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Formulas and symbols typeset, with KaTeX's style; on the page of a file its lines."""
    if page.file.src_uri.startswith(f"{sources.PAGES}/"):
        lines, anchors = sources.content(page.file.src_uri)
        page.present_anchor_ids = (page.present_anchor_ids or set()) | anchors
        return html + lines
    titles(page.toc)
    html = symbols.typeset(formulas.typeset(html), page.file.src_uri)
    style = get_relative_url(STYLE, page.url)
    return f'<link rel="stylesheet" href="{style}">{html}' if 'class="katex"' in html else html
