"""The stepper's pages, as `grads explore` writes them, and where a lesson shows one of them."""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

NAMES = ("lstm", "attention", "nmt", "rnn", "adding-memory", "gated-memory", "gru", "rnnsearch",
         "search", "hybrid", "transformer", "vanishing")
LINE = re.compile(r"^In the stepper: `grads explore ([\w-]+)`(?:, at\s+`(.+)`)?\.$", re.MULTILINE)
DATA = re.compile(r'id="data"[^>]*>([^<]*)<')
LEFT_OUT = "<!doctype html><title>left out</title><p>Left out of a quick build: make docs."


def pages(quick: bool) -> dict[str, str]:
    """The pages by their paths in the site. quick: only the first page, and a line in place of each
    other."""
    wanted = NAMES[:1] if quick else NAMES
    with tempfile.TemporaryDirectory() as directory, ThreadPoolExecutor(os.cpu_count()) as pool:
        texts = dict(zip(wanted, pool.map(partial(explored, Path(directory)), wanted),
                         strict=True))
    return {f"explorer/{name}.html": texts.get(name, LEFT_OUT) for name in NAMES}


def explored(directory: Path, name: str) -> str:
    """The page of a derivation. Raises CalledProcessError where the command fails."""
    path = directory / f"{name}.html"
    subprocess.run([sys.executable, "-m", "grads", "explore", name, "-o", str(path)], check=True,
                   stdout=subprocess.DEVNULL)
    return path.read_text(encoding="utf-8")


def framed(markdown: str, page_of: Callable[[str], str]) -> str:
    """A lesson's Markdown with the page of a derivation in each place that names a line of it.

    Arguments: page_of, the text of the page of a derivation, by name.
    """
    def frame(match: re.Match[str]) -> str:
        name, code = match[1], match[2]
        address = f"../explorer/{name}.html"
        if code and (page := page_of(name)) != LEFT_OUT:
            address += f"#step={step_of(page, code)}"
        said = f"The stepper of <code>{name}</code>" + (
            f", at <code>{escape(code)}</code>" if code else "")
        return (f'<p class="stepper">{said}: <a href="{address}" target="_blank">on a page of its '
                f'own</a>.</p>\n\n<iframe class="stepper" src="{address}" '
                f'title="{name}, step by step" loading="lazy"></iframe>')

    return LINE.sub(frame, markdown)


def step_of(page: str, code: str) -> int:
    """The number of the first step of a page at a statement. Raises ValueError if there is none."""
    for number, step in enumerate(data_of(page)["steps"], start=1):
        if " ".join(step["text"].split()) == code:
            return number
    raise ValueError(f"{code}: no step of {data_of(page)['name']} has this statement")


def data_of(page: str) -> dict[str, Any]:
    """The data of an explorer's page."""
    match = DATA.search(page)
    if match is None:
        raise ValueError("page: expected an element with the id data")
    data: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(match[1])))
    return data
