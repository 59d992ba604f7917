"""`--help` of every verb fits on a screen of 80 columns and 50 lines; that of `nmt train`, which
lists every key of a recipe too, on one of 100 columns."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

import pytest

import grads.cli
import nmt.cli
from backend.errors import UserError

COLUMNS, LINES = 80, 50
WIDER = 100


def verbs(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """A parser and those of its subcommands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for verb in action.choices.values():
                yield from verbs(verb)


def test_help_fits_on_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    found = {one.prog: one.format_help() for build in (nmt.cli.build_parser, grads.cli.build_parser)
             for one in verbs(build())}
    assert {"nmt lm train", "nmt evaluate", "grads explore"} <= set(found)
    shown = {name: sum(max(1, -(-len(line) // COLUMNS)) for line in text.splitlines())
             for name, text in found.items() if name != "nmt train"}  # lists every key too
    assert {name: lines for name, lines in shown.items() if lines > LINES} == {}


def test_help_of_train_fits_on_a_wider_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDER))
    lines = {one.prog: one for one in verbs(nmt.cli.build_parser())}["nmt train"].format_help() \
        .splitlines()
    assert len(lines) <= LINES and max(map(len, lines)) <= WIDER
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    narrow = {one.prog: one for one in verbs(nmt.cli.build_parser())}["nmt train"].format_help()
    assert "subwords.{kind, merges," in " ".join(narrow.split())


def test_the_first_line_names_what_has_to_be_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files come before `--model`, which takes all directories that follow."""
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    verb = {one.prog: one for one in verbs(nmt.cli.build_parser())}["nmt translate"]
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
