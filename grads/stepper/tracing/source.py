"""Reads the source of a function: its syntax tree, comments and equation numbers."""

from __future__ import annotations

import ast
import inspect
import io
import re
import textwrap
import tokenize
from collections.abc import Iterator, Sequence
from types import FunctionType

from backend.errors import UserError
from grads.check.diagnosis.instrument import tree_of

LAMBDA = "<lambda>"  # the name of a function without one
EQUATION = re.compile(r"(?<![\w.])\d+\.\d+(?!\.?\d)")  # 2.36, but not 4.2.3, a section


class Source:
    """The text of one function: its lines, comments and syntax tree. A lambda gets the tree of a
    function that returns its expression."""

    def __init__(self, function: FunctionType, edits: Sequence[tuple[str, str]] = ()) -> None:
        self.file, text, first = source_of(function)
        for old, new in edits:
            text = edited(text, old, new, function.__name__)
        self.lines = text.splitlines()
        self.first = first
        try:
            module = ast.parse(text)
            self.comments = dict(comments(text))
        except (SyntaxError, tokenize.TokenError) as error:
            raise UserError(f"{self.file}:{first}: {function.__qualname__} cannot be traced: its "
                            f"source does not parse alone ({error})") from None
        ast.increment_lineno(module, first - 1)
        definition = (tree_of(function.__code__) if function.__name__ == LAMBDA
                      else module.body[0])
        if not isinstance(definition,
                          ast.FunctionDef) or definition.name != function.__code__.co_name:
            raise UserError(f"{self.file}:{first}: {function.__qualname__} cannot be traced: only "
                            "a function written with def can")
        self.tree = definition

    def statement(self, node: ast.stmt | ast.expr) -> tuple[str, str]:
        """The code of a statement without comments and indentation, and its comments."""
        end = node.end_lineno or node.lineno
        if isinstance(node, ast.FunctionDef):
            end = max(node.lineno, node.body[0].lineno - 1)
        numbers = range(node.lineno - self.first, end - self.first + 1)
        rows = [self.lines[n][: self.comments[n][0] if n in self.comments else None].rstrip()
                for n in numbers]
        said = [self.comments[n][1] for n in numbers if n in self.comments]
        return textwrap.dedent("\n".join(rows)).rstrip(), "; ".join(said)


def source_of(function: FunctionType) -> tuple[str, str, int]:
    """A function's file, its source without indentation, and the number of its first line."""
    code = function.__code__
    try:
        lines, first = (inspect.findsource(code)[0], 1) if function.__name__ == LAMBDA else (
            inspect.getsourcelines(code))
    except (OSError, TypeError, IndexError):
        raise UserError(f"{function.__qualname__} has no source to trace ({code.co_filename}, line "
                        f"{code.co_firstlineno}): write it in a file") from None
    return code.co_filename, textwrap.dedent("".join(lines)), max(first, 1)


def edited(text: str, old: str, new: str, name: str) -> str:
    """The source with one piece replaced. The piece must occur exactly once."""
    if text.count(old) != 1:
        raise UserError(f"edit of {name}: {old!r} occurs {text.count(old)} times in its source, "
                        "expected once")
    return text.replace(old, new)


def comments(text: str) -> Iterator[tuple[int, tuple[int, str]]]:
    """The line (from 0), the column and the text of each comment."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0] - 1, (token.start[1], token.string.lstrip("# "))


def equations(comment: str) -> tuple[str, ...]:
    """The equation numbers in a comment: "(2.35), (2.38)" has two; "4.2.3", a section, has none."""
    return tuple(dict.fromkeys(EQUATION.findall(comment)))
