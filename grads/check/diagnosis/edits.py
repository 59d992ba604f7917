"""Looks for a change of a single expression or statement in the user's backward that makes the
gradients right.

A change counts for a gradient that is then right in all entries that are known, and at other
inputs, while right gradients stay right. If a change makes all gradients right, the search ends.
"""

from __future__ import annotations

import ast
import copy
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import chain
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from grads.check.analytic import dense
from grads.check.diagnosis import forms
from grads.check.diagnosis.elsewhere import Probe, right_beside, right_elsewhere
from grads.check.diagnosis.evidence import Array, Evidence
from grads.check.diagnosis.instrument import (
    Hook,
    Hooked,
    bounded_strides,
    called,
    exchanged,
    sources_of,
)
from grads.check.diagnosis.statements import changed_statements, implied, literals, unused

SECONDS = 1.5  # of CPU
OFTEN = 20  # candidates, or changed values, between two looks at the clock, which is slow
LONG = 70  # characters of an expression that is used elsewhere
UNSURE = 1e-4  # largest relative error of a gradient that is right now, and
SURE = 1e-7  # of the other gradients
VALUE = "_value_"
GROWN = 100  # times as many entries as before: a change in a loop makes the value larger each time
ORDINALS = ("first", "second", "third", *(f"{k}th" for k in range(4, 100)))
BESIDE = 2  # lines between an expression and the values that are tried before all others

Arrays = Mapping[str, Array]


class Seen(NamedTuple):
    """The last value of an expression that is not zero, and the variables there."""

    value: Any
    spaces: tuple[dict[str, Any], dict[str, Any]]
    again: bool  # whether it was evaluated more than once: the others are not known
    varies: bool  # whether it had several values


@cache
def _code(text: str) -> CodeType:
    return compile(text, "<candidate>", "eval")


def _evaluated(text: str, value: Any, global_space: dict[str, Any], local: dict[str, Any]) -> Any:
    """The value of a candidate."""
    return eval(_code(text), {**global_space, "np": np}, {**local, VALUE: value})


def same(some: Mapping[str, Any], others: Mapping[str, Any]) -> bool:
    """Whether arrays are equal."""
    return all(np.array_equal(np.asarray(a), others[key], equal_nan=True)
               for key, a in some.items())


def kind(value: Any) -> str:
    """ "f", "i" or "b" of numbers and arrays, "r" of a range, "" of anything else."""
    if isinstance(value, range):
        return "r"
    if not isinstance(value, (bool, int, float, np.ndarray, np.generic)):
        return ""
    letter = np.asarray(value).dtype.kind
    return letter if letter in "fib" else "f" if letter == "c" else ""


def literal(node: ast.expr) -> bool:
    """Whether an expression is a number, as 2 or -0.1."""
    return isinstance(node.operand if isinstance(node, ast.UnaryOp) else node, ast.Constant)


class Edits:
    """The search for changes in the functions that a backward calls.

    Attributes: phrases, by name of a tensor, on the change that makes its gradient right; hooked,
    the functions; forwards, those that the forward calls; seen, the values of their expressions by
    number.
    """

    def __init__(self, probe: Probe, evidence: Evidence) -> None:
        self.probe, self.evidence, self.case = probe, evidence, probe.case
        self.phrases: dict[str, str] = {}
        self.ranks: dict[str, int] = {}
        self.seen: dict[int, Seen] = {}
        self.stop = time.process_time() + SECONDS
        self.kept: Any = None  # the forward's cache, if the backward can be run on it repeatedly
        self.original = self.gradients()
        try:
            self.kept = None if self.case.cacheless else self.case.forward(self.inputs())[1]
            codes = called(self.gradients)
        except TypeError:  # it cannot be copied
            codes = []
        if not codes:
            self.kept = None
            codes = called(self.gradients)
        self.hooked = Hooked(sources_of(codes))
        self.forwards = sources_of(called(lambda: self.case.forward(self.inputs())))
        pair = evidence.pair
        largest = np.abs(pair.numeric[pair.known]).max(initial=0.0)
        self.limits: dict[str, tuple[Array, Any]] = {
            name: (numeric, SURE * np.abs(numeric[np.isfinite(numeric)]).max(initial=1e-300))
            for name, numeric in evidence.others.items()}
        self.limits[evidence.name] = pair.numeric, np.minimum(
            2 * pair.allowed, UNSURE * largest or np.inf)
        self.wrong = [name for name in self.limits if not self.is_right(name, self.original)]
        if self.hooked.sources:
            with self.hooked.hook(self.record):
                self.gradients()
            with np.errstate(all="ignore"), bounded_strides():
                self.search()

    def inputs(self) -> dict[str, Array]:
        """Copies of the inputs."""
        return {key: np.array(a) for key, a in self.probe.evaluate.inputs.items()}

    def gradients(self) -> dict[str, Array]:
        """The gradients by name; empty if an output has changed."""
        d = {key: np.array(a) for key, a in self.evidence.upstream.items()}
        kept = self.inputs() if self.case.cacheless else copy.deepcopy(self.kept)
        if kept is None:
            outputs, kept = self.case.forward(self.inputs())
            if not same(outputs, self.probe.evaluate.outputs):
                return {}
        return {key: np.array(dense(a, key, self.probe.evaluate.inputs))
                for key, a in self.case.vjp(d, kept).items()}

    def is_right(self, name: str, gradients: Arrays) -> bool:
        """Whether a gradient is right where it is known."""
        (numeric, limit), gradient = self.limits[name], gradients.get(name)
        known = np.isfinite(numeric)
        return gradient is not None and gradient.shape == numeric.shape and bool(
            (np.abs(gradient - numeric) <= limit)[known].all())

    def record(self, number: int, value: Any) -> Any:
        """A hook that keeps the last value of each expression that is not zero."""
        if kind(value):
            before = self.seen.get(number)
            varies = before is not None and (
                before.varies or not np.array_equal(before.value, value))
            seen = before
            if seen is None or np.any(value) or not np.any(seen.value):
                frame = sys._getframe(1)
                space = frame.f_globals, dict(frame.f_locals)
                seen = Seen(copy.copy(value), space, False, False)
            self.seen[number] = seen._replace(again=before is not None, varies=varies)
        return value

    def works(self, said: Callable[[], str]) -> bool:
        """Note for which gradients a change works; whether it works for all.

        A change that works for some is noted with the gradients that it changes and leaves wrong.
        Arguments: said, which returns the phrase on the change.
        """
        try:
            made = self.gradients()
            if not made or not all(self.is_right(name, made) for name in self.limits
                                   if name not in self.wrong):
                return False
            mended = [name for name in self.wrong if self.is_right(name, made)
                      and self.confirmed(name)]
            if mended and self.case.cacheless and not same(
                    self.case.forward(self.inputs())[0], self.probe.evaluate.outputs):
                return False  # the change is one of the forward
        except Exception:
            return False
        if not mended:
            return False
        left = [name for name in self.wrong if name not in mended and not np.array_equal(
            made[name], self.original[name], equal_nan=True)]
        phrase = said() + f", which leaves {', '.join(left)} wrong" * bool(left)
        for name in mended:
            if len(mended) - len(left) > self.ranks.get(name, -len(self.wrong)):
                self.ranks[name], self.phrases[name] = len(mended) - len(left), phrase
        return mended == self.wrong

    def confirmed(self, name: str) -> bool:
        """Whether a gradient is right at other inputs, too."""
        upstream = self.evidence.upstream
        return right_beside(self.probe, upstream, name) and right_elsewhere(
            self.probe, upstream, name)

    def influential(self) -> list[int]:
        """The expressions that may change a wrong gradient, and no right gradient or output."""
        without: set[int] = set()
        for number, seen in self.seen.items():
            if kind(seen.value) == "f" and self.hooked.sites[number].root == number:
                if time.process_time() > self.stop or not self.changes(number):
                    without.add(number)
        return [n for n in self.seen if self.hooked.sites[n].root not in without]

    def changes(self, number: int) -> bool:
        """Whether an expression changes a wrong gradient, and no right gradient or output."""

        def change(k: int, value: Any) -> Any:
            return value if k != number else value * (
                1 + 1e-2 * np.random.default_rng(1).normal(size=np.shape(value)))

        try:
            with self.hooked.hook(change):
                made = self.gradients()
        except Exception:
            return False
        return bool(made) and not same(made, self.original) and all(
            self.is_right(name, made) for name in self.limits if name not in self.wrong)

    def search(self) -> None:
        """Try all changes until one of them makes all gradients right, or the time is over."""
        numbers = self.influential()
        names = {name for source in self.hooked.sources for name in unused(source.tree)}
        values = self.values()
        numbers.sort(key=lambda number: len(self.hooked.sites[number].text))
        sites, tried = [(number,) for number in numbers], set[Any]()
        if self.in_place(chain(
                self.other_numbers(sites), self.with_values(
                    sites, {text: values[text] for text in names & values.keys()},
                    (*forms.SIMPLE, *forms.PRODUCTS))), tried):
            return
        for source, phrase in changed_statements(self.hooked.sources, self.forwards):
            if time.process_time() > self.stop:
                return
            try:
                code = source.compiled(source.tree)
            except (SyntaxError, ValueError, StopIteration):
                continue
            with exchanged([(source.function, code)], None):
                if self.works(partial(str, phrase)):
                    return
        self.in_place(self.candidates(numbers, values), tried)

    def in_place(self, candidates: Iterator[tuple[tuple[int, ...], str]], tried: set[Any]) -> bool:
        """Try candidates in place of expressions; whether one makes all gradients right."""
        for count, (numbers, text) in enumerate(candidates):
            if count % OFTEN == 0 and time.process_time() > self.stop:
                return True
            seen, site = self.seen[numbers[0]], self.hooked.sites[numbers[0]]
            try:
                value = _evaluated(text, seen.value, *seen.spaces)
            except Exception:
                continue
            shape, letter = np.shape(seen.value), kind(seen.value)
            fits = kind(value) == letter and (
                np.shape(value) in (shape, (*shape, 1)) or (letter in "fi" and not shape)
                or (VALUE not in text and np.ndim(value) == len(shape)))
            if not (fits or (kind(value) and literal(site.node))) or (
                    site.inside_index and np.shape(value) != shape):
                continue
            key = numbers, text if seen.again or letter == "r" else np.asarray(value).tobytes()
            if key in tried or (np.array_equal(value, seen.value) and not seen.again):
                continue
            tried.add(key)

            with self.hooked.hook(self.change(numbers, text, GROWN * max(1, np.size(seen.value)))):
                if self.works(partial(self.said, numbers, text, value)):
                    return True
        return False

    def change(self, numbers: tuple[int, ...], text: str, largest: int) -> Hook:
        """A hook that puts a candidate in place of some expressions. It fails if a value has more
        entries than the largest, or the time is over."""
        changes = 0

        def hook(number: int, value: Any) -> Any:
            nonlocal changes
            if number not in numbers:
                return value
            changes += 1
            late = changes % OFTEN == 0 and time.process_time() > self.stop
            if late or np.size(value) > largest:
                raise RuntimeError("an array grows in a loop, or the time is over")
            frame = sys._getframe(1)
            return _evaluated(text, value, frame.f_globals, frame.f_locals)

        return hook

    def candidates(
        self, numbers: list[int], values: Arrays
    ) -> Iterator[tuple[tuple[int, ...], str]]:
        """Expressions, and what is tried in their place: at first what needs no other value.

        The same expression, several times in a line, is changed everywhere in it, too.
        """
        alike: dict[Any, list[int]] = {}
        for number in numbers:
            at = self.hooked.sites[number]
            alike.setdefault((at.function, at.line, at.text), []).append(number)
        sites: list[tuple[int, ...]] = [(number,) for number in numbers]
        sites += [tuple(same_text) for same_text in alike.values() if len(same_text) > 1]
        letters = {site: kind(self.seen[site[0]].value) for site in sites}
        lengths = {f"({text})" for text in implied(self.hooked.sources)}
        scalars = {text: value for text, value in values.items() if np.ndim(value) == 0}
        indices = [site for site in sites if letters[site] == "i"]
        constants = [site for site in sites if literal(self.hooked.sites[site[0]].node)
                     and not self.hooked.sites[site[0]].inside_index]
        integers = {text: value for text, value in values.items() if kind(value) == "i"}
        sizes = [site for site in indices if not self.seen[site[0]].varies]
        for known in (lengths & scalars.keys(), scalars):
            yield from self.with_values(sizes, {text: scalars[text] for text in known}, ("#",))
        yield from ((site, form.replace("{}", VALUE)) for alike_kind, alone in forms.ALONE.items()
                    for form in alone for site, letter in letters.items() if letter == alike_kind)
        yield from self.with_values(indices, integers, ("#",))
        floats = [site for site, letter in letters.items() if letter == "f"]
        yield from self.with_values(floats, values, forms.PRODUCTS)
        yield from self.with_values(floats, {
            text: value for text, value in values.items() if text.isidentifier()}, ("#",))
        names = {text: value for text, value in scalars.items() if text.isidentifier()}
        for texts in (names, scalars):
            yield from self.with_values(sites, texts, forms.SCALED)
        yield from ((site, form.replace("{}", VALUE)) for form in forms.FACTORS for site in floats)
        yield from self.with_values(sites, values, forms.SIMPLE)
        yield from self.with_values([*dict.fromkeys(floats + constants)], values, forms.WITH)
        yield from self.with_values(floats, integers, forms.INDEXED)

    def other_numbers(
        self, sites: Sequence[tuple[int, ...]]
    ) -> Iterator[tuple[tuple[int, ...], str]]:
        """The numbers in the backward, twice and half of them, and the forward's numbers."""
        known = [*map(repr, literals(self.forwards)), f"2 * {VALUE}", f"{VALUE} / 2"]
        yield from ((site, text) for site in sites for text in known
                    if literal(self.hooked.sites[site[0]].node))

    def with_values(
        self, sites: Sequence[tuple[int, ...]], values: Arrays, tried: Sequence[str]
    ) -> Iterator[tuple[tuple[int, ...], str]]:
        """Expressions, and what is tried in their place with another value: at first the values of
        the lines beside them."""
        lines: dict[str, set[int]] = {}
        for at in self.hooked.sites:
            lines.setdefault(at.text, set()).add(at.line)
        for close in (True, False):
            for form in tried:
                for site in sites:
                    line = self.hooked.sites[site[0]].line
                    for text in values:
                        used = lines.get(text.strip("()"), ())
                        if any(abs(line - k) <= BESIDE for k in used) == close:
                            yield site, form.replace("{}", VALUE).replace("#", text)

    def values(self) -> dict[str, Any]:
        """The values of all variables and short expressions, by their text, the shortest first."""
        values: dict[str, Any] = {}
        spaces: Any = ({}, {})
        for number, seen in self.seen.items():
            spaces = seen.spaces
            if not isinstance(self.hooked.sites[number].node, ast.Constant):
                values[self.hooked.sites[number].text] = seen.value
            values |= {name: value for name, value in spaces[1].items() if kind(value)}
        totals = {f"{text}.sum({axis})" for text, value in values.items()
                  if kind(value) == "b" and np.ndim(value) and text.isidentifier()
                  for axis in ("", "-1, keepdims=True")}
        for text in (self.texts | totals) - values.keys():
            try:
                values[text] = _evaluated(text, None, *spaces)
            except Exception:  # of variables of another function
                continue
        return {text if text.isidentifier() else f"({text})": value
                for text, value in sorted(values.items(), key=lambda item: len(item[0]))
                if len(text) <= LONG and kind(value) and text != "_"}

    @property
    def texts(self) -> set[str]:
        """The variables in the functions that the forward calls, and what its lines imply."""
        texts = {ast.unparse(node) for source in self.forwards for node in ast.walk(source.tree)
                 if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Call))}
        return texts | implied([*self.forwards, *self.hooked.sources])

    def said(self, numbers: tuple[int, ...], text: str, value: Any) -> str:
        """The phrase on a change to a value."""
        site, seen = self.hooked.sites[numbers[0]], self.seen[numbers[0]]
        old = site.text
        inner = old if isinstance(site.node, (ast.Name, ast.Call, ast.Attribute, ast.Subscript,
                                              ast.Constant)) else f"({old})"
        new = ast.unparse(ast.parse(text.replace(VALUE, inner), mode="eval")).replace(".T.T", "")
        constant = literal(site.node)
        if constant and text.replace(VALUE, "") in ("2 * ", "3 * ", " / 2", " + 1", " - 1", "-"):
            new = str(eval(new))
        size = kind(value) == "i" and np.ndim(value) == 0 and not seen.varies and not constant
        columns = sorted({other.node.col_offset for other in self.hooked.sites
                          if (other.line, other.text) == (site.line, old)})
        which = "every " if len(numbers) > 1 else "" if len(columns) < 2 else (
            f"the {ORDINALS[columns.index(site.node.col_offset)]} ")
        return (f"is right with `{new}` in place of {which}`{old}` in line {site.line}"
                + f", or with anything else that is {value}" * (size and text.isidentifier()))
