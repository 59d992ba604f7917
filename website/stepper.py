"""The stepper's pages, as `grads explore` writes them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

NAMES = ("lstm", "attention", "nmt", "rnn", "adding-memory", "gated-memory", "gru", "rnnsearch",
         "search", "hybrid", "transformer")
LEFT_OUT = "<!doctype html><title>left out</title><p>Left out of a quick build: make docs."


def pages(quick: bool) -> dict[str, str]:
    """By its path in the site. quick: the first alone, and a line instead of the others."""
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
