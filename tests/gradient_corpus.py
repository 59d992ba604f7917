"""The corpus of right and wrong functions: `PAIRS`, read from the files in tests/grads/corpus.

A file is what a user of `grads check FILE.py:NAME` writes. It has, one after the other,

    NAME_inputs(rng)                       the inputs, a sequence or a mapping
    NAME_forward, NAME_backward            -> outputs, cache; -> gradients of the inputs
    NAME, NAME_gradient                    or these two: a scalar, and its gradients
    NAME_wrong                             mistakes: (old, new, first, what), or with a hint

A mistake replaces the text `old` by `new`. `old` occurs once in NAME's part of the file (its
functions and the helpers before them). `first` is the first variable of the backward that is wrong;
"second call" if gradients are right until the backward runs again on the same cache; "first call"
if they are right only for the inputs of the first call. The hint is a pattern of the checker's
diagnosis. A mistake without a hint has no name. A file may count calls in CALLS["count"].
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple

import numpy as np

FILES = sorted((Path(__file__).parent / "grads" / "corpus").glob("*.py"))
SECOND_CALL = "second call"
FIRST_CALL = "first call"


class Wrong(NamedTuple):
    """A mistake: a text of the right function, its replacement, and the consequence."""

    old: str
    new: str
    first: str  # variable of the backward, SECOND_CALL or FIRST_CALL
    what: str
    hint: str = ""  # a regular expression


class Functions(NamedTuple):
    """A forward and a backward, or a scalar function and its gradient, from a file's text."""

    forward: Callable[..., Any]
    backward: Callable[..., Any]


@dataclass(frozen=True)
class Pair:
    """One right pair of functions, and the mistakes that can be made in it."""

    name: str
    file: Path
    scalar: bool  # whether it is a scalar function with its gradient
    span: tuple[int, int]  # the part of the file's text with a mistake's `old`
    wrong: tuple[Wrong, ...]

    def inputs(self) -> Any:
        """The inputs, the same each time."""
        return getattr(module(self.file), f"{self.name}_inputs")(
            np.random.default_rng(list(self.name.encode())))

    def source(self, wrong: Wrong | None = None) -> str:
        """The text of the file, with a mistake if one is given."""
        text = _read(self.file)
        if wrong is None:
            return text
        start, stop = self.span
        count = text.count(wrong.old, start, stop)
        if count != 1:
            raise ValueError(f"{self.name}: expected {wrong.old!r} once, found it {count} times")
        return text[:start] + text[start:stop].replace(wrong.old, wrong.new) + text[stop:]

    def functions(self, wrong: Wrong | None = None) -> Functions:
        """The two functions, with a mistake if one is given."""
        namespace: dict[str, Any] = {"__name__": f"corpus_{self.file.stem}"}
        exec(_compiled(self.source(wrong), str(self.file)), namespace)
        ends = ("", "_gradient") if self.scalar else ("_forward", "_backward")
        return Functions(*(namespace[self.name + end] for end in ends))


@cache
def _read(file: Path) -> str:
    """The text of a file."""
    return file.read_text(encoding="utf-8")


@lru_cache(maxsize=8)  # modules, since tests alternate between right and wrong functions
def _compiled(text: str, file: str) -> CodeType:
    """The compiled code of a file, which starts without state whenever it is executed."""
    return compile(text, file, "exec")


@cache
def module(file: Path) -> ModuleType:
    """A file of the corpus, executed."""
    loaded = ModuleType(file.stem)
    exec(_compiled(_read(file), str(file)), vars(loaded))
    return loaded


def pairs_of(file: Path) -> Iterator[Pair]:
    """The pairs of a file, in its order."""
    text = _read(file)
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    names, begin = vars(module(file)), 0
    for node in ast.parse(text).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(target, ast.Name) and target.id.endswith("_wrong"):
            name = target.id.removesuffix("_wrong")
            yield Pair(name, file, name in names, (begin, starts[node.lineno - 1]),
                       tuple(Wrong(*fields) for fields in names[target.id]))
            begin = starts[node.end_lineno or node.lineno]


PAIRS = [pair for file in FILES for pair in pairs_of(file)]
WRONG = [(pair, wrong) for pair in PAIRS for wrong in pair.wrong]
MISTAKES = [f"{pair.name}: {wrong.what}" for pair, wrong in WRONG]
