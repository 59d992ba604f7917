"""`--help` of every verb fits on a screen of 80 columns and 50 lines."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

import pytest

import grads.cli
import nmt.cli
from backend.errors import UserError

COLUMNS, LINES = 80, 50


def verbs(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """A parser and those of its subcommands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for verb in action.choices.values():
                yield from verbs(verb)


def test_help_fits_on_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    pages = {verb.prog: verb.format_help().splitlines()
             for build in (nmt.cli.build_parser, grads.cli.build_parser) for verb in verbs(build())}
    assert {"nmt lm train", "nmt evaluate", "grads explore"} <= set(pages)
    assert {name: len(lines) for name, lines in pages.items() if len(lines) > LINES} == {}
    assert [line for lines in pages.values() for line in lines if len(line) > COLUMNS] == []


def test_help_of_recipe_lists_the_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    (recipe,) = [verb for verb in verbs(nmt.cli.build_parser()) if verb.prog == "nmt recipe"]
    assert "subwords.{kind, merges," in " ".join(recipe.format_help().split())


def test_every_argument_says_what_it_does() -> None:
    silent = [f"{verb.prog} {(action.option_strings or [action.dest])[0]}"
              for verb in verbs(nmt.cli.build_parser()) for action in verb._actions
              if not isinstance(action, argparse._SubParsersAction) and (
                  not action.help or action.help.startswith("(default"))]
    assert silent == []


def test_the_first_line_names_what_has_to_be_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files come before `--model`, which takes all directories that follow."""
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    verb = {parser.prog: parser for parser in verbs(nmt.cli.build_parser())}["nmt translate"]
    assert verb.format_help().splitlines()[0] == \
        "usage: nmt translate [FILE ...] --model DIR [DIR ...] [OPTION ...]"


@pytest.mark.parametrize("build, words, said", [
    (nmt.cli.build_parser, ["tranlsate"], "'tranlsate'; did you mean 'translate'? (see nmt --help"),
    (nmt.cli.build_parser, ["lm", "trian"], "'trian'; did you mean 'train'? (see nmt lm --help"),
    (nmt.cli.build_parser, ["--backend", "numpi"], "'numpi'; did you mean 'numpy'? ("),
    (nmt.cli.build_parser, ["--backend", "jax"], "'jax' (choose from "),
    (grads.cli.build_parser, ["chekc"], "'chekc'; did you mean 'check'? (see grads --help"),
])  # fmt: skip
def test_a_misspelt_choice_gets_the_nearest_one(build, words, said) -> None:
    with pytest.raises(UserError, match=re.escape(f"invalid choice: {said}")):
        build().parse_args(words)
