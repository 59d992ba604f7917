"""What the search for a change tries in place of an expression of a user's backward."""

from __future__ import annotations

import ast
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import chain
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from grads.check.diagnosis import forms
from grads.check.diagnosis.evidence import Array
from grads.check.diagnosis.instrument import Hooked, Source
from grads.check.diagnosis.statements import literals, unused

LONG = 70  # characters of an expression that is used elsewhere
VALUE = "_value_"
SIMPLE = re.compile(r"\(?[\w.]+(\[[^()]*\])?\)?")  # a name, an attribute or an entry
ROUNDED = 1e-5  # relative rounding of a number with six digits
BRANCHES = ("True", "False")  # in place of a condition
BESIDE = 2  # lines between an expression and the values that are tried before all others

Arrays = Mapping[str, Array]
Numbers = tuple[int, ...]  # of expressions that are changed together


class Seen(NamedTuple):
    """The last value of an expression that is not zero, and the variables there."""

    value: Any
    spaces: tuple[dict[str, Any], dict[str, Any]]
    again: bool  # whether it was evaluated more than once: the others are not known
    varies: bool  # whether it had several values


@cache
def _code(text: str) -> CodeType:
    return compile(text, "<candidate>", "eval")


def evaluated(text: str, value: Any, global_space: dict[str, Any], local: dict[str, Any]) -> Any:
    """The value of a candidate."""
    return eval(_code(text), {**global_space, "np": np}, {**local, VALUE: value})


def kind(value: Any) -> str:
    """ "f", "i" or "b" of numbers and arrays, "" of anything else."""
    if not isinstance(value, (bool, int, float, np.ndarray, np.generic)):
        return ""
    letter = np.asarray(value).dtype.kind
    return letter if letter in "fib" else "f" if letter == "c" else ""


def grows(shape: tuple[int, ...], new: tuple[int, ...]) -> bool:
    """Whether a shape is broadcast to a new shape, or is equal to it."""
    with suppress(ValueError):
        return np.broadcast_shapes(shape, new) == new
    return False


def literal(node: ast.expr) -> bool:
    """Whether an expression is a number, as 2 or -0.1."""
    node = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(node, ast.Constant) and not isinstance(node.value, bool)


def plain(number: float) -> bool:
    """Whether people write a number: 3, 1.5, 0.75, 1/12 or 0.002, but not 2.4."""
    parts = (2 * number, 1 / number if number else 0.0, 4 * number * (abs(number) < 1))
    return float(f"{number:.0e}") == number or any(
        part and abs(part - round(part)) < ROUNDED * abs(part) for part in parts)


class Candidates:
    """What may be in place of the expressions of a backward.

    Arguments: hooked, the functions; forwards, those that the forward calls; seen, the values of
    the expressions by number.
    """

    def __init__(
        self, hooked: Hooked, forwards: Sequence[Source], seen: Mapping[int, Seen]
    ) -> None:
        self.hooked, self.forwards, self.seen = hooked, forwards, seen
        self.values = self._values()

    def likely(self, numbers: list[int]) -> Iterator[tuple[Numbers, str]]:
        """Other numbers, copies of arrays, the variables that are not used, and what is often in
        place of a number."""
        sites = [(number,) for number in numbers]
        names = {name for source in self.hooked.sources for name in unused(source.tree)}
        copies = ((site, f"{VALUE}.copy()") for site in sites if np.ndim(self.seen[site[0]].value)
                  and isinstance(self.hooked.sites[site[0]].node, ast.Name))
        yield from chain(self._other_numbers(sites), copies, self._with_values(
            sites, {text: self.values[text] for text in names & self.values.keys()},
            forms.SIMPLE), self._with_values(
                [site for site in sites if literal(self.hooked.sites[site[0]].node)],
                {text: value for text, value in self.names.items() if np.ndim(value)},
                forms.FOR_NUMBERS))

    def conditions(self, numbers: list[int]) -> dict[int, tuple[str, ...]]:
        """The conditions of `if` that are always true, or always false, and what is tried in their
        place. A change inside them would only choose the other branch."""
        conditions = {(source.function, node.test.lineno, ast.unparse(node.test))
                      for source in self.hooked.sources for node in ast.walk(source.tree)
                      if isinstance(node, ast.If)}
        chosen: dict[int, tuple[str, ...]] = {}
        for number in numbers:
            (value, _, _, varies), at = self.seen[number], self.hooked.sites[number]
            if not varies and np.ndim(value) == 0 and (
                    at.function, at.line, at.text) in conditions:
                chosen[number] = f"not {VALUE}", BRANCHES[bool(value)]
        return chosen

    @property
    def names(self) -> dict[str, Any]:
        """The variables."""
        return {text: value for text, value in self.values.items() if text.isidentifier()}

    @property
    def scalars(self) -> dict[str, Any]:
        """The variables and expressions that are one number."""
        return {text: value for text, value in self.values.items() if np.ndim(value) == 0}

    @property
    def simple(self) -> dict[str, Any]:
        """The variables, attributes and entries."""
        return {text: value for text, value in self.values.items() if SIMPLE.fullmatch(text)}

    def all(self, numbers: list[int], exact: Container[int]) -> Iterator[tuple[Numbers, str]]:
        """Expressions, and what is tried in their place: at first what needs no other value, and
        from then on those that are `exact` before the others.

        The same expression, several times in a line, is changed everywhere in it, too.
        """
        alike: dict[Any, list[int]] = {}
        for number in numbers:
            at = self.hooked.sites[number]
            alike.setdefault((at.function, at.line, at.text), []).append(number)
        sites: list[Numbers] = [(number,) for number in numbers]
        sites += [tuple(same_text) for same_text in alike.values() if len(same_text) > 1]
        letters = {site: kind(self.seen[site[0]].value) for site in sites}
        yield from self._alone(letters, forms.LIKELY)
        indices = [site for site in sites if self.hooked.sites[site[0]].inside_index]
        yield from self._with_values(indices, self.scalars, ("#",))
        floats = [site for site in sites if letters[site] == "f"]
        yield from self._with_values(floats, self.simple, ("#",), (True,))
        for first in (True, False):
            yield from self._of_kinds({site: letter for site, letter in letters.items()
                                       if (site[0] in exact) == first})

    def _of_kinds(self, letters: Mapping[Numbers, str]) -> Iterator[tuple[Numbers, str]]:
        """Expressions by kind, and what is tried in their place: at first what is forgotten."""
        values, sites = self.values, [*letters]
        indices = [site for site in sites if letters[site] == "i"]
        sizes = [site for site in indices if not self.seen[site[0]].varies]
        shapes = {f"{text}.shape[{axis}]": n for text, value in self.names.items()
                  for axis, n in enumerate(np.shape(value))}
        floats = [site for site in sites if letters[site] == "f"]
        constants = [site for site in sites if literal(self.hooked.sites[site[0]].node)
                     and not self.hooked.sites[site[0]].inside_index]
        integers = {text: value for text, value in values.items() if kind(value) == "i"}
        yield from self._with_values(floats, self.simple, forms.FORGOTTEN, (True,))
        yield from self._alone(letters, forms.ALONE)
        yield from self._with_values(floats, self.simple, forms.TERMS, (True,))
        yield from self._with_values(sizes, self.scalars | shapes, ("#",))
        yield from self._with_values(indices, integers, ("#",))
        for site in floats:  # other entries of the same array
            array, index, _ = self.hooked.sites[site[0]].text.partition("[")
            yield from ((site, text) for text in values if text.startswith(f"({array}{index}")
                        and index)
        yield from self._sums(floats)
        yield from self._with_values(floats, self.names, forms.SLOPES, (True,))
        yield from self._with_values(floats, values, forms.PRODUCTS)
        yield from self._with_values(floats, self.names, ("#",))
        yield from self._with_values(sites, values, forms.SIMPLE)
        yield from self._with_values([*dict.fromkeys(floats + constants)], values, forms.WITH)
        yield from self._with_values(floats, integers, forms.ONE_HOT)

    @staticmethod
    def _alone(
        letters: Mapping[Numbers, str], tried: Mapping[str, Sequence[str]]
    ) -> Iterator[tuple[Numbers, str]]:
        """Expressions, and what is tried in their place by their kind, without another value."""
        yield from ((site, form.replace("{}", VALUE)) for alike_kind, alone in tried.items()
                    for form in alone for site, letter in letters.items() if letter == alike_kind)

    def _sums(self, sites: Sequence[Numbers]) -> Iterator[tuple[Numbers, str]]:
        """Sums of an expression over axes, in place of a larger expression of the sum's shape."""
        for outer in sites:
            root, shape = self.hooked.sites[outer[0]].root, np.shape(self.seen[outer[0]].value)
            for (number, *_), inner in ((site, np.shape(self.seen[site[0]].value)) for site in sites
                                        if self.hooked.sites[site[0]].root == root):
                text, extra = self.hooked.sites[number].text, len(inner) - len(shape)
                if not extra and shape != inner and grows(shape, inner):
                    axes = tuple(k for k, n in enumerate(shape) if n != inner[k])
                    yield outer, f"({text}).sum(axis={axes}, keepdims=True)"
                elif extra > 0 and inner[extra:] == shape:
                    yield outer, f"({text}).sum(axis={tuple(range(extra))})"

    def _other_numbers(
        self, sites: Sequence[Numbers]
    ) -> Iterator[tuple[Numbers, str]]:
        """Numbers of the backward, with those of the forward or the next numbers in their place."""
        known = [*map(repr, literals(self.forwards)), f"{VALUE} - 1", f"{VALUE} + 1"]
        yield from ((site, text) for site in sites for text in known
                    if literal(self.hooked.sites[site[0]].node))

    def _with_values(
        self, sites: Sequence[Numbers], values: Arrays, tried: Sequence[str],
        distances: Sequence[bool] = (True, False),
    ) -> Iterator[tuple[Numbers, str]]:
        """Expressions, and what is tried in their place with another value: at first the values of
        the lines beside them."""
        lines: dict[str, set[int]] = {}
        for at in self.hooked.sites:
            lines.setdefault(at.text, set()).add(at.line)
        for close in distances:
            for form in tried:
                for site in sites:
                    line = self.hooked.sites[site[0]].line
                    for text in values:
                        used = lines.get(text.strip("()"), ())
                        if any(abs(line - k) <= BESIDE for k in used) == close:
                            yield site, form.replace("{}", VALUE).replace("#", text)

    def _values(self) -> dict[str, Any]:
        """The values of all variables and short expressions, by their text, the shortest first."""
        values: dict[str, Any] = {}
        spaces: dict[int, Any] = {}  # by function, the last
        for number, seen in self.seen.items():
            spaces[id(self.hooked.sites[number].function)] = seen.spaces
            if not isinstance(self.hooked.sites[number].node, ast.Constant):
                values[self.hooked.sites[number].text] = seen.value
            values |= {name: value for name, value in seen.spaces[1].items() if kind(value)}
        totals = {f"{text}.sum({axis})" for text, value in values.items()
                  if kind(value) == "b" and np.ndim(value) and text.isidentifier()
                  for axis in ("", "-1, keepdims=True")}
        entries = {f"{name}[{key!r}]" for _, local in spaces.values()
                   for name, value in local.items() if isinstance(value, Mapping)
                   for key in value if isinstance(key, str)}
        for text in (self._texts | totals | entries) - values.keys():
            for space in spaces.values():
                with suppress(Exception):  # of variables of another function
                    values[text] = evaluated(text, None, *space)
        return {text if text.isidentifier() else f"({text})": value
                for text, value in sorted(values.items(), key=lambda item: len(item[0]))
                if len(text) <= LONG and kind(value) and text != "_"}

    @property
    def _texts(self) -> set[str]:
        """The short expressions in the functions that the forward calls, and entries of arrays."""
        texts = {ast.unparse(node) for source in self.forwards for node in ast.walk(source.tree)
                 if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.BinOp))}
        for source in self.hooked.sources:
            names = {node.id for node in ast.walk(source.tree) if isinstance(node, ast.Name)}
            indices = {ast.unparse(node.slice) for node in ast.walk(source.tree)
                       if isinstance(node, ast.Subscript)}
            texts |= {f"{name}[{index}]" for name in names for index in indices}
        return texts

