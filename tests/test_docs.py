"""Every Python block of the pages runs, one after the other, and prints what stands below it."""

import re
from collections.abc import Iterator
from pathlib import Path

import follow
import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"
BLOCK = re.compile(r"```python\n(.*?)```\n(?:\n```\n(.*?)```\n)?", re.DOTALL)
STARTS = re.compile(r"\s*(?:nmt|grads|python|make|pip|mpiexec|for|curl|ruff|#|\$|[a-z_]+:)")
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


def code_lines(text: str) -> Iterator[str]:
    """The lines of code on a page, without the output of commands, whose width is not ours."""
    for _, kind, body in follow.BLOCK.findall(text):
        if kind == "console":
            yield from re.findall(r"^\$ (?:.*\\\n)*.*", body, re.MULTILINE)
        elif kind or STARTS.match(body):
            yield from body.split("\n")
    for body in re.findall(r"\n\n((?:    .*\n)+)", follow.BLOCK.sub("", text)):
        if STARTS.match(body):
            yield from (line[4:] for line in body.split("\n"))


@pytest.mark.parametrize("page", [*follow.PAGES, DOCS.parent / "CONTRIBUTING.md"],
                         ids=lambda page: str(page.relative_to(DOCS.parent)))
def test_shown_code_has_at_most_80_columns(page: Path) -> None:
    """Longer lines would be covered by the copy button, or have to be scrolled."""
    lines = "\n".join(code_lines(page.read_text("utf-8"))).split("\n")
    assert not [line for line in lines if len(line.removeprefix("$ ")) > 80]


def test_wide_code_shows() -> None:
    wide = "nmt train " + "x" * 71
    for page in (f"```\n{wide}\n```\n", f"\n\n    {wide}\n", f"```console\n$ {wide}\nout\n```\n"):
        assert [line for line in code_lines(page) if wide in line]
    assert not [*code_lines(f"```\nout{wide}\n```\n")]
