"""Every command exists that a page, docstring, comment, recipe or message names.

Verbs and benchmarks are looked for everywhere; options where a command is quoted in backticks, or
stands in a recipe's head as `# nmt ...`. Code blocks of pages are `tests.follow`'s.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import pytest

import grads.cli
import nmt.cli
from benchmarks.registry import ABOUT
from tests import follow

ROOT = follow.ROOT
KEYS = (ROOT / "docs" / "recipe.md").read_text("utf-8")
PLACES = ("README.md", "docs", "backend", "lstm", "attention", "nmt", "grads", "benchmarks",
          "website")
SUFFIXES = {".md", ".py", ".yaml", ".json", ".js", ".html"}
PARSERS = {"nmt": nmt.cli.build_parser(), "grads": grads.cli.build_parser()}
PROSE = {"and", "as", "is", "would", "import"}  # `nmt` as a module's, a derivation's, a page's name
PROGRAM = r"(?:python -m )?\b(nmt|grads)|python -m (benchmarks)"
QUOTED = re.compile(rf"`(?:{PROGRAM})\s([^`]{{1,300}})`")
HEAD = re.compile(rf"^# (?:{PROGRAM}) ((?:.*\\\n)*.*)", re.MULTILINE)
NAMED = re.compile(rf"(?<![\w.*/-])(?:{PROGRAM}) (?:\\\n#? *)?([a-z][\w-]*)")


def files() -> list[Path]:
    """The files of the product and its pages, but for measurements and written formulas."""
    paths = [ROOT / place for place in PLACES if (ROOT / place).is_file()]
    for place in PLACES:
        paths += [path for path in sorted((ROOT / place).rglob("*")) if path.suffix in SUFFIXES]
    return [path for path in paths if path.stat().st_size < 2**19]


def fault(program: str, words: list[str]) -> str:
    """The part of a command that does not exist; "" if all exists."""
    if program == "benchmarks":
        names = [*takewhile(lambda word: re.fullmatch("[a-z][a-z-]*", word), words)]
        return next((name for name in names if name not in ABOUT), "")
    parser: argparse.ArgumentParser = PARSERS[program]
    while verbs := next((action.choices for action in parser._actions
                         if isinstance(action, argparse._SubParsersAction)), None):
        if not words or not re.fullmatch("[a-z][a-z-]*", words[0]):
            return ""
        if words[0] not in verbs:
            return words[0]
        parser, words = verbs[words[0]], words[1:]
    options = (word.partition("=")[0] for word in words if re.match("--[a-z]", word))
    return next((word for word in options if word not in parser._option_string_actions
                 and not ("." in word and is_key(word[2:]))), "")


def is_key(key: str) -> bool:
    """Whether docs/recipe.md has a key, or a task's `name.` before it."""
    return key.startswith("ratios.") or any(f"`{candidate}`" in KEYS
                                            for candidate in (key, key.partition(".")[2]))


def faults(text: str) -> Iterator[str]:
    """The commands of a text that name what does not exist."""
    for pattern in (QUOTED, HEAD):
        for match in pattern.finditer(text):
            words = re.sub(r"\\?\n\s*#?", " ", match[3])
            if wrong := fault(match[1] or match[2], follow.words(re.sub("['\"]", "", words))):
                yield f"{' '.join(match[0].split())}: {wrong}"
    for match in NAMED.finditer(text):
        first = match[3]
        if first not in PROSE and (wrong := fault(match[1] or match[2], [first])):
            yield f"{match[0]}: {wrong}"


def test_every_command_exists() -> None:
    assert not [f"{path.relative_to(ROOT)}: {message}" for path in files()
                for message in faults(path.read_text("utf-8"))]


def test_commands_are_found() -> None:
    text = "".join(path.read_text("utf-8") for path in files())
    assert len(QUOTED.findall(text)) > 200 and len(HEAD.findall(text)) > 100
    assert len(NAMED.findall(text)) > 500


@pytest.mark.parametrize("text", [
    "speaks alone (`nmt lexicon`)", "nmt lexicon does it", "`nmt\nlexicon`", "`nmt logits lexica`",
    "`nmt translate --beams 5`", "`grads check --al`", "`python -m benchmarks stepp`",
    "# nmt train a.yaml \\\n#   --data.directry .", "`nmt train --train.epoch 5`",
    "python -m benchmarks stepp", "`python -m grads chek`",
])
def test_what_does_not_exist_is_told(text: str) -> None:
    assert [*faults(text)]


@pytest.mark.parametrize("text", [
    "`nmt logits lexicon`", "`nmt lm\ntune`", "as nmt translate runs it", "`grads check 'luong*'`",
    "`nmt translate ... | head -1`", "`nmt score HYPOTHESES --trees WORDS`", "the model nmt and",
    "# nmt train a.yaml \\\n#   --data.directory . --en-de.data.seed 2", "`python -m benchmarks`",
    "from nmt import api", "`nmt VERB`", "`python -m benchmarks step variants`",
])
def test_what_exists_is_not(text: str) -> None:
    assert not [*faults(text)]
