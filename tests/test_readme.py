"""The README and the pages print what their commands and examples print."""

from __future__ import annotations

import re
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest

from backend.errors import UserError
from grads.cli import build_parser
from nmt.cli import _parse
from tests import follow

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
GRADS = ROOT / "docs" / "reference" / "grads.md"
EXAMPLE = re.compile(r"```python\n(.*?)```\n\n```\n(.*?)```", re.DOTALL)
KEYS = (ROOT / "docs" / "recipe.md").read_text("utf-8")


def facts(table: str) -> list[str]:
    """The loss, the verdict, and of each row the name and verdict, which do not depend on
    rounding."""
    return [re.sub(r"\d\.\de-\d+$", "e", line.split("  ")[0].split(";")[0])
            + re.sub(r"  +", " ", line)[-3:] * ("  " in line) for line in table.split("\n")]


@pytest.mark.parametrize(("page", "right", "wrong"), [(README, 2, 2), (GRADS, 13, 0)],
                         ids=["README.md", "grads.md"])
def test_the_example(page: Path, right: int, wrong: int, tmp_path: Path,
                     capsys: pytest.CaptureFixture[str]) -> None:
    match = EXAMPLE.search(page.read_text("utf-8"))
    assert match
    code, output = match.groups()
    assert len([line for line in code.split("\n") if line.strip()]) <= 12
    file = tmp_path / "example.py"
    file.write_text(code, encoding="utf-8")
    run_path(str(file))
    printed = capsys.readouterr().out
    assert facts(printed) == facts(output)
    assert printed.count(" ok\n") == right and printed.count("WRONG") == wrong


def test_two_screens() -> None:
    assert len(README.read_text("utf-8").split("\n")) <= 100


@pytest.mark.parametrize("page", [page for page in follow.PAGES
                                  if follow.steps(page.read_text("utf-8"))],
                         ids=lambda page: page.name)
def test_console_blocks(page: Path, tmp_path: Path) -> None:
    """In their order, in a new directory; `python -m tests.follow` runs the long ones, too."""
    assert not follow.follow(page, tmp_path, minutes=False)


def test_the_readme_has_commands() -> None:
    assert len(follow.steps(README.read_text("utf-8"))) > 3


@pytest.mark.parametrize("page", [page for page in follow.PAGES
                                  if [*follow.commands(page.read_text("utf-8"))]],
                         ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_is_one_that_its_parser_takes(page: Path) -> None:
    for program, words in follow.commands(page.read_text("utf-8")):
        if "--help" not in words:
            assert not [key for key in parse(program, words) if not is_key(key)], words


def is_key(key: str) -> bool:
    """Whether docs/recipe.md has a key, or a mixture of tasks has it for one of them."""
    task, _, rest = key.partition(".")
    return task == "ratios" or f"`{key}`" in KEYS or f"`{rest}`" in KEYS


def parse(program: str, words: list[str]) -> list[str]:
    """The keys of recipes among a command's arguments; the test fails if the parser exits."""
    options: Any
    try:
        options = _parse(words) if program == "nmt" else build_parser().parse_args(words)
    except (SystemExit, UserError) as error:
        pytest.fail(f"{program} {' '.join(words)}: {error}")
    overrides = getattr(options, "overrides", [])
    return [word[2:].partition("=")[0] for word in overrides if word.startswith("--")]


def test_an_output_that_differs_is_told(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\n$ echo one\none\n$ printf 'a\\nb\\n'; false\na\n...\n$ echo two\n"
                    "three\n```\n<!-- minutes -->\n```console\n$ touch never\n```\n", "utf-8")
    (fault,) = follow.follow(page, tmp_path, minutes=False)
    assert "three" in fault and "two" in fault and not (tmp_path / "never").exists()
    assert follow.main([str(page)]) == 1


def test_words_end_at_a_pipe_or_a_comment() -> None:
    text = ("```\nnmt translate --model runs/a < source > target   # fast\n"
            "grads check 'a*; b' \\\n  --all\n```\n")
    assert [*follow.commands(text)] == [("nmt", ["translate", "--model", "runs/a"]),
                                        ("grads", ["check", "a*; b", "--all"])]
