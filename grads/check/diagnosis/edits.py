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
from collections.abc import Iterator, Mapping
from functools import cache
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from grads.check.case import dense
from grads.check.diagnosis.elsewhere import Probe, right_beside
from grads.check.diagnosis.evidence import Array, Evidence
from grads.check.diagnosis.instrument import Hooked, Site, called, exchanged, sources_of
from grads.check.diagnosis.statements import changed_statements

SECONDS = 1.5  # of CPU
LONG = 70  # characters of an expression that is used elsewhere
UNSURE = 1e-4  # largest relative error of a gradient that is right now, and
SURE = 1e-7  # of the other gradients
VALUE = "_value_"
GROWN = 100  # times as many entries as before: a change in a loop makes the value larger each time

# what is tried in place of a value {} of floats, integers, flags, or of a range
ALONE = {
    "i": ("{} + 1", "{} - 1", "-{}", "np.argsort({}, -1)", "{}[::-1]"),
    "r": ("{}[::-1]",),
    "b": ("~{}", "np.ones_like({})"),
    "f": ("-{}", "np.swapaxes({}, -1, -2)", "{} + np.swapaxes({}, -1, -2)",
          "({} + np.swapaxes({}, -1, -2)) / 2", "1 / {}", "1 - {}", "1 + {}", "{} ** 2",
          "np.sqrt({})", "np.ones_like({})", "np.zeros_like({})", "{}[::-1]", "{}[..., ::-1]",
          "np.tril({})", "np.triu({})", "np.conj({})", "np.roll({}, 1, -1)", "np.roll({}, -1, -1)",
          "np.roll({}, 1, 0)", "np.roll({}, -1, 0)", "np.roll({}, 2, 0)", "np.roll({}, -2, 0)",
          "np.exp({})", "np.log({})",
          "np.cumsum({}[::-1], 0)[::-1]", "{}[:, None]"),
}
# the same with a number # of the function, and then with another value #
SCALED = ("{} * #", "{} / #")
FACTORS = ("2 * {}", "{} / 2", "{} / len({})", "{} * len({})", "3 * {}")
WITH = ("{} * #", "#.T @ {}", "# @ {}", "{} @ #.T", "{} @ #", "#", "{} * #[:, None]",
        "{} + #", "{} / #", "{} - #", "{} * (# > 0)", "{} - # * {}.sum(axis=-1, keepdims=True)",
        "{} * (1 - # ** 2)", "{} * # * (1 - #)", "{} * (1 - #)", "{} * (1 + #)", "1 - # ** 2",
        "# * (1 - #)", "1.0 * (# > 0)", "{} * np.cos(#)", "{} * np.log(#)",
        "# * ({} - (# * {}).sum(axis=-1, keepdims=True))")
INDEXED = ("{} - np.eye({}.shape[-1])[#]", "{}[#]", "{}[np.argsort(#)]",
           "np.take_along_axis({}, #, -1)", "np.take_along_axis({}, np.argsort(#, -1), -1)")

Arrays = Mapping[str, Array]


class Seen(NamedTuple):
    """The last value of an expression, and the variables there."""

    value: Any
    spaces: tuple[dict[str, Any], dict[str, Any]]


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


class Edits:
    """The search for changes in the functions that a backward calls.

    Attributes: phrases, by name of a tensor, on the change that makes its gradient right; hooked,
    the functions; seen, the values of their expressions by number.
    """

    def __init__(self, probe: Probe, evidence: Evidence) -> None:
        self.probe, self.evidence, self.case = probe, evidence, probe.case
        self.phrases: dict[str, str] = {}
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
            with np.errstate(all="ignore"):
                self.search()

    def inputs(self) -> dict[str, Array]:
        """Copies of the inputs."""
        return {key: np.array(a) for key, a in self.probe.evaluate.inputs.items()}

    def gradients(self) -> dict[str, Array]:
        """The gradients; none if an output is another than before."""
        d = {key: np.array(a) for key, a in self.evidence.upstream.items()}
        kept = self.inputs() if self.case.cacheless else copy.deepcopy(self.kept)
        if kept is None:
            outputs, kept = self.case.forward(self.inputs())
            if not same(outputs, self.probe.evaluate.outputs):
                return {}
        return {key: np.array(dense(a)) for key, a in self.case.vjp(d, kept).items()}

    def is_right(self, name: str, gradients: Arrays) -> bool:
        """Whether a gradient is right where it is known."""
        (numeric, limit), gradient = self.limits[name], gradients.get(name)
        known = np.isfinite(numeric)
        return gradient is not None and gradient.shape == numeric.shape and bool(
            (np.abs(gradient - numeric) <= limit)[known].all())

    def record(self, number: int, value: Any) -> Any:
        """A hook that keeps the last value of each expression: at first, sums are zero."""
        if kind(value):
            frame = sys._getframe(1)
            self.seen[number] = Seen(copy.copy(value), (frame.f_globals, dict(frame.f_locals)))
        return value

    def works(self, phrase: str) -> bool:
        """Note for which gradients a change works; whether it works for all."""
        try:
            made = self.gradients()
            if any(not self.is_right(name, made) for name in self.limits if name not in self.wrong):
                return False
            mended = [name for name in self.wrong if self.is_right(name, made)
                      and self.confirmed(name)]
            if mended and self.case.cacheless and not same(
                    self.case.forward(self.inputs())[0], self.probe.evaluate.outputs):
                return False  # the change is one of the forward
        except Exception:
            return False
        every = mended == self.wrong
        for name in mended:
            if every or name not in self.phrases:
                self.phrases[name] = phrase
        return every

    def confirmed(self, name: str) -> bool:
        """Whether a gradient is right at other inputs, too."""
        return right_beside(self.probe, self.evidence.upstream, name)

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
        for source, phrase in changed_statements(self.hooked.sources):
            if time.process_time() > self.stop:
                return
            try:
                code = source.compiled(source.tree)
            except (SyntaxError, ValueError, StopIteration):
                continue
            with exchanged([(source.function, code)], None):
                if self.works(phrase):
                    return
        tried: set[Any] = set()
        for number, text in self.candidates(self.influential()):
            if time.process_time() > self.stop:
                return
            seen = self.seen[number]
            try:
                value = _evaluated(text, seen.value, *seen.spaces)
            except Exception:
                continue
            shape = np.shape(seen.value)
            if kind(value) != kind(seen.value) or np.shape(value) not in (shape, (*shape, 1)):
                continue
            key = number, repr(value) if isinstance(value, range) else np.asarray(value).tobytes()
            if key in tried or np.array_equal(value, seen.value):
                continue
            tried.add(key)

            def change(k: int, value: Any, number: int = number, text: str = text,
                       largest: int = GROWN * max(1, np.size(seen.value))) -> Any:
                if k != number:
                    return value
                if np.size(value) > largest or time.process_time() > self.stop:
                    raise RuntimeError("an array grows in a loop, or the time is over")
                frame = sys._getframe(1)
                return _evaluated(text, value, frame.f_globals, frame.f_locals)

            with self.hooked.hook(change):
                if self.works(self.said(self.hooked.sites[number], text)):
                    return

    def candidates(self, numbers: list[int]) -> Iterator[tuple[int, str]]:
        """Expressions, and what is tried in their place: at first what needs no other value."""
        letters = {number: kind(self.seen[number].value) for number in numbers}
        values = self.values()
        scalars = [text for text, value in values.items() if np.ndim(value) == 0]
        integers = [text for text, value in values.items() if kind(value) == "i"]
        yield from ((number, form.replace("{}", VALUE)) for alike, forms in ALONE.items()
                    for number, letter in letters.items() if letter == alike for form in forms)
        floats = [number for number, letter in letters.items() if letter == "f"]
        by_scalar = [((form,), [other]) for other in scalars for form in SCALED]
        for forms, others in (*by_scalar, (FACTORS, [""]), (WITH, [*values]), (INDEXED, integers)):
            for form in forms:
                for number in floats if form != "#" else letters:
                    for other in others:
                        if form != "#" or kind(values[other]) == letters[number]:
                            yield number, form.replace("{}", VALUE).replace("#", other)

    def values(self) -> dict[str, Any]:
        """The values of all variables and short expressions, by their text, the shortest first."""
        values: dict[str, Any] = {}
        spaces: Any = ({}, {})
        for number, seen in self.seen.items():
            spaces = seen.spaces
            if not isinstance(self.hooked.sites[number].node, ast.Constant):
                values[self.hooked.sites[number].text] = seen.value
            values |= {name: value for name, value in spaces[1].items() if kind(value)}
        for text in self.texts - values.keys():
            try:
                values[text] = _evaluated(text, None, *spaces)
            except Exception:  # of variables of another function
                continue
        return {text if text.isidentifier() else f"({text})": value
                for text, value in sorted(values.items(), key=lambda item: len(item[0]))
                if len(text) <= LONG and kind(value)}

    @property
    def texts(self) -> set[str]:
        """The variables in the functions that the forward calls."""
        codes = called(lambda: self.case.forward(self.inputs()))
        return {ast.unparse(node) for source in sources_of(codes) for node in ast.walk(source.tree)
                if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript))}

    def said(self, site: Site, text: str) -> str:
        """The phrase on a change."""
        old = site.text
        inner = old if isinstance(site.node, (ast.Name, ast.Call, ast.Attribute, ast.Subscript,
                                              ast.Constant)) else f"({old})"
        new = {f"np.zeros_like({VALUE})": "0", f"np.ones_like({VALUE})": "1"}.get(
            text, ast.unparse(ast.parse(text.replace(VALUE, inner), mode="eval")))
        if isinstance(site.node, ast.Constant) and text.endswith((" + 1", " - 1")):
            new = str(eval(new))
        return f"is right with `{new}` in place of `{old}` in line {site.line}"
