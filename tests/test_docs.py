"""Every Python block of the pages runs, one after the other, and prints what stands below it."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"
BLOCK = re.compile(r"```python\n(.*?)```\n(?:\n```\n(.*?)```\n)?", re.DOTALL)
PAGES = [path for path in sorted(DOCS.glob("*.md")) if "```python" in path.read_text("utf-8")]


def test_there_are_pages():
    assert PAGES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks(page, capsys):
    scope: dict = {}
    for code, output in BLOCK.findall(page.read_text("utf-8")):
        if "import torch\n" in code:
            pytest.importorskip("torch", reason="PyTorch (extra `oracle`) is not installed")
        exec(compile(code, page.name, "exec"), scope)
        assert capsys.readouterr().out == output, code
